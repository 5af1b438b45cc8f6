"""Exact Gaussian noise on integers, with rational variances: discrete, and rounded."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from math import isqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpops.noise import laplace
from dpops.noise.words import CHUNK, Rate, Words, distinct
from dpops.types import Int64s

MOST_VARIANCE = 1 << 98
"""Variances are below it, in squared steps: the Laplace draws behind have a scale below 2**50."""

_Law = Callable[[Words, Sequence[Fraction], Int64s, Int64s], Int64s]
"""Draws numbers. Takes the variances, which of them each number has, and for each the integer above its sigma."""


def draw(source: Words, variances: Sequence[Fraction]) -> Int64s:
    """Draws one number per variance, see `Noise.gaussian`."""
    return _drawn(source, variances, _discrete)


def draw_rounded(source: Words, variances: Sequence[Fraction]) -> Int64s:
    """Draws one number per variance, see `Noise.rounded_gaussian`."""
    return _drawn(source, variances, _rounded, least=1)


def _drawn(source: Words, variances: Sequence[Fraction], law: _Law, least: int = 0) -> Int64s:
    """Draws by a law where the variance is above 0. least: a variance above 0 must be so much."""
    kinds, code = distinct(variances)
    for variance in kinds:
        if not 0 <= variance < MOST_VARIANCE:
            raise ValueError(f"a noise variance must be >= 0 and below 2**98 squared steps, got {variance}")
        if 0 < variance < least:
            raise ValueError(f"a rounded Gaussian needs a variance of 0, or of 1 squared step and more, got {variance}")
    scale = np.array([isqrt(int(variance)) + 1 for variance in kinds], np.int64)
    out = np.zeros(code.size, np.int64)
    noisy = np.flatnonzero(np.array([variance > 0 for variance in kinds], np.bool_)[code])
    for start in range(0, noisy.size, CHUNK):
        rows = noisy[start : start + CHUNK]
        out[rows] = law(source, kinds, code[rows], scale[code[rows]])
    return out


def _discrete(source: Words, variances: Sequence[Fraction], code: Int64s, scale: Int64s) -> Int64s:
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


def _rounded(source: Words, variances: Sequence[Fraction], code: Int64s, scale: Int64s) -> Int64s:
    """Draws the size k + u of a normal number, k an integer and u in [0, 1), and rounds it; the sign is a coin's.

    k comes with probability proportional to exp(-k / t), t = floor(sigma) + 1, and u is uniform. Both are accepted with
    exp(-rate), rate = (k + u - sigma^2 / t)^2 / (2 sigma^2) + u / t: together proportional to exp(-(k + u)^2 /
    (2 sigma^2)). Of u so many digits are drawn as it takes to decide that (as in Karney 2016, "Sampling exactly from
    the normal distribution"); its first one rounds.
    """
    floats = np.array([float(variance) for variance in variances])
    out = np.zeros(code.size, np.int64)
    open_ = np.arange(code.size)
    while open_.size:
        t, of, words = scale[open_], code[open_], source.words(open_.size)
        whole, accepted = laplace.geometric(source, t)
        variance, part = floats[of], words * 2.0**-64
        rates = (whole - variance / t + part) ** 2 / (2 * variance) + part / t

        drawn = _Drawn(words, whole, t, of)
        accepted &= source.exp_minus(rates, partial(drawn.rate, source, variances))
        half, negative = words >> np.uint64(63) == 1, source.words(open_.size) >> np.uint64(63) == 1
        size = whole + half
        out[open_[accepted]] = np.where(negative, -size, size)[accepted]
        open_ = open_[~accepted]
    return out


class _Drawn(NamedTuple):
    """Proposals of `_rounded`. words: the first 64 digits of u. whole: k. of: which variance each has."""

    words: NDArray[np.uint64]
    whole: Int64s
    t: Int64s
    of: Int64s

    def rate(self, source: Words, variances: Sequence[Fraction], row: int) -> Rate:
        """Bounds the rate of a row, by so many digits of u."""
        u, whole, t = source.uniform(int(self.words[row])), int(self.whole[row]), int(self.t[row])
        variance = variances[int(self.of[row])]
        steepest = (whole + 1 + variance / t) / variance + Fraction(1, t)

        def bounds(bits: int) -> tuple[Fraction, Fraction]:
            start, unknown = Fraction(u.to(bits), 1 << bits), steepest / (1 << bits)
            rate = (whole + start - variance / t) ** 2 / (2 * variance) + start / t
            return max(rate - unknown, Fraction(0)), rate + unknown

        return bounds
