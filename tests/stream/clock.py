"""A source whose watermark a test moves by hand, and heartbeats of a few hours."""

from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.testing.test_stream import TestStream as Clock
from apache_beam.transforms.window import TimestampedValue

from transforms.layouts.base import RawBatch
from transforms.records import REFUSED, KeyedTally, TallyBytes
from transforms.steps.observe import windows

HOUR_S = 3600


@dataclass
class Fed(beam.PTransform):
    """A source whose watermark the test moves. decode: the source's own step; without it batches are passed on."""

    clock: Clock
    decode: Any = None

    def expand(self, begin):
        decode = self.decode or beam.Map(lambda batch: batch)
        return begin | "clock" >> self.clock | "pass on" >> decode.with_outputs(REFUSED, main="batches")


@dataclass
class Beats(beam.PTransform):
    """The heartbeats of some slots, which are there from the beginning."""

    slots: tuple[int, ...]
    slot_s: int = HOUR_S

    @property
    def start_s(self):
        return self.slots[0]

    def expand(self, begin):
        beats = [TimestampedValue(((slot_s, 0), TallyBytes(b"")), slot_s) for slot_s in self.slots]
        stamp = beam.Map(lambda beat: beat).with_output_types(KeyedTally)
        stamped = begin | "slots" >> beam.Create(beats) | "stamp" >> stamp
        return stamped | "window" >> beam.WindowInto(windows(self.slot_s, self.start_s))


def batch(*rows):
    """rows: (vehicle, text of the time, km/h), all in one place."""
    names = ("vehicle", "time", "speed")
    columns = {name: [str(row[column]) for row in rows] for column, name in enumerate(names)}
    columns |= {"lat": ["21.17"] * len(rows), "lon": ["72.83"] * len(rows)}
    order = ("vehicle", "time", "lat", "lon", "speed")
    return RawBatch(len(rows), pa.record_batch([columns[name] for name in order], names=list(order)), {})
