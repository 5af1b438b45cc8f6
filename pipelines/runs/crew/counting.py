"""A scheduled job up to the ledger: files read, slots counted, releases drawn, in parts that fit into memory."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, groupby

from pipelines.job import Job
from pipelines.outcome import Outcome, count_in, reporting
from pipelines.progress import Report
from pipelines.runs.crew.crew import Crew, pieces_of
from pipelines.runs.crew.spool import ByteRange, Spool
from pipelines.runs.crew.tasks import Count, CountDerived, Divide, Draw, Road, Task
from pipelines.runs.input_size import rows_about
from transforms.records import SlotShard
from transforms.releases.base import ReleaseKind
from transforms.time.calendar import Slot

PART_ROWS = 1_000_000
"""Events, or entries of tallies, that are taken up at a time: bounds memory whatever the length of the range, and
whatever the size of a slot."""

DRAW_ROWS = 1 << 16
"""Entries of tallies that are drawn by one task: HATs of several slots are planned together, which costs less."""


def road_of(job: Job, release: ReleaseKind) -> Road:
    """Collects what a process must know of the job; it needs no Beam."""
    return Road(job.layout, job.rules, job.ground, release, skips_unreadable=job.skips_unreadable)


def observe_files(crew: Crew, road: Road, paths: Sequence[str], outcome: Outcome, progress: Report) -> Spool:
    """Spools accepted events by (slot, 0). Raises UnreadableFile or StepError."""
    events = Spool(crew.shelf)
    phase, about = "observations read", rows_about(paths)
    with reporting(lambda: progress(phase, crew.rows, about)):
        _perform(crew, pieces_of(road.layout, paths), events, outcome)
    progress(phase, crew.rows, crew.rows)
    return events


def count_slots(
    crew: Crew,
    slots: Sequence[Slot],
    events: Spool,
    outcome: Outcome,
    progress: Report,
    *,
    shards: int,
    by_vehicle: bool = False,
) -> Spool:
    """Tallies by (plan, shard): of release shards, or by_vehicle of vehicles."""
    parts = _parts_of(slots, events)
    divided, tallies = Spool(crew.shelf), Spool(crew.shelf)
    cuts = [
        Divide(slot_s, number, places)
        for slot_s, number in parts.items()
        if number > 1
        for places in _evenly(events.places((slot_s, 0)), number)
    ]
    _perform(crew, cuts, divided, outcome)
    counts = [
        Count(slot_s, places, shards, by_vehicle)
        for slot_s, number in parts.items()
        for part in range(number)
        if (places := (divided if number > 1 else events).places((slot_s, part)))
    ]
    _perform(crew, counts, tallies, outcome, lambda done: progress("slots counted", done, len(counts)))
    return tallies


def count_derived(
    crew: Crew,
    periods: Mapping[str, Sequence[int]],
    events: Spool,
    outcome: Outcome,
    progress: Report,
    *,
    shards: int,
) -> Spool:
    """Tallies by (plan, shard of vehicles), with speeds or headings derived: a vehicle's whole period comes
    together for that.

    periods: the slots of each.
    """
    divided, tallies, counts = Spool(crew.shelf), Spool(crew.shelf), []
    for slots in periods.values():
        rows = {slot_s: events.rows((slot_s, 0)) for slot_s in slots}
        number = parts_for(sum(rows.values()))
        if number > 1:
            full = [slot_s for slot_s in slots if rows[slot_s]]
            _perform(
                crew,
                [Divide(slot_number, number, events.places((slot_number, 0))) for slot_number in full],
                divided,
                outcome,
            )
        source = divided if number > 1 else events
        for part in range(number):
            places = {
                slot_number: slot_places for slot_number in slots if (slot_places := source.places((slot_number, part)))
            }
            counts += [CountDerived(places, shards)] if places else []
    _perform(crew, counts, tallies, outcome, lambda done: progress("days counted", done, len(counts)))
    return tallies


def draw_plans(
    crew: Crew, road: Road, slots: Sequence[Slot], tallies: Spool, outcome: Outcome, progress: Report
) -> Spool:
    """Draws sealed units by (slot, SEALED) and exposures by (slot, EXPOSED), of slots without a tally too."""
    plans = dict.fromkeys(road.release.group(slot.start_s) for slot in slots)
    keys = [(plan_s, shard) for plan_s in plans for shard in range(road.release.shards)]
    draws = [Draw({key: tallies.places(key) for key in some}) for some in _together(keys, tallies)]
    released = Spool(crew.shelf)
    size = len(slots) / len(draws)
    _perform(crew, draws, released, outcome, lambda done: progress("slots released", int(done * size), len(slots)))
    return released


def _together(keys: Sequence[SlotShard], tallies: Spool) -> Iterator[list[SlotShard]]:
    """Groups the plans and shards that are drawn by one task: so many that they have DRAW_ROWS entries."""
    before = accumulate((tallies.rows(key) for key in keys), initial=0)
    for _, some in groupby(zip(keys, before, strict=False), key=lambda pair: pair[1] // DRAW_ROWS):
        yield [key for key, _ in some]


def rows_in(slot: Slot, events: Spool) -> int:
    return events.rows((slot.start_s, 0))


def parts_for(rows: int) -> int:
    """Counts the parts into which so many rows are cut; at least one."""
    return max(1, -(-rows // PART_ROWS))


def _parts_of(slots: Sequence[Slot], events: Spool) -> dict[int, int]:
    """Counts the parts of each slot with events, largest first, so that no worker begins with it last."""
    rows = {slot.start_s: rows_in(slot, events) for slot in slots if rows_in(slot, events)}
    return {slot_s: parts_for(rows[slot_s]) for slot_s in sorted(rows, key=lambda slot_s: -rows[slot_s])}


def _evenly(places: Sequence[ByteRange], number: int) -> Iterator[Sequence[ByteRange]]:
    """Cuts places into as many stretches at most, none empty."""
    size = -(-len(places) // number)
    return (places[start : start + size] for start in range(0, len(places), size))


def _perform(
    crew: Crew, tasks: Sequence[Task], spool: Spool, outcome: Outcome, report: Callable[[int], None] = lambda _: None
) -> None:
    for number, done in enumerate(crew.perform(tasks), 1):
        for entry in done.entries:
            spool.note(*entry)
        count_in(outcome, done.counts)
        report(number)
