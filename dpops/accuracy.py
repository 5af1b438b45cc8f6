"""What a reader may expect of discrete Laplace noise: spread, interval, mean error. Floats, for reports only."""

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Float64s = NDArray[np.float64]


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


def transport_bias(weights: Float64s, uniform: Float64s) -> float:
    """Worst case of |sum w x - sum u x| over x in [0, 1]: the mass of max(0, w - u), when w and u both sum to 1.

    weights, uniform: float64 (users,). Source: S0 section on clipping bias; U times this is the bias in km/h.
    """
    return float(np.maximum(weights - uniform, 0.0).sum())
