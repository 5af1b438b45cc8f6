"""Grouping of users' samples into arrays (pseudo-users), from public counts alone.

Source: docs of the papers S0 and S1, "Mean Estimation with User-Level Privacy for Spatio-Temporal IoT Datasets",
strategies BestFit and WrapAround. Counts are given in non-increasing order, which is the canonical order of users.
"""

from bisect import bisect_left, insort
from dataclasses import dataclass

import numpy as np

from dpops.types import Int64s


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """Which user fills how many slots of which array.

    user, array, slots: one entry per piece, sorted by array; a user may own several pieces.
    fills: slots in use per array; `fills.size` is the number of arrays (K, or K-bar for BestFit).
    """

    user: Int64s
    array: Int64s
    slots: Int64s
    fills: Int64s


def wrap_around(counts: Int64s, m_ub: int) -> Grouping:
    """Lays the users' capped samples one behind another and cuts the stream into full arrays of m_ub; drops the tail.

    counts: int64 (users,), each >= 1, non-increasing. Raises ValueError if not even one array can be filled.
    """
    kept = np.minimum(counts, _checked(counts, m_ub))
    end = np.cumsum(kept)
    arrays = int(end[-1]) // m_ub
    if arrays == 0:
        raise ValueError(f"wrap-around: {int(end[-1])} samples cannot fill one array of m_ub={m_ub}")
    start = end - kept
    first, last = start // m_ub, (end - 1) // m_ub  # as kept <= m_ub, a user touches one array or two
    split = last > first
    user = np.concatenate([np.arange(counts.size), np.flatnonzero(split)])
    array = np.concatenate([first, last[split]])
    head = np.where(split, last * m_ub - start, kept)
    slots = np.concatenate([head, (end - last * m_ub)[split]])
    order = np.lexsort((user, array))
    order = order[array[order] < arrays]
    return Grouping(user[order], array[order], slots[order], np.full(arrays, m_ub, np.int64))


def best_fit(counts: Int64s, m_ub: int) -> Grouping:
    """Puts each user's capped samples whole into the fullest array with room for them (lowest index on ties).

    counts: int64 (users,), each >= 1, non-increasing. Every user is in exactly one array; arrays may be partly filled.
    Users of one size are placed together: while a size lasts, the fullest array with room takes as many of them as
    fit, so the work is one step per array touched and size, not one per user and array.
    """
    kept = np.minimum(counts, _checked(counts, m_ub))
    of_user = best_fit_arrays(kept, m_ub)
    order = np.argsort(of_user, kind="stable")
    of_piece, slots = of_user[order], kept[order]
    first = np.flatnonzero(np.concatenate(([True], of_piece[1:] != of_piece[:-1])))
    return Grouping(order, of_piece, slots, np.add.reduceat(slots, first))


def best_fit_arrays(kept: Int64s, m_ub: int) -> Int64s:
    """Finds the array of each user by `best_fit`, int64 (users,). kept: capped counts, each >= 1, non-increasing."""
    array: list[int] = []  # of each user, in order
    room = _Room()
    arrays = 0
    starts = np.flatnonzero(np.concatenate(([True], kept[1:] != kept[:-1])))
    stops = [*starts[1:].tolist(), kept.size]
    for size, stop in zip(kept[starts].tolist(), stops, strict=True):
        while len(array) < stop and (free := room.least(size)) is not None:
            bins = room.take(free, -(-(stop - len(array)) // (free // size)))
            _place(array, stop, bins, free, size, room)
        if len(array) < stop:
            bins = list(range(arrays, arrays - (-(stop - len(array)) // (m_ub // size))))
            arrays += len(bins)
            _place(array, stop, bins, m_ub, size, room)
    return np.array(array, np.int64)


class _Room:
    """Arrays by their free slots: per amount the sorted indices, and the sorted amounts."""

    def __init__(self) -> None:
        self._bins: dict[int, list[int]] = {}
        self._amounts: list[int] = []

    def least(self, size: int) -> int | None:
        """Finds the smallest free amount that holds `size`, or None."""
        place = bisect_left(self._amounts, size)
        return self._amounts[place] if place < len(self._amounts) else None

    def take(self, free: int, number: int) -> list[int]:
        """Takes out the first arrays with that many free slots, at most `number` of them."""
        bins = self._bins[free]
        if len(bins) > number:
            self._bins[free] = bins[number:]
        else:
            del self._bins[free]
            del self._amounts[bisect_left(self._amounts, free)]
        return bins[:number]

    def put(self, free: int, bins: list[int]) -> None:
        if free == 0 or not bins:
            return
        if free in self._bins:
            self._bins[free] = sorted(self._bins[free] + bins)
        else:
            self._bins[free] = bins
            insort(self._amounts, free)


def _place(array: list[int], stop: int, bins: list[int], free: int, size: int, room: _Room) -> None:
    """Gives each of the bins as many users as fit, up to user `stop` (the last bin may get fewer)."""
    fit = free // size
    placed = min(stop - len(array), len(bins) * fit)
    rest = placed - (len(bins) - 1) * fit
    array.extend(sorted(bins * fit)[:placed])  # each as often as users fit: they are in order, and merged quickly
    room.put(free - fit * size, bins[:-1])
    room.put(free - rest * size, bins[-1:])


def _checked(counts: Int64s, m_ub: int) -> int:
    if m_ub < 1:
        raise ValueError(f"m_ub must be at least 1, got {m_ub}")
    if counts.size == 0 or counts[-1] < 1 or (counts[1:] > counts[:-1]).any():
        raise ValueError("counts must be a non-empty, non-increasing vector of positive integers")
    return m_ub
