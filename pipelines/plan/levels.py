"""What a `levels` specification would give, and how many vehicles it needs: from public facts, before any release."""

from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from itertools import pairwise
from typing import NamedTuple

import msgspec
import numpy as np

from dpops import fitted
from dpops.claims import NOISE_CLAIMS
from dpops.learning.half_widths import hat_half_widths, place_half_widths, place_level
from dpops.learning.interval import Z95
from dpops.levels.defaults import BoundsOnly, Recipe, recipe, spread_of
from dpops.levels.stages import Stage, level
from dpops.levels.strategy import ranked
from dpops.types import Float64s, Int64s
from pipelines.account.guarantee import levels_sentence, span_bounds
from pipelines.plan.counts import SampleCounts
from pipelines.plan.distributions import of_distributions
from pipelines.plan.places import PlannedPlaces, plan_places
from pipelines.plan.spans import SpanWorth, first_days, worth_of_spans
from pipelines.plan.wanted import FACTORS, VEHICLES, fewest
from pipelines.specification import Specification
from pipelines.specification.levels import LevelsRelease
from pipelines.specification.span_total import ONE
from transforms.places.hierarchy import hats_of

MOST_VEHICLES = 1_000_000
WEEK = 7
MOST_CHOICES = 5


class Total(msgspec.Struct, frozen=True, kw_only=True):
    """What one total and stage gives. half_widths_kmh, reliable: of a HAT, for each of VEHICLES.

    hat_vehicles, place_vehicles: fewest vehicles in a HAT for a HAT's, and for a whole day's, interval to be as wanted;
    fleet: the smallest of which an average cell's day has that. None: no number does.
    """

    epsilon: float
    delta: float | None
    days: str
    as_specified: bool
    levels: dict[str, float]
    half_widths_kmh: list[float]
    reliable: list[bool]
    hat_vehicles: int | None
    place_vehicles: int | None
    fleet: int | None


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """A way to release, and the error by reports that is expected of it, km/h: on a first day, and on later ones.

    bound_kmh: of a first day, and of later ones.
    """

    levels: dict[str, float]
    bound_kmh: tuple[float, float]
    first_kmh: float
    later_kmh: float


class CountedFleet(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator's counts say beside the declared fleet: means of a period. hats: by number of vehicles."""

    origin: str
    vehicles: int
    hats_of_a_vehicle: float
    cells_of_a_vehicle: float
    slots_of_a_vehicle: float
    hats: dict[str, int]


class PlannedLevels(msgspec.Struct, frozen=True, kw_only=True):
    """All that `hatstream plan` shows of a `levels` specification. operator_only: made from secret counts.

    choices: the way that days are released, and what came next; none where the specification leaves nothing open.
    places: what a map of them would be worth; None where a specification can have none.
    """

    name: str
    spec_id: str
    claim: str
    cells: int
    slots: int
    vehicles: int
    usual_vehicles: float
    within_kmh: float
    vehicles_in_a_hat: list[int]
    totals: list[Total]
    spans: list[SpanWorth]
    answers: list[str]
    choices: list[Choice]
    places: PlannedPlaces | None
    operator_only: CountedFleet | None


def plan_levels(spec: Specification, within_kmh: float, counts: SampleCounts | None = None) -> PlannedLevels:
    """Plans a `levels` release. counts: of one period, for the operator alone where they are secret."""
    asked = spec.by_levels
    bounds = known_of(spec, asked)
    totals = _totals(spec, asked, bounds, within_kmh)
    spans = worth_of_spans(spec, asked, bounds, partial(_recipe_at, asked, bounds))
    return PlannedLevels(
        name=spec.name,
        spec_id=spec.spec_id,
        claim=levels_sentence(spec, span_bounds(spec.account.limit, {})),
        cells=bounds.hats.cells,
        slots=bounds.hats.slots,
        vehicles=bounds.fleet.vehicles,
        usual_vehicles=bounds.usual_vehicles,
        within_kmh=within_kmh,
        vehicles_in_a_hat=list(VEHICLES),
        totals=totals,
        spans=spans,
        answers=[
            *_answers(spec, asked, bounds, totals, within_kmh),
            *of_distributions(asked, bounds, spec.value.grid),
            first_days(spans),
        ],
        choices=_choices(asked, bounds),
        places=plan_places(spec, asked, bounds),
        operator_only=None if counts is None else _counted(counts),
    )


def _choices(asked: LevelsRelease, bounds: BoundsOnly) -> list[Choice]:
    if not (asked.free.bounds or asked.free.levels):
        return []
    return [
        Choice(
            levels={name: float(share) for name, share in ranked_choice.recipe.later[-1].shares},
            bound_kmh=(float(ranked_choice.recipe.first[0].bound_kmh), float(ranked_choice.recipe.later[0].bound_kmh)),
            first_kmh=ranked_choice.first_kmh,
            later_kmh=ranked_choice.later_kmh,
        )
        for ranked_choice in ranked(asked.recipe, bounds, asked.free)[:MOST_CHOICES]
    ]


def known_of(spec: Specification, asked: LevelsRelease) -> BoundsOnly:
    """Gathers the public HATs of a day and the fleet."""
    table = spec.timetable
    hours = [minute // 60 for minute in table.service_minutes]
    return BoundsOnly(hats=hats_of(spec.cells.region or (), hours), fleet=asked.fleet)


def half_width_curves(spec: Specification, vehicles: Float64s) -> list[tuple[float, Float64s, Float64s]]:
    """Computes by total, on a later day: its epsilon, and half-widths of a HAT and of a cell's day. vehicles: in a
    HAT."""
    asked = spec.by_levels
    bounds, upper, curves = known_of(spec, asked), float(spec.value.grid.upper), []
    for factor in FACTORS:
        stage = _LATER.stage(asked, bounds, factor)
        halves = hat_half_widths(stage, bounds, vehicles, upper).kmh, place_half_widths(stage, bounds, vehicles, upper)
        curves.append((_LATER.epsilon(asked, factor), *halves))
    return curves


class _DayKind(NamedTuple):
    """Which day a row is about: an account's first, a later one, or several later ones that are alike."""

    said: str
    is_first: bool = False
    number: int = 1

    def stage(self, asked: LevelsRelease, bounds: BoundsOnly, factor: Fraction) -> Stage:
        """Plans the day's last stage, at so many times the total."""
        made = _recipe(asked, bounds, factor)
        stage = made.first[-1] if self.is_first else made.later[0]
        return replace(stage, share=self.part(asked) * stage.share, counts_public=asked.counts_public)

    def part(self, asked: LevelsRelease) -> Fraction:
        """Says what it has of the total."""
        return ONE if self.is_first else asked.usual_part

    def epsilon(self, asked: LevelsRelease, factor: Fraction) -> float:
        """Says what a day of them has, at so many times the total."""
        part, rho = self.part(asked), _rho(asked, factor)
        if part == 1 or rho is None or asked.delta is None:
            return float(part * factor * asked.epsilon)
        return float(NOISE_CLAIMS[asked.accounting](part * rho).approx(asked.delta).epsilon)


_LATER = _DayKind("a later day")
_DAYS = (_DayKind("the first day", is_first=True), _LATER, _DayKind("a week, if days are alike", number=WEEK))


def _totals(spec: Specification, asked: LevelsRelease, bounds: BoundsOnly, within: float) -> list[Total]:
    upper = float(spec.value.grid.upper)
    return [
        _total(asked, bounds, factor, day, upper, within)
        for factor in FACTORS
        for day in (_DAYS if factor == 1 else (_LATER,))
    ]


def _total(
    asked: LevelsRelease, bounds: BoundsOnly, factor: Fraction, day: _DayKind, upper: float, within: float
) -> Total:
    stage = day.stage(asked, bounds, factor)
    shown = hat_half_widths(stage, bounds, np.array(VEHICLES, np.float64), upper, day.number)

    def of_hat(vehicles: float) -> bool:
        return bool(hat_half_widths(stage, bounds, np.array([vehicles]), upper, day.number).kmh[0] <= within)

    def of_place(stage: Stage, bounds: BoundsOnly, vehicles: float) -> bool:
        half = place_half_widths(stage, bounds, np.array([vehicles]), upper, day.number)[0]
        return tells_cells_apart(stage, bounds) and bool(half <= within)

    def of_fleet(vehicles: int) -> bool:
        other = replace(bounds, fleet=replace(bounds.fleet, vehicles=vehicles))
        return of_place(day.stage(asked, other, factor), other, other.usual_vehicles)

    return Total(
        epsilon=day.epsilon(asked, factor),
        delta=None if asked.delta is None else float(asked.delta),
        days=day.said,
        as_specified=factor == 1 and day is _LATER,
        levels={name: float(share) for name, share in stage.shares},
        half_widths_kmh=shown.kmh.tolist(),
        reliable=shown.reliable.tolist(),
        hat_vehicles=fewest(of_hat, MOST_VEHICLES),
        place_vehicles=fewest(partial(of_place, stage, bounds), MOST_VEHICLES),
        fleet=fewest(of_fleet, MOST_VEHICLES),
    )


def _recipe(asked: LevelsRelease, bounds: BoundsOnly, factor: Fraction) -> Recipe:
    """Chooses the stages at another total or fleet: the table's there, or what the specification names instead.

    Not the strategy's: that is chosen by all that levels teach together, of which half-widths count the nearest alone.
    """
    return _recipe_at(asked, bounds, asked.epsilon * factor, _rho(asked, factor))


def _recipe_at(asked: LevelsRelease, bounds: BoundsOnly, epsilon: Fraction, rho: Fraction | None) -> Recipe:
    """Chooses the stages at a total. rho: with delta, what epsilon comes to."""
    kind = asked.recipe.kind
    usual = recipe(kind, asked.epsilon, _rho(asked, Fraction(1)), replace(bounds, fleet=asked.fleet))
    if asked.recipe != usual:
        return asked.recipe.with_spread(spread_of(kind, epsilon if rho is None else rho))
    return recipe(kind, epsilon, rho, bounds)


@cache
def _rho(asked: LevelsRelease, factor: Fraction) -> Fraction | None:
    """Tells what so many times the total comes to; None without delta."""
    if asked.delta is None:
        return None
    return NOISE_CLAIMS[asked.accounting].within(asked.epsilon * factor, asked.delta).rho


def tells_cells_apart(stage: Stage, bounds: BoundsOnly) -> bool:
    grouped = level(place_level(stage, bounds), bounds.hats, Fraction(1))
    return grouped.size == bounds.hats.cells * grouped.slot_groups


# --- sentences ----------------------------------------------------------------------------------------------------


def _answers(
    spec: Specification, asked: LevelsRelease, bounds: BoundsOnly, totals: list[Total], within: float
) -> list[str]:
    """Tells what the table says of the wanted width; where that is out of reach, what to change next."""
    now = next(total for total in totals if total.as_specified)
    said = [_of_cells(now, bounds, within), _of_hats(now, totals, within), *_of_wrong_input(asked)]
    usual, stage = bounds.usual_vehicles, _LATER.stage(asked, bounds, Fraction(1))
    reliable = hat_half_widths(stage, bounds, np.array([usual]), float(spec.value.grid.upper)).reliable[0]
    if not reliable:
        said.append(
            f"A HAT of {usual:.3g} vehicles, which is the average here, will be marked unreliable on most days: "
            "larger cells (cells.resolution), longer slots (slot.minutes) or a smaller region put more vehicles in a "
            "HAT; a larger total tells their number better."
        )
    return said


def _of_wrong_input(asked: LevelsRelease) -> list[str]:
    """Tells beforehand what happens to a day that is released with the wrong input."""
    if asked.counts_public:
        return []
    share = asked.count_share
    if share is not None:
        return [
            f"Of every period a noisy number of vehicles is released first, for {float(share):.1%} of the total: below "
            f"a quarter of the {asked.fleet.vehicles:,} that are declared the run stops, for the input may be wrong."
        ]
    why = "is too small" if asked.fleet_is_declared else "is not declared ([fleet] vehicles)"
    return [f"A period that is released with the wrong input is not noticed: the fleet {why} to be counted first."]


def _of_cells(now: Total, bounds: BoundsOnly, within: float) -> str:
    what = f"±{within:g} km/h for the mean of a cell's whole day"
    if now.place_vehicles is None:
        return (
            f"{what} is out of reach at a total of {now.epsilon:g}: this fleet's levels are {', '.join(now.levels)}, "
            "which tell no cells apart. A larger total, a larger fleet or fewer, larger cells do."
        )
    fleet = "" if now.fleet is None else f"; the average cell has that from a fleet of {now.fleet:,} vehicles"
    declared = f" ({bounds.fleet.vehicles:,} are declared)" if fleet else ""
    return f"{what} needs {now.place_vehicles:,} vehicles in each of its HATs{fleet}{declared}."


def _of_hats(now: Total, totals: list[Total], within: float) -> str:
    what = f"±{within:g} km/h for a single HAT"
    if now.hat_vehicles is not None:
        return f"{what} needs {now.hat_vehicles:,} vehicles in it."
    more = next((total for total in totals if total.epsilon > now.epsilon and total.hat_vehicles is not None), None)
    own = Z95 * fitted.ROUGH_FLOOR**0.5
    why = f"it is described by its cell and its hour, and its own mean lies around that by ±{own:.2g} km/h at best"
    if more is not None:
        return (
            f"{what} is out of reach at a total of {now.epsilon:g}: {why}. A total of {more.epsilon:g} releases single "
            f"HATs too and needs {more.hat_vehicles:,} vehicles in one."
        )
    return (
        f"{what} is out of reach at up to {totals[-1].epsilon:g}: {why}. Use whole days of cells, longer slots, or, "
        "where vehicles' presence may be public, account.adjacency = 'counts-public'."
    )


# --- the operator's counts ----------------------------------------------------------------------------------------


def _counted(counts: SampleCounts) -> CountedFleet:
    vehicles = int(np.unique(counts.vehicle).size)
    hat = np.unique(counts.slot * (int(counts.place.max()) + 1) + counts.place, return_inverse=True)[1]
    in_hat = np.bincount(hat)
    edges = (1, *VEHICLES)
    classes = {f"{low}-{high - 1}": int(((in_hat >= low) & (in_hat < high)).sum()) for low, high in pairwise(edges)}
    classes[f"{edges[-1]}+"] = int((in_hat >= edges[-1]).sum())
    return CountedFleet(
        origin=counts.origin,
        vehicles=vehicles,
        hats_of_a_vehicle=_mean_number(counts.vehicle, hat),
        cells_of_a_vehicle=_mean_number(counts.vehicle, counts.place),
        slots_of_a_vehicle=_mean_number(counts.vehicle, counts.slot),
        hats=classes,
    )


def _mean_number(vehicle: Int64s, code: Int64s) -> float:
    """Averages the number of different codes that a vehicle has."""
    place = np.unique(code, return_inverse=True)[1]
    pairs = np.unique(vehicle * (int(place.max()) + 1) + place)
    return float(pairs.size / np.unique(vehicle).size)
