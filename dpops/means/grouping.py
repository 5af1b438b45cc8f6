"""Array lengths m_UB and grouping, from public counts.

Source: papers S0 and S1, "Mean Estimation with User-Level Privacy for Spatio-Temporal IoT Datasets", strategies BestFit
and WrapAround. Counts are non-increasing, the canonical order of users. Rules for m_UB take int64 (HATs, users), each
>= 1, and return int64 (HATs,). S(m) sums min(count, m) over a HAT's users, and n their counts: m is a cap.
"""

from bisect import bisect_left, insort
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from typing import Any

import numpy as np

from dpops.types import Int64s


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """Pieces of users in arrays, sorted by array.

    A user may own several pieces. fills: samples per array; its size is the number of arrays, K or K-bar.
    """

    user: Int64s
    array: Int64s
    samples: Int64s
    fills: Int64s


def wrap_around(counts: Int64s, m_ub: int) -> Grouping:
    """Cuts the row of users' samples into full arrays. Raises ValueError."""
    if m_ub < 1:
        raise ValueError(f"m_ub must be at least 1, got {m_ub}")
    if counts.size == 0 or counts[-1] < 1 or (counts[1:] > counts[:-1]).any():
        raise ValueError("counts must be a non-empty, non-increasing vector of positive integers")
    samples = np.minimum(counts, m_ub)
    end = np.cumsum(samples)
    arrays = int(end[-1]) // m_ub
    if arrays == 0:
        raise ValueError(f"wrap-around: {int(end[-1])} samples cannot fill one array of m_ub={m_ub}")
    start = end - samples
    first, last = start // m_ub, (end - 1) // m_ub  # as samples <= m_ub, a user touches one array or two
    split = last > first  # users whose samples continue in the next array
    user = np.concatenate([np.arange(counts.size), np.flatnonzero(split)])
    array = np.concatenate([first, last[split]])
    head = np.where(split, last * m_ub - start, samples)  # of a user's samples, those in the first array
    pieces = np.concatenate([head, (end - last * m_ub)[split]])  # then those in the next one
    order = np.lexsort((user, array))
    order = order[array[order] < arrays]  # without samples of a last array that is not full
    return Grouping(user[order], array[order], pieces[order], np.full(arrays, m_ub, np.int64))


def best_fit_arrays(samples: Int64s, users: Int64s, length: Int64s) -> Int64s:
    """Assigns users to the fullest array with room, else a new one.

    samples: (all users,) of concatenated HATs. users, length: (HATs,), number of users and m_UB.
    """
    arrays: list[int] = []
    opened, sizes = 0, iter(samples.tolist())
    for number, m_ub in zip(users.tolist(), length.tolist(), strict=True):
        room: list[tuple[int, int]] = []  # (free room, array), ascending: the first with room is the fullest
        for size in islice(sizes, number):
            index = bisect_left(room, (size, 0))  # of the first with room for all of the user's samples
            if index < len(room):
                free, array = room.pop(index)
            else:
                free, array, opened = m_ub, opened, opened + 1
            arrays.append(array)
            if free > size:
                insort(room, (free - size, array))
    return np.array(arrays, np.int64)


_EXACT_INT64 = 1 << 62  # products below it fit into int64


def median(counts: Int64s) -> Int64s:
    """Computes floor(median(counts)). Source: S1, Array-Averaging."""
    users = counts.shape[1]
    return (counts[:, (users - 1) // 2] + counts[:, users // 2]) // 2


def argmax(counts: Int64s) -> Int64s:
    """Maximises S(m) / sqrt(m), where S(m) sums min(count, m); the smallest such m.

    The maximum is at one of the counts, which are compared exactly: S(m)**2 / m in integers. Source: S0 and S1, Levy.
    """
    lengths = _exact(counts, max_product=int(counts.sum(axis=1).max()) ** 3)  # S(m)^2 m, compared below
    return _least_at(lengths, lengths, _kept_at(lengths) ** 2)


def minimax(counts: Int64s, epsilon: Fraction) -> Int64s:
    """Minimises worst clipping bias plus noise; smallest such m.

    The objective 1 - S(m) / n + m / (epsilon S(m)) is least at one of the counts, (HATs, users), descending; from
    epsilon 1 on at the largest. Compared exactly. Source: S1, OPT-Array-Averaging, idealised objective.
    """
    numerator, denominator = epsilon.as_integer_ratio()
    # No product below exceeds n^3 m numerator denominator: int64, or Python's integers beyond.
    lengths = _exact(counts, int(counts.sum(axis=1).max()) ** 3 * int(counts.max()) * numerator * denominator)
    sums = _kept_at(lengths)  # S at each of the lengths
    # The objective less 1, times n epsilon's numerator, is a fraction: cost / S; compared by products.
    cost = lengths * denominator * lengths.sum(axis=1)[:, None] - sums * sums * numerator
    return _least_at(lengths, cost, sums)


def convex(counts: Int64s) -> Int64s:
    """Minimises the convex relaxation of the worst-case error.

    It is 1 - S(m) / n + max(m / m_max, n / (L m_max)) for n samples of L users, without epsilon. Over real numbers the
    minimum is at max(n / L, k-th largest count), k = floor(n / m_max) + 1; the integers beside n / L are compared
    exactly. Source: S1 section VI, with its true minimiser (erratum E7: the published recipe ignores kinks).
    """
    lengths = []
    for of_hat in counts:
        samples, users, largest = int(of_hat.sum()), of_hat.size, int(of_hat.max())
        rank = samples // largest + 1
        candidates = {max(1, samples // users), -(-samples // users)}
        if rank <= users:
            candidates.add(int(np.sort(of_hat)[users - rank]))
        noise = {m: max(Fraction(m), Fraction(samples, users)) / largest for m in candidates}
        share = {m: Fraction(int(np.minimum(of_hat, m).sum()), samples) for m in candidates}
        lengths.append(min((noise[m] - share[m], m) for m in candidates)[1])  # the objective less 1, then m
    return np.array(lengths, np.int64)


def _exact(counts: Int64s, max_product: int) -> Any:
    """Converts counts to Python integers where products could overflow."""
    return counts if max_product < _EXACT_INT64 else counts.astype(object)


def _least_at(lengths: Any, top: Any, bottom: Any) -> Int64s:
    """Picks HATs' smallest length of least top / bottom, compared by products."""
    best, best_top, best_bottom = (column[:, -1] for column in (lengths, top, bottom))
    exceeds_next = (lengths[:, :-1] != lengths[:, 1:]).any(axis=0)
    for user in exceeds_next.nonzero()[0][::-1].tolist():  # lengths ascend: of equally good ones the smallest stays
        better = top[:, user] * best_bottom < best_top * bottom[:, user]
        best, best_top = np.where(better, lengths[:, user], best), np.where(better, top[:, user], best_top)
        best_bottom = np.where(better, bottom[:, user], best_bottom)
    return np.asarray(best, np.int64)


def _kept_at(counts: Any) -> Any:
    """Computes S(m) at each user's count m, (HATs, users)."""
    below = counts.sum(axis=1)[:, None] - np.cumsum(counts, axis=1)  # samples of users with lower counts
    return below + counts * np.arange(1, counts.shape[1] + 1)  # the others have m each
