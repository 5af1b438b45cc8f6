"""The whole weight of a city, or of its places: what is expected of it, and what noisy totals say."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dpops.types import Float64s

_GRID = np.linspace(-3, 3, 601)
_FAR = np.linspace(-40, 40, 1601)
_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class NoisyTotals:
    """What noisy totals say of a whole weight, added up: a precision, and precision times weight."""

    precision: float = 0.0
    weighted: float = 0.0

    @staticmethod
    def of(total: float, variance: float, part: float = 1.0) -> "NoisyTotals":
        """Reads one total. part: how large it is expected to be, in the whole weight."""
        return NoisyTotals(part**2 / variance, part * total / variance)

    def __add__(self, other: "NoisyTotals") -> "NoisyTotals":
        return NoisyTotals(self.precision + other.precision, self.weighted + other.weighted)

    def times(self, part: float) -> "NoisyTotals":
        """Makes them count for that part of what they did."""
        return NoisyTotals(part * self.precision, part * self.weighted)

    def scaled(self, factor: float) -> "NoisyTotals":
        """Says the same of a weight that is so many times as large."""
        return NoisyTotals(self.precision / factor**2, self.weighted / factor)


class Whole(NamedTuple):
    """A whole weight's mean and middle, and the variance of its logarithm."""

    mean: float
    middle: float
    log_variance: float


def whole_weight(expected: float, sd: float, told: NoisyTotals) -> Whole:
    """Estimates a whole weight, which is above 0, from what is expected of it and what totals say.

    It is expected to be `expected`, e to the power of sd more or less. Integrates over its logarithm, ever closer
    around where it likely is.
    """
    centre, reach = float(np.log(expected)), sd

    def cost(logs: Float64s) -> Float64s:
        weights = np.exp(logs)
        off: Float64s = ((logs - np.log(expected)) / sd) ** 2
        return off + told.precision * weights**2 - 2 * told.weighted * weights

    likeliest = float(_FAR[np.argmin(cost(centre + sd * _FAR))])
    if abs(likeliest) > _GRID[-1]:  # a fleet may be declared many times too small or too large
        centre += sd * likeliest
    for _ in range(_ROUNDS):
        logs = centre + reach * _GRID
        costs = cost(logs)
        likely = np.exp(-0.5 * (costs - costs.min()))
        likely /= likely.sum()
        centre = float(likely @ logs)
        variance = float(likely @ (logs - centre) ** 2)
        reach = min(max(2 * variance**0.5, 0.03 * reach), reach)
    return Whole(float(likely @ np.exp(logs)), float(np.exp(centre)), variance)
