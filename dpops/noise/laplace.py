"""Exact discrete Laplace noise with rational scales."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpops.noise.words import CHUNK, Words, distinct
from dpops.types import Int64s

MOST_SCALE = (1 << 50) - 1
"""Largest noise scale, in steps."""

_MAX_NUMERATOR = 1 << 50
# A draw uses the number of successes of Bernoulli(exp(-1)) in a row; 4096 have probability exp(-4096) and are refused,
# which keeps every product below 2**62.
_MAX_RUN = 1 << 12


def draw(source: Words, scales: Sequence[Fraction]) -> Int64s:
    """Draws one number per scale, see `Noise.laplace`."""
    kinds, code = distinct(scales)
    ratios = np.array([ratio(scale) for scale in kinds], np.int64).reshape(-1, 2)
    out = np.zeros(code.size, np.int64)
    for start in range(0, code.size, CHUNK):
        chunk = ratios[code[start : start + CHUNK]]
        noisy = np.flatnonzero(chunk[:, 0])
        out[start + noisy] = of_ratio(source, chunk[noisy, 0], chunk[noisy, 1])
    return out


def of_ratio(source: Words, numerator: Int64s, denominator: Int64s) -> Int64s:
    """Draws noise of scale numerator / denominator, both in [1, 2**50).

    Source: Canonne, Kamath, Steinke 2020, "The Discrete Gaussian for Differential Privacy", Algorithm 2, over whole
    vectors.
    """
    out = np.zeros(numerator.size, np.int64)
    open_ = np.arange(numerator.size)
    while open_.size:
        t, s = numerator[open_], denominator[open_]
        number, accepted = geometric(source, t)
        magnitude = number // s
        negative = source.words(open_.size) >> np.uint64(63) == 1
        accepted &= ~(negative & (magnitude == 0))  # zero has one sign only
        out[open_[accepted]] = np.where(negative, -magnitude, magnitude)[accepted]
        open_ = open_[~accepted]
    return out


def geometric(source: Words, t: Int64s) -> tuple[Int64s, NDArray[np.bool_]]:
    """Proposes integers k >= 0, and says which to accept: of these P(k) is proportional to exp(-k / t), t >= 1."""
    offset = source.below(t)

    def exact(row: int) -> Fraction:
        return Fraction(int(offset[row]), int(t[row]))

    accepted = source.exp_minus(offset / t, exact)
    runs = source.runs(t.size)
    if runs.max() >= _MAX_RUN:
        raise ArithmeticError("discrete Laplace: a run of improbable length; the entropy source is broken")
    return offset + t * runs, accepted


def ratio(scale: Fraction) -> tuple[int, int]:
    """Writes the scale as (numerator, denominator) below 2**50, rounded up (more noise, never less) if need be."""
    if scale < 0:
        raise ValueError(f"a noise scale must be >= 0, got {scale}")
    t, s = scale.numerator, scale.denominator
    if t < _MAX_NUMERATOR and s < _MAX_NUMERATOR:
        return t, s
    if scale > MOST_SCALE:
        raise ValueError("a noise scale must be below 2**50 steps: take a coarser grid or a larger epsilon")
    coarse = min(_MAX_NUMERATOR - 1, (_MAX_NUMERATOR - 1) * s // t)
    return -(-t * coarse // s), coarse
