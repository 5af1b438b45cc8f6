"""SR, stochastic rounding: two possible reports."""

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar

import numpy as np

from dpops import Noise
from hatstream_local.mechanisms.mechanism import (
    COIN_BITS,
    EXACT,
    STEP_BITS,
    Float64s,
    check_epsilon,
    coin_below,
    exp,
    flip,
    to_steps,
)


@dataclass(frozen=True, slots=True)
class StochasticRounding:
    """Stochastic rounding to C or -C, C = coth(epsilon / 2).

    P(C | v) = 1/2 + v / (2 C). Source: Duchi, Jordan, Wainwright 2018, section 4, in one dimension.

    The sampler keeps with probability 1 / C (a coin of 62 bits, rounded down) the sign that a fair draw among the
    STEPS steps gives the value, and else a fair sign. Its real epsilon is log((1 + T) / (1 - T)) with T that coin's
    exact probability: at most the one claimed, below it by less than 1e-12 up to epsilon 15 and 1e-6 up to 30; the
    coin's grid leaves 43.7 of 50.
    """

    epsilon: float
    name: ClassVar[str] = "sr"

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)

    @property
    def bound(self) -> float:
        """C, the size of both reports."""
        return 1 / math.tanh(self.epsilon / 2)

    @property
    def low(self) -> float:
        """Lower report, -C."""
        return -self.bound

    @property
    def high(self) -> float:
        """Upper report, C."""
        return self.bound

    def log_density(self, reports: Float64s, values: Float64s) -> Float64s:
        """Mixes the range's two ends, without cancellation near certainty."""
        rare = math.exp(-self.epsilon)
        toward = np.where(reports > 0, values, -values)
        return np.log(((1 + toward) + (1 - toward) * rare) / (2 * (1 + rare)))

    def unbiased(self, reports: Float64s) -> Float64s:
        """Returns reports unchanged: they are unbiased."""
        return reports

    def variance(self, values: Float64s) -> Float64s:
        """Computes C^2 - v^2 as a sum of positive terms."""
        return math.sinh(self.epsilon / 2) ** -2 + (1 - values) * (1 + values)

    def sample(self, values: Float64s, noise: Noise) -> Float64s:
        """Draws the rounded sign of each value, times C."""
        steps = to_steps(values)
        words = noise.words(steps.size)  # the first bits are a uniform step, the last one is a fair coin
        truthful = words >> np.uint64(64 - STEP_BITS) < steps.astype(np.uint64)
        fair = words & np.uint64(1) == 1
        return np.where(np.where(flip(self._keep(), steps.size, noise), truthful, fair), self.high, self.low)

    def real_epsilon(self) -> float:
        """Computes the sampler's exact epsilon."""
        keep, coins = Decimal(self._keep()), Decimal(1 << COIN_BITS)
        return float(EXACT.ln(EXACT.divide(coins + keep, coins - keep)))

    def _keep(self) -> int:
        grown = exp(self.epsilon)
        return coin_below(EXACT.divide(EXACT.subtract(grown, 1), EXACT.add(grown, 1)))
