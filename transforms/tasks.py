"""Pure functions on files and slots, without Beam.

`count` is a callback for counters by name: processes add them up, engines keep metrics. Functions named
`.._apart` decode in another process, as files may crash it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial

from dpops.noise import Noise
from dpops.types import Int64s
from transforms import counters, wire
from transforms.count.tally import derived_events, tally
from transforms.counters import Count
from transforms.errors import StepError, reason_of
from transforms.failpoints import failpoint
from transforms.layouts.base import WHOLE, Layout, RawBatch, Share, UnreadableFile
from transforms.layouts.decoder_process import joined_apart, read_apart
from transforms.layouts.open_file import fetched, is_remote
from transforms.ledger.recording import LedgerAccount, record_units
from transforms.observe.parse import OUTSIDE_REGION, Rules, locate, parse
from transforms.places.ground import Ground
from transforms.records import Observations, SlotEstimates, SlotShard
from transforms.releases.base import DrawnUnit, History, MustStop, ReleaseKind, Tallies, release_group


def read(layout: Layout, path: str, share: Share = WHOLE) -> Iterator[RawBatch]:
    """Reads batches of a file, or of a `share` of it. Raises UnreadableFile, StepError."""
    try:
        with fetched(path) if is_remote(path) else nullcontext(path) as local:
            yield from read_apart(layout, local, share)
    except UnreadableFile as error:
        raise UnreadableFile(path, error.rule) from None  # the error may name a temporary copy
    except OSError as error:
        raise StepError(f"{path}: {reason_of(error)}") from None


def read_small(layout: Layout, paths: Sequence[str]) -> Iterator[RawBatch | UnreadableFile | StepError]:
    """Reads small local files together; yields unreadable files' errors."""
    together = joined_apart(layout, paths) if len(paths) > 1 else None  # None: one fails; read singly, it is named
    if together is not None:
        yield from together
        return
    for path in paths:
        try:
            yield from read(layout, path)
        except (UnreadableFile, StepError) as error:
            yield error


def observed(batch: RawBatch, rules: Rules, ground: Ground) -> tuple[Observations, Int64s, dict[str, int]]:
    """Checks a batch's rows; returns them, their cells, and counts of refusals."""
    failpoint("read")
    observations, refused = parse(batch.table, rules)
    failpoint("parse")
    observations, cell, outside = locate(observations, ground)
    failpoint("assign")
    stages = ("read", batch.refused), ("parse", refused), ("assign", {OUTSIDE_REGION: outside})
    counts = {counters.refused(stage, reason): rows for stage, why in stages for reason, rows in why.items() if rows}
    return observations, cell, counts


def tally_slot(slot_s: int, events: Iterable[bytes], release: ReleaseKind, count: Count) -> wire.Tally:
    """Tallies packed events of a slot or its part."""
    table, duplicates = tally(wire.unpack_events(events), slot_s, release.cap, release.columns)
    count(counters.DUPLICATES, duplicates)
    return capped(table, count)  # unchanged: what the cap dropped is counted


def capped(table: wire.Tally, count: Count) -> wire.Tally:
    """Counts samples beyond a slot's contribution bound; returns the table unchanged."""
    count(counters.CAPPED, int(table.dropped.sum()))
    failpoint("tally")
    return table


def derived(
    slots: Mapping[int, Iterable[bytes]], rules: Rules, ground: Ground, release: ReleaseKind, count: Count
) -> Iterator[tuple[int, wire.Tally]]:
    """Derives speeds and headings of a period's events; returns its slots' (group, tally) pairs."""
    events_of = {slot_s: wire.unpack_events(slots[slot_s]) for slot_s in sorted(slots)}
    ordered, refusals = derived_events(events_of, rules, ground)
    count(counters.DUPLICATES, ordered.duplicates)  # `tally`, below without a cap, finds none again
    for reason, rows in refusals.items():
        count(counters.refused("derive", reason), rows)
    by_slot = ordered.by_slot().items()
    tallies = [tally(events, slot_s, cap=None, columns=release.columns)[0] for slot_s, events in by_slot]
    failpoint("tally")
    return ((release.group(int(table.slot_s[0])), table) for table in tallies)  # group: its first slot's start


def draw_units(groups: Mapping[SlotShard, Iterable[bytes]], release: ReleaseKind, history: History) -> list[DrawnUnit]:
    """Draws groups from their packed tallies."""
    tables = {group: wire.unpack_tally(packed, release.columns) for group, packed in groups.items()}
    # `draw` takes calls that read a group's tallies, see `Tallies`; these return one tally each.
    return release.draw({group: partial(list, [table]) for group, table in tables.items()}, history, Noise())


def released(
    groups: Iterable[tuple[SlotShard, Tallies]], release: ReleaseKind, account: LedgerAccount, count: Count
) -> Iterator[SlotEstimates]:
    """Draws, records and estimates groups until one stops."""
    record = partial(record_units, account=account, count=count)
    for group, tallies in groups:
        try:
            yield from release_group(release, group, tallies, account, record)
        except MustStop as stop:
            count(f"{counters.STOPPED}{stop}", 1)
            return
