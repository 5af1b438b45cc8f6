"""Streams whose clock a test moves: `TestStream`, with which Beam's DirectRunner has no heartbeat of its own."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PBegin, PCollection
from apache_beam.testing.test_stream import ElementEvent, TestStream, WatermarkEvent
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import MAX_TIMESTAMP, Timestamp

from transforms.records import KeyedTally, TallyBytes
from transforms.sources.known_elements import KnownElements
from transforms.steps.lateness import windows
from transforms.time.calendar import Timetable
from transforms.time.stream_calendar import slots_from


def script_of(elements: PCollection[Any]) -> TestStream | None:
    """Finds the `TestStream` that the elements come from, through whatever steps."""
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
    """What `Heartbeat` gives, of slots that are over: by the script's own watermarks; or, where its elements reach them
    and it then ends, by our clock.

    All are there from the beginning, and the script's watermark alone decides when they end. now_s: seconds since 1970.
    """

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
        slot_s = self.timetable.slot_s
        promised_s, reached_s = (max(times, default=0) for times in (_promises(self.script), _reached(self.script)))
        last_s = max(promised_s - slot_s, min(reached_s, self.now_s - slot_s))
        return slots_from(self.timetable, self.start_s, min(self.end_s, last_s + 1))


def _beats(slot_s: int, shards: int) -> Iterator[Any]:
    for shard in range(shards):
        yield TimestampedValue(((slot_s, shard), TallyBytes(b"")), slot_s)


def _promises(script: TestStream) -> Iterator[int]:
    """Yields the watermarks of a script but for the end of time, in seconds since 1970 UTC."""
    moves = (event.new_watermark for event in script._events if isinstance(event, WatermarkEvent))
    return (_seconds(time) for time in moves if time < MAX_TIMESTAMP)


def _reached(script: TestStream) -> Iterator[int]:
    """Yields the times of a script's elements, in seconds since 1970 UTC."""
    for event in script._events:
        if isinstance(event, ElementEvent):
            yield from (_seconds(element.timestamp) for element in event.timestamped_values)


def _seconds(time: Timestamp) -> int:
    return int(time.micros // 1_000_000)
