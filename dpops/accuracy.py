"""What a reader may expect of discrete Laplace noise: spread, interval, mean error. Floats, for reports only."""

import math
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpops.types import Int64s

Float64s = NDArray[np.float64]


class Prior(NamedTuple):
    """What is publicly believed of samples, in units: near normal. For forecasts only.

    between: the share of the variance that lies between users, because a user's samples resemble one another.
    """

    mean: float
    sd: float
    between: float = 0.0

    def mean_sd(self, counts: Float64s | Int64s) -> Float64s:
        """Standard deviation of the mean of so many samples of one user."""
        return self.sd * np.sqrt(self.between + (1 - self.between) / counts)


@lru_cache(maxsize=4096)
def laplace_std(scale: Fraction) -> float:
    """Standard deviation of discrete Laplace noise, in steps: sqrt(2 p) / (1 - p) with p = exp(-1 / scale)."""
    if scale == 0:
        return 0.0
    rate = float(1 / scale)
    return math.sqrt(2) * math.exp(-rate / 2) / -math.expm1(-rate)


@lru_cache(maxsize=4096)
def laplace_bound(scale: Fraction, miss: float) -> int:
    """The smallest integer t with P(|noise| > t) <= miss, in steps: P(|Z| > t) = 2 p**(t+1) / (1 + p)."""
    if scale == 0:
        return 0
    rate = float(1 / scale)
    log_tail = math.log(2) - math.log1p(math.exp(-rate))
    return max(0, math.ceil((log_tail - math.log(miss)) / rate - 1))


def mean_absolute_error(bias: float, scale: float) -> float:
    """E|bias + noise| for Laplace noise of that scale: |bias| + scale * exp(-|bias| / scale)."""
    return abs(bias) + (scale * math.exp(-abs(bias) / scale) if scale > 0 else 0.0)


def mean_absolute_errors(bias: Float64s, scale: Float64s) -> Float64s:
    """The same for many pairs at once."""
    errors: Float64s = np.abs(bias) + scale * np.exp(-np.abs(bias) / np.maximum(scale, 1e-300))
    return errors


def transport_bias(weights: Float64s, uniform: Float64s) -> float:
    """Worst case of |sum w x - sum u x| over x in [0, 1]: the mass of max(0, w - u), when w and u both sum to 1.

    weights, uniform: float64 (users,). Source: S0 section on clipping bias; U times this is the bias in km/h.
    """
    return float(np.maximum(weights - uniform, 0.0).sum())


def expected_error(bias: float, sd: float, scale: float) -> float:
    """E|X + Z| for X normal with mean `bias` and standard deviation sd, Z Laplace noise of that scale, independent.

    E|x + Z| = |x| + scale exp(-|x| / scale), averaged over x in closed form.
    """
    if sd <= 1e-9 * (abs(bias) + scale):
        return mean_absolute_error(bias, scale)
    ratio = abs(bias) / sd
    folded = sd * math.sqrt(2 / math.pi) * math.exp(-ratio * ratio / 2) + abs(bias) * math.erf(ratio / math.sqrt(2))
    if scale <= 1e-9 * sd:
        return folded
    damp = 0.0
    for side in (1, -1):
        # exp(s^2/2b^2 -+ m/b) erfc(z) with z = (s/b -+ m/s) / sqrt 2; for large z its first asymptotic term
        z = (sd / scale - side * ratio) / math.sqrt(2)
        if z < 25:
            damp += math.exp((sd / scale) ** 2 / 2 - side * abs(bias) / scale) * math.erfc(z)
        else:
            damp += math.exp(-ratio * ratio / 2) / (z * math.sqrt(math.pi))
    return folded + scale * damp / 2
