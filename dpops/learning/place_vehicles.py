"""At which places at least four vehicles were, as far as released weights prove it: for all places and days at once.

A vehicle-day weighs at most 1 at a place: its weights are parts of a norm that is theirs, and clipping only takes away
(`dpops.levels.bounded`). One vehicle has one vehicle-day a day. So where three vehicles or fewer were on all days
together, no day's exact weight is above 3, whatever they did and on however many days; what was released beyond is
noise, of a known law. The chance that noise alone makes one or more such places seem to have four, on any of the days
ever published, is at most CHANCE: it is divided among places, whose number is public, and among days, the n-th of which
has 1 / (n (n + 1)) of it, which adds up to 1 over all that ever come. (A bound of 5 % for each place would hold of one
in twenty places without any vehicle.) What was once proved stays so: vehicles of more days are no fewer.
"""

import math
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpops import fitted
from dpops.learning.place_sums import PlaceDay, PlaceSums

if TYPE_CHECKING:
    from dpops.levels import Kind

AT_LEAST = 4
"""Vehicles that are spoken of. One, two or three of them who come every day must not be taken for so many."""
CHANCE = fitted.FOUR_VEHICLES_DOUBT


@dataclass(frozen=True, kw_only=True)
class VehiclesProved:
    """are_there: bool (places,), where it is proved of the days so far. told: what their weights count for in sums,
    a / v, see `PlaceSums`. step: the largest scale of a day's noise in these, a b / v, where b is that of a Laplace law
    of the same variance."""

    are_there: NDArray[np.bool_] = field(repr=False)
    told: float = 0.0
    step: float = 0.0

    @staticmethod
    def none(places: int) -> "VehiclesProved":
        return VehiclesProved(are_there=np.zeros(places, np.bool_))

    def after(self, day: PlaceDay, sums: PlaceSums, kind: "Kind") -> "VehiclesProved":
        """Adds one more day, the last of the sums."""
        told = self.told + day.day_weight / day.weight_variance
        step = max(self.step, day.day_weight / math.sqrt(2 * day.weight_variance))
        chance = CHANCE / (self.are_there.size * sums.days * (sums.days + 1))
        beyond = most_noise(kind, chance, sums.weight_precision, step)
        are_there = self.are_there | (sums.weights > (AT_LEAST - 1) * told + beyond)
        return VehiclesProved(are_there=are_there, told=told, step=step)


def most_noise(kind: "Kind", chance: float, variance: float, step: float) -> float:
    """Bounds a sum of days' noise: exceeded with at most this chance, below a half. step: the largest of their scales.

    Gaussian: the quantile of their sum. (Steps of the integers are a millionth of the noise.) Laplace: Chernoff's
    bound. With scales b_i the logarithm of the sum's moments at t is - sum log(1 - t^2 b_i^2), at most
    - n log(1 - t^2 step^2) with n = sum b_i^2 / step^2, for - log(1 - x) / x grows with x. A discrete Laplace has no
    larger moments than the continuous one of its scale.
    """
    if kind == "gaussian":
        return -NormalDist().inv_cdf(chance) * math.sqrt(variance)
    days, log = variance / 2 / step**2, -math.log(chance)
    low, high = 0.0, 2 * (log + math.sqrt(log * days)) + 1
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if _exponent(middle, days) >= log else (middle, high)
    return high * step


def _exponent(beyond: float, days: float) -> float:
    """Bounds - log P(sum > beyond) from below, as Chernoff has it; in steps of scale 1."""
    if beyond <= 0:
        return 0.0
    tilt = (math.sqrt(days**2 + beyond**2) - days) / beyond
    return tilt * beyond + days * math.log1p(-(tilt**2))
