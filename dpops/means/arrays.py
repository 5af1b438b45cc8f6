"""Arrays (pseudo-users): what the mechanisms that average array means share."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, NamedTuple

import numpy as np

from dpops.forecast import Float64s, transport_bias
from dpops.means import contribution_bound as bounds
from dpops.means.grouping import Grouping, wrap_around
from dpops.mechanism import Plan, Totals, check_plan_input, facts_of, stack
from dpops.types import CountsKnown, Grid, Int64s

FINE = 1000
"""Fine steps per grid step inside an array mean: rounding then costs below 0.1 % of sensitivity."""

AT_LEAST_BETWEEN = 0.2
"""Share of the variance between users that forecasts of array means assume at least: real users' samples resemble one
another, and a forecast that takes them as independent promises intervals that are too short."""

FEW = 8
"""Up to so many arrays a forecast lets the mean of the HAT vary."""

Rule = Literal["median", "argmax", "opt", "convex"] | int
"""How the array length m_UB is chosen from public counts, or the length itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayPlan(Plan):
    """A plan with its grouping, which is public too but can be remade from the counts.

    weight: float64 (users,), each user's share in the mean of array means.
    """

    grouping: Grouping = field(repr=False, compare=False)
    weight: Float64s = field(repr=False, compare=False)


class Arrays(NamedTuple):
    """The grouping of one HAT and what it costs. moved: fine steps by which one user moves the sum of array means."""

    m_ub: int
    grouping: Grouping
    weight: Float64s
    moved: int
    bias: float
    facts: dict[str, int]


def check_rule(m_ub: str | int) -> None:
    """Raises ValueError for a number below 1, and for a boolean, which Python counts among the integers."""
    if isinstance(m_ub, bool) or (isinstance(m_ub, int) and m_ub < 1):
        raise ValueError(f"m_ub must be at least 1, got {m_ub}")


def lay_out_wrapped(hat: CountsKnown, grid: Grid, epsilon: Fraction, m_ub: Rule) -> Arrays:
    """Groups the users of one HAT into arrays by WrapAround. bias: worst clipping bias with rounding, in units.

    A user who holds r of an array's w slots moves its mean by at most ceil(U r / w) fine steps.
    """
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
    """Plans the sum of array means. of_noise: the part of epsilon that is for its noise.

    Steps, by the number of arrays, and scales, by what one user moves, are made once: HATs share them.
    """
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
    """Chooses m_UB of each HAT, never above its largest count: longer arrays would only lump users together.

    counts: int64 (HATs, users), each >= 1, non-increasing within a HAT.
    """
    if m_ub == "median":
        return bounds.median(counts)
    if m_ub == "argmax":
        return bounds.argmax(counts)
    if m_ub == "opt":
        return bounds.minimax(counts, epsilon)
    if m_ub == "convex":
        return bounds.convex(counts)
    return np.minimum(counts[:, 0], min(m_ub, int(counts.max())))


def length_of(m_ub: Rule, counts: Int64s, epsilon: Fraction) -> int:
    """Chooses m_UB of one HAT, as `lengths_of` does. counts: int64 (users,), non-increasing."""
    return int(lengths_of(m_ub, counts[None], epsilon)[0])


class ArrayMeans(NamedTuple):
    """Array means of many HATs one behind another, floored to fine steps, int64 (arrays,); first array of each HAT."""

    means: Int64s
    first: Int64s

    @property
    def numbers(self) -> Int64s:
        return np.diff(self.first, append=self.means.size)


def array_means(totals: Sequence[Totals], plans: Sequence[Plan]) -> ArrayMeans:
    """Averages each array, with every slot of a user holding the mean of all its samples; all HATs at once.

    Exact integers: all divisions round down to fine steps. Raises TypeError for a plan that was read back, which has no
    grouping.
    """
    groups = [made(plan).grouping for plan in plans]
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


def made(plan: Plan) -> ArrayPlan:
    """Checks that the plan has its grouping. Raises TypeError for a plan that was read back, which has none."""
    if not isinstance(plan, ArrayPlan):
        raise TypeError("this needs the plan it made, not one read back")
    return plan
