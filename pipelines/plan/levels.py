"""Plan of a `levels` specification, from public facts.

`bounds` or `facts`: a day's public HATs, and the fleet. Half widths are of 95 % intervals; `within` is the requested
one, in the value's unit, into which its `width` turns km/h. FACTORS multiply the specified total. `fewest` finds the
least number for which a check holds. `levels.free`: what a specification leaves to be chosen. _NUMBER_BY_DAYS: numbers
of released days behind a half width, by their text, such as _LATER, "a later day".
"""

from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import pairwise

import msgspec
import numpy as np

from dpops import fitted
from dpops.learning.expected import hat_half_widths, place_half_widths, place_level
from dpops.levels.defaults import BoundsOnly
from dpops.levels.stages import Stage, level
from dpops.levels.strategy import ranked
from dpops.spread import CAUTION, Z95
from dpops.types import Int64s
from pipelines.account.guarantee import levels_sentence, span_bounds
from pipelines.plan import spans as forecasts
from pipelines.plan.counts import SampleCounts
from pipelines.plan.needs import FACTORS, VEHICLES, fewest
from pipelines.plan.parts import PlannedPlaces, of_distributions, plan_places
from pipelines.plan.spans import DAY_NUMBERS, SpanWorth, UsablePart, choices_of_hats, stages_of, worth_of_spans
from pipelines.specification import Specification
from pipelines.specification.levels import ONE
from transforms.places.ground import hats_of

MOST_VEHICLES = 1_000_000  # a half width that needs more vehicles is out of reach
MOST_CHOICES = 5  # recipes that are shown, the best


class Total(msgspec.Struct, frozen=True, kw_only=True):
    """Half widths and vehicles needed at one total, by a day's last stage."""

    epsilon: float
    delta: float | None
    days: str  # key of _NUMBER_BY_DAYS
    as_specified: bool
    levels: dict[str, float]  # share of the total by level
    half_widths: list[float]  # of a HAT, for each of VEHICLES
    reliable: list[bool]  # whether such a HAT is published, for each of VEHICLES
    hat_vehicles: int | None  # fewest for the requested interval of a HAT; None: impossible
    place_vehicles: int | None  # fewest for that of a day
    fleet: int | None  # smallest that gives an average cell place_vehicles


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """Way to divide the total, with bounds and expected errors in the value's unit."""

    levels: dict[str, float]  # share of the total by level
    bound: tuple[float, float]  # on the first day, and on later ones
    first: float  # root mean square error by reports on the first day
    later: float


class CountedFleet(msgspec.Struct, frozen=True, kw_only=True):
    """Means of an operator's counts, beside the declared fleet."""

    origin: str
    vehicles: int
    hats_of_a_vehicle: float
    cells_of_a_vehicle: float
    slots_of_a_vehicle: float
    hats: dict[str, int]  # by number of vehicles


class PlannedLevels(msgspec.Struct, frozen=True, kw_only=True):
    """Output of `hatstream plan` for a `levels` specification."""

    name: str
    spec_id: str
    claim: str
    cells: int
    slots: int
    vehicles: int
    usual_vehicles: float
    unit: str
    within: float
    vehicles_in_a_hat: list[int]
    totals: list[Total]
    spans: list[SpanWorth]
    usable: list[UsablePart]  # of the specification, and in other cells and slots
    answer: str  # `usable` in words
    answers: list[str]
    choices: list[Choice]  # best first; none where nothing is open
    places: PlannedPlaces | None  # value of a map of places; None if impossible
    operator_only: CountedFleet | None  # from secret counts


def plan_levels(spec: Specification, within: float, counts: SampleCounts | None) -> PlannedLevels:
    """Plans a `levels` release. counts: of a period, secret, for the operator alone."""
    levels = spec.by_levels
    bounds, width = public_facts_of(spec), spec.value.width
    totals = [
        _total(spec, bounds, factor, days, within)
        for factor in FACTORS
        for days in (_NUMBER_BY_DAYS if factor == 1 else [_LATER])  # other totals are shown of a later day alone
    ]
    spans = worth_of_spans(spec, bounds)
    usable = []  # by choice of HATs: as specified, in coarser cells, in longer slots
    for choice, facts, trips in choices_of_hats(spec, bounds):
        # For HATs as specified all spans are forecast above; for other HATs only the specified span is.
        spans_of_choice = spans if facts is bounds else worth_of_spans(spec, facts, others=())
        usable.append(UsablePart.of(spec, choice, facts, trips, spans_of_choice))
    is_open = levels.free.bounds or levels.free.levels
    best = ranked(levels.recipe, bounds, levels.free)[:MOST_CHOICES] if is_open else []
    return PlannedLevels(
        name=spec.name,
        spec_id=spec.spec_id,
        claim=levels_sentence(spec, span_bounds(spec.account.limit, by_period={})),  # nothing is spent yet
        cells=bounds.hats.cells,
        slots=bounds.hats.slots,
        vehicles=bounds.fleet.vehicles,
        usual_vehicles=bounds.usual_vehicles,
        unit=spec.value.unit,
        within=within,
        vehicles_in_a_hat=list(VEHICLES),
        totals=totals,
        spans=spans,
        usable=usable,
        answer=forecasts.answer(usable),
        answers=[*_answers(spec, bounds, totals, within), *of_distributions(spec, bounds), forecasts.first_days(spans)],
        choices=[
            Choice(
                levels={name: float(share) for name, share in way.recipe.later[-1].shares},  # of the finest stage
                bound=(width(float(way.recipe.first[0].bound_kmh)), width(float(way.recipe.later[0].bound_kmh))),
                first=width(way.first_kmh),
                later=width(way.later_kmh),
            )
            for way in best  # ways to release; `bound`: all stages of a day have the same
        ],
        places=plan_places(spec, bounds),
        operator_only=None if counts is None else _counted(counts),
    )


def worth_by_day(spec: Specification) -> dict[int, tuple[float, float]]:
    """Forecasts usable part and mean error of reports, by number of released days.

    The part of reports in usable rows is 0 on days that are held back; the error is in the value's unit.

    >>> from pipelines.specification import load
    >>> sorted(worth_by_day(load("examples/town.toml")))
    [1, 7, 28]
    """
    bounds = public_facts_of(spec)
    worth = worth_of_spans(spec, bounds, others=())  # of the specification's span alone
    errors = dict(zip(DAY_NUMBERS, worth[0].error, strict=True))
    usable = UsablePart.of(spec, *next(choices_of_hats(spec, bounds)), worth)  # the first choice: the HATs as they are
    return {day.day: (day.reports, errors[day.day]) for day in usable.days}


def public_facts_of(spec: Specification) -> BoundsOnly:
    """Gathers a day's public HATs and the fleet."""
    hours = [minute // 60 for minute in spec.timetable.service_minutes]
    return BoundsOnly(hats=hats_of(spec.cells.region or (), hours), fleet=spec.by_levels.fleet)


_FIRST, _LATER = "the first day", "a later day"
_NUMBER_BY_DAYS = {_FIRST: 1, _LATER: 1, "a week, if days are alike": 7}


def _total(spec: Specification, bounds: BoundsOnly, factor: Fraction, days: str, within: float) -> Total:
    """Computes half widths and vehicles needed at a multiplied total. days: key of _NUMBER_BY_DAYS."""
    value, levels, is_first, day_number = spec.value, spec.by_levels, days == _FIRST, _NUMBER_BY_DAYS[days]
    upper_kmh, within_kmh = float(value.standard.upper), within / value.width(1.0)  # width(1.0): 1 km/h, in its unit
    *_, stage = stages_of(levels, bounds, factor, is_first=is_first)  # the last stage has the finest levels
    shown = hat_half_widths(stage, bounds, np.array(VEHICLES, np.float64), upper_kmh, day_number)

    def is_enough_in_hat(vehicles: float) -> bool:  # so many vehicles, for a single HAT
        return bool(hat_half_widths(stage, bounds, np.array([vehicles]), upper_kmh, day_number).kmh[0] <= within_kmh)

    def is_enough_in_cell(stage: Stage, facts: BoundsOnly, vehicles: float) -> bool:
        """Checks whether so many in each HAT give a cell's day the half width."""
        half = place_half_widths(stage, facts, np.array([vehicles]), upper_kmh, day_number)[0]
        finest = level(place_level(stage, facts), facts.hats, share=Fraction(1))  # of most places; any share will do
        tells_cells_apart = finest.groups.shape[0] == facts.hats.cells  # [0]: groups of cells, fewer for parents
        return tells_cells_apart and bool(half <= within_kmh)

    def is_enough_as_fleet(vehicles: int) -> bool:  # for the average cell, whose vehicles are `usual_vehicles`
        facts = replace(bounds, fleet=replace(bounds.fleet, vehicles=vehicles))
        *_, last = stages_of(levels, facts, factor, is_first=is_first)
        return is_enough_in_cell(last, facts, facts.usual_vehicles)

    return Total(
        # First days are planned with the largest share, ONE. [0]: of (epsilon, rho).
        epsilon=float(forecasts.day_total(levels, factor, ONE if is_first else levels.usual_share)[0]),
        delta=None if levels.delta is None else float(levels.delta),
        days=days,
        as_specified=factor == 1 and days == _LATER,  # most days are later ones
        levels={name: float(share) for name, share in stage.shares},
        half_widths=value.width(shown.kmh).tolist(),
        reliable=shown.reliable.tolist(),
        hat_vehicles=fewest(is_enough_in_hat, MOST_VEHICLES),
        place_vehicles=fewest(partial(is_enough_in_cell, stage, bounds), MOST_VEHICLES),
        fleet=fewest(is_enough_as_fleet, MOST_VEHICLES),
    )


def _answers(spec: Specification, bounds: BoundsOnly, totals: list[Total], within: float) -> list[str]:
    """Describes how many vehicles the half width needs, or what to change."""
    value, levels = spec.value, spec.by_levels
    now = next(total for total in totals if total.as_specified)
    goal = f"±{within:g} {value.unit} for the mean of a cell's whole day"
    if now.place_vehicles is None:
        answers = [
            f"{goal} is out of reach at a total of {now.epsilon:g}: this fleet's levels are {', '.join(now.levels)}, "
            "which tell no cells apart. A larger total, a larger fleet or fewer, larger cells do."
        ]
    else:
        fleet = "" if now.fleet is None else f"; the average cell has that from a fleet of {now.fleet:,} vehicles"
        declared = f" ({bounds.fleet.vehicles:,} are declared)" if fleet else ""
        answers = [f"{goal} needs {now.place_vehicles:,} vehicles in each of its HATs{fleet}{declared}."]
    goal = f"±{within:g} {value.unit} for a single HAT"
    hat_width = value.width(Z95 * (CAUTION * fitted.FLOOR_VARIANCE) ** 0.5)  # half width with very many vehicles
    why = "it is described by its cell and its hour, around which its own mean lies by "
    why += f"±{hat_width:.2g} {value.unit} at best"
    larger = next((total for total in totals if total.epsilon > now.epsilon and total.hat_vehicles is not None), None)
    if now.hat_vehicles is not None:
        answers.append(f"{goal} needs {now.hat_vehicles:,} vehicles in it.")
    elif larger is not None:
        answers.append(
            f"{goal} is out of reach at a total of {now.epsilon:g}: {why}. A total of {larger.epsilon:g} releases "
            f"single HATs too and needs {larger.hat_vehicles:,} vehicles in one."
        )
    else:
        answers.append(
            f"{goal} is out of reach at up to {totals[-1].epsilon:g}: {why}. Use whole days of cells, longer slots, "
            "or, where vehicles' presence may be public, account.adjacency = 'counts-public'."
        )
    if levels.count_share is not None:
        answers.append(
            f"Of every period a noisy number of vehicles is released first, for {float(levels.count_share):.1%} of the "
            f"total: below a quarter of the {levels.fleet.vehicles:,} that are declared the run stops, for the input "
            "may be wrong."
        )
    elif not levels.counts_public:
        why = "is too small" if levels.fleet_is_declared else "is not declared ([fleet] vehicles)"
        answers.append(
            f"A period that is released with the wrong input is not noticed: the fleet {why} to be counted first."
        )
    return answers


def _counted(counts: SampleCounts) -> CountedFleet:
    """Summarises a counted fleet: HATs by number of vehicles, and means of a vehicle."""
    hat = np.unique(counts.slot * (int(counts.place.max()) + 1) + counts.place, return_inverse=True)[1]  # code by row
    in_hat, edges = np.bincount(hat), (1, *VEHICLES)  # vehicles by HAT, as a row is a vehicle in a HAT
    classes = {f"{low}-{high - 1}": int(((in_hat >= low) & (in_hat < high)).sum()) for low, high in pairwise(edges)}
    classes[f"{edges[-1]}+"] = int((in_hat >= edges[-1]).sum())
    vehicles = np.unique(counts.vehicle).size

    def mean_number(code: Int64s) -> float:
        """Averages the number of distinct codes of a vehicle."""
        dense_code = np.unique(code, return_inverse=True)[1]
        return float(np.unique(counts.vehicle * (int(dense_code.max()) + 1) + dense_code).size / vehicles)

    return CountedFleet(
        origin=counts.origin,
        vehicles=int(vehicles),
        hats_of_a_vehicle=mean_number(hat),
        cells_of_a_vehicle=mean_number(counts.place),
        slots_of_a_vehicle=mean_number(counts.slot),
        hats=classes,
    )
