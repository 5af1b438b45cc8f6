"""Exact discrete Laplace and Gaussian noise with rational parameters.

Scales are in steps, variances in squared ones; `distinct` lists distinct parameters, and each draw's index of them,
`code`. Each draw's proposals are repeated until one is accepted. `source.exp_minus(rates, exact)` accepts with
probability exp(-rate): where floats do not decide, by the rational rate, or bounds of it (`Rate`), of `exact(row)`.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpops.noise.words import CHUNK, Rate, Uniform, Words, distinct
from dpops.types import Int64s

MOST_SCALE = (1 << 50) - 1  # largest noise scale, in steps
_MAX_NUMERATOR = 1 << 50
# A draw uses the number of successes of Bernoulli(exp(-1)) in a row; 4096 have probability exp(-4096) and are refused,
# which keeps every product below 2**62.
_MAX_RUN_LENGTH = 1 << 12

MOST_VARIANCE = 1 << 98  # limit of variances, in squared steps: below it, their Laplace draws have a scale below 2**50

_Law = Callable[[Words, Sequence[Fraction], Int64s, Int64s], Int64s]
"""Draws numbers from variances, the index of each number's variance, and the integer above each sigma."""


class Noise(Words):
    """Source of a release's randomness, passed down as argument.

    >>> Noise().laplace([Fraction(200)] * 3).shape
    (3,)
    """

    def laplace(self, scales: Sequence[Fraction]) -> Int64s:
        """Draws one discrete Laplace number per scale.

        scales: in steps, >= 0 and below 2**50; 0 gives exactly 0. Raises ValueError for others.
        """
        kinds, code = distinct(scales)
        ratios = np.array([ratio(scale) for scale in kinds], np.int64).reshape(-1, 2)
        out = np.zeros(code.size, np.int64)
        for start in range(0, code.size, CHUNK):
            chunk = ratios[code[start : start + CHUNK]]
            noisy = np.flatnonzero(chunk[:, 0])
            out[start + noisy] = of_ratio(self, chunk[noisy, 0], chunk[noisy, 1])
        return out

    @staticmethod
    def laplace_scale(scale: Fraction) -> Fraction:
        """Computes a draw's scale, rounded up below 2**50."""
        return Fraction(*ratio(scale))

    def gaussian(self, variances: Sequence[Fraction]) -> Int64s:
        """Draws one discrete Gaussian number per variance.

        variances: in squared steps, >= 0 and below 2**98; 0 gives exactly 0. Raises ValueError for others.
        """
        return _drawn(self, variances, _discrete)

    def rounded_gaussian(self, variances: Sequence[Fraction]) -> Int64s:
        """Draws one normal number per variance, rounded to integers.

        An integer plus it is a normal number around that integer, rounded: guarantees of Gaussian noise hold.
        variances: in squared steps, 0 or at least 1, below 2**98; 0 gives exactly 0. Raises ValueError for others.
        """
        return _drawn(self, variances, _rounded, min_variance=1)


def of_ratio(source: Words, numerator: Int64s, denominator: Int64s) -> Int64s:
    """Draws discrete Laplace noise of scale numerator / denominator.

    Source: Canonne, Kamath, Steinke 2020, "The Discrete Gaussian for Differential Privacy", Algorithm 2, in vectors.
    """
    out = np.zeros(numerator.size, np.int64)
    undecided = np.arange(numerator.size)
    while undecided.size:
        t, s = numerator[undecided], denominator[undecided]
        number, accepted = geometric(source, t)  # accepted ones follow exp(-number / t)
        magnitude = number // s  # and these exp(-magnitude s / t)
        negative = source.words(undecided.size) >> np.uint64(63) == 1  # a random bit
        accepted &= ~(negative & (magnitude == 0))  # zero has one sign only
        out[undecided[accepted]] = np.where(negative, -magnitude, magnitude)[accepted]
        undecided = undecided[~accepted]
    return out


def geometric(source: Words, t: Int64s) -> tuple[Int64s, NDArray[np.bool_]]:
    """Proposes integers k >= 0, and marks accepted ones, which follow exp(-k / t).

    k = offset + t runs: offset < t is uniform and accepted with exp(-offset / t), runs follow exp(-runs).
    """
    offset = source.below(t)

    def exact(row: int) -> Fraction:
        return Fraction(int(offset[row]), int(t[row]))

    accepted = source.exp_minus(offset / t, exact)
    runs = source.runs(t.size)
    if runs.max() >= _MAX_RUN_LENGTH:
        raise ArithmeticError("discrete Laplace: a run of improbable length; the entropy source is broken")
    return offset + t * runs, accepted


def ratio(scale: Fraction) -> tuple[int, int]:
    """Reduces a scale to terms below 2**50, rounded up: never less noise. Raises ValueError."""
    if scale < 0:
        raise ValueError(f"a noise scale must be >= 0, got {scale}")
    t, s = scale.numerator, scale.denominator
    if t < _MAX_NUMERATOR and s < _MAX_NUMERATOR:
        return t, s
    if scale > MOST_SCALE:
        raise ValueError("a noise scale must be below 2**50 steps: take a coarser grid or a larger epsilon")
    denominator = min(_MAX_NUMERATOR - 1, (_MAX_NUMERATOR - 1) * s // t)  # the largest that leaves both terms below
    return -(-t * denominator // s), denominator


def _drawn(source: Words, variances: Sequence[Fraction], law: _Law, min_variance: int = 0) -> Int64s:
    """Draws by `law` (_discrete or _rounded); 0 for variance 0. Raises ValueError."""
    kinds, code = distinct(variances)  # distinct ones, and each draw's index in them
    for variance in kinds:
        if not 0 <= variance < MOST_VARIANCE:
            raise ValueError(f"a noise variance must be >= 0 and below 2**98 squared steps, got {variance}")
        if 0 < variance < min_variance:
            raise ValueError(f"a rounded Gaussian needs a variance of 0, or of 1 squared step and more, got {variance}")
    scale = np.array([isqrt(int(variance)) + 1 for variance in kinds], np.int64)  # floor(sigma) + 1, of proposals
    out = np.zeros(code.size, np.int64)
    noisy = np.flatnonzero(np.array([variance > 0 for variance in kinds], np.bool_)[code])
    for start in range(0, noisy.size, CHUNK):
        rows = noisy[start : start + CHUNK]
        out[rows] = law(source, kinds, code[rows], scale[code[rows]])
    return out


def _discrete(source: Words, variances: Sequence[Fraction], code: Int64s, scale: Int64s) -> Int64s:
    """Draws discrete Gaussian numbers by rejection from Laplace draws.

    y of scale floor(sigma) + 1 = t passes with exp(-(|y| - sigma^2 / t)^2 / (2 sigma^2)). code, scale: each draw's
    index in `variances`, and t. Source: Canonne, Kamath, Steinke 2020, Algorithm 3.
    """
    floats = np.array([float(variance) for variance in variances])
    out = np.zeros(code.size, np.int64)
    undecided = np.arange(code.size)
    while undecided.size:
        t, variance_index = scale[undecided], code[undecided]
        drawn = of_ratio(source, t, np.ones(t.size, np.int64))
        variance = floats[variance_index]
        # In floats, with relative and absolute errors of at most 2**-44 wherever exp(-rate) is not 0.
        rates = (np.abs(drawn) - variance / t) ** 2 / (2 * variance)

        def exact(row: int, drawn: Int64s = drawn, t: Int64s = t, variance_index: Int64s = variance_index) -> Fraction:
            exact_variance = variances[int(variance_index[row])]
            return (abs(int(drawn[row])) - exact_variance / int(t[row])) ** 2 / (2 * exact_variance)

        accepted = source.exp_minus(rates, exact)  # with probability exp(-rate); exact where floats cannot tell
        out[undecided[accepted]] = drawn[accepted]
        undecided = undecided[~accepted]
    return out


def _rounded(source: Words, variances: Sequence[Fraction], code: Int64s, scale: Int64s) -> Int64s:
    """Draws rounded normal numbers by rejection, fairly signed.

    The size is k + u: P(k) is proportional to exp(-k / t), t = floor(sigma) + 1, and 0 <= u < 1 is uniform. Both are
    accepted with exp(-rate), rate = (k + u - sigma^2 / t)^2 / (2 sigma^2) + u / t: together proportional to
    exp(-(k + u)^2 / (2 sigma^2)). As many digits of u are drawn as decide that (Karney 2016, "Sampling exactly from
    the normal distribution"); the first one rounds. code: of each draw, its index in `variances`; scale: its t.
    """
    floats = np.array([float(variance) for variance in variances])
    out = np.zeros(code.size, np.int64)
    undecided = np.arange(code.size)
    while undecided.size:
        t, variance_index, words = scale[undecided], code[undecided], source.words(undecided.size)
        integers, accepted = geometric(source, t)  # k, and whether it follows exp(-k / t)
        variance, fraction = floats[variance_index], words * 2.0**-64
        rates = (integers - variance / t + fraction) ** 2 / (2 * variance) + fraction / t

        def exact(row: int, proposals: tuple[NDArray[Any], ...] = (words, integers, t, variance_index)) -> Rate:
            word, integer, t, code = (int(column[row]) for column in proposals)
            return _rate(source.uniform(word), integer, t, variances[code])

        accepted &= source.exp_minus(rates, exact)
        # u's first bit, whether it is 1/2 or more, and a random sign.
        is_half, negative = words >> np.uint64(63) == 1, source.words(undecided.size) >> np.uint64(63) == 1
        magnitude = integers + is_half
        out[undecided[accepted]] = np.where(negative, -magnitude, magnitude)[accepted]
        undecided = undecided[~accepted]
    return out


def _rate(u: Uniform, k: int, t: int, variance: Fraction) -> Rate:
    """Makes a function that bounds `_rounded`'s rate by u's first bits."""
    steepest = (k + 1 + variance / t) / variance + Fraction(1, t)  # bounds the rate's slope in u

    def bounds(bits: int) -> tuple[Fraction, Fraction]:
        """Bounds the rate at all u with these first bits."""
        start, slack = Fraction(u.to(bits), 1 << bits), steepest / (1 << bits)  # u is in [start, start + 2^-bits]
        rate = (k + start - variance / t) ** 2 / (2 * variance) + start / t
        return max(rate - slack, Fraction(0)), rate + slack

    return bounds
