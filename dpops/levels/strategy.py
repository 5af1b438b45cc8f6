"""Choice of bounds and levels by publicly expected error.

A HAT's mean is a sum of components: city, grandparent, parent and cell, hour, a parent in a part of the day, and its
own. Each has a prior variance, and each level's noisy sums inform the components no finer than its groups. Posterior
variances, and what clipping does, are the expected error.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from dpops import fitted
from dpops.levels.defaults import COARSE, BoundsOnly, Recipe, coarser_shares, vehicle_weight
from dpops.levels.stages import BLOCK_H, CELL, HOUR, LEVELS, UNIT, Kind, PublicHats, Stage, alike
from dpops.spread import LEAST_VEHICLES, TYPICAL

Part = tuple[int, int]
"""Fineness of a group of HATs: its place (city, grandparent, parent, cell) and its time (day, part of it, slot)."""
_OF: dict[str, Part] = {name: (place, min(time, HOUR)) for name, (place, time) in LEVELS.items()}
_OWN = _OF["hat"]
CITY: Part = _OF["city"]

Variances = Mapping[Part, float]

PARTS: dict[Part, float] = {
    _OF["city"]: fitted.CITY_SD_KMH,
    **dict.fromkeys((_OF["grandparent-day"], _OF["parent-day"], _OF["cell"]), fitted.PLACES_KMH / math.sqrt(3)),
    **dict.fromkeys((_OF["hour"], _OF["parent"]), fitted.HOURS_KMH),
}
"""Prior standard deviations, km/h: rough numbers for any city, fitted on none."""
DAYS = 4
"""Releases that a later day rests on, including itself."""
BOUNDS: dict[Kind, tuple[Fraction, ...]] = {
    "gaussian": (Fraction(1), Fraction(3, 2), Fraction(2)),
    "laplace": (Fraction(1), Fraction(3, 2)),
}
"""Multiples of the table's bounds. Wider ones cost precision of vehicle numbers; under Laplace noise the widest gains
in some cities what it loses in others."""


@dataclass(frozen=True, kw_only=True)
class Ranked:
    """Recipe with expected root mean squared errors, km/h."""

    recipe: Recipe
    first_kmh: float
    later_kmh: float

    @property
    def kmh(self) -> float:
        """Root mean square error over the days, in km/h."""
        return math.sqrt((self.first_kmh**2 + (DAYS - 1) * self.later_kmh**2) / DAYS)


@dataclass(frozen=True, kw_only=True)
class Free:
    """Parts of the recipe that the specification leaves open."""

    bounds: bool = True
    levels: bool = True


EVERYTHING = Free()


def ranked(table: Recipe, bounds: BoundsOnly, free: Free = EVERYTHING) -> list[Ranked]:
    """Ranks recipes, best first; `table` fixes what is constrained.

    The one with default bounds and levels goes before those that are not better by LEAST_GAIN.
    """
    default, *others = (_expected(recipe, bounds) for recipe in _variants(table, free, bounds.hats))
    order = sorted(others, key=lambda candidate: round(candidate.kmh, 6))
    better = [candidate for candidate in order if candidate.kmh < (1 - fitted.LEAST_GAIN) * default.kmh]
    return [*better, default, *order[len(better) :]]


def chosen(table: Recipe, bounds: BoundsOnly, free: Free = EVERYTHING) -> Recipe:
    """Chooses the best recipe, or the table's if fixed."""
    if not (free.bounds or free.levels):
        return table
    return ranked(table, bounds, free)[0].recipe


def _variants(table: Recipe, free: Free, hats: PublicHats) -> Iterator[Recipe]:
    """Yields candidate recipes, the default first."""
    table_shares = table.later[-1].shares
    shares = coarser_shares(table.kind, table_shares, hats) if free.levels else table_shares
    bounds, is_coarse = BOUNDS[table.kind], table_shares == COARSE[table.kind]

    def varied(stages: tuple[Stage, ...], times: Fraction) -> tuple[Stage, ...]:
        *early, last = (replace(stage, bound_kmh=times * stage.bound_kmh) for stage in stages)
        return (*early, replace(last, parts=alike(shares)))

    for times in bounds if free.bounds and is_coarse else bounds[:1]:
        yield Recipe(first=varied(table.first, times), later=varied(table.later, times))
    if shares != table_shares and not is_coarse:
        yield table


def _expected(recipe: Recipe, bounds: BoundsOnly) -> Ranked:
    """Forecasts a recipe's root mean squared error, km/h, on first and later days."""
    squares: list[tuple[float, float]] = []
    for busy, share in busyness():
        prior = {part: sd * sd for part, sd in PARTS.items()}
        posterior = prior
        for stage in recipe.first:
            posterior, first = _after(stage, bounds, prior, posterior, busy, days=1)
        settled, _ = _after(recipe.later[-1], bounds, prior, posterior, busy, days=DAYS)
        _, later = _after(recipe.later[-1], bounds, prior, settled, busy, days=DAYS)
        squares.append((share * first, share * later))
    return Ranked(
        recipe=recipe,
        first_kmh=math.sqrt(sum(first for first, _ in squares)),
        later_kmh=math.sqrt(sum(later for _, later in squares)),
    )


def _after(
    stage: Stage, bounds: BoundsOnly, prior: Variances, centres: Variances, busy: float, *, days: int
) -> tuple[dict[Part, float], float]:
    """Computes posterior variances, and a HAT's squared error, (km/h)^2.

    prior: variances without these days. centres: those that the centres were made from. busy: traffic, times average.
    """
    precisions = precisions_of(stage, bounds, centres, busy)
    posterior = posterior_of(prior, {part: days * precision for part, precision in precisions.items()})
    residual = float(TYPICAL.of(np.array(max(bounds.usual_vehicles * busy, 1.0))))
    return posterior, squared_error(posterior, precisions, stage, bounds, centres, busy, residual)


def posterior_of(prior: Variances, precisions: Variances) -> dict[Part, float]:
    """Computes the posterior variance of each part."""
    return {part: 1 / (1 / max(variance, 1e-9) + precisions[part]) for part, variance in prior.items()}


def precisions_of(stage: Stage, bounds: BoundsOnly, centres: Variances, busy: float) -> dict[Part, float]:
    """Computes precisions, (km/h)^-2, that a release adds in places `busy` times average."""
    norm, bound = _norm(stage, bounds, centres), float(stage.bound_kmh)
    widened = (bound**3 + norm**3) ** (1 / 3)  # a bound below the norm clips weights too, so it gains ever less
    precisions = dict.fromkeys([*PARTS, _OWN], 0.0)
    for name, share in stage.shares:
        place, time = _OF[name]
        busier = busy ** (place / CELL)  # the coarser a place, the nearer to average
        noise = fitted.SMOOTHED * widened * _noise(stage, name, share, bounds) / busier
        for part in precisions:
            part_place, part_time = part
            if part_place <= place and part_time <= time:
                within = max(_groups((place, time), bounds.hats) / _groups(part, bounds.hats), 1.0)
                precisions[part] += within / noise**2
    return precisions


def squared_error(
    posterior: Variances,
    precisions: Variances,
    stage: Stage,
    bounds: BoundsOnly,
    centres: Variances,
    busy: float,
    residual: float,
) -> float:
    """Forecasts a HAT's squared error, (km/h)^2, from components, clipping and residuals."""
    vehicles = bounds.usual_vehicles * busy
    single = vehicles**2 / (vehicles**2 + LEAST_VEHICLES**2)
    norm = _norm(stage, bounds, centres)
    drawn = fitted.DRAWN * norm * math.exp(-fitted.FADES * (float(stage.bound_kmh) / norm) ** 2)
    return sum(posterior.values()) + (1 - single) * residual + single / (1 / residual + precisions[_OWN]) + drawn**2


def log_precision(stage: Stage, bounds: BoundsOnly) -> float:
    """Computes a release's precision of the city's log weight."""
    weights = replace(stage, alpha=1 - stage.alpha)
    return sum(
        _groups(_OF[name], bounds.hats) / _noise(weights, name, share, bounds) ** 2 for name, share in stage.shares
    )


def _norm(stage: Stage, bounds: BoundsOnly, centres: Variances) -> float:
    """Computes the norm of a vehicle's residual speeds, km/h."""
    hats, sd = bounds.fleet.profile.hats, math.sqrt(TYPICAL.vehicle)
    if stage.kind == "laplace":
        in_group = {name: max(hats / bounds.fleet.profile.touched(name), 1.0) for name, _ in stage.shares}
        deviation = 0.8 * sd * sum(float(share) / math.sqrt(in_group[name]) for name, share in stage.shares)
    else:
        deviation = sd * vehicle_weight(stage, bounds.fleet) / math.sqrt(hats)
    return math.sqrt(sum(centres.values()) + deviation**2)


def _noise(stage: Stage, name: str, share: Fraction, bounds: BoundsOnly) -> float:
    """Computes noise of group means, as part of the bound, at a level's `share`."""
    groups = _groups(_OF[name], bounds.hats)
    ratios = [factor.as_integer_ratio() for factor in (stage.share, share, stage.alpha)]
    part = math.prod(over for over, _ in ratios) / math.prod(under for _, under in ratios)  # fractions take five times
    if stage.kind == "laplace":
        in_group = math.sqrt(2) * float(stage.spread) / UNIT / part
    else:
        in_group = math.sqrt(float(stage.spread) / part) / UNIT
    return in_group * groups / (bounds.fleet.vehicles * vehicle_weight(stage, bounds.fleet))


@lru_cache(maxsize=64)
def _groups(part: Part, hats: PublicHats) -> int:
    places = 1, max(hats.grandparents) + 1, max(hats.parents) + 1, hats.cells
    times = 1, len({hour // BLOCK_H for hour in hats.hours}), hats.slots
    return places[part[0]] * times[part[1]]


def busyness() -> list[tuple[float, float]]:
    """Lists relative traffic and report shares of cell classes."""
    law, nodes = NormalDist(), 5
    raw = [math.exp(fitted.BUSIER * law.inv_cdf((node + 0.5) / nodes)) for node in range(nodes)]
    mean = sum(raw) / nodes
    return [(factor / mean, factor / sum(raw)) for factor in raw]
