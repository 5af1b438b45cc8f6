"""Unending restrictions of positions or names, never divided."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
from apache_beam.io.iobase import RestrictionProgress, RestrictionTracker
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.pvalue import PBegin, PCollection
from apache_beam.transforms.core import RestrictionProvider
from apache_beam.utils.timestamp import Timestamp

from dpops.types import Int64s
from transforms import counters
from transforms.steps.metrics import count
from transforms.time.watermark import Watermark, element_time


@dataclass
class KnownElements(beam.PTransform[PBegin, PCollection[Any]]):
    """Emits fixed elements from a step of constant name.

    Beam's `Create` names a step by its source's line number: a savepoint would not fit a new Beam.
    """

    elements: Sequence[Any]

    def expand(self, begin: PBegin) -> PCollection[Any]:
        return begin | "impulse" >> beam.Impulse() | "each" >> beam.FlatMap(self._each)

    def _each(self, _: bytes) -> Sequence[Any]:
        return self.elements


NO_END = 2**62
PROMISE = beam.DoFn.WatermarkEstimatorParam(ManualWatermarkEstimator.default_provider())


class UnboundedTracker(OffsetRestrictionTracker):
    """Tracker of positions, which splits at the current one."""

    def try_split(self, fraction_of_remainder: float) -> tuple[OffsetRange, OffsetRange] | None:
        if fraction_of_remainder != 0:
            return None
        return super().try_split(0)

    def current_progress(self) -> RestrictionProgress:
        return RestrictionProgress(fraction=0.0)

    def is_bounded(self) -> bool:
        return False


class UnboundedProvider(RestrictionProvider):
    """Provider of unending restrictions, which end on drain."""

    def create_tracker(self, restriction: Any) -> Any:
        return UnboundedTracker(restriction)

    def restriction_size(self, element: Any, restriction: Any) -> int:  # noqa: ARG002
        return 1

    def truncate(self, element: Any, restriction: Any) -> None:
        """Leaves nothing to be read after a drain."""


class NamesRead(NamedTuple):
    """Restriction of names already read."""

    names: frozenset[str]
    closed: bool = False  # residual of a split, which reads nothing more


class NamesTracker(RestrictionTracker):
    """Tracker that claims sets of names."""

    def __init__(self, restriction: NamesRead) -> None:
        self._restriction = restriction

    def current_restriction(self) -> NamesRead:
        return self._restriction

    def try_claim(self, position: frozenset[str]) -> bool:
        if not self._restriction.closed:
            self._restriction = NamesRead(position)
        return not self._restriction.closed

    def try_split(self, fraction_of_remainder: float) -> tuple[NamesRead, NamesRead] | None:
        if fraction_of_remainder != 0 or self._restriction.closed:
            return None
        remainder, self._restriction = self._restriction, self._restriction._replace(closed=True)
        return self._restriction, remainder

    def check_done(self) -> None:
        if not self._restriction.closed:
            raise ValueError("a folder is never read to its end")

    def current_progress(self) -> RestrictionProgress:
        return RestrictionProgress(fraction=0.0)

    def is_bounded(self) -> bool:
        return False


class Names(UnboundedProvider):
    """Tracks the names that were read."""

    def initial_restriction(self, element: str) -> NamesRead:  # noqa: ARG002
        return NamesRead(frozenset())

    def create_tracker(self, restriction: NamesRead) -> NamesTracker:
        return NamesTracker(restriction)


NAMES = beam.DoFn.RestrictionParam(Names())


def promised_by(estimator: Any, rule: Watermark) -> Timestamp | None:
    """Reads a source's watermark."""
    return estimator.current_watermark() or rule.first


def move(estimator: Any, rule: Watermark, newest_ms: int | None, now_ms: int, *, idle: bool) -> None:
    """Moves a source's watermark by its rule."""
    promise = rule.after(promised_by(estimator, rule), newest_ms, now_ms, idle)
    if promise is not None and promise != estimator.current_watermark():
        estimator.set_watermark(promise)


def late_from(rule: Watermark, estimator: Any, received_ms: Int64s) -> Int64s:
    """Computes lateness bounds, microseconds; counts overtaken messages."""
    promised = promised_by(estimator, rule)
    first_us = np.full(received_ms.size, element_time(promised).micros, np.int64)
    if not rule.by_own_times:
        return first_us
    own_us = rule.own_times(received_ms)
    if behind := int(np.count_nonzero(rule.is_behind(promised, own_us))):
        count(counters.OVERTAKEN, behind)
    return np.maximum(own_us, first_us)
