"""Worst cases of the plain mean and population variance of retained samples: how far one user, or dropping, moves them.

Each function returns an exact ratio (numerator, denominator) of the statistic's range, which is U for a mean and
U^2 / 4 for a variance. Whole numbers only and no container, so that vectors and compiled loops can use them too.
Source: slides S2, with errata E1 and E6; algorithms 9.1. `whole`: every user is kept with all samples or not at all.
Where a user is capped, its own moments are scaled to the retained count: it then acts like a distribution that can be
split at will, and the refinements for an odd number of samples do not hold.

samples: all reported, n. kept: retained, K, 1 <= K <= n. heaviest: the largest retained count of a user, k*.
"""

Ratio = tuple[int, int]


def mean_sensitivity(heaviest: int, kept: int) -> Ratio:
    """Computes Delta_mean / U = k* / K."""
    return heaviest, kept


def variance_sensitivity(heaviest: int, kept: int, whole: bool) -> Ratio:
    """Computes Delta_var / (U^2 / 4).

    It is 4 k* (K - k*) / K^2 if K > 2 k*, else 1, or 1 - 1 / K^2 for an odd K if `whole`.
    """
    if kept > 2 * heaviest:
        return 4 * heaviest * (kept - heaviest), kept * kept
    if whole and kept % 2 == 1:
        return kept * kept - 1, kept * kept
    return 1, 1


def mean_bias(kept: int, samples: int) -> Ratio:
    """Computes E_mean / U = 1 - K / n."""
    return samples - kept, samples


def variance_bias(kept: int, samples: int, whole: bool) -> Ratio:
    """Computes E_var / (U^2 / 4).

    It is 4 K D / n^2 if fewer than half are dropped (D = n - K, erratum E1), else 1, or 1 - 1 / n^2 for an odd n if
    `whole`.
    """
    dropped = samples - kept
    if samples > 2 * dropped:
        return 4 * kept * dropped, samples * samples
    if whole and samples % 2 == 1:
        return samples * samples - 1, samples * samples
    return 1, 1
