"""Rules that choose the array length m_UB of many HATs from public counts.

counts: int64 (HATs, users), each >= 1, non-increasing within a HAT. Each rule returns int64 (HATs,).
"""

from fractions import Fraction
from typing import Any

import numpy as np

from dpops.types import Int64s

_EXACT = 1 << 62


def median(counts: Int64s) -> Int64s:
    """Computes floor(median(counts)). Source: S1, Array-Averaging."""
    users = counts.shape[1]
    return (counts[:, (users - 1) // 2] + counts[:, users // 2]) // 2


def argmax(counts: Int64s) -> Int64s:
    """Finds the smallest m that maximises S(m) / sqrt(m), with S(m) = sum of min(count, m).

    The maximum is attained at one of the counts, so those are compared, exactly: S(m)**2 / m in integers.
    Source: S0 and S1, Levy.
    """
    lengths = _exact(counts, int(counts.sum(axis=1).max()) ** 3)
    kept = _kept_at(lengths)
    best, best_kept = lengths[:, -1], kept[:, -1]
    for user in _larger(counts):
        m, now = lengths[:, user], kept[:, user]
        better = now * now * best > best_kept * best_kept * m
        best, best_kept = np.where(better, m, best), np.where(better, now, best_kept)
    return np.asarray(best, np.int64)


def minimax(counts: Int64s, epsilon: Fraction) -> Int64s:
    """Finds the smallest m that minimises 1 - S(m) / n + m / (epsilon S(m)): worst clipping bias plus noise, per U.

    The minimum is attained at one of the counts, so those are compared, exactly. From epsilon 1 on it is the largest
    count. Source: S1, OPT-Array-Averaging, idealised objective.
    """
    over, under = epsilon.numerator, epsilon.denominator
    lengths = _exact(counts, int(counts.sum(axis=1).max()) ** 3 * int(counts.max()) * over * under)
    kept = _kept_at(lengths)
    # -S / n + m under / (S over) over n, as a fraction (cost, kept) with a positive kept
    cost = lengths * under * lengths.sum(axis=1)[:, None] - kept * kept * over
    best, top, bottom = lengths[:, -1], cost[:, -1], kept[:, -1]
    for user in _larger(counts):
        better = cost[:, user] * bottom < top * kept[:, user]
        best, top = np.where(better, lengths[:, user], best), np.where(better, cost[:, user], top)
        bottom = np.where(better, kept[:, user], bottom)
    return np.asarray(best, np.int64)


def convex(counts: Int64s) -> Int64s:
    """Finds the smallest minimiser of the convex relaxation 1 - S(m) / n + max(m / m_max, n / (L m_max)).

    It never depends on epsilon. Over real numbers it is max(n / L, k-th largest count) with k = floor(n / m_max) + 1;
    the integers beside n / L are compared exactly. Source: S1 section VI, with its true minimiser (erratum E7: the
    published recipe ignores kinks).
    """
    return np.array([_convex(of_hat) for of_hat in counts], np.int64)


def _convex(counts: Int64s) -> int:
    samples, users, most = int(counts.sum()), counts.size, int(counts.max())
    rank = samples // most + 1
    around = {max(1, samples // users), -(-samples // users)}
    if rank <= users:
        around.add(int(np.sort(counts)[users - rank]))

    def relaxation(m: int) -> Fraction:
        kept = Fraction(int(np.minimum(counts, m).sum()), samples)
        return max(Fraction(m), Fraction(samples, users)) / most - kept

    return min(sorted(around), key=relaxation)


def _exact(counts: Int64s, most: int) -> Any:
    """Converts the counts to Python integers where products of up to `most` do not fit into 62 bits."""
    return counts if most < _EXACT else counts.astype(object)


def _larger(counts: Int64s) -> list[int]:
    """Lists the columns whose counts differ from those of the column behind, the last first."""
    columns: list[int] = np.flatnonzero((counts[:, :-1] != counts[:, 1:]).any(axis=0))[::-1].tolist()
    return columns


def _kept_at(counts: Any) -> Any:
    """Counts the samples that each user's count m keeps as a length, S(m); (HATs, users)."""
    below = counts.sum(axis=1)[:, None] - np.cumsum(counts, axis=1)
    return below + counts * np.arange(1, counts.shape[1] + 1)
