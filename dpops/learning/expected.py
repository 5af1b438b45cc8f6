"""Errors and interval widths that are expected of released days, and which are held back: from public facts alone."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpops import fitted
from dpops.learning.field import CAUTIOUS, LEAST_VEHICLES, NODES, Z95, numbers_of
from dpops.learning.weights import TOTAL_PRECISION
from dpops.levels.defaults import BoundsOnly, Recipe, vehicle_weight
from dpops.levels.stages import UNIT, Level, Stage, level, scaled
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
from dpops.spread import TYPICAL, TYPICAL_KMH, VehicleSpread
from dpops.types import Float64s

OF_NORMAL = math.sqrt(2 / math.pi)
"""The mean of absolute values over the root of the mean square, of a normal law."""


FLEETS = 1 / fitted.FLEETS_DIFFER, 1, fitted.FLEETS_DIFFER
"""Of how far HATs lie from what describes them: vehicles that drive alike, buses, taxis."""


@dataclass(frozen=True, kw_only=True)
class ExpectedDay:
    """kmh: mean absolute error by reports, as if it was normal; low_kmh, high_kmh: of FLEETS. constant_kmh: of the
    city's true mean, which is secret. least_kmh: without any noise, what HATs of few vehicles differ by.

    number: of released days, itself counted. unknown: the part of the pattern that is not known. weight_sd: standard
    deviation of the logarithm of the whole city's weight.
    """

    number: int
    kmh: float
    low_kmh: float
    high_kmh: float
    constant_kmh: float
    least_kmh: float
    unknown: float
    weight_sd: float

    @property
    def is_published(self) -> bool:
        """By the rules of `dpops.learning.field.Gate`, on what is expected; chance moves them by days."""
        return self.unknown <= fitted.MAX_RATIO and self.weight_sd <= fitted.MAX_TOTAL_SD


def expected_days(
    recipe: Recipe,
    bounds: BoundsOnly,
    shares: Sequence[Fraction],
    *,
    counts_public: bool = False,
    counts_vehicles: bool = False,
) -> list[ExpectedDay]:
    """Expects released days, from an account's first on.

    Args:
        shares: of each day, as parts of the recipe's total.
        counts_vehicles: each day begins with a number of its vehicles.
    """
    days = [scaled(recipe.later if day else recipe.first, share) for day, share in enumerate(shares)]
    if counts_public:
        days = [tuple(map(_at_public_counts, stages)) for stages in days]
    weights = [0.0] * len(days) if counts_public else list(_weights(days, bounds, counts_vehicles))
    cells = [(part, list(_of_cells(days, bounds, busy))) for busy, part in busyness()]
    noiseless = sum(part * _hat_variance(bounds, busy) for busy, part in busyness())
    expected = []
    for day, weight_sd in enumerate(weights):
        *errors, pattern, unknown = (sum(part * sums[day][column] for part, sums in cells) for column in range(5))
        low_kmh, kmh, high_kmh = (OF_NORMAL * math.sqrt(error) for error in errors)
        expected.append(
            ExpectedDay(
                number=day + 1,
                kmh=kmh,
                low_kmh=low_kmh,
                high_kmh=high_kmh,
                constant_kmh=OF_NORMAL * math.sqrt(pattern + noiseless),
                least_kmh=OF_NORMAL * math.sqrt(noiseless),
                unknown=unknown,
                weight_sd=weight_sd,
            )
        )
    return expected


def _of_cells(days: Sequence[Sequence[Stage]], bounds: BoundsOnly, busy: float) -> Iterator[tuple[float, ...]]:
    """Yields of each day, for cells so many times as busy as the average: squared errors, pattern, part not known."""
    hat_variances = [times * _hat_variance(bounds, busy) for times in FLEETS]
    prior = {part: sd * sd for part, sd in PARTS.items()}
    precisions, posterior = dict.fromkeys(prior, 0.0), prior
    for stages in days:
        for stage in stages:
            around = posterior
            today = told_by(stage, bounds, around, busy)
            precisions = {part: precision + today[part] for part, precision in precisions.items()}
            posterior = left_of(prior, precisions)
        errors = [squared_error(posterior, today, stage, bounds, around, busy, variance) for variance in hat_variances]
        yield *errors, _pattern(prior), _pattern(posterior) / _pattern(prior)


def _hat_variance(bounds: BoundsOnly, busy: float) -> float:
    """Computes the variance of a HAT's mean around all that describes it, by reports."""
    return float(TYPICAL.of(np.array(1 + fitted.OTHERS * bounds.usual_vehicles * busy)))


def _at_public_counts(stage: Stage) -> Stage:
    """Gives speeds the whole share, for weights cost nothing there: at twice the bound, so at twice the noise."""
    return replace(stage, spread=stage.spread * stage.alpha * (2 if stage.kind == "laplace" else 4))


def _pattern(parts: dict[Part, float]) -> float:
    """Sums the variances of what HATs differ by."""
    return sum(variance for part, variance in parts.items() if part != CITY)


def _weights(days: Sequence[Sequence[Stage]], bounds: BoundsOnly, counts_vehicles: bool) -> Iterator[float]:
    """Yields standard deviations of logarithms of days' weights: a random effect of days around what all share."""
    day_variance = 1 / TOTAL_PRECISION
    shared = fitted.RETAINED_SD**2 + (0.0 if counts_vehicles else fitted.FLEET_SD**2)
    for stages in days:
        precision = sum(weight_told(stage, bounds) for stage in stages)
        yield (1 / (shared + day_variance) + precision) ** -0.5
        shared = 1 / (1 / shared + 1 / (1 / precision + day_variance))


_ROUGH = VehicleSpread(fitted.VEHICLE_FACTOR * fitted.VEHICLE_VARIANCE, fitted.FLOOR_FACTOR * fitted.FLOOR_VARIANCE)
_FEWER = 2
"""The number of vehicles, of `numbers_of`, at which a HAT's own variance makes about as wide an interval as all do."""


class HalfWidths(NamedTuple):
    """Half widths of 95 % intervals in km/h, and whether the number of vehicles is known well enough to call them
    reliable."""

    kmh: Float64s
    reliable: NDArray[np.bool_]


def hat_half_widths(
    stage: Stage, bounds: BoundsOnly, vehicles: Float64s, upper_kmh: float, days: int = 1
) -> HalfWidths:
    """Computes half widths of a HAT, for each number of vehicles in it.

    They are at most upper_kmh / 2, for then nothing is known. They come of the noise in what describes the HAT, and of
    its own variance around that, at a cautious number of vehicles (docs/released.md, "Intervals"). days: so many days
    that are alike, whose noise averages out.
    """
    own_speed, speed = _described(stage, bounds, vehicles, days, speed_noise)
    numbers = np.repeat(vehicles[:, None], NODES, axis=1)
    if not stage.counts_public:
        numbers = numbers_of(vehicles, weight_log_variances(stage, bounds, vehicles, days))
    deviation = _ROUGH.of_reports(np.maximum(numbers[:, _FEWER], 1.0), np.array(TYPICAL_KMH), own_speed)
    half = np.minimum(Z95 * np.sqrt(speed + deviation), upper_kmh / 2)
    return HalfWidths(half, numbers[:, CAUTIOUS] >= LEAST_VEHICLES)


def weight_log_variances(stage: Stage, bounds: BoundsOnly, vehicles: Float64s, days: int) -> Float64s:
    """Computes the variance that noise leaves of the logarithm of a HAT's weight, for each number of vehicles.

    Before any release it is that of HATs of a region.
    """
    if stage.counts_public:
        return np.zeros(vehicles.size)
    single, others = _described(stage, bounds, vehicles, days, weight_noise)
    variances: Float64s = 1 / (1 / fitted.HAT_SPREAD + single + 1 / np.maximum(others, 1e-300))
    return variances


def place_half_widths(
    stage: Stage, bounds: BoundsOnly, vehicles: Float64s, upper_kmh: float, days: int = 1
) -> Float64s:
    """Computes half widths of a whole day's mean in the cell, or in a level's finest place; see `place_level`.

    Noise and the HATs' own variance alone: what the published product counts beside them is in `coarser`.
    """
    name = place_level(stage, bounds)
    grouped, share = level(name, bounds.hats, Fraction(1)), dict(stage.shares)[name]
    noise = (speed_noise(stage, share) / _weight(stage, bounds, grouped, vehicles)) ** 2 / days
    deviation = _ROUGH.of(np.maximum(vehicles, 1.0)) / bounds.hats.slots
    half: Float64s = np.minimum(Z95 * np.sqrt(noise + deviation), upper_kmh / 2)
    return half


def place_level(stage: Stage, bounds: BoundsOnly) -> str:
    """Names the level with the most places, and of these the one with the longest times."""
    return max(stage.shares, key=lambda item: _places(level(item[0], bounds.hats, Fraction(1))))[0]


def _places(grouped: Level) -> tuple[int, int]:
    return grouped.size // grouped.slot_groups, -grouped.slot_groups


def speed_noise(stage: Stage, share: Fraction) -> float:
    """Computes the standard deviation of noise in a level's sums of weighted speeds, as `dpops.levels.read` does."""
    alpha = Fraction(1) if stage.counts_public else stage.alpha
    return _noise(stage, share * alpha) * float(stage.bound_kmh) * (2 if stage.counts_public else 1)


def weight_noise(stage: Stage, share: Fraction) -> float:
    """Computes the standard deviation of the noise in a level's sums of weights."""
    return _noise(stage, share * (1 - stage.alpha))


def _noise(stage: Stage, part: Fraction) -> float:
    """Computes the standard deviation of the noise in what has this part of the stage's share, for a norm of 1."""
    share = float(stage.share * part)
    if stage.kind == "gaussian":
        return math.sqrt(float(stage.spread) / share) / UNIT
    return math.sqrt(2) * float(stage.spread) / share / UNIT


def _weight(stage: Stage, bounds: BoundsOnly, grouped: Level, vehicles: Float64s) -> Float64s:
    """Forecasts the weight of a group, for each number of vehicles in the HATs of one cell of it, all day.

    The cells around it have as many as there are in a HAT if all are alike.
    """
    slots = bounds.hats.slots / grouped.slot_groups
    others = bounds.hats.cells / _places(grouped)[0] - 1
    fleet = bounds.fleet
    hat_weight = fitted.RETAINED * vehicle_weight(stage, fleet) / fleet.profile.hats
    weight: Float64s = hat_weight * slots * (vehicles + others * bounds.usual_vehicles)
    return weight


def _described(
    stage: Stage, bounds: BoundsOnly, vehicles: Float64s, days: int, noise: Callable[[Stage, Fraction], float]
) -> tuple[Float64s, Float64s]:
    """Computes the precision of what a level of single HATs says, and the variance of what the others say together.

    A place's effect + a time's effect, combined with levels that tell both apart.
    """
    single, place, time, both = np.zeros((4, vehicles.size))
    for name, share in stage.shares:
        grouped = level(name, bounds.hats, Fraction(1))
        precision = (_weight(stage, bounds, grouped, vehicles) / noise(stage, share)) ** 2
        if grouped.size == bounds.hats.size:  # a day's own HATs, of which other days say nothing
            single = single + precision
        elif grouped.slot_groups == 1:
            place = place + days * precision
        elif grouped.size == grouped.slot_groups:
            time = time + days * precision
        else:
            both = both + days * precision
    variances = [1 / np.maximum(told, 1e-300) for told in (place, time) if told.any()]
    variance: Float64s = 1 / np.maximum(both + (1 / sum(variances) if variances else 0.0), 1e-300)
    return single, variance
