"""Perturbs values by Laplace noise, stochastic rounding (SR), and windows (PM, SW)."""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import ClassVar

import numpy as np

from dpops import Noise
from hatstream_local.mechanisms.mechanism import (
    COIN_BITS,
    EXACT,
    STEP_BITS,
    STEPS,
    Float64s,
    Int64s,
    LocalMechanism,
    coin_below,
    exp,
    flip,
    to_steps,
)


@dataclass(frozen=True, slots=True)
class Laplace(LocalMechanism):
    """Laplace mechanism with scale 2 / epsilon. Source: Dwork, McSherry, Nissim, Smith 2006.

    The sampler adds exact discrete Laplace noise of scale STEPS / epsilon to the step of the value. Two values differ
    by at most STEPS steps, so its real epsilon is the one claimed; it would be smaller where the scale had to be
    rounded up. Reports have no bound; beyond `high` one lies with probability below exp(-64).
    """

    name: ClassVar[str] = "laplace"

    @property
    def high(self) -> float:
        """Upper bound of practical reports."""
        return 1 + 128 / self.epsilon

    def log_density(self, reports: Float64s, values: Float64s) -> Float64s:
        """Computes the log-density of reports given values."""
        return np.asarray(math.log(self.epsilon / 4) - self.epsilon / 2 * np.abs(reports - values))

    def variance(self, values: Float64s) -> Float64s:
        """Computes the constant variance of reports."""
        return np.full_like(values, 8 / self.epsilon**2)

    def sample(self, values: Float64s, noise: Noise) -> Float64s:
        """Adds discrete Laplace noise to rounded values."""
        steps = to_steps(values)
        return np.asarray((steps + noise.laplace([self._scale()] * steps.size)) * (2 / STEPS) - 1)

    def real_epsilon(self) -> float:
        """Computes the sampler's exact epsilon."""
        return float(STEPS / Noise.laplace_scale(self._scale()))

    def _scale(self) -> Fraction:
        return STEPS / Fraction(self.epsilon)


@dataclass(frozen=True, slots=True)
class StochasticRounding(LocalMechanism):
    """Stochastic rounding to C or -C, C = coth(epsilon / 2).

    P(C | v) = 1/2 + v / (2 C). Source: Duchi, Jordan, Wainwright 2018, section 4, in one dimension.

    The sampler keeps with probability 1 / C (a coin of 62 bits, rounded down) the sign that a fair draw among the
    STEPS steps gives the value, and else a fair sign. Its real epsilon is log((1 + T) / (1 - T)) with T that coin's
    exact probability: at most the one claimed, below it by less than 1e-12 up to epsilon 15 and 1e-6 up to 30; the
    coin's grid leaves 43.7 of 50.
    """

    name: ClassVar[str] = "sr"

    @property
    def high(self) -> float:
        """Upper report, C; the lower one is -C."""
        return 1 / math.tanh(self.epsilon / 2)

    def log_density(self, reports: Float64s, values: Float64s) -> Float64s:
        """Mixes the range's two ends, without cancellation near certainty."""
        rare = math.exp(-self.epsilon)
        toward = np.where(reports > 0, values, -values)
        return np.log(((1 + toward) + (1 - toward) * rare) / (2 * (1 + rare)))

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


@dataclass(frozen=True, slots=True)
class Window(LocalMechanism):
    """Mechanism uniform in a window with probability `keep`, else over the range.

    Written in the common domain after unbiasing, PM and SW are this one family and differ in the window's width w
    (in units of the distance 2 that its centre slides) and in how a raw report is written down:
      keep = (e^epsilon - 1) w / (e^epsilon w + 1), so that the two densities have the ratio e^epsilon;
      unbiased reports lie in [-C, C], C = (1 + w) / keep; value v's window has centre v / keep, half width w / keep;
      variance at v = ((1 - keep) (1 + w)^2 + keep w^2) / (3 keep^2) + v^2 (1 - keep) / keep.
    All terms are positive: nothing cancels at any epsilon.

    The sampler's grid: STEPS cells of slide and W = ceil(w STEPS) cells of window, so STEPS + W cells in all, drawn by
    whole numbers only; the coin for `keep` has 62 bits and is rounded down. Its real epsilon is
    log(1 + T (STEPS + W) / (W (1 - T))), T the coin's exact probability for that W: at most the one claimed, and below
    it by less than 1e-12 up to epsilon 20; the coin's grid leaves 49.9997 of 50. Reports stay exactly
    unbiased; the window is wider than its formula by less than one cell (2e-6 of the range), which matters above
    epsilon 20 only.
    """

    width: float = field(init=False, repr=False)
    keep: float = field(init=False, repr=False)
    uniform: float = field(init=False, repr=False)
    """1 - keep, not by subtraction."""
    is_halved: ClassVar[bool] = False
    """Whether raw reports are of (v + 1) / 2, shrunk by `keep`."""

    def __post_init__(self) -> None:
        LocalMechanism.__post_init__(self)
        width = self.exact_width()
        grown = EXACT.multiply(exp(self.epsilon), width)
        object.__setattr__(self, "width", float(width))
        object.__setattr__(self, "keep", float(_keep(self.epsilon, width)))
        object.__setattr__(self, "uniform", float(EXACT.divide(EXACT.add(1, width), EXACT.add(grown, 1))))

    @abstractmethod
    def exact_width(self) -> Decimal:
        """Computes the window's width relative to its slide."""

    @property
    def raw_slope(self) -> float:
        """A raw report is raw_middle + raw_slope * (unbiased report)."""
        return self.keep / 2 if self.is_halved else 1.0

    @property
    def raw_middle(self) -> float:
        """Middle of the raw reports' range."""
        return 0.5 if self.is_halved else 0.0

    @property
    def bound(self) -> float:
        """C, the largest unbiased report."""
        return (1 + self.width) / self.keep

    @property
    def low(self) -> float:
        """Lower bound of raw reports."""
        return self.raw_middle - self.raw_slope * self.bound

    @property
    def high(self) -> float:
        """Upper bound of raw reports."""
        return self.raw_middle + self.raw_slope * self.bound

    def log_density(self, reports: Float64s, values: Float64s) -> Float64s:
        """Computes log((1 - keep) / range), plus epsilon inside; estimators use `spans_of`."""
        outside = math.log(self.uniform / (self.high - self.low))
        inside = np.abs(self.centres(reports) - values) <= self.width
        return np.asarray(outside + self.epsilon * inside)

    def centres(self, reports: Float64s) -> Float64s:
        """Computes values whose windows are centred at the raw reports."""
        return self.unbiased(reports) * self.keep

    def unbiased(self, reports: Float64s) -> Float64s:
        """Converts raw reports to unbiased ones."""
        return (reports - self.raw_middle) / self.raw_slope

    def variance(self, values: Float64s) -> Float64s:
        """Computes the variance of unbiased reports at values."""
        level = (self.uniform * (1 + self.width) ** 2 + self.keep * self.width**2) / (3 * self.keep**2)
        return np.asarray(level + values**2 * (self.uniform / self.keep))

    def sample(self, values: Float64s, noise: Noise) -> Float64s:
        """Draws a window's cell or any other per value."""
        keep = EXACT.divide(self._coin(), 1 << COIN_BITS)
        middle = (STEPS + self._cells() - 1) / 2
        unbiased = (self._draw(to_steps(values), noise) - middle) * (2 / (STEPS * float(keep)))
        return np.asarray(self.raw_middle + self.raw_slope * unbiased)

    def real_epsilon(self) -> float:
        """Computes the sampler's exact epsilon."""
        coin, cells = Decimal(self._coin()), Decimal(self._cells())
        lift = EXACT.divide(EXACT.multiply(coin, STEPS + cells), EXACT.multiply(cells, Decimal(1 << COIN_BITS) - coin))
        return float(EXACT.ln(EXACT.add(1, lift)))

    def _draw(self, steps: Int64s, noise: Noise) -> Int64s:
        """Draws steps: near a report's own, or by a coin any."""
        window = self._cells()
        is_kept = flip(self._coin(), steps.size, noise)
        offset = noise.below(np.where(is_kept, window, STEPS + window))
        return np.where(is_kept, steps, 0) + offset

    def _cells(self) -> int:
        """Computes W, the window's width in steps, rounded up."""
        return math.ceil(EXACT.multiply(self.exact_width(), STEPS))

    def _coin(self) -> int:
        return coin_below(_keep(self.epsilon, EXACT.divide(self._cells(), STEPS)))


def _keep(epsilon: float, width: Decimal) -> Decimal:
    grown = exp(epsilon)
    lift = EXACT.multiply(EXACT.subtract(grown, 1), width)
    return EXACT.divide(lift, EXACT.add(EXACT.multiply(grown, width), 1))


@dataclass(frozen=True, slots=True)
class Piecewise(Window):
    """Piecewise mechanism; unbiased in [-C, C], C = coth(epsilon / 4).

    The grid of the sampler and the epsilon that it really has: see `Window`.
    Source: Wang et al. 2019, "Collecting and Analyzing Multidimensional Data with Local Differential Privacy",
    Algorithm 2: l = (C + 1) v / 2 - (C - 1) / 2, which is a window of relative width e^(-epsilon / 2).
    """

    name: ClassVar[str] = "pm"

    def exact_width(self) -> Decimal:
        """Computes the relative width e^(-epsilon / 2)."""
        return EXACT.exp(EXACT.divide(Decimal(self.epsilon), -2))


@dataclass(frozen=True, slots=True)
class SquareWave(Window):
    """Square wave; reports lie in [-b, 1 + b], biased towards 1/2.

    b = (epsilon e^epsilon - e^epsilon + 1) / (2 e^epsilon (e^epsilon - 1 - epsilon)), on o = (v + 1) / 2; 1/2 at
    epsilon 0. With 80 digits it needs no series. The window has the relative width 2 b; sampler's grid: see `Window`.
    Source: Li et al. 2020, "Estimating Numerical Distributions under Local Differential Privacy", section 4.2.
    """

    name: ClassVar[str] = "sw"
    is_halved: ClassVar[bool] = True

    def exact_width(self) -> Decimal:
        """Computes the relative width 2 b."""
        grown, epsilon = exp(self.epsilon), Decimal(self.epsilon)
        top = EXACT.add(EXACT.multiply(EXACT.subtract(epsilon, 1), grown), 1)
        bottom = EXACT.multiply(grown, EXACT.subtract(EXACT.subtract(grown, 1), epsilon))
        return EXACT.divide(top, bottom)


LOCAL_MECHANISMS: dict[str, Callable[[float], LocalMechanism]] = {
    kind.name: kind for kind in (Laplace, Piecewise, StochasticRounding, SquareWave)
}
