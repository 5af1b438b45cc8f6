"""Choice of bounds and levels by publicly expected error.

A HAT's mean speed is a sum of independent components: city, grandparent, parent and cell, hour of the day, a parent in
a part of the day, and the HAT's own. Each has a prior variance. A level's noisy sums inform each component whose groups
are no finer. Posterior variances, plus the bias of clipping, are the expected squared error.

Arguments: `busyness` is a cell's traffic over the average cell's; `centres` are variances, by component, of the centres
that a stage measures from, around true means; `bounds` are public facts: a day's HATs and the fleet.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np

from dpops import fitted
from dpops.forecast import normal_scores
from dpops.levels.defaults import COARSE, BoundsOnly, Recipe, coarser_shares, vehicle_weight
from dpops.levels.stages import BLOCK_H, CELL, HOUR, LEVELS, Kind, PublicHats, Stage, alike, unit_noise
from dpops.spread import LEAST_VEHICLES, PRIOR_SPREAD

Component = tuple[int, int]
"""Fineness of the groups that share a component: place (0 city to 3 cell) and time (0 day to 2 hour, or a slot)."""
_OF_LEVEL: dict[str, Component] = {name: (place, min(time, HOUR)) for name, (place, time) in LEVELS.items()}
"""Component of each level's groups, by name of the level. A slot counts as an hour here."""
_HAT = _OF_LEVEL["hat"]
CITY: Component = _OF_LEVEL["city"]

Variances = Mapping[Component, float]  # by component, (km/h)^2; or precisions, their inverses

PRIOR_SD_KMH: dict[Component, float] = {
    CITY: fitted.CITY_SD_KMH,
    **{_OF_LEVEL[name]: fitted.PLACES_KMH / math.sqrt(3) for name in ("grandparent-day", "parent-day", "cell")},
    **{_OF_LEVEL[name]: fitted.HOURS_KMH for name in ("hour", "parent")},
}  # prior standard deviations: rough numbers for any city, fitted on none. Three levels of places share a variance
DAYS = 4  # guessed: released days whose data a typical later day's estimate combines, itself included
BOUNDS: dict[Kind, tuple[Fraction, ...]] = {
    "gaussian": (Fraction(1), Fraction(3, 2), Fraction(2)),
    "laplace": (Fraction(1), Fraction(3, 2)),
}
"""Multiples of the table's bounds. Wider ones cost precision of vehicle numbers; under Laplace noise the widest gains
in some cities what it loses in others."""


@dataclass(frozen=True, kw_only=True)
class Ranked:
    """Recipe with expected root mean squared errors of first and later days, km/h."""

    recipe: Recipe
    first_kmh: float
    later_kmh: float

    @property
    def kmh(self) -> float:
        """Root mean squared error over the first DAYS days, in km/h."""
        return math.sqrt((self.first_kmh**2 + (DAYS - 1) * self.later_kmh**2) / DAYS)


@dataclass(frozen=True, kw_only=True)
class Free:
    """Parts of the recipe that the specification leaves open."""

    bounds: bool = True
    levels: bool = True


def ranked(recipe: Recipe, bounds: BoundsOnly, free: Free) -> list[Ranked]:
    """Ranks candidate recipes by expected error, best first.

    recipe: the default, or the specification's, which candidates vary where it is `free`. The default candidate goes
    before all that do not lower its error by the factor 1 - LEAST_GAIN: those gain too little to replace it.
    """
    default, *others = (_expected(candidate, bounds) for candidate in _candidates(recipe, free, bounds.hats))
    order = sorted(others, key=lambda candidate: round(candidate.kmh, 6))  # ties, but for rounding, stay as listed
    better = [candidate for candidate in order if candidate.kmh < (1 - fitted.LEAST_GAIN) * default.kmh]
    return [*better, default, *order[len(better) :]]


def chosen(recipe: Recipe, bounds: BoundsOnly, free: Free) -> Recipe:
    """Chooses the best variant of a recipe, or itself if nothing is free."""
    if not (free.bounds or free.levels):
        return recipe
    return ranked(recipe, bounds, free)[0].recipe


def _candidates(recipe: Recipe, free: Free, hats: PublicHats) -> Iterator[Recipe]:
    """Yields candidate recipes: wider bounds, coarser levels. The first one is the default."""
    recipe_shares = recipe.later[-1].shares
    shares = coarser_shares(recipe.kind, recipe_shares, hats) if free.levels else recipe_shares
    factors, is_coarse = BOUNDS[recipe.kind], recipe_shares == COARSE[recipe.kind]

    def varied(stages: tuple[Stage, ...], factor: Fraction) -> tuple[Stage, ...]:
        """Multiplies bounds; gives the last stage the chosen levels."""
        *early, last = (replace(stage, bound_kmh=factor * stage.bound_kmh) for stage in stages)
        return (*early, replace(last, parts=alike(shares)))

    # Factors after the first, 1, are for coarse levels alone: fine ones have more noise, which wider bounds raise.
    for factor in factors if free.bounds and is_coarse else factors[:1]:
        yield Recipe(first=varied(recipe.first, factor), later=varied(recipe.later, factor))
    if shares != recipe_shares and not is_coarse:  # fine levels may still be better than coarser ones
        yield recipe


def _expected(recipe: Recipe, bounds: BoundsOnly) -> Ranked:
    """Forecasts root mean squared errors, km/h, over reports of all classes of busyness."""
    squares: list[tuple[float, float]] = []
    for busyness, share in busyness_classes():
        prior = posterior = {component: sd_kmh * sd_kmh for component, sd_kmh in PRIOR_SD_KMH.items()}
        for stage in recipe.first:  # each alone, around centres of the one before; the last one's error is the day's
            posterior, first_square = _after(stage, bounds, prior, posterior, busyness, days=1)
        # A later day's centres are earlier days' posterior: one step finds their variances, a second the day's error.
        centres, _ = _after(recipe.later[-1], bounds, prior, posterior, busyness, days=DAYS)
        _, later_square = _after(recipe.later[-1], bounds, prior, centres, busyness, days=DAYS)
        squares.append((share * first_square, share * later_square))
    return Ranked(
        recipe=recipe,
        first_kmh=math.sqrt(sum(first for first, _ in squares)),
        later_kmh=math.sqrt(sum(later for _, later in squares)),
    )


def _after(
    stage: Stage, bounds: BoundsOnly, prior: Variances, centres: Variances, busyness: float, *, days: int
) -> tuple[dict[Component, float], float]:
    """Computes posterior variances after equal days, and a HAT's squared error, (km/h)^2."""
    precisions = precisions_of(stage, bounds, centres, busyness)
    posterior = posterior_of(prior, {component: days * precision for component, precision in precisions.items()})
    vehicles = np.array(max(bounds.usual_vehicles * busyness, 1.0))
    residual = float(PRIOR_SPREAD.of(vehicles))  # variance of the vehicles' mean around the HAT's components
    return posterior, squared_error(posterior, precisions, stage, bounds, centres, busyness, residual)


def posterior_of(prior: Variances, precisions: Variances) -> dict[Component, float]:
    """Computes posterior variances from prior ones, if above 0, and added precisions, (km/h)^-2."""
    return {component: 1 / (1 / max(variance, 1e-9) + precisions[component]) for component, variance in prior.items()}


def precisions_of(stage: Stage, bounds: BoundsOnly, centres: Variances, busyness: float) -> dict[Component, float]:
    """Computes the precision, (km/h)^-2, that one release of a stage adds to each component."""
    norm, bound = _norm(stage, bounds, centres), float(stage.bound_kmh)
    # Noise grows with the bound, and with 1 over the part that clipping leaves of vectors: 1 if norms are far below the
    # bound, bound / norm if far above. This root is bound over that part: from the bound to the norm, smoothly.
    noise_factor = (bound**3 + norm**3) ** (1 / 3)
    precisions = dict.fromkeys([*PRIOR_SD_KMH, _HAT], 0.0)
    for name, share in stage.shares:
        place, time = level_groups = _OF_LEVEL[name]
        busier = busyness ** (place / CELL)  # guessed: the coarser a place, the nearer its traffic is to average
        noise_kmh = fitted.SMOOTHED * noise_factor * _noise(stage, name, share, bounds) / busier  # neighbours smooth it
        for component in precisions:
            if component[0] <= place and component[1] <= time:  # no finer than the level's groups
                groups_each = max(_groups(level_groups, bounds.hats) / _groups(component, bounds.hats), 1.0)
                precisions[component] += groups_each / noise_kmh**2  # means of so many groups hold the same effect
    return precisions


def squared_error(
    posterior: Variances,
    precisions: Variances,
    stage: Stage,
    bounds: BoundsOnly,
    centres: Variances,
    busyness: float,
    residual: float,
) -> float:
    """Forecasts a HAT's squared error, (km/h)^2: of components, residual and clipping.

    posterior: after all releases. precisions: of the day's last stage, which measured around centres of variances
    `centres`. residual: variance of the HAT around components.
    """
    vehicles = bounds.usual_vehicles * busyness
    # Guessed: part of HATs with vehicles enough for a release of single HATs to inform them.
    informed = vehicles**2 / (vehicles**2 + LEAST_VEHICLES**2)
    norm_kmh = _norm(stage, bounds, centres)  # clipping it biases means, by a fitted formula
    bias_kmh = fitted.BIAS_OF_NORM * norm_kmh * math.exp(-fitted.BIAS_DECAY * (float(stage.bound_kmh) / norm_kmh) ** 2)
    components = sum(posterior.values())
    return components + (1 - informed) * residual + informed / (1 / residual + precisions[_HAT]) + bias_kmh**2


def log_precision(stage: Stage, bounds: BoundsOnly) -> float:
    """Computes a release's precision of the city's log total weight, summed over levels."""
    weights = replace(stage, alpha=1 - stage.alpha)  # `_noise` takes alpha, the part of speeds: weights have the other
    # `_noise` is over a group's mean weight; a level's total is that mean times the groups, so that noise averages out.
    shares, hats = stage.shares, bounds.hats
    return sum(_groups(_OF_LEVEL[name], hats) / _noise(weights, name, share, bounds) ** 2 for name, share in shares)


def _norm(stage: Stage, bounds: BoundsOnly, centres: Variances) -> float:
    """Estimates the norm, km/h, of a vehicle's weighted residuals, which the bound clips.

    Residuals are speeds less centres: errors of centres, taken as equal in a vehicle's HATs, and the vehicle's
    deviations, which average out in groups of several HATs.
    """
    hats, sd_kmh = bounds.fleet.profile.hats, math.sqrt(PRIOR_SPREAD.vehicle)
    if stage.kind == "laplace":
        in_group = {name: max(hats / bounds.fleet.profile.touched(name), 1.0) for name, _ in stage.shares}
        # L1 norm: 0.8 is a normal law's mean absolute value over its standard deviation, sqrt(2 / pi).
        deviation = 0.8 * sd_kmh * sum(float(share) / math.sqrt(in_group[name]) for name, share in stage.shares)
    else:
        deviation = sd_kmh * vehicle_weight(stage, bounds.fleet) / math.sqrt(hats)  # L2: its HATs are independent
    return math.sqrt(sum(centres.values()) + deviation**2)


def _noise(stage: Stage, name: str, share: Fraction, bounds: BoundsOnly) -> float:
    """Computes the noise deviation of a level's group means, divided by the bound."""
    # Part of the total of the level's speeds, by integers: products of fractions take five times longer.
    ratios = [factor.as_integer_ratio() for factor in (stage.share, share, stage.alpha)]
    part = math.prod(numerator for numerator, _ in ratios) / math.prod(denominator for _, denominator in ratios)
    groups, weight = _groups(_OF_LEVEL[name], bounds.hats), bounds.fleet.vehicles * vehicle_weight(stage, bounds.fleet)
    return unit_noise(stage.kind, stage.spread, part) * groups / weight  # over a group's weight


@lru_cache(maxsize=64)
def _groups(component: Component, hats: PublicHats) -> int:
    """Counts the groups of HATs that share a component's effects: places times times."""
    place, time = component
    places = 1, max(hats.grandparents) + 1, max(hats.parents) + 1, hats.cells  # as of CITY to CELL
    times = 1, len({hour // BLOCK_H for hour in hats.hours}), hats.slots  # as of DAY to HOUR: a slot counts as an hour
    return places[place] * times[time]


def busyness_classes() -> list[tuple[float, float]]:
    """Lists (busyness, share of reports) of five equal classes of cells, lognormal."""
    classes = 5
    raw = [math.exp(fitted.BUSIER * score) for score in normal_scores(classes).tolist()]
    return [(factor / (sum(raw) / classes), factor / sum(raw)) for factor in raw]
