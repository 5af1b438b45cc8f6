"""What days of telemetry would be worth under `levels`, day by day: simulated with the real integers and noise.

Not private: errors are against true values.
"""

from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from dpops.learning import DayValues, PublishedNumbers, StageValues, State, learned, published, taken_in
from dpops.learning.learner import Field, Learned
from dpops.levels import (
    Kind,
    Recipe,
    ReleasedStage,
    Rows,
    Stage,
    centres_of,
    read,
    recipe,
    release_rows,
    sum_up,
)
from dpops.levels.count_check import count_stage, counted_first
from dpops.levels.defaults import BoundsOnly, with_least_norm
from dpops.levels.strategy import chosen
from dpops.noise import Noise
from dpops.types import Int64s
from hatstream_lab.evaluation.products import ProductDay, products_of
from hatstream_lab.evaluation.truth import TrueCity, TrueDay
from pipelines.specification.levels_tables import EXPONENTS
from pipelines.specification.span_total import SpanTotal
from transforms.places.hierarchy import design_of, hats_of
from transforms.releases.periods.fitted import MARGIN_KMH
from transforms.releases.periods.stages import first_centres
from transforms.releases.periods.states import facts_of, stage_values

TARGET = EXPONENTS["reports"]
"""The exponent of the mean that errors are against."""

QUIET = 1e-4
"""What the noise of the noiseless model is scaled with: the fit needs some."""


@dataclass(frozen=True, kw_only=True)
class Simulated:
    """One run over all days. causal, forecast (none for the first day), whole, products (causal): of each day."""

    causal: list[PublishedNumbers] = field(default_factory=list)
    forecast: list[PublishedNumbers | None] = field(default_factory=list)
    whole: list[PublishedNumbers] = field(default_factory=list)
    products: list[list[ProductDay]] = field(default_factory=list)


def recipe_for(city: TrueCity, kind: Kind, epsilon: Fraction, delta: Fraction, span_days: int = 1) -> Recipe:
    """Chooses what is released of a day by a new specification, for the mean of all reports, at a total of (epsilon,
    delta), or of epsilon alone for Laplace noise.

    span_days: the total is of so many days, which share it alike.
    """
    with_delta = delta if kind == "gaussian" else None
    of_span = SpanTotal(span_days, Fraction(span_days), epsilon, with_delta, accounting="gdp")
    epsilon, rho = of_span.of_a_day()
    hats = hats_of(city.region, city.days[0].hours)
    bounds = BoundsOnly(hats=hats, fleet=city.fleet)
    best = chosen(recipe(kind, epsilon, rho, bounds), bounds)
    first, later = (
        tuple(with_least_norm(replace(stage, exponent=TARGET, accounting="gdp"), city.fleet) for stage in stages)
        for stages in (best.first, best.later)
    )
    return Recipe(first=first, later=later)


def simulate(city: TrueCity, how: Recipe, noise: Noise | None) -> Simulated:
    """Releases all days in order, each around what the earlier ones taught. noise: None for the noiseless model."""
    state = State.new(design_of(city.region), facts_of(city.fleet), None)
    simulated = Simulated()
    learned_so_far: Learned | None = None
    for day in city.days:
        hours = np.array(day.hours, np.int64)
        forecast = None if learned_so_far is None else learned_so_far.forecast(hours)
        simulated.forecast.append(None if forecast is None else _published(city, forecast))
        stages = look(city, day, how, forecast, state, noise)
        state = taken_in(state, DayValues(hours=hours, stages=stages))
        learned_so_far = learned(state)
        belief = learned_so_far.estimate()
        simulated.causal.append(_published(city, belief))
        simulated.products.append(products_of(learned_so_far, belief, float(city.grid.upper)))
    if learned_so_far is not None:
        simulated.whole.extend(
            _published(city, learned_so_far.estimate(back)) for back in reversed(range(len(city.days)))
        )
    return simulated


def _published(city: TrueCity, belief: Field) -> PublishedNumbers:
    return published(belief, float(city.grid.upper))


def look(
    city: TrueCity, day: TrueDay, how: Recipe, forecast: Field | None, state: State, noise: Noise | None
) -> tuple[StageValues, ...]:
    """Releases all stages of a day, as a specification that declares the fleet has them: vehicles are counted first.
    Each looks around the forecast, or what the stage before it taught."""
    hats, hours = hats_of(city.region, day.hours), np.array(day.hours, np.int64)
    stages: list[StageValues] = []
    belief, count = forecast, count_stage(how.later[0], city.fleet.vehicles)
    for planned in counted_first(count, how.first if forecast is None else how.later):
        if len(stages) > (count is not None):
            belief = learned(taken_in(state, DayValues(hours=hours, stages=tuple(stages)))).estimate()
        centres = first_centres(hats.cells, hats.slots) if belief is None else centres_around(city, belief)
        stage = planned.on(hats, centres, city.grid.step)
        stages.append(stage_values(_released(day.rows, stage, noise), city.fleet))
    return tuple(stages)


def centres_around(city: TrueCity, belief: Field) -> Int64s:
    return centres_of(belief.values, MARGIN_KMH, city.grid.upper - MARGIN_KMH)


def _released(rows: Rows, stage: Stage, noise: Noise | None) -> ReleasedStage:
    if noise is not None:
        return release_rows(rows, stage, noise)
    exact = read(np.concatenate(sum_up(rows, stage)), stage)
    levels = [
        replace(level, weight_sd=level.weight_sd * QUIET, speed_sd=level.speed_sd * QUIET) for level in exact.levels
    ]
    return replace(exact, levels=tuple(levels))
