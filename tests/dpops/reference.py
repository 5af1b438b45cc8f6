"""Slow and plain reference algorithms, written from the papers' text, and the published counts if they are at hand."""

import json
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dpops.grouping import Grouping
from dpops.mechanism import Totals
from dpops.types import Int64s

_ITMS = Path(__file__).parents[3] / "shared" / "data" / "itms_counts.json"

Arrays = list[list[int]]
"""Per array the users (indices) of its slots, in order."""


def itms_counts() -> Int64s:
    """The counts that meet all published ITMS figures; the calling test is skipped where the file is not beside us."""
    if not _ITMS.exists():
        pytest.skip("itms_counts.json is not beside this checkout")
    return np.array(sorted(json.loads(_ITMS.read_text())["counts"], reverse=True), np.int64)


def alike(counts: Int64s, sums: Int64s) -> Totals:
    """Totals of users whose samples are within one step of one another."""
    each, over = np.divmod(sums, counts)
    return Totals(counts, sums, (counts - over) * each**2 + over * (each + 1) ** 2)


def unlike(counts: Int64s, sums: Int64s, upper_steps: int) -> Totals:
    """Totals of users whose samples are all but one at 0 or at U: no others of these sums vary more."""
    full, rest = np.divmod(sums, upper_steps)
    return Totals(counts, sums, full * upper_steps**2 + rest**2)


def variance(samples: Sequence[int | Fraction]) -> Fraction:
    """The population variance, from its definition."""
    mean = Fraction(sum(samples), len(samples))
    return sum(((Fraction(x) - mean) ** 2 for x in samples), Fraction(0)) / len(samples)


def best_fit(counts: Sequence[int], m_ub: int) -> Arrays:
    """L empty bins; each user whole into the bin of largest fill with room, lowest index on ties; O(L**2)."""
    bins: Arrays = [[] for _ in counts]
    for user, count in enumerate(counts):
        kept = min(count, m_ub)
        roomy = [i for i, slots in enumerate(bins) if m_ub - len(slots) >= kept]
        chosen = max(roomy, key=lambda i: (len(bins[i]), -i))
        bins[chosen] += [user] * kept
    return [slots for slots in bins if slots]


def wrap_around(counts: Sequence[int], m_ub: int) -> Arrays:
    """The published loop: a pointer walks over the slots of an array and starts a new array at the end of each."""
    arrays: Arrays = [[]]
    for user, count in enumerate(counts):
        for _ in range(min(count, m_ub)):
            arrays[-1].append(user)
            if len(arrays[-1]) == m_ub:
                arrays.append([])
    return arrays[:-1]  # the last one is not full


def arrays_of(group: Grouping) -> Arrays:
    """The slots of a grouping, array by array."""
    arrays: Arrays = [[] for _ in range(group.fills.size)]
    for user, array, slots in zip(group.user.tolist(), group.array.tolist(), group.slots.tolist(), strict=True):
        arrays[array] += [user] * slots
    return arrays


def kept(counts: Sequence[int], m: int) -> int:
    """S(m): the samples that remain when each user is capped at m."""
    return sum(min(count, m) for count in counts)


def mean_of_arrays(arrays: Arrays, speeds: Sequence[int | Fraction], divisor: int) -> Fraction:
    """Sum of the array means over a divisor, exactly, every user at one speed."""
    return sum((sum((Fraction(speeds[u]) for u in a), Fraction(0)) / len(a) for a in arrays), Fraction(0)) / divisor
