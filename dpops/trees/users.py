"""User level: how much of a HAT's distribution each user holds, in whole units, so that one user moves little of it.

A user of c samples keeps its own distribution with a mass M of units, whatever c is. As M is never above a public
bound, one user's values move the counts of one level of a tree by at most 2 max M in l1. Source: algorithms 10.5.
"""

import numpy as np

from dpops.means.grouping import Grouping
from dpops.types import Int64s

FINE = 1 << 10
"""Units of mass per sample. A capped user's distribution is rounded to units."""


def capped_masses(counts: Int64s, m_ub: int) -> Int64s:
    """Keeps for each user the weight of at most m_UB samples. counts: int64 (users,), each >= 1."""
    return FINE * np.minimum(counts, m_ub)


def array_masses(grouping: Grouping, users: int, m_ub: int) -> Int64s:
    """Makes each array of w filled slots a histogram of mass 1 (FINE m_UB units): a user of r of them owns r / w of it.

    Rounded down to units; with two pieces twice. int64 (users,), each at most FINE m_UB, which one whole array has.
    """
    masses = np.zeros(users, np.int64)
    np.add.at(masses, grouping.user, FINE * m_ub * grouping.slots // grouping.fills[grouping.array])
    return masses


def weighted_leaves(histograms: Int64s, counts: Int64s, masses: Int64s, start: Int64s) -> Int64s:
    """Adds up the bins of users in many HATs, int64 (HATs, K), each of the sum of its users' masses.

    histograms: int64 (users, K), non-negative, with the sums `counts`, each >= 1; start: first user of each HAT.
    A user's cumulative histogram is scaled by M / c and rounded down: it ends at M exactly and never falls, so the
    user's bins are non-negative and add up to M, whatever the values. So two of them differ by at most 2 M in l1, at
    the leaves and at every level above: rounding adds nothing to the sensitivity. Prefixes lose less than one unit a
    user. Raises ValueError for histograms of other sums, or masses whose products would not fit into 64 bits.
    """
    if histograms.size and (histograms.min() < 0 or counts.min() < 1):
        raise ValueError("a histogram has a negative bin, or no sample")
    if np.any(histograms.sum(axis=1) != counts):
        raise ValueError("the histograms do not have as many samples as were counted")
    if counts.size and int(counts.max()) * int(masses.max()) >= 1 << 62:
        raise ValueError("these counts are beyond the checked integer bounds (2**62)")
    scaled = np.cumsum(histograms, axis=1)
    plain = masses % np.maximum(counts, 1) == 0
    factor = masses // np.maximum(counts, 1)
    scaled[plain] *= factor[plain, None]
    scaled[~plain] = scaled[~plain] * masses[~plain, None] // counts[~plain, None]
    summed = np.add.reduceat(scaled, start, axis=0) if start.size else scaled[:0]
    return np.diff(summed, prepend=0, axis=1)
