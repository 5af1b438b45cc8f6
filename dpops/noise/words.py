"""Exact draws in vectors: integers, and exp(-rate) events.

A random word, of 64 bits, decides an event of probability exp(-rate) unless it comes within 2**-36 of it; then integers
of as many digits as it takes decide. The law is exact if floating-point exp errs by less than 2**-37 (it does: 2**-51).
"""

import os
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from fractions import Fraction
from functools import cache

import numpy as np
from numpy.typing import NDArray

from dpops.types import Int64s

Entropy = Callable[[int], bytes]  # returns that many random bytes: `os.urandom` everywhere but in tests and simulation

Rate = Callable[[int], tuple[Fraction, Fraction]]  # bounds a rate from below and above, by that many binary digits

CHUNK = 1 << 15  # entries drawn at a time, which fit into a core's cache

_WORD_BITS = 64  # bits
_FLOAT_DOUBT = 2.0**-36  # distance from which on floats decide
_RUN_BITS = 44  # longest run of exp(-1) that a word resolves: exp(-45) is below 2**-64
_DECIMAL = Context(rounding=ROUND_HALF_EVEN, Emin=-999_999, Emax=999_999, clamp=0, traps=[])
"""Independent of the calling program's decimal context, in whose range exp(-30) could be 0."""


class Words:
    """Random words from the operating system, and derived draws."""

    def __init__(self, entropy: Entropy = os.urandom) -> None:
        self._entropy = entropy

    def words(self, size: int) -> NDArray[np.uint64]:
        """Draws uniform 64-bit words."""
        return np.frombuffer(self._entropy(8 * size), np.uint64)

    def below(self, bounds: Int64s) -> Int64s:
        """Draws uniform integers below bounds >= 1, by rejection."""
        mask = (bounds - 1).astype(np.uint64)
        for shift in (1, 2, 4, 8, 16, 32):  # all bits below the highest are set
            mask |= mask >> np.uint64(shift)
        out = np.zeros(bounds.size, np.int64)
        undecided = np.arange(bounds.size)
        while undecided.size:
            drawn = (self.words(undecided.size) & mask[undecided]).astype(np.int64)
            good = drawn < bounds[undecided]
            out[undecided[good]] = drawn[good]
            undecided = undecided[~good]
        return out

    def exp_minus(self, rates: NDArray[np.float64], exact: "Callable[[int], Fraction | Rate]") -> NDArray[np.bool_]:
        """Draws Bernoulli(exp(-rate)); `rates` approximate `exact` ones to 2**-40."""
        words = self.words(rates.size)
        gap = np.exp(-rates) - words * 2.0**-_WORD_BITS
        out: NDArray[np.bool_] = gap > 0
        for row in np.flatnonzero(np.abs(gap) < _FLOAT_DOUBT).tolist():  # floats do not decide: exact rates, more bits
            out[row] = self.uniform(int(words[row])).is_below_exp(exact(row))
        return out

    def runs(self, size: int) -> Int64s:
        """Counts Bernoulli(exp(-1)) successes in a row, per draw."""
        words, edges = self.words(size), _run_edges()  # a word below k of the edges, exp(-k) each, is a run of k
        index = np.searchsorted(edges, words)
        runs = edges.size - index
        tied = (edges[np.minimum(index, edges.size - 1)] == words) | (words == 0)  # 64 bits do not decide
        for entry in np.flatnonzero(tied).tolist():
            runs[entry] = self.uniform(int(words[entry])).run()
        return runs

    def uniform(self, word: int) -> "Uniform":
        """Makes a uniform number from its first 64 bits."""
        return Uniform(word, self._entropy)


class Uniform:
    """Uniform number whose binary digits are drawn on demand."""

    def __init__(self, word: int, entropy: Entropy) -> None:
        self._known, self._bits, self._entropy = word, _WORD_BITS, entropy

    def to(self, bits: int) -> int:
        """Returns the first `bits` binary digits as an integer."""
        while self._bits < bits:  # the number of digits in `_known`
            self._known = self._known << _WORD_BITS | int.from_bytes(self._entropy(_WORD_BITS // 8), "little")
            self._bits += _WORD_BITS
        return self._known >> self._bits - bits

    def is_below_exp(self, rate: "Fraction | Rate") -> bool:
        """Compares with exp(-rate), drawing digits until they differ."""
        bits = self._bits  # as many as are drawn so far
        while True:
            digits = self.to(bits)
            low, high = (rate, rate) if isinstance(rate, Fraction) else rate(bits)  # bounds by so many binary digits
            if digits < exp_floor(high, bits) - 1:  # `exp_floor` is off by 1 at most
                return True
            if digits > exp_floor(low, bits) + 1:
                return False
            bits += _WORD_BITS

    def run(self) -> int:
        """Counts powers exp(-1), exp(-2), .. above the number."""
        k = 0
        while self.is_below_exp(Fraction(k + 1)):
            k += 1
        return k


def exp_floor(rate: Fraction, bits: int) -> int:
    """Computes exp(-rate) * 2**bits, rounded down, within 1."""
    with localcontext(_DECIMAL) as context:
        # Digits of so many bits (log10(2) < .31) and of the rate before its point, and some to spare.
        context.prec = bits * 31 // 100 + len(str(int(rate))) + 25
        return int((Decimal(-rate.numerator) / Decimal(rate.denominator)).exp() * (1 << bits))


@cache
def _run_edges() -> NDArray[np.uint64]:
    """Computes exp(-k) * 2**64, rounded down, for k = _RUN_BITS, .., 1: ascending."""
    return np.array([exp_floor(Fraction(k), _WORD_BITS) for k in range(_RUN_BITS, 0, -1)], np.uint64)


def distinct(values: Sequence[Fraction]) -> tuple[list[Fraction], Int64s]:
    """Lists distinct objects, and each value's index: by identity, as comparing fractions is slow."""
    identity = np.fromiter(map(id, values), np.uint64, len(values))
    _, first, code = np.unique(identity, return_index=True, return_inverse=True)
    return [values[row] for row in first.tolist()], code
