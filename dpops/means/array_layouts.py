"""The arrays of many HATs laid out together by BestFit, in vectors."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from dpops.forecast import Float64s
from dpops.means.arrays import FINE, Arrays, Rule, lengths_of
from dpops.means.grouping import Grouping, best_fit_arrays
from dpops.mechanism import check_plan_input
from dpops.types import CountsKnown, Grid, Int64s

FEW_HATS, MANY_USERS = 4, 96
"""Users of fewer HATs, or of HATs with more users, are put into arrays HAT by HAT: their matrices would cost more."""
_ROOM = 1 << 20
"""Entries of a matrix (HATs, most users) of such HATs."""
USUAL = 1 << 30
"""Samples times steps of the grid that are far below the bounds of `check_plan_input`."""


class ArrayLayout(NamedTuple):
    """The arrays of HATs, those with more users first, by BestFit.

    length: int64 (HATs,), m_UB. kept, array: int64 (users,), of all HATs one behind another, samples of a user and the
    array of its HAT that it is in. fills: int64 (HATs, most users), samples in each array, 0 behind the last. arrays,
    moved: int64 (HATs,), how many arrays, and by how many fine steps one user moves the sum of their means. weight:
    float64 (users,). With equally many users in all HATs kept, array and weight may be matrices (HATs, users).
    """

    length: Int64s
    kept: Int64s
    array: Int64s
    fills: Int64s
    arrays: Int64s
    moved: Int64s
    weight: Float64s


class EqualHats(NamedTuple):
    """HATs with equally many users, among those that stand by their numbers of users."""

    size: int
    hats: slice
    users: slice

    def of(self, column: Any) -> Any:
        """Cuts the matrix (HATs, users) of these HATs out of a column of all users."""
        return column[self.users].reshape(-1, self.size)


def blocks_of(users: Int64s) -> list[EqualHats]:
    """Splits HATs into blocks of equally many users. users: int64 (HATs,), descending, each >= 1."""
    ends = np.flatnonzero(np.diff(users, append=0)) + 1
    blocks, start, first = [], 0, 0
    for end, size in zip(ends.tolist(), users[ends - 1].tolist(), strict=True):
        last = first + (end - start) * size
        blocks.append(EqualHats(size, slice(start, end), slice(first, last)))
        start, first = end, last
    return blocks


def calls_of(sizes: Int64s) -> list[Int64s]:
    """Splits the HATs into calls, each of which lays out some together, those with more users first.

    Says where the HATs of each call stand: all with few users are one call, of the others as many as there is room for.
    sizes: int64 (HATs,), each >= 1.
    """
    order = np.argsort(-sizes, kind="stable")
    few = order[sizes[order] <= MANY_USERS]
    calls, rest = ([few], order[: order.size - few.size]) if few.size >= FEW_HATS else ([], order)
    while rest.size:
        number = max(1, _ROOM // int(sizes[rest[0]]))
        calls.append(rest[:number])
        rest = rest[number:]
    return calls


def lay_out_together(hats: Sequence[CountsKnown], grid: Grid, epsilon: Fraction, m_ub: Rule) -> list[Arrays]:
    """Lays out BestFit's arrays of each HAT. Raises PlanError for one that has none."""
    sizes = np.array([hat.counts.size for hat in hats], np.int64)
    for empty in np.flatnonzero(sizes == 0).tolist():
        check_plan_input(*hats[empty], grid.upper_steps * FINE, epsilon)
    arrays_at: dict[int, Arrays] = {}
    for places in calls_of(sizes):
        some = [hats[place] for place in places.tolist()]
        counts = np.concatenate([np.asarray(hat.counts, np.int64) for hat in some])
        reported = np.array([hat.reported for hat in some], np.int64)
        together = planned(counts, sizes[places], reported, grid, epsilon, m_ub)
        arrays_at |= zip(places.tolist(), _arrays_of(together), strict=True)
    return [arrays_at[place] for place in range(len(hats))]


FACTS = ("users", "samples", "heaviest", "reported", "upper_steps", "m_ub", "arrays", "sensitivity")
"""What a plan says of its HAT and arrays, in this order."""


class PlannedHats(NamedTuple):
    """HATs laid out, those with more users first. counts: int64 (all users,). facts: int64 (FACTS, HATs). bias: float64
    (HATs,), of `Arrays`."""

    counts: Int64s
    layout: ArrayLayout
    facts: Int64s
    bias: Float64s


def planned(counts: Int64s, users: Int64s, reported: Int64s, grid: Grid, epsilon: Fraction, m_ub: Rule) -> PlannedHats:
    """Plans HATs that are laid out together.

    counts: int64 (all users,), of HATs one behind another, of each non-increasing. users: int64 (HATs,), descending,
    each >= 1. reported: int64 (HATs,). Raises PlanError for the first that has no plan.
    """
    first = np.cumsum(users) - users
    samples = np.add.reduceat(counts, first)
    usual = (counts[first + users - 1] >= 1) & (samples <= reported) & (reported <= USUAL // grid.upper_steps)
    for hat in range(reported.size) if epsilon <= 0 else np.flatnonzero(~usual).tolist():
        count = counts[first[hat] : first[hat] + users[hat]]
        check_plan_input(count, int(reported[hat]), grid.upper_steps * FINE, epsilon)
    laid = _lay_out(counts, users, grid, epsilon, m_ub)
    excess = np.maximum(laid.weight - counts / np.repeat(reported, users), 0.0)
    biases = np.concatenate([block.of(excess).sum(axis=1) for block in blocks_of(users)])
    upper, rounding = float(grid.upper), float(2 * grid.step / FINE)
    steps = np.full(users.size, grid.upper_steps)
    facts = np.stack([users, samples, counts[first], reported, steps, laid.length, laid.arrays, laid.moved])
    return PlannedHats(counts, laid, facts, upper * biases + rounding)


def facts_of(facts: Int64s) -> list[dict[str, int]]:
    """Names the facts of each HAT. facts: int64 (FACTS, HATs)."""
    return [
        {
            "users": users,
            "samples": samples,
            "heaviest": heaviest,
            "reported": reported,
            "upper_steps": upper_steps,
            "m_ub": m_ub,
            "arrays": arrays,
            "sensitivity": sensitivity,
        }
        for users, samples, heaviest, reported, upper_steps, m_ub, arrays, sensitivity in facts.T.tolist()
    ]


def _arrays_of(plans: PlannedHats) -> Iterator[Arrays]:
    laid = plans.layout
    for block in blocks_of(plans.facts[0]):
        array, kept, weight, fills = *map(block.of, (laid.array, laid.kept, laid.weight)), laid.fills[block.hats]
        order = np.argsort(array, axis=1, kind="stable")
        pieces, slots = (np.take_along_axis(column, order, axis=1) for column in (array, kept))
        for shared in (weight, order, pieces, slots, fills):
            shared.flags.writeable = False
        columns = zip(facts_of(plans.facts[:, block.hats]), plans.bias[block.hats].tolist(), strict=True)
        for hat, (facts, bias) in enumerate(columns):
            moved = facts.pop("sensitivity")
            group = Grouping(order[hat], pieces[hat], slots[hat], fills[hat, : facts["arrays"]])
            yield Arrays(facts["m_ub"], group, weight[hat], moved, bias, facts)


def sums_of_means(plans: PlannedHats, sums: Int64s, grid: Grid) -> Int64s:
    """Sums each HAT's array means in fine steps, int64 (HATs,): what `arrays.array_means` gives, added up.

    sums: int64 (all users,). Raises ValueError for sums that no samples within [0, U] have.
    """
    if np.any(sums < 0) or np.any(sums > plans.counts * grid.upper_steps):
        raise ValueError("totals do not fit their plans: sums outside [0, count * U]")
    fills = plans.layout.fills
    held = np.zeros(fills.size, np.int64)
    place = np.repeat(np.arange(fills.shape[0]) * fills.shape[1], plans.facts[0]) + plans.layout.array
    np.add.at(held, place, sums * FINE // plans.counts * plans.layout.kept)
    means = held.reshape(fills.shape) // np.maximum(fills, 1)
    added: Int64s = means.sum(axis=1)
    return added


def layout(counts: Int64s, grid: Grid, epsilon: Fraction, m_ub: Rule) -> ArrayLayout:
    """Lays out HATs of equally many users, in matrices of the shape of counts.

    counts: int64 (HATs, users), non-increasing, each >= 1.
    """
    laid = _lay_out(counts.ravel(), np.full(counts.shape[0], counts.shape[1]), grid, epsilon, m_ub)
    shape = counts.shape
    return laid._replace(
        kept=laid.kept.reshape(shape), array=laid.array.reshape(shape), weight=laid.weight.reshape(shape)
    )


def _lay_out(counts: Int64s, users: Int64s, grid: Grid, epsilon: Fraction, m_ub: Rule) -> ArrayLayout:
    first, hat = np.cumsum(users) - users, np.repeat(np.arange(users.size), users)
    if ((counts[1:] > counts[:-1]) & (hat[1:] == hat[:-1])).any():
        raise ValueError("counts must be non-increasing vectors")
    length = np.concatenate([lengths_of(m_ub, block.of(counts), epsilon) for block in blocks_of(users)])
    is_small = users.size >= FEW_HATS and users[0] <= MANY_USERS
    kept = np.minimum(counts, length[hat])
    array, fills = (_best_fits if is_small else _best_fits_one_by_one)(kept, users, length)
    arrays = np.count_nonzero(fills, axis=1)
    width = fills[hat, array]
    moved = np.maximum.reduceat(-(-grid.upper_steps * FINE * kept // width), first)
    return ArrayLayout(length, kept, array, fills, arrays, moved, kept / width / arrays[hat])


def _best_fits(kept: Int64s, users: Int64s, length: Int64s) -> tuple[Int64s, Int64s]:
    """Puts every user, in order, into the fullest array with room, the lowest of equals.

    Gives the array of each user, and the samples in each array, (HATs, most users). An array that nobody is in yet has
    all its slots free.

    kept: int64 (all users,). users, length: int64 (HATs,), users descending. The free slots of an array and its number
    are one integer each, so that the least of these is the array to take.
    """
    hats, most = users.size, int(users[0])
    first, every, too_full = np.cumsum(users) - users, np.arange(hats), np.iinfo(np.int64).max
    room = length * most + np.arange(most)[:, None]
    array = np.empty(kept.size, np.int64)
    open_ = np.searchsorted(-users, -np.arange(most)).tolist()  # HATs with more users than have their array
    for user, hats_left in enumerate(open_):
        here, size = first[:hats_left] + user, kept[first[:hats_left] + user] * most
        tried = room[: user + 1, :hats_left]
        chosen = np.where(tried >= size, tried, too_full).min(axis=0) % most
        array[here] = chosen
        room[chosen, every[:hats_left]] -= size
    return array, length[:, None] - room.T // most


def _best_fits_one_by_one(kept: Int64s, users: Int64s, length: Int64s) -> tuple[Int64s, Int64s]:
    """Lays out as `_best_fits` does HATs with so many users that matrices would cost more."""
    ends = np.cumsum(users)
    stretches = zip((ends - users).tolist(), ends.tolist(), length.tolist(), strict=True)
    array = np.concatenate([best_fit_arrays(kept[start:end], m_ub) for start, end, m_ub in stretches])
    fills = np.zeros((users.size, int(users[0])), np.int64)
    np.add.at(fills.reshape(-1), np.repeat(np.arange(users.size) * fills.shape[1], users) + array, kept)
    return array, fills
