"""Heartbeats of a stream's slots, which seal empty slots.

The engine's checkpoints hold the next slot. The heartbeat runs slightly ahead of the wall clock: the sources'
watermarks decide when a slot is closed.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import apache_beam as beam
from apache_beam.io.restriction_trackers import OffsetRange
from apache_beam.pvalue import PBegin, PCollection
from apache_beam.testing.test_stream import ElementEvent, TestStream, WatermarkEvent
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import MAX_TIMESTAMP, Duration, Timestamp

from transforms.records import KeyedTally, TallyBytes
from transforms.sources.unbounded import PROMISE, KnownElements, UnboundedProvider
from transforms.steps.observe import windows
from transforms.time.calendar import Timetable, slots_from

MOST = 1_000  # slots a call: a stream that begins in the past has many to catch up with
PAUSE_S = 1.0  # between calls


@dataclass
class Heartbeat(beam.PTransform[PBegin, PCollection[KeyedTally]]):
    """Empty tallies of service slots, once these are over.

    It holds the watermark until a slot is over, so no window fires early even if sources end. Windows fired by a drain
    have no heartbeat and are not sealed. lag_s: allowed lateness.
    """

    timetable: Timetable
    start_s: int
    end_s: int
    shards: int
    lag_s: int = 0

    def expand(self, begin: PBegin) -> PCollection[KeyedTally]:
        life = begin | "life" >> KnownElements([(self.start_s, self.end_s)]).with_output_types(tuple[int, int])
        beat = beam.ParDo(_Beat(self.timetable, self.shards, self.lag_s)).with_output_types(KeyedTally)
        return life | "beat" >> beat | "window" >> beam.WindowInto(windows(self.timetable.slot_s, self.start_s))


class _Slots(UnboundedProvider):
    """The restriction: the time from the next slot on."""

    def initial_restriction(self, element: tuple[int, int]) -> OffsetRange:
        return OffsetRange(*element)


_SLOTS = beam.DoFn.RestrictionParam(_Slots())


class _Beat(beam.DoFn):
    """DoFn that beats for slots; its restriction begins with the next one."""

    def __init__(self, timetable: Timetable, shards: int, lag_s: int = 0) -> None:
        self._timetable, self._shards = timetable, shards
        self._wait_s = timetable.slot_s + max(0, lag_s - int(PAUSE_S))  # a call comes up to PAUSE_S later

    @beam.DoFn.unbounded_per_element()
    def process(self, element: tuple[int, int], tracker: Any = _SLOTS, estimator: Any = PROMISE) -> Iterator[Any]:
        """Yields beats of slots that are over, then waits at the next."""
        _, end_s = element  # the stream's start and end
        until_s = int(time.time()) - self._wait_s + 1  # slots that start before are over, and their lateness too
        slots, next_s = due(self._timetable, tracker.current_restriction().start, end_s, until_s)
        for slot_s in slots:
            if not tracker.try_claim(slot_s):
                return
            yield from _beats(slot_s, self._shards)
        if next_s == end_s:
            tracker.try_claim(end_s)  # so that nothing remains
            return
        if estimator.current_watermark() != Timestamp(next_s):
            estimator.set_watermark(Timestamp(next_s))
        tracker.defer_remainder(Duration(seconds=PAUSE_S if len(slots) < MOST else 0))


def due(timetable: Timetable, position_s: int, end_s: int, until_s: int) -> tuple[list[int], int]:
    """Lists up to MOST slots that start before until_s, and the next."""
    slots = list(islice(slots_from(timetable, position_s, end_s), MOST + 1))
    now = [slot_s for slot_s in slots[:MOST] if slot_s < until_s]
    return now, slots[len(now)] if len(now) < len(slots) else end_s


def script_of(elements: PCollection[Any]) -> TestStream | None:
    """Finds the `TestStream` at the origin of elements."""
    waiting, seen = [elements], set[int]()
    while waiting:
        producer = getattr(waiting.pop(), "producer", None)
        if producer is None or id(producer) in seen:
            continue
        seen.add(id(producer))
        if isinstance(producer.transform, TestStream):
            return producer.transform
        waiting.extend(producer.inputs)
    return None


@dataclass
class ScriptedHeartbeat(beam.PTransform[PBegin, PCollection[KeyedTally]]):
    """Heartbeats of slots that a TestStream's watermarks, or elements and the clock, end."""

    script: TestStream
    timetable: Timetable
    start_s: int
    end_s: int
    shards: int
    now_s: int

    def expand(self, begin: PBegin) -> PCollection[KeyedTally]:
        slots = begin | "slots" >> KnownElements(list(self.slots())).with_output_types(int)
        beats = slots | "beat" >> beam.FlatMap(_beats, self.shards).with_output_types(KeyedTally)
        return beats | "window" >> beam.WindowInto(windows(self.timetable.slot_s, self.start_s))

    def slots(self) -> Iterator[int]:
        """Yields slots over by the script's watermarks, or reached and over at `now_s`."""
        slot_s = self.timetable.slot_s
        watermarks = [event.new_watermark for event in self.script._events if isinstance(event, WatermarkEvent)]
        # MAX_TIMESTAMP is the end of the script, and promises no slot.
        promised_s = max((_seconds(time) for time in watermarks if time < MAX_TIMESTAMP), default=0)
        added = [event for event in self.script._events if isinstance(event, ElementEvent)]
        times = (element.timestamp for event in added for element in event.timestamped_values)
        reached_s = max(map(_seconds, times), default=0)
        last_s = max(promised_s - slot_s, min(reached_s, self.now_s - slot_s))  # start of the last slot that is over
        return slots_from(self.timetable, self.start_s, min(self.end_s, last_s + 1))


def _beats(slot_s: int, shards: int) -> Iterator[Any]:
    for shard in range(shards):
        yield TimestampedValue(((slot_s, shard), TallyBytes(b"")), slot_s)


def _seconds(time: Timestamp) -> int:
    return int(time.micros // 1_000_000)
