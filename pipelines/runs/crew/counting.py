"""A scheduled job up to the ledger: files read, slots counted, releases drawn, in parts that fit into memory."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, groupby
from typing import NamedTuple

from pipelines.job import Job
from pipelines.outcome import Outcome, count_in, reporting
from pipelines.progress import Report
from pipelines.runs.crew.crew import Crew, pieces_of
from pipelines.runs.crew.spool import ByteRange, Spool
from pipelines.runs.crew.tasks import Count, CountDerived, Divide, Draw, Road, Task
from pipelines.runs.input_size import rows_about
from transforms.records import SlotShard
from transforms.time.calendar import Slot

PART_ROWS = 1_000_000
"""Events, or entries of tallies, that are taken up at a time: bounds memory whatever the length of the range, and
whatever the size of a slot."""

DRAW_ROWS = 1 << 16
"""Entries of tallies that are drawn by one task: HATs of several slots are planned together, which costs less."""


class CrewedJob(NamedTuple):
    """A job that a crew is at. outcome: what it counted so far."""

    job: Job
    crew: Crew
    outcome: Outcome
    progress: Report

    def spooled(self, tasks: Sequence[Task], report: Callable[[int], None] = lambda _: None) -> Spool:
        """Performs tasks, and spools what they leave. report: is told how many are done."""
        spool = Spool(self.crew.shelf)
        for number, done in enumerate(self.crew.perform(tasks), 1):
            for entry in done.entries:
                spool.note(*entry)
            count_in(self.outcome, done.counts)
            report(number)
        return spool


def road_of(job: Job) -> Road:
    """Collects what a process must know of the job; it needs no Beam."""
    return Road(job.layout, job.rules, job.ground, job.release, skips_unreadable=job.skips_unreadable)


def observe_files(work: CrewedJob, paths: Sequence[str]) -> Spool:
    """Spools accepted events by (slot, 0). Raises UnreadableFile or StepError."""
    _, crew, _, progress = work
    phase, about = "observations read", rows_about(paths)
    with reporting(lambda: progress(phase, crew.rows, about)):
        events = work.spooled(pieces_of(work.job.layout, paths))
    progress(phase, crew.rows, crew.rows)
    return events


def count_slots(
    work: CrewedJob, slots: Sequence[Slot], events: Spool, *, shards: int, by_vehicle: bool = False
) -> Spool:
    """Tallies by (plan, shard): of release shards, or by_vehicle of vehicles."""
    parts = _parts_of(slots, events)
    cuts = [
        Divide(slot_s, number, places)
        for slot_s, number in parts.items()
        if number > 1
        for places in _evenly(events.places((slot_s, 0)), number)
    ]
    divided = work.spooled(cuts)
    counts = [
        Count(slot_s, places, shards, by_vehicle)
        for slot_s, number in parts.items()
        for part in range(number)
        if (places := (divided if number > 1 else events).places((slot_s, part)))
    ]
    return work.spooled(counts, lambda done: work.progress("slots counted", done, len(counts)))


def count_derived(work: CrewedJob, periods: Mapping[str, Sequence[int]], events: Spool, *, shards: int) -> Spool:
    """Tallies by (plan, shard of vehicles), with speeds or headings derived: a vehicle's whole period comes
    together for that.

    periods: the slots of each.
    """
    counts = []
    for slots in periods.values():
        rows = {slot_s: events.rows((slot_s, 0)) for slot_s in slots}
        number = parts_for(sum(rows.values()))
        source = events
        if number > 1:
            full = [slot_s for slot_s in slots if rows[slot_s]]
            source = work.spooled([Divide(slot_s, number, events.places((slot_s, 0))) for slot_s in full])
        for part in range(number):
            places = {slot_s: there for slot_s in slots if (there := source.places((slot_s, part)))}
            counts += [CountDerived(places, shards)] if places else []
    return work.spooled(counts, lambda done: work.progress("days counted", done, len(counts)))


def draw_plans(work: CrewedJob, slots: Sequence[Slot], tallies: Spool) -> Spool:
    """Draws sealed units by (slot, SEALED) and exposures by (slot, EXPOSED), of slots without a tally too."""
    release = work.job.release
    plans = dict.fromkeys(release.group(slot.start_s) for slot in slots)
    keys = [(plan_s, shard) for plan_s in plans for shard in range(release.shards)]
    draws = [Draw({key: tallies.places(key) for key in some}) for some in _together(keys, tallies)]
    size = len(slots) / max(1, len(draws))
    return work.spooled(draws, lambda done: work.progress("slots released", int(done * size), len(slots)))


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
