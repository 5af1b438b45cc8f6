"""How wide the intervals of a `levels` release will be, from public facts alone: no count, no speed, no release.

What is not promised: that neighbouring cells, hours and earlier days teach more, as they mostly do (docs/released.md).
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpops import fitted
from dpops.learning.chances import CAUTIOUS, NODES, numbers_of
from dpops.learning.interval import LEAST_VEHICLES, Z95
from dpops.levels.defaults import BoundsOnly, vehicle_weight
from dpops.levels.stages import UNIT, Level, Stage, level
from dpops.spread import TYPICAL, VehicleSpread
from dpops.types import Float64s

_ROUGH = VehicleSpread(TYPICAL.vehicle, fitted.ROUGH_FLOOR)
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
    count, numbers = np.zeros(vehicles.size), np.repeat(np.maximum(vehicles, 1.0)[:, None], NODES, axis=1)
    if not stage.counts_public:
        own_count, count = _described(stage, bounds, vehicles, days, weight_noise)
        count = 1 / (own_count + 1 / np.maximum(count, 1e-300))
        numbers = np.maximum(numbers_of(vehicles, np.minimum(count, fitted.UNKNOWN_LOG_VARIANCE)), 1.0)
    own = 1 / (1 / _ROUGH.of(numbers[:, _FEWER]) + own_speed)
    half = np.minimum(Z95 * np.sqrt(speed + own), upper_kmh / 2)
    return HalfWidths(half, (numbers[:, CAUTIOUS] >= LEAST_VEHICLES) & (count <= fitted.MOST_LOG_VARIANCE))


def place_half_widths(
    stage: Stage, bounds: BoundsOnly, vehicles: Float64s, upper_kmh: float, days: int = 1
) -> Float64s:
    """Computes half widths of a whole day's mean in the cell, or in a level's finest place; see `place_level`.

    Noise and the HATs' own variance alone: what the published product counts beside them is in `coarser`.
    """
    name = place_level(stage, bounds)
    grouped, share = level(name, bounds.hats, Fraction(1)), dict(stage.shares)[name]
    noise = (speed_noise(stage, share) / _weight(stage, bounds, grouped, vehicles)) ** 2 / days
    own = _ROUGH.of(np.maximum(vehicles, 1.0)) / bounds.hats.slots
    half: Float64s = np.minimum(Z95 * np.sqrt(noise + own), upper_kmh / 2)
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
    one = fitted.KEPT * vehicle_weight(stage, fleet) / fleet.profile.hats
    weight: Float64s = one * slots * (vehicles + others * bounds.usual_vehicles)
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
    apart = [1 / np.maximum(told, 1e-300) for told in (place, time) if told.any()]
    variance: Float64s = 1 / np.maximum(both + (1 / sum(apart) if apart else 0.0), 1e-300)
    return single, variance
