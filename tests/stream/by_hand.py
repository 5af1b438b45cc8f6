"""Drives a source's DoFn, or a source's watermark, by hand: as an engine does, one step after the other."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.runners.sdf_utils import RestrictionTrackerView, ThreadsafeRestrictionTracker
from apache_beam.testing.test_stream import TestStream as Clock
from apache_beam.transforms.window import TimestampedValue

from tests.hatstream.pipelines import streaming
from transforms.layouts.base import RawBatch
from transforms.records import REFUSED, KeyedTally, TallyBytes
from transforms.steps.observe import windows

STEPS = ("transforms.steps.metrics",)


class Counters:
    """Takes the place of Beam's Metrics, which count only while an engine runs."""

    def __init__(self, monkeypatch, *modules):
        self.counts = Counter()
        for module in modules:
            monkeypatch.setattr(f"{module}.Metrics", self)

    def counter(self, _, name):
        return Adder(self.counts, name)


class Adder:
    def __init__(self, counts, name):
        self.counts, self.name = counts, name

    def inc(self, by=1):
        self.counts[self.name] += by


class ByHand:
    """One element's restriction and watermark; `step` calls the DoFn once."""

    def __init__(self, fn, provider, element):
        self.fn, self.provider, self.element = fn, provider, element
        self.restriction = provider.initial_restriction(element)
        self.watermark = None
        self.delay_s = None
        fn.setup()

    def step(self):
        tracker = ThreadsafeRestrictionTracker(self.provider.create_tracker(self.restriction))
        estimator = ManualWatermarkEstimator(self.watermark)
        out = list(self.fn.process(self.element, RestrictionTrackerView(tracker), estimator))
        tracker.check_done()
        self.restriction, deferred = tracker.deferred_status()
        self.delay_s = deferred.micros / 1e6
        self.watermark = estimator.get_estimator_state()
        return out

    def checkpoint(self):
        return self.restriction, self.watermark

    def restore(self, checkpoint):
        self.restriction, self.watermark = checkpoint


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


def moved(moves):
    """A clock after these moves, and at its end."""
    return reduce(lambda clock, move: move(clock), moves, Clock()).advance_watermark_to_infinity()


def run(stream):
    with streaming("BundleBasedDirectRunner") as p:
        stream.build(p)


def instant_s(day, text):
    """Seconds since 1970 UTC of a local time of a day, in +05:30."""
    return int(datetime.fromisoformat(f"{day}T{text}:00+05:30").timestamp())


def batch(*rows):
    """rows: (vehicle, text of the time, km/h), all in one place."""
    names = ("vehicle", "time", "speed")
    columns = {name: [str(row[column]) for row in rows] for column, name in enumerate(names)}
    columns |= {"lat": ["21.17"] * len(rows), "lon": ["72.83"] * len(rows)}
    order = ("vehicle", "time", "lat", "lon", "speed")
    return RawBatch(len(rows), pa.record_batch([columns[name] for name in order], names=list(order)), {})
