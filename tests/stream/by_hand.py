"""Drives a source's DoFn as an engine does: one call, then the rest that it deferred, with its watermark."""

from collections import Counter

from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.runners.sdf_utils import RestrictionTrackerView, ThreadsafeRestrictionTracker

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
