"""Arrays (pseudo-users) of m_UB samples: layouts, plans and means.

counts: a HAT's users' samples, largest first; reported: those of all users before any cap. A user has at most m_UB
samples in its arrays (a piece is those in one), and each stands for the mean of all of the user's. Released is a HAT's
sum of array means, in fine steps of 1 / FINE_PER_STEP grid step. A user's weight is its share of the mean of these;
`transport_bias` sums how much it exceeds the user's share of the reported samples. `check_plan_input` raises PlanError.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, NamedTuple

import numpy as np

from dpops.forecast import transport_bias
from dpops.means.grouping import Grouping, argmax, best_fit_arrays, convex, median, minimax, wrap_around
from dpops.mechanism import Plan, Totals, check_plan_input, facts_of, full_plan, stack
from dpops.types import CountsKnown, Float64s, Grid, Int64s

FINE_PER_STEP = 1000  # fine steps of array means in a grid step: rounding costs below 0.1 % of sensitivity

Rule = Literal["median", "argmax", "opt", "convex"] | int
"""Choice of the array length m_UB from public counts, or the length itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayPlan(Plan):
    """Plan with its public grouping and users' shares of the mean, float64 (users,)."""

    grouping: Grouping = field(repr=False, compare=False)
    weight: Float64s = field(repr=False, compare=False)


class Arrays(NamedTuple):
    """Grouping of one HAT, with what its plan needs.

    sensitivity: of the sum of array means, in fine steps. weight: users' shares of the mean, float64 (users,).
    bias: worst distance of the noiseless mean, in units.
    """

    m_ub: int
    grouping: Grouping
    weight: Float64s
    sensitivity: int
    bias: float
    facts: dict[str, int]


def lay_out_wrapped(hat: CountsKnown, grid: Grid, epsilon: Fraction, m_ub: Rule) -> Arrays:
    """Fills a HAT's arrays user by user (WrapAround), splitting users where one is full."""
    counts, reported = hat
    check_plan_input(counts, reported, grid.upper_steps * FINE_PER_STEP, epsilon)
    length = length_of(m_ub, counts, epsilon)
    group = wrap_around(counts, length)
    arrays = group.fills.size
    width = group.fills[group.array]  # samples in each piece's array
    user_sensitivity = np.zeros(counts.size, np.int64)  # ceil(U share) in fine steps, over the user's arrays
    np.add.at(user_sensitivity, group.user, -(-grid.upper_steps * FINE_PER_STEP * group.samples // width))
    weight: Float64s = np.bincount(group.user, weights=group.samples / width / arrays, minlength=counts.size)  # type: ignore[assignment]
    clipping = float(grid.upper) * transport_bias(weight, counts / reported)  # U times the weight that users gain
    facts = {**facts_of(hat, grid), "m_ub": length, "arrays": arrays}
    return Arrays(length, group, weight, int(user_sensitivity.max()), bias=clipping + _rounding(grid), facts=facts)


def _rounding(grid: Grid) -> float:
    """Bounds rounding, in units: a fine step of a user's mean and an array's."""
    return float(2 * grid.step / FINE_PER_STEP)


def array_plans(
    mechanism: str, arrays: Sequence[Arrays], grid: Grid, epsilon: Fraction, noise_epsilon: Fraction
) -> list[ArrayPlan]:
    """Plans noisy sums of array means; steps divide by their number.

    noise_epsilon: the part of epsilon for the noise; a private choice of bounds takes the rest.
    """
    # Many HATs share a number of arrays and a sensitivity, and rational arithmetic is slow: each is divided once.
    steps = {n: grid.step / (FINE_PER_STEP * n) for n in {layout.facts["arrays"] for layout in arrays}}  # n arrays
    scales = {sensitivity: sensitivity / noise_epsilon for sensitivity in {layout.sensitivity for layout in arrays}}
    return [
        ArrayPlan(
            mechanism=mechanism,
            epsilon=epsilon,
            step=steps[layout.facts["arrays"]],
            scale=scales[layout.sensitivity],
            upper=grid.upper,
            bias_bound=layout.bias,
            sensitivity=layout.sensitivity,
            facts=layout.facts,
            grouping=layout.grouping,
            weight=layout.weight,
        )
        for layout in arrays
    ]


def lengths_of(m_ub: Rule, counts: Int64s, epsilon: Fraction) -> Int64s:
    """Chooses m_UB, samples per array, of each HAT from counts, (HATs, users), largest first."""
    match m_ub:
        case "median":
            return median(counts)
        case "argmax":
            return argmax(counts)
        case "opt":
            return minimax(counts, epsilon)
        case "convex":
            return convex(counts)
    return np.minimum(counts[:, 0], min(m_ub, int(counts.max())))  # m_ub is a number, which int64 may not hold


def length_of(m_ub: Rule, counts: Int64s, epsilon: Fraction) -> int:
    """Chooses m_UB of one HAT from non-increasing counts."""
    return int(lengths_of(m_ub, counts[None], epsilon)[0])


class ArrayMeans(NamedTuple):
    """Concatenated array means in fine steps, (all arrays,); first: of each HAT, (HATs,)."""

    means: Int64s
    first: Int64s

    @property
    def numbers(self) -> Int64s:
        """Number of arrays per HAT."""
        return np.diff(self.first, append=self.means.size)


def array_means(totals: Sequence[Totals], plans: Sequence[Plan]) -> ArrayMeans:
    """Averages users' means by array, weighted by their samples, in fine steps rounded down.

    Raises TypeError for plans that were read back, without their grouping.
    """
    groups = [full_plan(plan, ArrayPlan).grouping for plan in plans]
    users = stack(totals, plans)
    if not groups:
        return ArrayMeans(users.sums, users.start)  # both empty
    user_mean = users.sums * FINE_PER_STEP // users.counts
    pieces = np.array([group.user.size for group in groups])
    arrays = np.array([group.fills.size for group in groups])
    first_array = np.cumsum(arrays) - arrays
    user = np.concatenate([group.user for group in groups]) + np.repeat(users.start, pieces)
    array = np.concatenate([group.array for group in groups]) + np.repeat(first_array, pieces)
    samples = np.concatenate([group.samples for group in groups])
    fills = np.concatenate([group.fills for group in groups])
    first_piece = np.flatnonzero(np.diff(array, prepend=-1))  # of each array: a grouping is sorted by array
    return ArrayMeans(np.add.reduceat(user_mean[user] * samples, first_piece) // fills, first_array)


SAFE_PRODUCT = 1 << 30  # samples times grid steps below which `check_plan_input`, slow for many HATs, refuses nothing


class ArrayLayout(NamedTuple):
    """BestFit arrays of concatenated HATs, numbered through all of them.

    length, arrays, sensitivity: int64 (HATs,), m_UB, number of arrays, and sensitivity of the sum of their means, in
    fine steps. samples, array: int64 (users,). fills: int64 (arrays,), samples per array. weight: float64 (users,).
    """

    length: Int64s
    arrays: Int64s
    sensitivity: Int64s
    samples: Int64s
    array: Int64s
    fills: Int64s
    weight: Float64s

    @property
    def first_array(self) -> Int64s:
        """Number of each HAT's first array."""
        return np.cumsum(self.arrays) - self.arrays


def lay_out(counts: Int64s, users: Int64s, grid: Grid, epsilon: Fraction, m_ub: Rule) -> ArrayLayout:
    """Groups HATs' users by BestFit: each lies in one array.

    counts: int64 (all users,), HAT after HAT, non-increasing in each. users: int64 (HATs,), their numbers.
    """
    first, hat = np.cumsum(users) - users, np.repeat(np.arange(users.size), users)
    if ((counts[1:] > counts[:-1]) & (hat[1:] == hat[:-1])).any():
        raise ValueError("counts must be non-increasing vectors")
    length = np.empty(users.size, np.int64)
    for size, hats in groups_of(users):  # HATs of equally many users are the rows of one matrix
        length[hats] = lengths_of(m_ub, counts[first[hats, None] + np.arange(size)], epsilon)
    samples = np.minimum(counts, length[hat])
    array = best_fit_arrays(samples, users, length)
    fills = np.zeros(array.max(initial=-1) + 1, np.int64)
    np.add.at(fills, array, samples)
    arrays = np.diff(np.maximum.reduceat(array, first) + 1, prepend=0)  # from a HAT's last array, numbered through all
    width = fills[array]
    # A user of r of an array's w samples moves its mean by ceil(U r / w) fine steps; the sensitivity is the largest.
    sensitivity = np.maximum.reduceat(-(-grid.upper_steps * FINE_PER_STEP * samples // width), first)
    return ArrayLayout(length, arrays, sensitivity, samples, array, fills, weight=samples / width / arrays[hat])


class PlannedHats(NamedTuple):
    """Laid-out HATs; of each facts, sensitivity too, and bias, in units."""

    layout: ArrayLayout
    facts: list[dict[str, int]]
    bias: Float64s


def planned(counts: Int64s, users: Int64s, reported: Int64s, grid: Grid, epsilon: Fraction, m_ub: Rule) -> PlannedHats:
    """Lays out and checks HATs, at least one. counts: descending in each. Raises PlanError."""
    if not users.all():
        check_plan_input(counts[:0], reported=0, upper=0, epsilon=epsilon)  # raises; below each HAT has a first user
    first = np.cumsum(users) - users  # in `counts`, of each HAT; users, reported: (HATs,)
    samples = np.add.reduceat(counts, first)
    # One HAT's check is slow: only HATs not far within bounds are checked, or all if epsilon fails. Counts descend.
    is_safe = (counts[first + users - 1] >= 1) & (samples <= reported) & (reported <= SAFE_PRODUCT // grid.upper_steps)
    for hat in range(reported.size) if epsilon <= 0 else np.flatnonzero(~is_safe).tolist():
        count = counts[first[hat] : first[hat] + users[hat]]
        check_plan_input(count, int(reported[hat]), grid.upper_steps * FINE_PER_STEP, epsilon)
    laid = lay_out(counts, users, grid, epsilon, m_ub)
    excess, bias = np.maximum(laid.weight - counts / np.repeat(reported, users), 0.0), np.empty(users.size)
    for size, hats in groups_of(users):  # HATs of equally many users are the rows of one matrix
        bias[hats] = excess[first[hats, None] + np.arange(size)].sum(axis=1)  # weight that users have above their share
    steps = np.full(users.size, grid.upper_steps)
    names = ("users", "samples", "heaviest", "reported", "upper_steps", "m_ub", "arrays", "sensitivity")
    columns = (users, samples, counts[first], reported, steps, laid.length, laid.arrays, laid.sensitivity)
    facts = [dict(zip(names, row, strict=True)) for row in np.stack(columns, axis=1).tolist()]
    return PlannedHats(laid, facts, float(grid.upper) * bias + _rounding(grid))  # U times that weight, and rounding


def lay_out_together(hats: Sequence[CountsKnown], grid: Grid, epsilon: Fraction, m_ub: Rule) -> list[Arrays]:
    """Lays out each HAT's BestFit arrays, all HATs in vectors. Raises PlanError."""
    if not hats:
        return []
    users = np.array([hat.counts.size for hat in hats], np.int64)
    counts = np.concatenate([np.asarray(hat.counts, np.int64) for hat in hats])
    reported = np.array([hat.reported for hat in hats], np.int64)
    plans = planned(counts, users, reported, grid, epsilon, m_ub)
    laid, order = plans.layout, np.argsort(plans.layout.array, kind="stable")  # users by array, so by HAT too
    first = np.cumsum(users) - users
    # Of each user, by array: its index in its HAT, and its array's.
    user, array = order - np.repeat(first, users), laid.array[order] - np.repeat(laid.first_array, users)
    samples = laid.samples[order]
    for shared in (user, array, samples, laid.fills, laid.weight):  # plans hold views of these, and must not change
        shared.flags.writeable = False
    arrays = []
    by_hat = zip(first.tolist(), laid.first_array.tolist(), plans.facts, plans.bias.tolist(), strict=True)
    for start, first_array, facts, bias in by_hat:
        of_hat, sensitivity = slice(start, start + facts["users"]), facts.pop("sensitivity")  # a field of plans
        fills = laid.fills[first_array : first_array + facts["arrays"]]
        group = Grouping(user[of_hat], array[of_hat], samples[of_hat], fills)
        arrays.append(Arrays(facts["m_ub"], group, laid.weight[of_hat], sensitivity, bias, facts))
    return arrays


def groups_of(column: Int64s) -> list[tuple[int, Int64s]]:
    """Lists distinct values with their indices."""
    return [(value, np.flatnonzero(column == value)) for value in np.unique(column).tolist()]
