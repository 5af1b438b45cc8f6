"""Rules that choose the array length m_UB from public counts."""

from collections.abc import Iterable
from fractions import Fraction

import numpy as np

from dpops.types import Int64s


def median(counts: Int64s) -> int:
    """floor(median(counts)). counts: int64 (users,), each >= 1. Source: S1, Array-Averaging."""
    ordered = np.sort(counts)
    middle = ordered.size // 2
    if ordered.size % 2:
        return int(ordered[middle])
    return (int(ordered[middle - 1]) + int(ordered[middle])) // 2


def argmax(counts: Int64s) -> int:
    """The smallest m that maximises S(m) / sqrt(m), with S(m) = sum of min(count, m).

    The maximum is attained at one of the counts, so those are compared, exactly: S(m)**2 / m in integers.
    counts: int64 (users,), each >= 1. Source: S0 and S1, Levy.
    """
    best, best_kept = 1, 0
    for m, kept in _kept(counts):
        if best_kept == 0 or kept * kept * best > best_kept * best_kept * m:
            best, best_kept = m, kept
    return best


def minimax(counts: Int64s, epsilon: Fraction) -> int:
    """The smallest m that minimises 1 - S(m) / n + m / (epsilon S(m)): worst clipping bias plus noise, per U.

    The minimum is attained at one of the counts, so those are compared, exactly. From epsilon 1 on it is the largest
    count. counts: int64 (users,), each >= 1. Source: S1, OPT-Array-Averaging, idealised objective.
    """
    samples, over, under = int(counts.sum()), epsilon.numerator, epsilon.denominator
    best, best_cost = 0, (0, 1)
    for m, kept in _kept(counts):
        # (-S / n + m under / (S over)) over n, as a fraction (top, bottom) with a positive bottom
        cost = (m * under * samples - kept * kept * over, kept)
        if best == 0 or cost[0] * best_cost[1] < best_cost[0] * cost[1]:
            best, best_cost = m, cost
    return best


def convex(counts: Int64s) -> int:
    """The smallest minimiser of the convex relaxation 1 - S(m) / n + max(m / m_max, n / (L m_max)); never of epsilon.

    Over real numbers it is max(n / L, k-th largest count) with k = floor(n / m_max) + 1; the integers beside n / L are
    compared exactly. Source: S1 section VI, with its true minimiser (erratum E7: the published recipe ignores kinks).
    """
    samples, users, most = int(counts.sum()), counts.size, int(counts.max())
    rank = samples // most + 1
    around = {max(1, samples // users), -(-samples // users)}
    if rank <= users:
        around.add(int(np.sort(counts)[users - rank]))

    def relaxation(m: int) -> Fraction:
        kept = Fraction(int(np.minimum(counts, m).sum()), samples)
        return max(Fraction(m), Fraction(samples, users)) / most - kept

    return min(sorted(around), key=relaxation)


def _kept(counts: Int64s) -> Iterable[tuple[int, int]]:
    """Pairs (m, S(m)) over the distinct counts m, ascending."""
    values, repeats = np.unique(counts, return_counts=True)
    below = np.cumsum(values * repeats)
    above = counts.size - np.cumsum(repeats)
    return zip(values.tolist(), (below + values * above).tolist(), strict=True)
