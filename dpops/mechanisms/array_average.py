"""Array-Averaging: the mean of the means of equal-sized arrays (pseudo-users) that share users' samples."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar, Literal, Self

import numpy as np

from dpops import bounds
from dpops.accuracy import transport_bias
from dpops.grouping import Grouping, best_fit, wrap_around
from dpops.mechanism import (
    Plan,
    Totals,
    check_plan_input,
    laplace_release,
    laplace_value,
    stack,
)
from dpops.noise import Noise
from dpops.privacy import Adjacency
from dpops.types import Grid, Int64s

FINE = 1000
"""Fine steps per grid step inside an array mean: rounding then costs below 0.1 % of sensitivity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayPlan(Plan):
    """A plan with its grouping, which is public too but can be remade from the counts."""

    grouping: Grouping = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayAverage:
    """Groups capped users into arrays, averages the array means, adds noise for the user with the largest share.

    Every slot of a user holds the mean of all the user's samples. All divisions round down to a fine integer grid;
    a user who holds r of an array's w slots then moves its mean by at most ceil(U r / w) fine steps, and the
    sensitivity is the largest sum of those over a user's arrays.
    Source: S0/S1 "Array-Averaging", with the exact sensitivities (erratum E2: published WrapAround is twice too large).
    """

    name: ClassVar[str] = "array-average"
    statistic: ClassVar[str] = "mean"
    adjacencies: ClassVar[frozenset[Adjacency]] = frozenset({"counts-public"})

    m_ub: Literal["median", "argmax"] | int = "median"
    grouping: Literal["best-fit", "wrap-around"] = "best-fit"

    def __post_init__(self) -> None:
        if isinstance(self.m_ub, int) and self.m_ub < 1:
            raise ValueError(f"m_ub must be at least 1, got {self.m_ub}")

    @classmethod
    def examples(cls) -> Sequence[Self]:
        return [
            cls(),
            cls(m_ub="argmax"),
            cls(m_ub=3),
            cls(grouping="wrap-around"),
            cls(m_ub="argmax", grouping="wrap-around"),
        ]

    def plan(self, counts: Int64s, reported: int, grid: Grid, epsilon: Fraction) -> ArrayPlan:
        upper = grid.upper_steps * FINE
        check_plan_input(counts, reported, upper, epsilon)
        m_ub = self._array_length(counts)
        group = (best_fit if self.grouping == "best-fit" else wrap_around)(counts, m_ub)
        arrays = group.fills.size
        width = group.fills[group.array]
        moved = np.zeros(counts.size, np.int64)
        np.add.at(moved, group.user, -(-upper * group.slots // width))
        weight = np.zeros(counts.size)
        np.add.at(weight, group.user, group.slots / width / arrays)
        sensitivity = int(moved.max())
        rounding = 2 * grid.step / FINE
        clipping = float(grid.upper) * transport_bias(weight, counts / reported)
        return ArrayPlan(
            epsilon=epsilon,
            step=grid.step / (FINE * arrays),
            scale=sensitivity / epsilon,
            upper=grid.upper,
            bias_bound=clipping + float(rounding),
            facts={
                "users": counts.size,
                "samples": int(counts.sum()),
                "heaviest": int(counts.max()),
                "reported": reported,
                "upper_steps": grid.upper_steps,
                "m_ub": m_ub,
                "arrays": arrays,
                "sensitivity": sensitivity,
            },
            grouping=group,
        )

    def release(self, totals: Sequence[Totals], plans: Sequence[Plan], noise: Noise) -> list[int]:
        return laplace_release(_sums_of_array_means(totals, plans), plans, noise)

    @staticmethod
    def value(integer: int, plan: Plan) -> float:
        return laplace_value(integer, plan)

    def _array_length(self, counts: Int64s) -> int:
        """m_UB, never above the largest count: longer arrays would only lump users together."""
        if self.m_ub == "median":
            return bounds.median(counts)
        if self.m_ub == "argmax":
            return bounds.argmax(counts)
        return min(self.m_ub, int(counts.max()))


def _sums_of_array_means(totals: Sequence[Totals], plans: Sequence[Plan]) -> Int64s:
    """Per HAT the sum over its arrays of floor(array mean), in fine steps; exact integers, all HATs in one go."""
    groups = []
    for plan in plans:
        if not isinstance(plan, ArrayPlan):
            raise TypeError("array-average releases with the plan it made, not with one read back")
        groups.append(plan.grouping)
    users = stack(totals, plans)
    if not groups:
        return users.sums
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
    return np.add.reduceat(array_sum // fills, first_array)
