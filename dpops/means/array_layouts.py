"""The arrays of many HATs laid out together: what `arrays.lay_out` gives for each of them, in vectors."""

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from dpops.forecast import Float64s
from dpops.means.arrays import FINE, Arrays, Rule, lay_out, length_of
from dpops.means.grouping import Grouping
from dpops.mechanism import check_plan_input
from dpops.types import CountsKnown, Grid, Int64s

FEW_HATS, MANY_USERS = 4, 96
"""Fewer HATs of one size, or HATs of more users, are laid out one by one: their matrices would cost more."""
USUAL = 1 << 30
"""Samples times steps of the grid that are far below the bounds of `check_plan_input`."""
_EXACT = 1 << 62


class Layout(NamedTuple):
    """The arrays of HATs with equally many users, by BestFit.

    length: int64 (HATs,), m_UB. kept, array: int64 (HATs, users), samples of a user and the array that it is in. fills:
    int64 (HATs, users), samples in each array, 0 behind the last. arrays, moved: int64 (HATs,), how many arrays, and by
    how many fine steps one user moves the sum of their means. weight: float64 (HATs, users).
    """

    length: Int64s
    kept: Int64s
    array: Int64s
    fills: Int64s
    arrays: Int64s
    moved: Int64s
    weight: Float64s


def lay_out_together(known: Sequence[CountsKnown], grid: Grid, epsilon: Fraction, m_ub: Rule) -> list[Arrays]:
    """BestFit's arrays of each HAT, bit by bit as `lay_out` has them. Raises PlanError for the first that has none."""
    found: list[Arrays | None] = [None] * len(known)
    for mine in of_one_size(sizes_of(known)):
        alike = [known[at] for at in mine.tolist()]
        for at, arrays in zip(mine.tolist(), _of_one_size(*stacked(alike), grid, epsilon, m_ub), strict=True):
            found[at] = arrays
    return [
        lay_out(each, grid, epsilon, m_ub) if arrays is None else arrays
        for each, arrays in zip(known, found, strict=True)
    ]


def sizes_of(known: Sequence[CountsKnown]) -> Int64s:
    """Users of each HAT, int64 (HATs,)."""
    return np.array([each.counts.size for each in known], np.int64)


def of_one_size(sizes: Int64s) -> list[Int64s]:
    """Where the HATs with equally many users stand, for those sizes that are worth a matrix. sizes: int64 (HATs,)."""
    found = [np.flatnonzero(sizes == size) for size in np.unique(sizes).tolist() if 0 < size <= MANY_USERS]
    return [mine for mine in found if mine.size >= FEW_HATS]


class Planned(NamedTuple):
    """HATs with equally many users, laid out. counts: int64 (HATs, users). biases, facts: of `Arrays`, of each HAT."""

    counts: Int64s
    layout: Layout
    biases: list[float]
    facts: list[dict[str, int]]


def planned(counts: Int64s, reported: Int64s, grid: Grid, epsilon: Fraction, m_ub: Rule) -> Planned:
    """counts: int64 (HATs, users), non-increasing. reported: int64 (HATs,). Raises PlanError for the first that has no
    plan."""
    samples = counts.sum(axis=1)
    usual = (counts[:, -1] >= 1) & (samples <= reported) & (reported <= USUAL // grid.upper_steps)
    for at in range(reported.size) if epsilon <= 0 else np.flatnonzero(~usual).tolist():
        check_plan_input(counts[at], int(reported[at]), grid.upper_steps * FINE, epsilon)
    laid = layout(counts, grid, epsilon, m_ub)
    biases = np.maximum(laid.weight - counts / reported[:, None], 0.0).sum(axis=1)
    upper, rounding = float(grid.upper), float(2 * grid.step / FINE)
    columns = (column.tolist() for column in (samples, counts[:, 0], reported, laid.length, laid.arrays))
    facts = [
        {
            "users": counts.shape[1],
            "samples": kept,
            "heaviest": heaviest,
            "reported": whole,
            "upper_steps": grid.upper_steps,
            "m_ub": length,
            "arrays": arrays,
        }
        for kept, heaviest, whole, length, arrays in zip(*columns, strict=True)
    ]
    return Planned(counts, laid, (upper * biases + rounding).tolist(), facts)


def _of_one_size(counts: Int64s, reported: Int64s, grid: Grid, epsilon: Fraction, m_ub: Rule) -> list[Arrays]:
    found = planned(counts, reported, grid, epsilon, m_ub)
    laid = found.layout
    order = np.argsort(laid.array, axis=1, kind="stable")
    pieces, slots = (np.take_along_axis(column, order, axis=1) for column in (laid.array, laid.kept))
    for shared in (laid.weight, order, pieces, slots, laid.fills):
        shared.flags.writeable = False
    columns = zip(found.facts, laid.moved.tolist(), found.biases, strict=True)
    return [
        Arrays(
            facts["m_ub"],
            Grouping(order[at], pieces[at], slots[at], laid.fills[at, : facts["arrays"]]),
            laid.weight[at],
            moved,
            bias,
            facts,
        )
        for at, (facts, moved, bias) in enumerate(columns)
    ]


def sums_of_means(found: Planned, sums: Int64s, grid: Grid) -> Int64s:
    """The sum of each HAT's array means in fine steps, int64 (HATs,): what `arrays.array_means` gives, added up.

    sums: int64 (HATs, users). Raises ValueError for sums that no samples within [0, U] have.
    """
    if np.any(sums < 0) or np.any(sums > found.counts * grid.upper_steps):
        raise ValueError("totals do not fit their plans: sums outside [0, count * U]")
    hats, users = sums.shape
    held = np.zeros(hats * users, np.int64)
    place = np.arange(hats)[:, None] * users + found.layout.array
    np.add.at(held, place.ravel(), (sums * FINE // found.counts * found.layout.kept).ravel())
    means = held.reshape(hats, users) // np.maximum(found.layout.fills, 1)
    added: Int64s = means.sum(axis=1)
    return added


def stacked(known: Sequence[CountsKnown]) -> tuple[Int64s, Int64s]:
    """Counts, int64 (HATs, users), and samples reported, int64 (HATs,), of HATs with equally many users."""
    counts = np.stack([np.asarray(each.counts, np.int64) for each in known])
    return counts, np.array([each.reported for each in known], np.int64)


def layout(counts: Int64s, grid: Grid, epsilon: Fraction, m_ub: Rule) -> Layout:
    """counts: int64 (HATs, users), non-increasing, each >= 1."""
    if (counts[:, 1:] > counts[:, :-1]).any():
        raise ValueError("counts must be non-increasing vectors")
    length = _lengths(counts, epsilon, m_ub)
    kept = np.minimum(counts, length[:, None])
    array, free = _best_fits(kept, length)
    fills = length[:, None] - free
    arrays = np.count_nonzero(fills, axis=1)
    width = np.take_along_axis(fills, array, axis=1)
    moved = (-(-grid.upper_steps * FINE * kept // width)).max(axis=1)
    return Layout(length, kept, array, fills, arrays, moved, kept / width / arrays[:, None])


def _lengths(counts: Int64s, epsilon: Fraction, m_ub: Rule) -> Int64s:
    """m_UB of each HAT. counts: (HATs, users), non-increasing."""
    if m_ub == "median":
        upper, lower = counts[:, (counts.shape[1] - 1) // 2], counts[:, counts.shape[1] // 2]
        middle: Int64s = (upper + lower) // 2
        return middle
    most = int(counts.sum(axis=1).max()) ** 3
    if m_ub == "argmax" and most < _EXACT:
        return _argmax(counts)
    if m_ub == "opt" and most * int(counts.max()) * epsilon.numerator * epsilon.denominator < _EXACT:
        return _minimax(counts, epsilon)
    return np.array([length_of(m_ub, each, epsilon) for each in counts], np.int64)


def _kept_at(counts: Int64s) -> Int64s:
    """Of every user's count m as a length the samples that it keeps, S(m); int64 (HATs, users)."""
    users = counts.shape[1]
    below = counts.sum(axis=1)[:, None] - np.cumsum(counts, axis=1)
    kept: Int64s = below + counts * np.arange(1, users + 1)
    return kept


def _argmax(counts: Int64s) -> Int64s:
    """`contribution_bound.argmax` of each HAT: exact, as S^2 m fits into 62 bits."""
    kept = _kept_at(counts)
    best, best_kept = counts[:, -1].copy(), kept[:, -1].copy()
    for at in range(counts.shape[1] - 2, -1, -1):
        m, now = counts[:, at], kept[:, at]
        better = now * now * best > best_kept * best_kept * m
        best, best_kept = np.where(better, m, best), np.where(better, now, best_kept)
    return best


def _minimax(counts: Int64s, epsilon: Fraction) -> Int64s:
    """`contribution_bound.minimax` of each HAT: exact, as all products fit into 62 bits."""
    kept, samples = _kept_at(counts), counts.sum(axis=1)
    over, under = epsilon.numerator, epsilon.denominator
    cost = counts * under * samples[:, None] - kept * kept * over
    best, top, bottom = counts[:, -1].copy(), cost[:, -1].copy(), kept[:, -1].copy()
    for at in range(counts.shape[1] - 2, -1, -1):
        better = cost[:, at] * bottom < top * kept[:, at]
        best, top = np.where(better, counts[:, at], best), np.where(better, cost[:, at], top)
        bottom = np.where(better, kept[:, at], bottom)
    return best


def _best_fits(kept: Int64s, length: Int64s) -> tuple[Int64s, Int64s]:
    """The array of each user, and the free slots of each array: every user, in order, into the fullest with room, the
    lowest of equals. kept: (HATs, users). An array that nobody is in yet has all its slots free.

    An array is one number, its free slots before its place: the least that remains is the best fit, as where there is
    no room the difference wraps around to what no other reaches.
    """
    hats, users = kept.shape
    bits = users.bit_length()
    arrays = (length << bits) + np.arange(users)[:, None]
    free, taken = arrays.view(np.uint64), (kept.T << bits).astype(np.uint64)
    found, every = np.empty((users, hats), np.int64), np.arange(hats)
    for user in range(users):
        best = (free[: user + 1] - taken[user]).min(axis=0)
        found[user] = best & np.uint64((1 << bits) - 1)
        free[found[user], every] = best
    return np.ascontiguousarray(found.T), np.ascontiguousarray(arrays.T >> bits)
