"""What one total is worth as that of a day, a week, four weeks, a quarter or a year: from public facts alone."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import msgspec
import numpy as np

from dpops.learning.half_widths import hat_half_widths, place_half_widths
from dpops.levels import BoundsOnly, Recipe
from pipelines.specification import Specification
from pipelines.specification.levels import LevelsRelease, SpanTotal
from transforms.time.calendar import WEEKDAYS

SPANS = (1, 7, 28, 91, 365)
DAY_NUMBERS = (1, 7, 28, 56)
"""Released days, if all are alike, after which an interval is told."""

RecipeAt = Callable[[Fraction, Fraction | None], Recipe]
"""The stages at a day's epsilon and, with delta, its rho."""


class SpanWorth(msgspec.Struct, frozen=True, kw_only=True):
    """The total as that of so many days, of which `served` are released at most.

    hat_kmh, cell_day_kmh: half of a 95 % interval of the average HAT, and of the mean of its cell's whole day, after
    each of DAY_NUMBERS days that are alike.
    """

    days: int
    served: int
    epsilon_a_day: float
    hat_kmh: list[float]
    cell_day_kmh: list[float]


def worth_of_spans(spec: Specification, asked: LevelsRelease, known: BoundsOnly, recipe: RecipeAt) -> list[SpanWorth]:
    """For each of SPANS, and for the specification's own."""
    epsilon = asked.epsilon if asked.span is None else asked.span.epsilon
    weights = {} if asked.span is None else dict(zip(WEEKDAYS, asked.span.shares, strict=False))
    lengths = {*SPANS, *([] if asked.span is None else [asked.span.days])}
    totals = [SpanTotal.of(days, spec.timetable, weights, (epsilon, asked.delta)) for days in sorted(lengths)]
    return [_worth(total, spec, asked, known, recipe) for total in totals]


def _worth(
    total: SpanTotal, spec: Specification, asked: LevelsRelease, known: BoundsOnly, recipe: RecipeAt
) -> SpanWorth:
    day, rho = total.of_a_day()
    stage = replace(recipe(day, rho).later[0], counts_public=asked.counts_public)
    usual, upper = np.array([known.usual_vehicles]), float(spec.speeds.grid.upper)
    return SpanWorth(
        days=total.days,
        served=spec.timetable.most_served(total.days),
        epsilon_a_day=float(day),
        hat_kmh=[float(hat_half_widths(stage, known, usual, upper, number).kmh[0]) for number in DAY_NUMBERS],
        cell_day_kmh=[float(place_half_widths(stage, known, usual, upper, number)[0]) for number in DAY_NUMBERS],
    )
