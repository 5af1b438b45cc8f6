"""What one total is worth as that of a day, a week, four weeks, a quarter or a year: from public facts alone."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import chain, cycle, islice, repeat

import msgspec

from dpops.learning.expected import ExpectedDay, expected_days
from dpops.levels.count_check import count_stage
from dpops.levels.defaults import BoundsOnly, Recipe
from dpops.levels.strategy import chosen
from pipelines.specification import Specification
from pipelines.specification.levels import LevelsRelease
from pipelines.specification.span_total import SpanTotal
from transforms.time.calendar import WEEKDAYS

SPANS = (1, 7, 28, 91, 365)
DAY_NUMBERS = (1, 2, 3, 5, 7, 14, 28)
"""Released days, counted from an account's first, of which an error is told."""

RecipeAt = Callable[[Fraction, Fraction | None], Recipe]
"""The stages at a day's epsilon and, with delta, its rho."""


class SpanWorth(msgspec.Struct, frozen=True, kw_only=True):
    """The total as that of so many days, of which `served` are released at most.

    epsilon_a_day: the largest share of a day. error_kmh: the mean absolute error by reports that is expected of each of
    DAY_NUMBERS. first_published: the first of all days that is expected not to be held back; None where none of the
    first DAY_NUMBERS[-1] is. constant_kmh: of the city's true mean in the place of values; least_kmh: without noise.
    """

    days: int
    served: int
    as_specified: bool
    epsilon_a_day: float
    error_kmh: list[float]
    first_published: int | None
    constant_kmh: float
    least_kmh: float


def worth_of_spans(spec: Specification, asked: LevelsRelease, bounds: BoundsOnly, recipe: RecipeAt) -> list[SpanWorth]:
    """Says what the total is worth for each of SPANS, and for the specification's own."""
    epsilon = asked.epsilon if asked.span is None else asked.span.epsilon
    own = 1 if asked.span is None else asked.span.days
    weights = {} if asked.span is None else dict(zip(WEEKDAYS, asked.span.shares, strict=False))
    lengths = sorted({*SPANS, own})
    first = None if asked.span is None else asked.span.first
    totals = [
        SpanTotal.of(
            days,
            spec.timetable,
            weights,
            (epsilon, asked.delta),
            None if first is None or first.days > days else first,  # no specification may have more
            asked.accounting,
        )
        for days in lengths
    ]
    return [_worth(total, spec, asked, bounds, recipe) for total in totals]


def first_days(spans: Sequence[SpanWorth]) -> str:
    """Says which days are expected to be held back, and why."""
    own = next(span for span in spans if span.as_specified)
    if own.first_published == 1:
        return (
            "From the first released day on values are expected to be published, if places and hours differ as usual: "
            "a city in which they hardly do is held back longer, for one constant does as well there."
        )
    held = DAY_NUMBERS[-1] if own.first_published is None else own.first_published - 1
    days = "first released day is" if held == 1 else f"first {held} released days are"
    return (
        f"The {days} expected to be held back: with a share of epsilon {own.epsilon_a_day:.3g} a day, less than half "
        "of how places and hours differ is known until then, or the city's traffic not to two fifths. What is released "
        "on them is not lost, later days rest on it. Fewer days behind one total, a larger total, a larger "
        "fleet or, of a total of several days, privacy.first_days publish sooner."
    )


def _worth(
    total: SpanTotal, spec: Specification, asked: LevelsRelease, bounds: BoundsOnly, recipe: RecipeAt
) -> SpanWorth:
    days = _expected(total, spec, asked, bounds, recipe)
    return SpanWorth(
        days=total.days,
        served=spec.timetable.most_served(total.days),
        as_specified=total.days == (1 if asked.span is None else asked.span.days),
        epsilon_a_day=float(total.of_a_day()[0]),
        error_kmh=[days[number - 1].kmh for number in DAY_NUMBERS],
        first_published=next((day.number for day in days if day.is_published), None),
        constant_kmh=days[0].constant_kmh,
        least_kmh=days[0].least_kmh,
    )


def _expected(
    total: SpanTotal, spec: Specification, asked: LevelsRelease, bounds: BoundsOnly, recipe: RecipeAt
) -> list[ExpectedDay]:
    """Lists what is expected of released days in a row: from the first of those that have more on, or a Monday."""
    how = chosen(recipe(*total.of_a_day()), bounds, asked.free)
    parts = dict(zip(WEEKDAYS, total.shares or [Fraction(1)] * len(WEEKDAYS), strict=True))
    counted = None
    if asked.fleet_is_declared and not asked.counts_public:
        counted = count_stage(how.later[0], bounds.fleet.vehicles, total.least)
    used = 0 if counted is None else counted.share
    begin, first = 0, list[Fraction]()
    if total.first is not None:
        begin, first = total.first.since.weekday(), [total.first.times] * total.first.days
    days = zip(islice(cycle(WEEKDAYS), begin, None), chain(first, repeat(Fraction(1))), strict=False)
    served = (times * parts[weekday] - used for weekday, times in days if weekday in spec.timetable.weekdays)
    shares = list(islice(served, DAY_NUMBERS[-1]))
    return expected_days(how, bounds, shares, counts_public=asked.counts_public, counts_vehicles=counted is not None)
