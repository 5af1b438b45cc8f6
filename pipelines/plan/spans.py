"""Worth of a total: over spans, in usable rows.

A span is a number of days that share a total; `shares` of days are relative to the largest, `least` is the smallest,
and `usual_share` the largest after an account's first days. Days that tell little of how places and hours differ are
held back, not published. `bounds`: a day's public HATs and the fleet, with the `profile` of a vehicle's day. `rho`: the
total in the measure of Gaussian noise; None without delta. `width` of a value turns km/h into its unit.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import chain, cycle, islice, repeat
from statistics import NormalDist

import h3.api.basic_int as h3_int
import msgspec
import numpy as np

from dpops import fitted
from dpops.learning.expected import HAT_SPREAD, expected_days, weight_log_variances
from dpops.learning.field import CAUTIOUS, numbers_of
from dpops.levels.defaults import BoundsOnly, Recipe, recipe, spread_of
from dpops.levels.parts import count_stage
from dpops.levels.stages import Stage, scaled
from dpops.levels.strategy import chosen
from dpops.spread import LEAST_VEHICLES
from dpops.types import Float64s
from pipelines.outcome import hundredths
from pipelines.specification import Specification
from pipelines.specification.levels import ONE, LevelsRelease, SpanTotal
from transforms.places.ground import hats_of, texts_of
from transforms.time.calendar import DAY_MINUTES, WEEKDAYS

SPANS = (1, 7, 28, 91, 365)  # days over which a total is spread, to compare with the specified span
DAY_NUMBERS = (1, 2, 3, 5, 7, 14, 28)  # released days, from an account's first, whose errors are shown
USABLE_DAYS = (1, 7, 28)  # those whose usable rows are shown
_VEHICLES = np.geomspace(1.0, 1_000.0, 600)  # grid of vehicles in a HAT, to find the fewest with a usable row
_Z_SCORES = np.array([NormalDist().inv_cdf((node + 0.5) / 1_000) for node in range(1_000)])  # equally likely z-scores


class SpanWorth(msgspec.Struct, frozen=True, kw_only=True):
    """Expected errors of a total spread over a span, in the value's unit."""

    days: int
    served: int  # most days of a span that are released
    as_specified: bool
    epsilon_a_day: float  # the largest share
    error: list[float]  # expected on each of DAY_NUMBERS, with buses' spread
    low: list[float]  # with less spread between vehicles
    high: list[float]  # with taxis' spread
    first_published: int | None  # first day expected not to be held back
    constant: float  # error of the city's true mean
    noiseless: float  # error without noise

    def range_of(self, day: int) -> str:
        """Formats a day's expected error, with its range."""
        index = DAY_NUMBERS.index(day)
        return f"{self.error[index]:.1f} ({self.low[index]:.1f} to {self.high[index]:.1f})"


def worth_of_spans(spec: Specification, bounds: BoundsOnly, others: Sequence[int] = SPANS) -> list[SpanWorth]:
    """Forecasts errors of the total over the specified number of days, and others."""
    levels, span = spec.by_levels, spec.by_levels.span
    epsilon, specified = (levels.epsilon, 1) if span is None else (span.epsilon, span.days)
    weights = {} if span is None else dict(zip(WEEKDAYS, span.shares, strict=False))  # no shares: all weekdays alike
    spans = []
    for days in sorted({*others, specified}):
        # An account's first days, with larger shares, must be no more than the span's: else the forecast has none.
        first = None if span is None or span.first is None or span.first.days > days else span.first
        span_total = SpanTotal.of(days, spec.timetable, weights, (epsilon, levels.delta), first, levels.accounting)
        spans.append(_worth(span_total, spec, bounds, as_specified=days == specified))
    return spans


def first_days(spans: Sequence[SpanWorth]) -> str:
    """Describes which first days will probably be held back."""
    specified = next(span for span in spans if span.as_specified)
    if specified.first_published == 1:
        return (
            "From the first released day on values are expected to be published, if places and hours differ as usual: "
            "a city in which they hardly do is held back longer, for one constant does as well there."
        )
    held = DAY_NUMBERS[-1] if specified.first_published is None else specified.first_published - 1
    days = "first released day is" if held == 1 else f"first {held} released days are"
    return (
        f"The {days} expected to be held back: with a share of epsilon {specified.epsilon_a_day:.3g} a day, less than "
        "half of how places and hours differ is known until then, or the city's traffic not to a quarter. What is "
        "released on them is not lost, later days rest on it. Fewer days behind one total, a larger total, a larger "
        "fleet or, of a total of several days, privacy.first_days publish sooner."
    )


def _worth(total: SpanTotal, spec: Specification, bounds: BoundsOnly, *, as_specified: bool) -> SpanWorth:
    """Forecasts the errors of an account's first released days, at a span's total."""
    levels, width = spec.by_levels, spec.value.width
    # Stages at a day's part (epsilon, rho) of this total, with the levels and bounds of least error where free.
    strategy = chosen(recipe_at(levels, bounds, *total.of_a_day()), bounds, levels.free)
    relative = dict(zip(WEEKDAYS, total.shares or [Fraction(1)] * len(WEEKDAYS), strict=True))  # to the largest share
    later = strategy.later[0]
    counting = count_stage(later, bounds.fleet.vehicles, day_share=total.least) if levels.counts_first else None
    begin, first_factors = 0, list[Fraction]()  # index of the account's first weekday, and factors of its first days
    if total.first is not None:
        begin, first_factors = total.first.since.weekday(), [total.first.times] * total.first.days
    # Days from the account's first on, as (weekday, multiple of its usual share), without end.
    calendar = zip(islice(cycle(WEEKDAYS), begin, None), chain(first_factors, repeat(Fraction(1))), strict=False)
    count_share = 0 if counting is None else counting.share  # every day spends this part of the largest share first
    served = (factor * relative[day] - count_share for day, factor in calendar if day in spec.timetable.weekdays)
    shares = list(islice(served, DAY_NUMBERS[-1]))  # up to the last of the days that are shown
    days = expected_days(strategy, bounds, shares, counts_public=levels.counts_public, counts_vehicles=count_share > 0)
    shown = [days[number - 1] for number in DAY_NUMBERS]
    return SpanWorth(
        days=total.days,
        served=spec.timetable.most_served(total.days),
        as_specified=as_specified,
        epsilon_a_day=float(total.of_a_day()[0]),  # of (epsilon, rho), on the day of the largest share
        error=[width(day.kmh) for day in shown],
        low=[width(day.low_kmh) for day in shown],
        high=[width(day.high_kmh) for day in shown],
        first_published=next((day.number for day in days if day.is_published), None),
        constant=width(days[0].constant_kmh),
        noiseless=width(days[0].least_kmh),
    )


def recipe_at(levels: LevelsRelease, bounds: BoundsOnly, epsilon: Fraction, rho: Fraction | None) -> Recipe:
    """Plans specified or default stages for another total or fleet.

    It leaves the search for levels and bounds of least error (`strategy.chosen`) to callers that forecast errors.
    """
    kind = levels.recipe.kind
    default = recipe(kind, *day_total(levels), replace(bounds, fleet=levels.fleet))
    if levels.recipe != default:  # the specification has options of its own
        return levels.recipe.with_spread(spread_of(kind, epsilon if rho is None else rho))  # the other total's noise
    return recipe(kind, epsilon, rho, bounds)


def stages_of(levels: LevelsRelease, bounds: BoundsOnly, factor: Fraction = ONE, *, is_first: bool) -> list[Stage]:
    """Plans the stages of a first or later day. factor: multiplies the specified total."""
    day_stages = recipe_at(levels, bounds, *day_total(levels, factor))
    of_day = day_stages.first if is_first else scaled(day_stages.later, levels.usual_share)  # a usual day's share
    return [replace(stage, counts_public=levels.counts_public) for stage in of_day]


@cache
def day_total(levels: LevelsRelease, factor: Fraction = ONE, share: Fraction = ONE) -> tuple[Fraction, Fraction | None]:
    """Computes epsilon and rho (None without delta) of a day. factor: multiplies the total."""
    return SpanTotal(1, ONE, levels.epsilon * factor, levels.delta, accounting=levels.accounting).of_a_day(share)


class UsableDay(msgspec.Struct, frozen=True, kw_only=True):
    """Shares that are expected to be usable on a released day."""

    day: int  # number, counted from an account's first
    rows: float  # share of HATs that are `ok`
    reports: float  # share of all reports in these, 0 while held back


class UsablePart(msgspec.Struct, frozen=True, kw_only=True):
    """Usable shares by day, for a choice of HATs."""

    choice: str
    days: list[UsableDay]

    @classmethod
    def of(
        cls, spec: Specification, choice: str, bounds: BoundsOnly, trips: Float64s | None, worth: Sequence[SpanWorth]
    ) -> "UsablePart":
        """Forecasts usable parts of a choice of HATs.

        choice: the option that differs, or "". bounds: its facts. trips: in a week, (slots, cells). worth: over spans.
        """
        published = next(span.first_published for span in worth if span.as_specified) or math.inf  # None: never
        days = []
        for number in USABLE_DAYS:
            rows, reports = usable_parts(spec.by_levels, bounds, trips, number) if number >= published else (0.0, 0.0)
            days.append(UsableDay(day=number, rows=rows, reports=reports))
        return cls(choice=choice, days=days)


def choices_of_hats(spec: Specification, bounds: BoundsOnly) -> Iterator[tuple[str, BoundsOnly, Float64s | None]]:
    """Yields choices of HATs: as specified (""), in coarser cells, in longer slots.

    Each is (name, public facts, a week's trips by HAT, (slots, cells), or None where they are unknown).
    """
    table, profile, fleet, trips = spec.timetable, bounds.fleet.profile, bounds.fleet, spec.trips
    cells = texts_of(spec.cells.region)
    yield "", bounds, None if trips is None else trips.of_hats(cells, table)
    if spec.keys is None and spec.cells.resolution:  # public keys, such as lines, have no coarser ones
        parents = sorted({h3_int.cell_to_parent(cell, spec.cells.resolution - 1) for cell in spec.cells.region or ()})
        hats = hats_of(parents, bounds.hats.hours)
        # A vehicle's HATs become fewer as its cells do, but there is at least one in each of its hours.
        touched = max(profile.hats * profile.parents // profile.cells, profile.hours)
        fewer = replace(profile, hats=touched, cells=profile.parents, parents=profile.grandparents)
        coarser = BoundsOnly(hats=hats, fleet=replace(fleet, profile=fewer))
        of_parents = None if trips is None else trips.of_parents().of_hats(texts_of(parents), table)
        yield f"cells.resolution {spec.cells.resolution - 1}", coarser, of_parents
    if DAY_MINUTES % (minutes := 2 * table.slot_minutes) == 0:
        slots = profile.hours * 60 / table.slot_minutes  # number of slots in which a vehicle drives
        # Probability that a vehicle touches one of its cells in a slot, and in a long one, of two independent halves.
        short = min(profile.hats / slots / profile.cells, 1)
        long = 1 - (1 - short) ** 2
        fewer = replace(profile, hats=max(round(long * profile.cells * slots / 2), 1))  # half as many slots
        hats = hats_of(spec.cells.region or (), bounds.hats.hours[::2])
        of_longer = None if trips is None else trips.of_hats(cells, replace(table, slot_minutes=minutes))
        yield f"slot.minutes {minutes}", BoundsOnly(hats=hats, fleet=replace(fleet, profile=fewer)), of_longer


def usable_parts(levels: LevelsRelease, bounds: BoundsOnly, trips: Float64s | None, days: int) -> tuple[float, float]:
    """Forecasts `ok` shares of HATs with a trip, and of their reports.

    A HAT is `ok` where the cautious end of its number of vehicles is at least LEAST_VEHICLES. Vehicles, hence reports,
    are distributed as a week's trips, (slots, cells); lognormally if these are alike, and wider if they are unknown.
    """
    stages = stages_of(levels, bounds, is_first=days == 1)
    spread = HAT_SPREAD if trips is None else fitted.BUSIER**2  # prior variance of log numbers; more without trips
    # Posterior variances for _VEHICLES, 1 to 1,000. Neighbours and hours lower noise to SMOOTHED of it, like more days.
    variances = weight_log_variances(stages, bounds, _VEHICLES, days / fitted.SMOOTHED**2, spread)
    # The cautious of equally likely numbers, (vehicles, NODES). Under secret counts HATs vary around estimates too.
    cautious = numbers_of(_VEHICLES, variances + (0 if levels.counts_public else fitted.HAT_LOG_VARIANCE))[:, CAUTIOUS]
    fewest = int(np.argmax(cautious >= LEAST_VEHICLES))  # index of the first number that is `ok`; 1,000, the last, is
    with_trip = np.ones(1) if trips is None else trips[trips > 0]
    if with_trip.size < 2 or np.ptp(with_trip) == 0:  # alike: estimates vary by the part of the spread that is known
        variance = max(spread - float(variances[fewest]), 1e-6)  # prior less posterior; above 0
        relative = np.exp(math.sqrt(variance) * _Z_SCORES - variance / 2)  # lognormal, mean 1, at equally likely scores
    else:
        relative = with_trip / with_trip.mean()
    served = 1.0 if trips is None else with_trip.size / trips.size or 1.0  # part of HATs with vehicles; never 0
    are_usable = relative * bounds.usual_vehicles / served >= _VEHICLES[fewest]
    return float(are_usable.mean()), float(np.average(are_usable, weights=relative))


def answer(parts: Sequence[UsablePart]) -> str:
    """Describes usable shares by day as specified, and other choices' on the last."""
    specified, *others = parts
    last = USABLE_DAYS[-1]
    by_day = [
        f"on day {day.day} {hundredths(day.rows)} of 100 rows, which hold {hundredths(day.reports)} of 100 reports"
        if day.reports
        else f"on day {day.day} none, it is expected to be held back"
        for day in specified.days
    ]
    on_last_day = [(part.choice, part.days[-1]) for part in others]  # `days` are those of USABLE_DAYS
    instead = [f"{choice}: {hundredths(day.rows)} and {hundredths(day.reports)}" for choice, day in on_last_day]
    tail = f" On day {last} with {'; with '.join(instead)}." if instead else ""
    return f"Expected to be usable by themselves, if places and hours differ as usual: {'; '.join(by_day)}.{tail}"
