"""Shared part of PM and SW: a window that slides with the value."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from decimal import Decimal

import numpy as np

from dpops import Noise
from hatstream_local.mechanisms.mechanism import (
    COIN_BITS,
    EXACT,
    STEPS,
    Float64s,
    Int64s,
    check_epsilon,
    coin_below,
    exp,
    flip,
    to_steps,
)


@dataclass(frozen=True, slots=True)
class Window(ABC):
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

    epsilon: float
    width: float = field(init=False, repr=False)
    keep: float = field(init=False, repr=False)
    uniform: float = field(init=False, repr=False)
    """1 - keep, not by subtraction."""

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
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
        return 1.0

    @property
    def raw_middle(self) -> float:
        """Middle of the raw reports' range."""
        return 0.0

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
        """Computes log((1 - keep) / range) outside the window, plus epsilon inside."""
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
