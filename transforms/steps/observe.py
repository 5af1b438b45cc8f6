"""Steps from files to events, and on to tallies.

`slot_s`, `pane_s` are starts, but steps' fields of these names lengths. `more_s`: by how much whole periods wait longer
for late reports than slots do. In a stream an element's timestamp is the watermark of its partition; Beam's windows end
a millisecond before the next. `passed` reports progress, `dead_letters` yields refused rows.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

import apache_beam as beam
import numpy as np
from apache_beam.pvalue import DoOutputsTuple, PCollection, TaggedOutput
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from numpy.typing import NDArray

from transforms import counters, records, tasks, wire
from transforms.count.tally import admit_late, event_spans, merge_panes, tally_pane
from transforms.failpoints import failpoint
from transforms.layouts.base import RawBatch
from transforms.observe.parse import OUTSIDE_REGION, Rules, locate, parse
from transforms.places.ground import Ground
from transforms.records import REFUSED, KeyedPartial, KeyedTally, Observations, PackedEvents, Refused
from transforms.releases.base import ReleaseKind
from transforms.releases.hats.draw import release_shard
from transforms.steps.metrics import Parting, Refusal, count, dead_letters, passed


def counted(batches: Iterable[RawBatch]) -> Iterator[RawBatch | Refusal]:
    """Counts batches' rows; yields dead letters, then each batch."""
    for batch in batches:
        count(counters.ROWS, batch.rows)
        yield from dead_letters("read", batch.refused)
        yield batch
        failpoint("read")


def refused_file(reason: str) -> Iterator[Refusal]:
    """Yields a file's dead letter, counted as one row."""
    count(counters.ROWS)
    yield from dead_letters("read", {reason: 1})


@dataclass
class Parse(Parting[PCollection[RawBatch]]):
    """PCollection[RawBatch] -> main: Observations; refused: Refused."""

    rules: Rules

    def expand(self, batches: PCollection[RawBatch]) -> DoOutputsTuple:
        return batches | "check rows" >> beam.FlatMap(self.check).with_outputs(REFUSED, main="observations")

    def check(self, batch: RawBatch) -> Iterator[Observations | Refusal]:
        """Yields a batch's observations and refusals."""
        observations, refused = parse(batch.table, self.rules)
        yield from dead_letters("parse", refused)
        failpoint("parse")
        yield observations


@dataclass
class Assign(Parting[PCollection[Observations]]):
    """Observations packed by slot, shard and pane; others refused."""

    ground: Ground
    vehicle_shards: int
    pane_s: int | None

    def expand(self, observations: PCollection[Observations]) -> DoOutputsTuple:
        return observations | "find cells" >> beam.FlatMap(self.pack).with_outputs(REFUSED, main="events")

    def pack(self, observations: Observations) -> Iterator[PackedEvents | Refusal]:
        """Packs located observations; yields them and dead letters."""
        observations, cell, outside = locate(observations, self.ground)
        yield from dead_letters("assign", {OUTSIDE_REGION: outside})
        failpoint("assign")
        yield from wire.split(observations, cell, self.vehicle_shards, self.pane_s)


@dataclass
class CountRefused(beam.PTransform[PCollection[Refused], PCollection[None]]):
    """Counts dead letters as `refused/<stage>/<reason>`."""

    def expand(self, refused: PCollection[Refused]) -> PCollection[None]:
        return refused | "count" >> beam.FlatMap(self._count)

    def _count(self, refused: Refused) -> None:
        count(counters.refused(refused.stage, refused.reason), refused.rows)


LATE: Final = "late"
BEHIND: Final = "behind"
Behind = TaggedOutput[Literal["behind"], PackedEvents]
_MS_US = 1_000


def is_late(observations: Observations, length_s: int, promised_us: int, more_s: int = 0) -> NDArray[np.bool_]:
    """Marks events whose stretch of `length_s` ended at least `more_s` before the watermark."""
    length_us = length_s * wire.S_US
    start_us = observations.event_us - (observations.event_us - observations.slot_start_us) % length_us
    return start_us + (length_us - _MS_US) + more_s * wire.S_US <= promised_us


@dataclass
class RefuseLate(Parting[PCollection[Observations]]):
    """Observations of open slots, and Refused ones.

    The engine's watermark is the least of partitions', so it drops nothing that passes here.
    """

    length_s: int
    more_s: int = 0

    def expand(self, observations: PCollection[Observations]) -> DoOutputsTuple:
        fn = beam.FlatMap(self.compare)
        return observations | "compare with the watermark" >> fn.with_outputs(REFUSED, main="observations")

    def compare(
        self, observations: Observations, promised: Any = beam.DoFn.TimestampParam
    ) -> Iterator[Observations | Refusal]:
        """Yields timely observations, and how many are late."""
        late = is_late(observations, self.length_s, promised.micros, self.more_s)
        if late.any():
            yield TaggedOutput(REFUSED, Refused("lateness", LATE, int(late.sum())))
            observations = observations.take(~late)
        yield observations


@dataclass
class IntoPanes(beam.PTransform[PCollection[PackedEvents], PCollection[records.KeyedPane]]):
    """Packed events by slot, shard and pane, in windows."""

    pane_s: int
    offset_s: int
    more_s: int = 0

    def expand(self, events: PCollection[PackedEvents]) -> PCollection[records.KeyedPane]:
        stamped = events | "stamp" >> beam.Map(self._stamped).with_output_types(records.KeyedPane)
        return stamped | "window" >> beam.WindowInto(windows(self.pane_s, self.offset_s + self.more_s))

    def _stamped(self, packed: PackedEvents) -> Any:
        return TimestampedValue(((packed.key, packed.pane_s), packed.data), packed.pane_s + self.more_s)


@dataclass
class InTime(Parting[PCollection[PackedEvents]]):
    """Events of open panes; others are `behind`."""

    pane_s: int

    def expand(self, events: PCollection[PackedEvents]) -> DoOutputsTuple:
        return events | "compare panes" >> beam.FlatMap(self.compare).with_outputs(BEHIND, main="in_time")

    def compare(self, packed: PackedEvents, promise: Any = beam.DoFn.TimestampParam) -> Iterator[PackedEvents | Behind]:
        """Tags events whose pane was over by the watermark."""
        is_open = (packed.pane_s + self.pane_s) * wire.S_US - _MS_US > promise.micros
        yield packed if is_open else TaggedOutput(BEHIND, packed)


@dataclass
class IntoSlots(beam.PTransform[PCollection[KeyedPartial], PCollection[KeyedPartial]]):
    """Partial tallies in slot windows, which fire once."""

    slot_s: int
    offset_s: int

    def expand(self, partials: PCollection[KeyedPartial]) -> PCollection[KeyedPartial]:
        return partials | "window" >> beam.WindowInto(windows(self.slot_s, self.offset_s))


def windows(length_s: int, offset_s: int) -> FixedWindows:
    """Makes windows of this length, aligned to `offset_s`."""
    return FixedWindows(length_s, offset_s % length_s)


@dataclass
class ByVehicle(beam.PTransform[PCollection[records.KeyedEvents | KeyedPartial], PCollection[KeyedTally]]):
    """Tallies events by slot and vehicle shard, for release."""

    release: ReleaseKind
    in_panes: bool = False  # the input is partial tallies of panes
    fetch: Callable[[bytes], bytes] | None = None  # loads packed events from grouped references
    in_order: bool = False  # groups are drawn in order: tallies stay by vehicle shard, else by release shard

    def expand(self, events: PCollection[records.KeyedEvents | KeyedPartial]) -> PCollection[KeyedTally]:
        grouped = events | "group" >> beam.GroupByKey()
        return grouped | "tally" >> beam.FlatMap(self.tally).with_output_types(KeyedTally)

    def tally(self, group: tuple[records.SlotShard, Iterable[Any]]) -> Iterator[KeyedTally]:
        """Tallies a shard's vehicles, split by release shard."""
        (slot_s, vehicle_shard), encoded = group
        if self.in_panes:
            cap, columns = self.release.cap, self.release.columns
            # With a cap, panes have candidate samples instead of sums, which the slot's cap chooses among.
            panes = [wire.unpack_partial(data, () if cap else columns) for data in encoded]
            partials, refused, duplicates = admit_late(panes, cap, columns)  # refused: late, perhaps counted already
            for name, rows in ((counters.DUPLICATES, duplicates), (counters.refused("lateness", LATE), refused)):
                if rows:  # even an increment of 0 would make the counter appear
                    count(name, rows)
            table = tasks.capped(merge_panes(partials, slot_s, cap, columns), count)  # counts what the cap dropped
        else:
            events = encoded if self.fetch is None else map(self.fetch, encoded)
            table = tasks.tally_slot(slot_s, events, self.release, count)
        passed("counted", slot_s)
        plan_s = self.release.group(slot_s)  # first slot of those that are drawn together
        if self.in_order:  # whole periods: every vehicle shard of a period is drawn in one group
            yield (plan_s, vehicle_shard), wire.pack_tally(table)
            return
        shard = release_shard(table.cell, self.release.shards)
        for number in np.unique(shard).tolist():
            yield (plan_s, number), wire.pack_tally(table.take(shard == number))


@dataclass
class InPanes(beam.PTransform[PCollection[records.KeyedPane], PCollection[KeyedPartial]]):
    """Partial tallies of events by ((slot, vehicle shard), pane)."""

    release: ReleaseKind
    fetch: Callable[[bytes], bytes] | None = None  # loads packed events from grouped references, if these are grouped
    may_be_late: bool = True  # events may follow their pane's end: then `admit_late` needs vehicles' spans of time

    def expand(self, events: PCollection[records.KeyedPane]) -> PCollection[KeyedPartial]:
        grouped = events | "group" >> beam.GroupByKey()
        return grouped | "tally the pane" >> beam.Map(self.tally).with_output_types(KeyedPartial)

    def tally(self, group: tuple[records.PaneShard, Iterable[records.EventBytes]]) -> KeyedPartial:
        """Tallies a shard's vehicles in a pane."""
        (slot_shard, _), encoded = group
        events = wire.unpack_events(encoded if self.fetch is None else map(self.fetch, encoded))
        partial, duplicates = tally_pane(events, self.release.cap, self.release.columns)
        count(counters.DUPLICATES, duplicates)
        failpoint("tally")
        if self.may_be_late:
            partial = partial._replace(spans=event_spans(events))
        return slot_shard, wire.pack_partial(partial)


@dataclass
class LateForPanes(beam.PTransform[PCollection[PackedEvents], PCollection[KeyedPartial]]):
    """Late events of closed panes, as partial tallies."""

    release: ReleaseKind

    def expand(self, events: PCollection[PackedEvents]) -> PCollection[KeyedPartial]:
        return events | "keep for the slot" >> beam.Map(self._kept).with_output_types(KeyedPartial)

    def _kept(self, packed: PackedEvents) -> TimestampedValue[KeyedPartial]:
        """Wraps late events in an otherwise empty partial, which their slot counts."""
        nothing, _ = tally_pane(wire.NO_EVENTS, self.release.cap, self.release.columns)
        late_only = nothing._replace(late=wire.unpack_events([packed.data]))
        slot_s, _ = packed.key
        return TimestampedValue((packed.key, wire.pack_partial(late_only)), slot_s)
