"""Steps from files to events by slot and shard."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

import apache_beam as beam
import numpy as np
from apache_beam.pvalue import DoOutputsTuple, PCollection, TaggedOutput
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from numpy.typing import NDArray

from transforms import counters, wire
from transforms.failpoints import failpoint
from transforms.layouts.base import RawBatch
from transforms.observe import hexagons
from transforms.observe.parse import Rules, locate, parse
from transforms.places.ground import Ground
from transforms.records import REFUSED, KeyedPane, KeyedPartial, Observations, PackedEvents, Refused
from transforms.steps.metrics import Parting, Refusal, count, dead_letters


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
        yield from dead_letters("assign", {hexagons.OUTSIDE_REGION: outside})
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
_MS_US = 1_000  # Beam's windows end a millisecond early
_S_US = 1_000_000


def is_late(observations: Observations, length_s: int, promised_us: int, more_s: int = 0) -> NDArray[np.bool_]:
    """Marks events whose stretch of `length_s` ended at least `more_s` before the watermark."""
    length_us = length_s * _S_US
    start_us = observations.event_us - (observations.event_us - observations.slot_start_us) % length_us
    return start_us + (length_us - _MS_US) + more_s * _S_US <= promised_us  # as Beam's windows end a millisecond early


@dataclass
class RefuseLate(Parting[PCollection[Observations]]):
    """Observations of open slots, and Refused ones.

    An element's timestamp is its partition's watermark when emitted (see transforms/sources). The engine's watermark is
    the minimum, so it drops nothing that passes here.
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
class IntoPanes(beam.PTransform[PCollection[PackedEvents], PCollection[KeyedPane]]):
    """Packed events by slot, shard and pane, in windows."""

    pane_s: int
    offset_s: int
    more_s: int = 0

    def expand(self, events: PCollection[PackedEvents]) -> PCollection[KeyedPane]:
        stamped = events | "stamp" >> beam.Map(_stamped, self.more_s).with_output_types(KeyedPane)
        return stamped | "window" >> beam.WindowInto(windows(self.pane_s, self.offset_s + self.more_s))


@dataclass
class InTime(Parting[PCollection[PackedEvents]]):
    """Events of open panes; others are `behind`."""

    pane_s: int

    def expand(self, events: PCollection[PackedEvents]) -> DoOutputsTuple:
        return events | "compare panes" >> beam.FlatMap(self.compare).with_outputs(BEHIND, main="in_time")

    def compare(self, packed: PackedEvents, promise: Any = beam.DoFn.TimestampParam) -> Iterator[PackedEvents | Behind]:
        """Tags events whose pane was over by the watermark, their element's timestamp."""
        is_open = (packed.pane_s + self.pane_s) * _S_US - _MS_US > promise.micros
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


def _stamped(packed: PackedEvents, more_s: int) -> Any:
    return TimestampedValue(((packed.key, packed.pane_s), packed.data), packed.pane_s + more_s)
