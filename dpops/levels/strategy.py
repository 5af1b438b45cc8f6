"""Which bounds and levels to release with: chosen by the expected error of estimates, from public numbers alone.

A HAT's mean is described by parts: its city, its grandparent, parent and cell, the hour, a parent in a part of the day,
and what only the HAT itself says. Each has a spread before any release, and each level's noisy sums tell of the parts
that are no finer than its groups. What is then left of every part, and what clipping does, is the expected error.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from dpops import fitted
from dpops.levels.defaults import BoundsOnly, Recipe, coarser_shares, is_coarse, vehicle_weight
from dpops.levels.groups import BLOCK_H, PublicHats
from dpops.levels.stages import UNIT, Kind, Shares, Stage, alike
from dpops.spread import TYPICAL

Part = tuple[int, int]
"""How fine a group of HATs is: its place (city, grandparent, parent, cell) and its time (day, part of it, slot)."""
_CITY, _GRANDPARENT, _PARENT, _CELL = range(4)
_DAY, _PART, _HOUR = range(3)
_OF: dict[str, Part] = {
    "hat": (_CELL, _HOUR),
    "cell-part": (_CELL, _PART),
    "parent": (_PARENT, _PART),
    "cell": (_CELL, _DAY),
    "parent-day": (_PARENT, _DAY),
    "grandparent-day": (_GRANDPARENT, _DAY),
    "city": (_CITY, _DAY),
    "hour": (_CITY, _HOUR),
    "part": (_CITY, _PART),
}
_OWN = _OF["hat"]
CITY: Part = (_CITY, _DAY)

PARTS: dict[Part, float] = {
    (_CITY, _DAY): fitted.CITY_SPREAD,
    (_GRANDPARENT, _DAY): fitted.GRANDPARENTS,
    (_PARENT, _DAY): fitted.PARENTS,
    (_CELL, _DAY): fitted.CELLS,
    (_CITY, _HOUR): fitted.HOURS,
    (_PARENT, _PART): fitted.PARENT_PARTS,
}
"""Standard deviations before any release, km/h: a city is 20 +- 5, its places lie 7 km/h around it (a third of that
variance is of each size), hours 2.5. Rough numbers for any city, fitted on none."""
DAYS = 4
"""Of releases that a later day rests on, itself counted."""
BOUNDS: dict[Kind, tuple[Fraction, ...]] = {
    "gaussian": (Fraction(1), Fraction(3, 2), Fraction(2)),
    "laplace": (Fraction(1), Fraction(3, 2)),
}
"""Times the table's. With more than these, numbers of vehicles were badly told by weights; and under Laplace noise what
the widest gained in some cities it lost in others."""


@dataclass(frozen=True, kw_only=True)
class Ranked:
    """A choice and the root of the squared error that is expected by reports, km/h: on a first day, on later ones."""

    recipe: Recipe
    first_kmh: float
    later_kmh: float

    @property
    def kmh(self) -> float:
        return math.sqrt((self.first_kmh**2 + (DAYS - 1) * self.later_kmh**2) / DAYS)


@dataclass(frozen=True, kw_only=True)
class Free:
    """What of the table's recipe may be chosen otherwise: what the specification does not name."""

    bounds: bool = True
    levels: bool = True


EVERYTHING = Free()


def ranked(table: Recipe, bounds: BoundsOnly, free: Free = EVERYTHING) -> list[Ranked]:
    """Ranks recipes, the best first: a function of public numbers alone. table: for what is not free.

    The one with the usual bounds and levels goes before those that are not better by LEAST_GAIN.
    """
    usual, *others = (_expected(recipe, bounds) for recipe in _variants(table, free, bounds.hats))
    order = sorted(others, key=lambda candidate: round(candidate.kmh, 6))
    better = [candidate for candidate in order if candidate.kmh < (1 - fitted.LEAST_GAIN) * usual.kmh]
    return [*better, usual, *order[len(better) :]]


def chosen(table: Recipe, bounds: BoundsOnly, free: Free = EVERYTHING) -> Recipe:
    """Chooses the first of `ranked`; the table's own where nothing is free."""
    if not (free.bounds or free.levels):
        return table
    return ranked(table, bounds, free)[0].recipe


def _variants(table: Recipe, free: Free, hats: PublicHats) -> Iterator[Recipe]:
    """Yields the recipes to choose from, the usual one first.

    Wider bounds go with coarse levels alone: finer ones tell what a bound took away.
    """
    named = table.later[-1].shares
    usual = coarser_shares(table.kind, named, hats) if free.levels else named
    bounds, coarse = BOUNDS[table.kind], is_coarse(table.kind, named)
    for times in bounds if free.bounds and coarse else bounds[:1]:
        yield _varied(table, usual, times)
    if usual != named and not coarse:
        yield table


def _varied(table: Recipe, shares: Shares, times: Fraction) -> Recipe:
    """Changes a table's levels and bounds; the first look at a first day keeps its levels."""

    def varied(stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
        *early, last = (replace(stage, bound_kmh=times * stage.bound_kmh) for stage in stages)
        return (*early, replace(last, parts=alike(shares)))

    return Recipe(first=varied(table.first), later=varied(table.later))


def _expected(recipe: Recipe, bounds: BoundsOnly) -> Ranked:
    squares: list[tuple[float, float]] = []
    for busy, share in busyness():
        before = {part: sd * sd for part, sd in PARTS.items()}
        after = before
        for stage in recipe.first:
            after, first = _after(stage, bounds, before, after, busy, days=1)
        settled, _ = _after(recipe.later[-1], bounds, before, after, busy, days=DAYS)
        _, later = _after(recipe.later[-1], bounds, before, settled, busy, days=DAYS)
        squares.append((share * first, share * later))
    return Ranked(
        recipe=recipe,
        first_kmh=math.sqrt(sum(first for first, _ in squares)),
        later_kmh=math.sqrt(sum(later for _, later in squares)),
    )


def _after(
    stage: Stage,
    bounds: BoundsOnly,
    before: dict[Part, float],
    around: dict[Part, float],
    busy: float,
    *,
    days: int,
) -> tuple[dict[Part, float], float]:
    """Computes what is left of each part after so many days of a stage; and the whole squared error with the HAT's own.

    The error is in (km/h)^2.

    before: what is not known of the parts without these days. around: of the centres.
    """
    told = told_by(stage, bounds, around, busy)
    left = left_of(before, {part: days * precision for part, precision in told.items()})
    own = float(TYPICAL.of(np.array(max(bounds.usual_vehicles * busy, 1.0))))
    return left, squared_error(left, told, stage, bounds, around, busy, own)


def left_of(before: Mapping[Part, float], told: Mapping[Part, float]) -> dict[Part, float]:
    """Computes the variance of each part when so much was told of it."""
    return {part: 1 / (1 / max(variance, 1e-9) + told[part]) for part, variance in before.items()}


def told_by(stage: Stage, bounds: BoundsOnly, around: Mapping[Part, float], busy: float) -> dict[Part, float]:
    """Computes what one release tells of each part and of HATs themselves, as precisions. around: of its centres."""
    norm, bound = _norm(stage, bounds, around), float(stage.bound_kmh)
    widened = (bound**3 + norm**3) ** (1 / 3)  # what is clipped weighs less, so noise in km/h falls no further
    precisions = dict.fromkeys([*PARTS, _OWN], 0.0)
    for name, share in stage.shares:
        place, time = _OF[name]
        busier = busy ** (place / _CELL)
        noise = fitted.SMOOTHED * widened * _noise(stage, name, share, bounds) / busier
        for part in precisions:
            if part[0] <= place and part[1] <= time:
                within = max(_groups((place, time), bounds) / _groups(part, bounds), 1.0)
                precisions[part] += within / noise**2
    return precisions


def squared_error(
    left: Mapping[Part, float],
    told: Mapping[Part, float],
    stage: Stage,
    bounds: BoundsOnly,
    around: Mapping[Part, float],
    busy: float,
    own: float,
) -> float:
    """Forecasts the squared error of a HAT on the day of a release, (km/h)^2.

    It is what is left of its parts, its own, and clipping. own: the variance of its mean around all that describes it.
    """
    vehicles = bounds.usual_vehicles * busy
    single = vehicles**2 / (vehicles**2 + fitted.FEW_IN_HAT**2)
    norm = _norm(stage, bounds, around)
    drawn = fitted.DRAWN * norm * math.exp(-fitted.FADES * (float(stage.bound_kmh) / norm) ** 2)
    return sum(left.values()) + (1 - single) * own + single / (1 / own + told[_OWN]) + drawn**2


def weight_told(stage: Stage, bounds: BoundsOnly) -> float:
    """Computes what one release tells of the logarithm of the whole city's weight, as a precision."""
    weights = replace(stage, alpha=1 - stage.alpha)
    return sum(_groups(_OF[name], bounds) / _noise(weights, name, share, bounds) ** 2 for name, share in stage.shares)


def _norm(stage: Stage, bounds: BoundsOnly, around: Mapping[Part, float]) -> float:
    """Computes the norm of a vehicle's residual speeds."""
    return math.sqrt(sum(around.values()) + _own_norm(stage, bounds) ** 2)


def _noise(stage: Stage, name: str, share: Fraction, bounds: BoundsOnly) -> float:
    """Computes the noise of a level's usual mean group, per km/h of the bound."""
    groups = _groups(_OF[name], bounds)
    part = float(stage.share * share * stage.alpha)
    if stage.kind == "laplace":
        one = math.sqrt(2) * float(stage.spread) / UNIT / part
    else:
        one = math.sqrt(float(stage.spread) / part) / UNIT
    return one * groups / (bounds.fleet.vehicles * vehicle_weight(stage, bounds.fleet))


def _own_norm(stage: Stage, bounds: BoundsOnly) -> float:
    """Computes the norm of a vehicle's own deviations: in a group of HATs they average out."""
    hats, sd = bounds.fleet.profile.hats, math.sqrt(TYPICAL.vehicle)
    in_a_group = {name: max(hats / bounds.fleet.profile.touched(name), 1.0) for name, _ in stage.shares}
    if stage.kind == "laplace":
        return 0.8 * sd * sum(float(share) / math.sqrt(in_a_group[name]) for name, share in stage.shares)
    return sd * vehicle_weight(stage, bounds.fleet) / math.sqrt(hats)


def _groups(part: Part, bounds: BoundsOnly) -> int:
    places, times = _sizes(bounds.hats)
    return places[part[0]] * times[part[1]]


@lru_cache(maxsize=8)
def _sizes(hats: PublicHats) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Counts how many places, and times, there are of each kind."""
    places = 1, max(hats.grandparents) + 1, max(hats.parents) + 1, hats.cells
    return places, (1, len({hour // BLOCK_H for hour in hats.hours}), hats.slots)


def busyness() -> list[tuple[float, float]]:
    """Splits cells into equally many each: how many times as busy as average they are, and their share of reports."""
    law, nodes = NormalDist(), 5
    raw = [math.exp(fitted.BUSIER * law.inv_cdf((node + 0.5) / nodes)) for node in range(nodes)]
    mean = sum(raw) / nodes
    return [(factor / mean, factor / sum(raw)) for factor in raw]
