"""The error that is expected of each released day, and which days are held back: from public numbers alone.

The formula is that of `dpops.levels.strategy`, day after day: each release tells of the parts that describe a HAT,
around what earlier ones left of them, and all that was told adds up.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dpops import fitted
from dpops.levels.defaults import BoundsOnly, Recipe
from dpops.levels.stages import Stage, scaled
from dpops.levels.strategy import (
    CITY,
    PARTS,
    Part,
    busyness,
    left_of,
    squared_error,
    told_by,
    weight_told,
)
from dpops.spread import TYPICAL

OF_NORMAL = math.sqrt(2 / math.pi)
"""The mean of absolute values over the root of the mean square, of a normal law."""
MOST_UNKNOWN = 1 / (fitted.LEAST_EXPLAINED - 1)
"""Of a pattern that is r times its noise the model does not know 1 / (1 + r), and explains 2 + r times what it would of
noise alone."""


@dataclass(frozen=True, kw_only=True)
class ExpectedDay:
    """kmh: mean absolute error by reports, as if it was normal. constant_kmh: of the city's true mean, which is secret.
    least_kmh: without any noise, what HATs of few vehicles differ by from all that describes them.

    number: of released days, itself counted. unknown: the part of the pattern that is not known. weight_sd: standard
    deviation of the logarithm of the whole city's weight.
    """

    number: int
    kmh: float
    constant_kmh: float
    least_kmh: float
    unknown: float
    weight_sd: float

    @property
    def is_published(self) -> bool:
        """By rules like those of `dpops.learning.field.Gate`, on what is expected; chance moves them by days."""
        return self.unknown <= MOST_UNKNOWN and self.weight_sd**2 <= fitted.MOST_CITY_VARIANCE


def expected_days(
    recipe: Recipe,
    bounds: BoundsOnly,
    shares: Sequence[Fraction],
    *,
    counts_public: bool = False,
    counts_vehicles: bool = False,
) -> list[ExpectedDay]:
    """Expects released days, from an account's first on. shares: of each, as parts of the recipe's total.

    counts_vehicles: each begins with a number of its vehicles.
    """
    seen = _at_public_counts if counts_public else _as_planned
    days = [tuple(map(seen, scaled(recipe.later if day else recipe.first, share))) for day, share in enumerate(shares)]
    weights = [0.0] * len(days) if counts_public else list(_weights(days, bounds, counts_vehicles))
    cells = [(part, list(_of_cells(days, bounds, busy))) for busy, part in busyness()]
    least = sum(part * _own(bounds, busy) for busy, part in busyness())
    expected = []
    for day, weight_sd in enumerate(weights):
        error, pattern, unknown = (sum(part * told[day][what] for part, told in cells) for what in range(3))
        expected.append(
            ExpectedDay(
                number=day + 1,
                kmh=OF_NORMAL * math.sqrt(error),
                constant_kmh=OF_NORMAL * math.sqrt(pattern + least),
                least_kmh=OF_NORMAL * math.sqrt(least),
                unknown=unknown,
                weight_sd=weight_sd,
            )
        )
    return expected


def _of_cells(days: Sequence[Sequence[Stage]], bounds: BoundsOnly, busy: float) -> Iterator[tuple[float, float, float]]:
    """Yields of each day, for cells so many times as busy as the average: squared error, pattern, part not known."""
    before = {part: sd * sd for part, sd in PARTS.items()}
    told, left = dict.fromkeys(before, 0.0), before
    for stages in days:
        for stage in stages:
            around = left
            today = told_by(stage, bounds, around, busy)
            told = {part: precision + today[part] for part, precision in told.items()}
            left = left_of(before, told)
        error = squared_error(left, today, stage, bounds, around, busy, _own(bounds, busy))
        yield error, _pattern(before), _pattern(left) / _pattern(before)


def _own(bounds: BoundsOnly, busy: float) -> float:
    """Computes the variance of a HAT's mean around all that describes it, by reports."""
    return float(TYPICAL.of(np.array(1 + fitted.OTHERS * bounds.usual_vehicles * busy)))


def _as_planned(stage: Stage) -> Stage:
    return stage


def _at_public_counts(stage: Stage) -> Stage:
    """Gives speeds the whole share, for weights cost nothing there: at twice the bound, so at twice the noise."""
    return replace(stage, spread=stage.spread * stage.alpha * (2 if stage.kind == "laplace" else 4))


def _pattern(parts: dict[Part, float]) -> float:
    """Sums the variances of what HATs differ by."""
    return sum(variance for part, variance in parts.items() if part != CITY)


def _weights(days: Sequence[Sequence[Stage]], bounds: BoundsOnly, counts_vehicles: bool) -> Iterator[float]:
    told, sd = 0.0, fitted.COUNTED_SD if counts_vehicles else fitted.ANCHOR_SD
    for stages in days:
        told += sum(weight_told(stage, bounds) for stage in stages)
        yield (sd**-2 + told) ** -0.5
