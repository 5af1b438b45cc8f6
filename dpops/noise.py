"""Exact discrete Laplace noise with a rational scale, drawn in vectors from the operating system's generator."""

import os
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpops.types import Int64s

Entropy = Callable[[int], bytes]
"""Gives that many random bytes. `os.urandom` everywhere but in tests and simulation."""

MOST_SCALE = (1 << 50) - 1
"""Largest noise scale, in steps."""

_MAX_NUMERATOR = 1 << 50
# A draw uses V = number of successes of Bernoulli(exp(-1)); V >= 4096 has probability exp(-4096) and is refused,
# which keeps every product below 2**62.
_MAX_RUN = 1 << 12


class Noise:
    """All randomness of a release. Created in one place and handed down as an argument."""

    def __init__(self, entropy: Entropy = os.urandom) -> None:
        self._entropy = entropy

    def laplace(self, scales: Sequence[Fraction]) -> Int64s:
        """One discrete Laplace draw per scale: P(z) proportional to exp(-|z| / scale), z integer.

        scales: in integer steps, each >= 0; a scale of 0 gives exactly 0.
        Source: Canonne, Kamath, Steinke 2020, "The Discrete Gaussian for Differential Privacy", Algorithm 2,
        here over whole vectors; only integer comparisons decide, so the law is exact.
        Raises ValueError for a negative scale or one above 2**50 steps.
        """
        parts = [_ratio(scale) for scale in scales]
        return self._laplace(np.array([t for t, _ in parts], np.int64), np.array([s for _, s in parts], np.int64))

    def laplace_of(self, scale: Fraction, size: int) -> Int64s:
        """That many independent draws of one scale; the same law as `laplace`."""
        numerator, denominator = _ratio(scale)
        return self._laplace(np.full(size, numerator, np.int64), np.full(size, denominator, np.int64))

    def _laplace(self, numerator: Int64s, denominator: Int64s) -> Int64s:
        out = np.zeros(numerator.size, np.int64)
        open_ = np.flatnonzero(numerator)
        while open_.size:
            t, s = numerator[open_], denominator[open_]
            offset = self.below(t)
            accepted = self._exp_minus(offset, t)
            magnitude = (offset + t * self._run_length(open_.size)) // s
            negative = self.below(np.full(open_.size, 2, np.int64)) == 1
            accepted &= ~(negative & (magnitude == 0))  # zero has one sign only
            out[open_[accepted]] = np.where(negative, -magnitude, magnitude)[accepted]
            open_ = open_[~accepted]
        return out

    def below(self, bounds: Int64s) -> Int64s:
        """A uniform integer in [0, bound) for each bound >= 1, by rejection on the next power of two."""
        mask = _mask(bounds)
        out = np.zeros(bounds.size, np.int64)
        open_ = np.arange(bounds.size)
        while open_.size:
            raw = np.frombuffer(self._entropy(8 * open_.size), np.uint64)
            drawn = (raw & mask[open_]).astype(np.int64)
            good = drawn < bounds[open_]
            out[open_[good]] = drawn[good]
            open_ = open_[~good]
        return out

    def _exp_minus(self, numerator: Int64s, denominator: Int64s) -> NDArray[np.bool_]:
        """Bernoulli(exp(-numerator/denominator)), 0 <= numerator <= denominator (their Algorithm 1).

        Draws Bernoulli(ratio / k) for k = 1, 2, ... until the first failure; the answer is whether that k is odd.
        Bernoulli(ratio / k) is Bernoulli(ratio) and Bernoulli(1 / k), which needs no large product.
        """
        odd = np.zeros(numerator.size, np.bool_)
        open_ = np.arange(numerator.size)
        k = 1
        while open_.size:
            success = self.below(denominator[open_]) < numerator[open_]
            success &= self.below(np.full(open_.size, k, np.int64)) == 0
            odd[open_[~success]] = k % 2 == 1
            open_ = open_[success]
            k += 1
        return odd

    def _run_length(self, size: int) -> Int64s:
        """Number of successes of Bernoulli(exp(-1)) before the first failure."""
        run = np.zeros(size, np.int64)
        open_ = np.arange(size)
        while open_.size:
            one = np.ones(open_.size, np.int64)
            open_ = open_[self._exp_minus(one, one)]
            run[open_] += 1
            if run.max(initial=0) >= _MAX_RUN:
                raise ArithmeticError("discrete Laplace: a run of improbable length; the entropy source is broken")
        return run


def drawn_scale(scale: Fraction) -> Fraction:
    """The scale that a draw really has: rounded up where its numerator or denominator exceeds 2**50."""
    return Fraction(*_ratio(scale))


def _ratio(scale: Fraction) -> tuple[int, int]:
    """The scale as (numerator, denominator) below 2**50, rounded up (more noise, never less) if it must be rounded."""
    if scale < 0:
        raise ValueError(f"a noise scale must be >= 0, got {scale}")
    t, s = scale.numerator, scale.denominator
    if t < _MAX_NUMERATOR and s < _MAX_NUMERATOR:
        return t, s
    if scale > MOST_SCALE:
        raise ValueError("a noise scale must be below 2**50 steps: take a coarser grid or a larger epsilon")
    coarse = min(_MAX_NUMERATOR - 1, (_MAX_NUMERATOR - 1) * s // t)
    return -(-t * coarse // s), coarse


def _mask(bounds: Int64s) -> NDArray[np.uint64]:
    """2**bits - 1, with bits enough for bound - 1 and less than twice as many values as needed."""
    mask = (bounds - 1).astype(np.uint64)
    for shift in (1, 2, 4, 8, 16, 32):
        mask |= mask >> np.uint64(shift)
    return mask
