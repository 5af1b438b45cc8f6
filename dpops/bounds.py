"""Rules that choose the array length m_UB from public counts."""

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
    values, repeats = np.unique(counts, return_counts=True)
    below = np.cumsum(values * repeats)
    above = counts.size - np.cumsum(repeats)
    best, best_kept = 1, 0
    for m, kept in zip(values.tolist(), (below + values * above).tolist(), strict=True):
        if best_kept == 0 or kept * kept * best > best_kept * best_kept * m:
            best, best_kept = m, kept
    return best
