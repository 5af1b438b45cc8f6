"""Lateness, decided in one place: between parse and assign, against the promise of the event's own source partition."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import apache_beam as beam
import numpy as np
from apache_beam.pvalue import DoOutputsTuple, PCollection, TaggedOutput
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from numpy.typing import NDArray

from transforms.records import (
    REFUSED,
    KeyedPane,
    KeyedPartial,
    Observations,
    PackedEvents,
    Refused,
)
from transforms.side_outputs import Refusal

LATE: Final = "late"
_MS_US = 1_000
_S_US = 1_000_000


def is_late(observations: Observations, pane_s: int, promised_us: int) -> NDArray[np.bool_]:
    """Which events have a pane that ended before `promised_us`, their partition's watermark when they were handed over.

    pane_s: length of a pane; the first of a slot begins with it. Engines count milliseconds, and close a window of
    which the watermark has reached the last one: so does this.
    """
    pane_us = pane_s * _S_US
    pane_start_us = observations.event_us - (observations.event_us - observations.slot_start_us) % pane_us
    return pane_start_us + (pane_us - _MS_US) <= promised_us


@dataclass
class RefuseLate(beam.PTransform[PCollection[Observations], DoOutputsTuple]):
    """PCollection[Observations] -> main: those whose pane is still open; refused: Refused.

    An element's Beam timestamp is the watermark of its own partition when it was handed over (see
    transforms/sources): what is let through here, no engine drops later, for its watermark is the least of all.
    """

    pane_s: int

    def expand(self, observations: PCollection[Observations]) -> DoOutputsTuple:
        return observations | "compare with the watermark" >> beam.ParDo(_RefuseLate(self.pane_s)).with_outputs(
            REFUSED, main="observations"
        )


class _RefuseLate(beam.DoFn):
    def __init__(self, pane_s: int) -> None:
        self._pane_s = pane_s

    def process(
        self, observations: Observations, promised: Any = beam.DoFn.TimestampParam
    ) -> Iterator[Observations | Refusal]:
        late = is_late(observations, self._pane_s, promised.micros)
        if late.any():
            yield TaggedOutput(REFUSED, Refused("lateness", LATE, int(late.sum())))
            observations = observations.take(~late)
        yield observations


@dataclass
class IntoPanes(beam.PTransform[PCollection[PackedEvents], PCollection[KeyedPane]]):
    """PackedEvents -> ((slot, vehicle shard), pane), packed events, each in its pane's window, which fires once.

    pane_s: length of a pane, which divides a slot. offset_s: start of any slot, in seconds since 1970 UTC: zones need
    not lie on whole hours.
    """

    pane_s: int
    offset_s: int

    def expand(self, events: PCollection[PackedEvents]) -> PCollection[KeyedPane]:
        stamped = events | "stamp" >> beam.Map(_stamped).with_output_types(KeyedPane)
        return stamped | "window" >> beam.WindowInto(windows(self.pane_s, self.offset_s))


@dataclass
class IntoSlots(beam.PTransform[PCollection[KeyedPartial], PCollection[KeyedPartial]]):
    """What panes gave, each at the end of its pane -> the same in the window of its slot, which fires once."""

    slot_s: int
    offset_s: int

    def expand(self, partials: PCollection[KeyedPartial]) -> PCollection[KeyedPartial]:
        return partials | "window" >> beam.WindowInto(windows(self.slot_s, self.offset_s))


def windows(length_s: int, offset_s: int) -> FixedWindows:
    """Windows of this length, one of which starts at `offset_s`."""
    return FixedWindows(length_s, offset_s % length_s)


def _stamped(packed: PackedEvents) -> Any:
    return TimestampedValue(((packed.key, packed.pane_s), packed.data), packed.pane_s)
