"""Exact discrete Gaussian noise with rational variances."""

from collections.abc import Sequence
from fractions import Fraction
from math import isqrt

import numpy as np

from dpops.noise import laplace
from dpops.noise.words import CHUNK, Words, distinct
from dpops.types import Int64s

MOST_VARIANCE = 1 << 98
"""Variances are below it, in squared steps: the Laplace draws behind have a scale below 2**50."""


def draw(source: Words, variances: Sequence[Fraction]) -> Int64s:
    """Draws one number per variance, see `Noise.gaussian`."""
    kinds, code = distinct(variances)
    for variance in kinds:
        if not 0 <= variance < MOST_VARIANCE:
            raise ValueError(f"a noise variance must be >= 0 and below 2**98 squared steps, got {variance}")
    scale = np.array([isqrt(int(variance)) + 1 for variance in kinds], np.int64)
    out = np.zeros(code.size, np.int64)
    noisy = np.flatnonzero(np.array([variance > 0 for variance in kinds], np.bool_)[code])
    for start in range(0, noisy.size, CHUNK):
        rows = noisy[start : start + CHUNK]
        out[rows] = _of_variance(source, kinds, code[rows], scale[code[rows]])
    return out


def _of_variance(source: Words, variances: Sequence[Fraction], code: Int64s, scale: Int64s) -> Int64s:
    """Draws Laplace y of scale t = floor(sigma) + 1, each accepted with exp(-(|y| - sigma^2 / t)^2 / (2 sigma^2)).

    Source: Canonne, Kamath, Steinke 2020, "The Discrete Gaussian for Differential Privacy", Algorithm 3.
    """
    floats = np.array([float(variance) for variance in variances])
    out = np.zeros(code.size, np.int64)
    open_ = np.arange(code.size)
    while open_.size:
        t, of = scale[open_], code[open_]
        drawn = laplace.of_ratio(source, t, np.ones(t.size, np.int64))
        variance = floats[of]
        # Half of (|y| - sigma^2 / t)^2 / sigma^2; off by 2**-44 of itself and of 1 at most where exp is not 0.
        rates = (np.abs(drawn) - variance / t) ** 2 / (2 * variance)

        def exact(row: int, drawn: Int64s = drawn, t: Int64s = t, of: Int64s = of) -> Fraction:
            exact_variance = variances[int(of[row])]
            return (abs(int(drawn[row])) - exact_variance / int(t[row])) ** 2 / (2 * exact_variance)

        accepted = source.exp_minus(rates, exact)
        out[open_[accepted]] = drawn[accepted]
        open_ = open_[~accepted]
    return out
