"""Arrays (pseudo-users) of m_UB slots: layouts, plans and means."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal, NamedTuple

import numpy as np

from dpops.forecast import Float64s, transport_bias
from dpops.means.grouping import Grouping, argmax, best_fit_arrays, convex, median, minimax, wrap_around
from dpops.mechanism import Plan, Totals, check_plan_input, facts_of, full_plan, stack
from dpops.types import CountsKnown, Grid, Int64s

FINE = 1000
"""Fine steps per grid step inside an array mean: rounding then costs below 0.1 % of sensitivity."""

AT_LEAST_BETWEEN = 0.2
"""Least share of the variance between users in forecasts of array means: a user's samples resemble one another, and a
forecast of independent ones promises intervals that are too short."""

FEW = 8
"""Most arrays for which a forecast varies the HAT's mean."""

Rule = Literal["median", "argmax", "opt", "convex"] | int
"""Choice of the array length m_UB from public counts, or the length itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayPlan(Plan):
    """Plan with its public grouping and users' shares."""

    grouping: Grouping = field(repr=False, compare=False)
    weight: Float64s = field(repr=False, compare=False)


class Arrays(NamedTuple):
    """Grouping of one HAT; `moved`: sensitivity in fine steps."""

    m_ub: int
    grouping: Grouping
    weight: Float64s
    moved: int
    bias: float
    facts: dict[str, int]


def lay_out_wrapped(hat: CountsKnown, grid: Grid, epsilon: Fraction, m_ub: Rule) -> Arrays:
    """Groups a HAT's users by WrapAround, with its sensitivity."""
    counts, reported = hat
    check_plan_input(counts, reported, grid.upper_steps * FINE, epsilon)
    length = length_of(m_ub, counts, epsilon)
    group = wrap_around(counts, length)
    arrays = group.fills.size
    width = group.fills[group.array]
    moved = np.zeros(counts.size, np.int64)
    np.add.at(moved, group.user, -(-grid.upper_steps * FINE * group.slots // width))
    weight: Float64s = np.bincount(group.user, weights=group.slots / width / arrays, minlength=counts.size)  # type: ignore[assignment]
    clipping = float(grid.upper) * transport_bias(weight, counts / reported)
    facts = {**facts_of(hat, grid), "m_ub": length, "arrays": arrays}
    return Arrays(length, group, weight, int(moved.max()), clipping + float(2 * grid.step / FINE), facts)


def array_plans(
    mechanism: str, arrays: Sequence[Arrays], grid: Grid, epsilon: Fraction, of_noise: Fraction
) -> list[ArrayPlan]:
    """Plans sums of array means; `of_noise`: the noise's epsilon."""
    steps = {n: grid.step / (FINE * n) for n in {laid.facts["arrays"] for laid in arrays}}
    scales = {moved: moved / of_noise for moved in {laid.moved for laid in arrays}}
    return [
        ArrayPlan(
            mechanism=mechanism,
            epsilon=epsilon,
            step=steps[laid.facts["arrays"]],
            scale=scales[laid.moved],
            upper=grid.upper,
            bias_bound=laid.bias,
            sensitivity=laid.moved,
            facts=laid.facts,
            grouping=laid.grouping,
            weight=laid.weight,
        )
        for laid in arrays
    ]


def lengths_of(m_ub: Rule, counts: Int64s, epsilon: Fraction) -> Int64s:
    """Chooses m_UB per HAT from counts, (HATs, users)."""
    match m_ub:
        case "median":
            return median(counts)
        case "argmax":
            return argmax(counts)
        case "opt":
            return minimax(counts, epsilon)
        case "convex":
            return convex(counts)
    return np.minimum(counts[:, 0], min(m_ub, int(counts.max())))


def length_of(m_ub: Rule, counts: Int64s, epsilon: Fraction) -> int:
    """Chooses m_UB of one HAT from non-increasing counts."""
    return int(lengths_of(m_ub, counts[None], epsilon)[0])


class ArrayMeans(NamedTuple):
    """Concatenated array means in fine steps; HATs' first arrays."""

    means: Int64s
    first: Int64s

    @property
    def numbers(self) -> Int64s:
        """Number of arrays per HAT."""
        return np.diff(self.first, append=self.means.size)


def array_means(totals: Sequence[Totals], plans: Sequence[Plan]) -> ArrayMeans:
    """Averages user means by array. Raises TypeError."""
    groups = [full_plan(plan, ArrayPlan).grouping for plan in plans]
    users = stack(totals, plans)
    if not groups:
        return ArrayMeans(users.sums, users.start)
    user_mean = users.sums * FINE // users.counts
    pieces = np.array([group.user.size for group in groups])
    arrays = np.array([group.fills.size for group in groups])
    first_array = np.cumsum(arrays) - arrays
    user = np.concatenate([group.user for group in groups]) + np.repeat(users.start, pieces)
    array = np.concatenate([group.array for group in groups]) + np.repeat(first_array, pieces)
    slots = np.concatenate([group.slots for group in groups])
    fills = np.concatenate([group.fills for group in groups])
    first_piece = np.flatnonzero(np.diff(array, prepend=-1))
    array_sum = np.add.reduceat(user_mean[user] * slots, first_piece)
    return ArrayMeans(array_sum // fills, first_array)


FEW_HATS, MANY_USERS = 4, 96
"""Fewer HATs, or HATs of more users, are laid out one by one: their matrices would cost more."""
_ROOM = 1 << 20
"""Largest matrix (HATs, most users) of such HATs, in entries."""
USUAL = 1 << 30
"""Samples times grid steps far below the bounds of `check_plan_input`."""


class ArrayLayout(NamedTuple):
    """BestFit arrays of HATs, those with more users first.

    length: int64 (HATs,), m_UB. samples, array: int64 (users,), of concatenated HATs. fills: int64 (HATs, most users),
    samples per array. arrays: int64 (HATs,). moved: int64 (HATs,), sensitivity of the sum of array means in fine steps.
    weight: float64 (users,). If all HATs have equally many users, columns of users may be matrices (HATs, users).
    """

    length: Int64s
    samples: Int64s
    array: Int64s
    fills: Int64s
    arrays: Int64s
    moved: Int64s
    weight: Float64s


class EqualHats(NamedTuple):
    """Consecutive HATs of equally many users, as two slices."""

    size: int
    hats: slice
    users: slice

    def of(self, column: Any) -> Any:
        """Cuts these HATs' matrix out of a users' column."""
        return column[self.users].reshape(-1, self.size)


def blocks_of(users: Int64s) -> list[EqualHats]:
    """Splits HATs, by descending users, into equally large blocks."""
    ends = np.flatnonzero(np.diff(users, append=0)) + 1
    blocks, start, first = [], 0, 0
    for end, size in zip(ends.tolist(), users[ends - 1].tolist(), strict=True):
        last = first + (end - start) * size
        blocks.append(EqualHats(size, slice(start, end), slice(first, last)))
        start, first = end, last
    return blocks


def calls_of(sizes: Int64s) -> list[Int64s]:
    """Splits HATs into batches whose matrices fit into memory."""
    order = np.argsort(-sizes, kind="stable")
    small = order[sizes[order] <= MANY_USERS]
    calls, pending = ([small], order[: order.size - small.size]) if small.size >= FEW_HATS else ([], order)
    while pending.size:
        number = max(1, _ROOM // int(sizes[pending[0]]))
        calls.append(pending[:number])
        pending = pending[number:]
    return calls


def lay_out_together(hats: Sequence[CountsKnown], grid: Grid, epsilon: Fraction, m_ub: Rule) -> list[Arrays]:
    """Lays out each HAT's BestFit arrays. Raises PlanError."""
    sizes = np.array([hat.counts.size for hat in hats], np.int64)
    for empty in np.flatnonzero(sizes == 0).tolist():
        check_plan_input(*hats[empty], grid.upper_steps * FINE, epsilon)
    arrays_at: dict[int, Arrays] = {}
    for places in calls_of(sizes):
        call_hats = [hats[place] for place in places.tolist()]
        counts = np.concatenate([np.asarray(hat.counts, np.int64) for hat in call_hats])
        reported = np.array([hat.reported for hat in call_hats], np.int64)
        plans = planned(counts, sizes[places], reported, grid, epsilon, m_ub)
        place, laid = iter(places.tolist()), plans.layout
        for block in blocks_of(plans.facts[0]):
            array, samples, weight = map(block.of, (laid.array, laid.samples, laid.weight))
            order, fills = np.argsort(array, axis=1, kind="stable"), laid.fills[block.hats]
            pieces, slots = (np.take_along_axis(column, order, axis=1) for column in (array, samples))
            for shared in (weight, order, pieces, slots, fills):
                shared.flags.writeable = False
            columns = zip(named_facts(plans.facts[:, block.hats]), plans.bias[block.hats].tolist(), strict=True)
            for hat, (facts, bias) in enumerate(columns):
                moved = facts.pop("sensitivity")
                group = Grouping(order[hat], pieces[hat], slots[hat], fills[hat, : facts["arrays"]])
                arrays_at[next(place)] = Arrays(facts["m_ub"], group, weight[hat], moved, bias, facts)
    return [arrays_at[place] for place in range(len(hats))]


FACTS = ("users", "samples", "heaviest", "reported", "upper_steps", "m_ub", "arrays", "sensitivity")
"""Facts of a plan about its HAT and arrays, in this order."""


class PlannedHats(NamedTuple):
    """Laid-out HATs, more users first, with facts and bias."""

    counts: Int64s
    layout: ArrayLayout
    facts: Int64s
    bias: Float64s


def planned(counts: Int64s, users: Int64s, reported: Int64s, grid: Grid, epsilon: Fraction, m_ub: Rule) -> PlannedHats:
    """Plans HATs laid out together. Raises PlanError.

    counts: int64 (all users,), HATs concatenated, each non-increasing. users: int64 (HATs,), descending, >= 1.
    """
    first = np.cumsum(users) - users
    samples = np.add.reduceat(counts, first)
    is_safe = (counts[first + users - 1] >= 1) & (samples <= reported) & (reported <= USUAL // grid.upper_steps)
    for hat in range(reported.size) if epsilon <= 0 else np.flatnonzero(~is_safe).tolist():
        count = counts[first[hat] : first[hat] + users[hat]]
        check_plan_input(count, int(reported[hat]), grid.upper_steps * FINE, epsilon)
    laid = _lay_out(counts, users, grid, epsilon, m_ub)
    excess = np.maximum(laid.weight - counts / np.repeat(reported, users), 0.0)
    biases = np.concatenate([block.of(excess).sum(axis=1) for block in blocks_of(users)])
    upper, rounding = float(grid.upper), float(2 * grid.step / FINE)
    steps = np.full(users.size, grid.upper_steps)
    facts = np.stack([users, samples, counts[first], reported, steps, laid.length, laid.arrays, laid.moved])
    return PlannedHats(counts, laid, facts, upper * biases + rounding)


def named_facts(facts: Int64s) -> list[dict[str, int]]:
    """Names the facts of each HAT, from (FACTS, HATs)."""
    return [dict(zip(FACTS, row, strict=True)) for row in facts.T.tolist()]


def sums_of_means(plans: PlannedHats, sums: Int64s, grid: Grid) -> Int64s:
    """Sums array means by HAT. Raises ValueError."""
    if np.any(sums < 0) or np.any(sums > plans.counts * grid.upper_steps):
        raise ValueError("totals do not fit their plans: sums outside [0, count * U]")
    fills = plans.layout.fills
    held = np.zeros(fills.size, np.int64)
    place = np.repeat(np.arange(fills.shape[0]) * fills.shape[1], plans.facts[0]) + plans.layout.array
    np.add.at(held, place, sums * FINE // plans.counts * plans.layout.samples)
    means = held.reshape(fills.shape) // np.maximum(fills, 1)
    added: Int64s = means.sum(axis=1)
    return added


def layout(counts: Int64s, grid: Grid, epsilon: Fraction, m_ub: Rule) -> ArrayLayout:
    """Lays out HATs of equally many users, (HATs, users)."""
    laid = _lay_out(counts.ravel(), np.full(counts.shape[0], counts.shape[1]), grid, epsilon, m_ub)
    shape = counts.shape
    return laid._replace(
        samples=laid.samples.reshape(shape), array=laid.array.reshape(shape), weight=laid.weight.reshape(shape)
    )


def _lay_out(counts: Int64s, users: Int64s, grid: Grid, epsilon: Fraction, m_ub: Rule) -> ArrayLayout:
    first, hat = np.cumsum(users) - users, np.repeat(np.arange(users.size), users)
    if ((counts[1:] > counts[:-1]) & (hat[1:] == hat[:-1])).any():
        raise ValueError("counts must be non-increasing vectors")
    length = np.concatenate([lengths_of(m_ub, block.of(counts), epsilon) for block in blocks_of(users)])
    is_small = users.size >= FEW_HATS and users[0] <= MANY_USERS
    samples = np.minimum(counts, length[hat])
    if is_small:
        array, fills = _best_fits(samples, users, length)
    else:
        stretches = zip(first.tolist(), (first + users).tolist(), length.tolist(), strict=True)
        array = np.concatenate([best_fit_arrays(samples[start:end], m_ub) for start, end, m_ub in stretches])
        fills = np.zeros((users.size, int(users[0])), np.int64)
        np.add.at(fills, (hat, array), samples)
    arrays = np.count_nonzero(fills, axis=1)
    width = fills[hat, array]
    moved = np.maximum.reduceat(-(-grid.upper_steps * FINE * samples // width), first)
    return ArrayLayout(length, samples, array, fills, arrays, moved, samples / width / arrays[hat])


def _best_fits(samples: Int64s, users: Int64s, length: Int64s) -> tuple[Int64s, Int64s]:
    """Puts users into the fullest array that has room.

    Returns each user's array, and samples per array (HATs, most users). users: (HATs,), descending. One integer holds
    an array's free slots and number, so that the minimum is the array to take; an unopened array is all free.
    """
    hats, max_users = users.size, int(users[0])
    first, every, too_full = np.cumsum(users) - users, np.arange(hats), np.iinfo(np.int64).max
    room = length * max_users + np.arange(max_users)[:, None]
    array = np.empty(samples.size, np.int64)
    open_ = np.searchsorted(-users, -np.arange(max_users)).tolist()  # HATs with more users than have their array
    for user, hats_left in enumerate(open_):
        here, size = first[:hats_left] + user, samples[first[:hats_left] + user] * max_users
        tried = room[: user + 1, :hats_left]
        chosen = np.where(tried >= size, tried, too_full).min(axis=0) % max_users
        array[here] = chosen
        room[chosen, every[:hats_left]] -= size
    return array, length[:, None] - room.T // max_users
