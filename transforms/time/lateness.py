"""Lateness, decided in one place: between parse and assign, against the promise of the event's own source partition."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import apache_beam as beam
import numpy as np
from apache_beam.pvalue import DoOutputsTuple, PCollection, TaggedOutput
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from numpy.typing import NDArray

from transforms.records import REFUSED, KeyedEvents, Observations, PackedEvents, Refusal, Refused

LATE: Final = "late"
_MS_US = 1_000
_S_US = 1_000_000


def is_late(observations: Observations, slot_s: int, promised_us: int) -> NDArray[np.bool_]:
    """Which events have a slot that ended before `promised_us`, their partition's watermark when they were handed over.

    Engines count milliseconds, and close a window of which the watermark has reached the last one: so does this.
    """
    return observations.slot_start_us + (slot_s * _S_US - _MS_US) <= promised_us


@dataclass
class RefuseLate(beam.PTransform[PCollection[Observations], DoOutputsTuple]):
    """PCollection[Observations] -> main: those whose slot is still open; refused: Refused.

    An element's Beam timestamp is the watermark of its own partition when it was handed over (see
    transforms/sources): what is let through here, no engine drops later, for its watermark is the least of all.
    """

    slot_s: int

    def expand(self, observations: PCollection[Observations]) -> DoOutputsTuple:
        return observations | "compare with the watermark" >> beam.ParDo(_RefuseLate(self.slot_s)).with_outputs(
            REFUSED, main="observations"
        )


class _RefuseLate(beam.DoFn):
    def __init__(self, slot_s: int) -> None:
        self._slot_s = slot_s

    def process(
        self, observations: Observations, promised: Any = beam.DoFn.TimestampParam
    ) -> Iterator[Observations | Refusal]:
        late = is_late(observations, self._slot_s, promised.micros)
        if late.any():
            yield TaggedOutput(REFUSED, Refused("lateness", LATE, int(late.sum())))
            observations = observations.take(~late)
        yield observations


@dataclass
class IntoSlots(beam.PTransform[PCollection[PackedEvents], PCollection[KeyedEvents]]):
    """PackedEvents -> (slot, vehicle shard), packed events, each in its slot's window, which fires once.

    slot_s: length of a slot. offset_s: start of any slot, in seconds since 1970 UTC: zones need not lie on whole hours.
    """

    slot_s: int
    offset_s: int

    def expand(self, events: PCollection[PackedEvents]) -> PCollection[KeyedEvents]:
        stamped = events | "stamp" >> beam.Map(_stamped).with_output_types(KeyedEvents)
        return stamped | "window" >> beam.WindowInto(slot_windows(self.slot_s, self.offset_s))


def slot_windows(slot_s: int, offset_s: int) -> FixedWindows:
    """The windows of slots of this length, one of which starts at `offset_s`."""
    return FixedWindows(slot_s, offset_s % slot_s)


def _stamped(packed: PackedEvents) -> Any:
    return TimestampedValue((packed.key, packed.data), packed.key[0])
