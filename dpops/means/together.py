"""The arrays of many HATs laid out together: what `arrays.lay_out` gives for each of them, in vectors."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from dpops.means.arrays import FINE, Arrays, Rule, lay_out, length_of
from dpops.means.grouping import Grouping
from dpops.mechanism import check_plan_input
from dpops.types import CountsKnown, Grid, Int64s

FEW_HATS, MANY_USERS = 4, 96
"""Fewer HATs of one size, or HATs of more users, are laid out one by one: their matrices would cost more."""
_USUAL = 1 << 30
"""Samples times steps of the grid that are far below the bounds of `check_plan_input`."""


def lay_out_together(known: Sequence[CountsKnown], grid: Grid, epsilon: Fraction, m_ub: Rule) -> list[Arrays]:
    """BestFit's arrays of each HAT, bit by bit as `lay_out` has them. Raises PlanError for the first that has none."""
    found: list[Arrays | None] = [None] * len(known)
    sizes = np.array([each.counts.size for each in known], np.int64)
    for size in np.unique(sizes).tolist():
        mine = np.flatnonzero(sizes == size).tolist()
        if len(mine) < FEW_HATS or not 0 < size <= MANY_USERS:
            continue
        for at, arrays in zip(mine, _of_one_size([known[at] for at in mine], grid, epsilon, m_ub), strict=True):
            found[at] = arrays
    return [
        lay_out(each, grid, epsilon, m_ub) if arrays is None else arrays
        for each, arrays in zip(known, found, strict=True)
    ]


def _of_one_size(known: Sequence[CountsKnown], grid: Grid, epsilon: Fraction, m_ub: Rule) -> list[Arrays]:
    counts = np.stack([np.asarray(each.counts, np.int64) for each in known])  # (HATs, users)
    if (counts[:, 1:] > counts[:, :-1]).any():
        raise ValueError("counts must be non-increasing vectors")
    reported, samples = np.array([each.reported for each in known], np.int64), counts.sum(axis=1)
    usual = (counts[:, -1] >= 1) & (samples <= reported) & (reported <= _USUAL // grid.upper_steps)
    for each in known if epsilon <= 0 else (known[at] for at in np.flatnonzero(~usual).tolist()):
        check_plan_input(each.counts, each.reported, grid.upper_steps * FINE, epsilon)
    length = _lengths(counts, epsilon, m_ub)
    kept = np.minimum(counts, length[:, None])
    array, free = _best_fits(kept, length)
    fills = length[:, None] - free
    arrays = np.count_nonzero(fills, axis=1)
    width = np.take_along_axis(fills, array, axis=1)
    moved = (-(-grid.upper_steps * FINE * kept // width)).max(axis=1)
    weight = kept / width / arrays[:, None]
    biases = np.maximum(weight - counts / reported[:, None], 0.0).sum(axis=1)
    order = np.argsort(array, axis=1, kind="stable")
    pieces, slots = np.take_along_axis(array, order, axis=1), np.take_along_axis(kept, order, axis=1)
    for shared in (weight, order, pieces, slots, fills):
        shared.flags.writeable = False
    upper, rounding = float(grid.upper), float(2 * grid.step / FINE)
    columns = [column.tolist() for column in (length, arrays, moved, biases, samples, counts[:, 0])]
    return [
        Arrays(
            most,
            Grouping(order[at], pieces[at], slots[at], fills[at, :number]),
            weight[at],
            mover,
            upper * bias + rounding,
            {
                "users": counts.shape[1],
                "samples": total,
                "heaviest": heaviest,
                "reported": known[at].reported,
                "upper_steps": grid.upper_steps,
                "m_ub": most,
                "arrays": number,
            },
        )
        for at, (most, number, mover, bias, total, heaviest) in enumerate(zip(*columns, strict=True))
    ]


def _lengths(counts: Int64s, epsilon: Fraction, m_ub: Rule) -> Int64s:
    """m_UB of each HAT. counts: (HATs, users), non-increasing."""
    if m_ub != "median":
        return np.array([length_of(m_ub, each, epsilon) for each in counts], np.int64)
    upper, lower = counts[:, (counts.shape[1] - 1) // 2], counts[:, counts.shape[1] // 2]
    middle: Int64s = (upper + lower) // 2
    return middle


def _best_fits(kept: Int64s, length: Int64s) -> tuple[Int64s, Int64s]:
    """The array of each user, and the free slots of each array: every user, in order, into the fullest with room, the
    lowest of equals. kept: (HATs, users). An array that nobody is in yet has all its slots free."""
    hats, users = kept.shape
    free = np.repeat(length[:, None], users, axis=1)
    array = np.empty((hats, users), np.int64)
    every, too_full = np.arange(hats), np.iinfo(np.int64).max
    for user in range(users):
        size = kept[:, user]
        room = free[:, : user + 1]
        at = np.where(room >= size[:, None], room, too_full).argmin(axis=1)
        array[:, user] = at
        free[every, at] -= size
    return array, free
