"""The mean of array means clipped to an interval that was drawn privately: for Levy and the Quantile mechanisms."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, NamedTuple, Self

import numpy as np

from dpops.claims import Adjacency
from dpops.means.array_layouts import lay_out_together
from dpops.means.arrays import FINE, ArrayMeans, ArrayPlan, Rule, array_plans, check_rule
from dpops.mechanism import Integers, Mechanism, Plan, with_noise
from dpops.noise import Noise
from dpops.types import CountsKnown, Grid, Int64s


class IntervalChoice(NamedTuple):
    """How the interval of one HAT will be chosen. widest: the longest, in fine steps. facts: of the plan."""

    widest: int
    facts: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClippedArrays(Mechanism):
    """What mechanisms have in common that clip array means to an interval of their own choice."""

    statistics: ClassVar[frozenset[str]] = frozenset({"mean"})
    adjacencies: ClassVar[frozenset[Adjacency]] = frozenset({"counts-public"})
    chooses: ClassVar[bool] = True

    m_ub: Rule = "argmax"

    def __post_init__(self) -> None:
        check_rule(self.m_ub)

    @classmethod
    def examples(cls) -> Sequence[Self]:
        return [cls(), cls(m_ub=3)]

    def choice(self, arrays: int, m_ub: int, upper: int, epsilon: Fraction) -> IntervalChoice:
        """Says how the interval of a HAT of so many arrays will be chosen. upper: U in fine steps."""
        raise NotImplementedError

    def plans(self, hats: Sequence[CountsKnown], grid: Grid, epsilon: Fraction) -> Sequence[ArrayPlan]:
        """Plans to spend half of epsilon on the interval, and half on the mean.

        With one user in one array, the clipped sum moves by at most the interval's length, and by no more than the user
        moves its array. A plan's scale is for the longest interval, its bias bound is all of U; `resolve` makes both
        exact.
        """
        layouts = lay_out_together(hats, grid, epsilon, self.m_ub)
        shapes = [(laid.facts["arrays"], laid.m_ub) for laid in layouts]
        choice_of = {shape: self.choice(*shape, grid.upper_steps * FINE, epsilon) for shape in set(shapes)}
        upper, step = float(grid.upper), float(grid.step)
        clipped = []
        for laid, (widest, of_choice) in zip(layouts, map(choice_of.__getitem__, shapes), strict=True):
            facts = {**laid.facts, "grouping_bias": math.ceil(laid.bias * FINE / step), **of_choice}
            clipped.append(laid._replace(moved=min(widest, laid.moved), bias=upper, facts=facts))
        return array_plans(self.name, clipped, grid, epsilon, epsilon / 2)


def clipped_release(
    arrays: ArrayMeans, low: Int64s, high: Int64s, choices: Sequence[list[int]], plans: Sequence[Plan], noise: Noise
) -> list[Integers]:
    """Releases of each HAT its choices and the noisy sum of its array means clipped to [low, high], in fine steps."""
    clipped = np.clip(arrays.means, np.repeat(low, arrays.numbers), np.repeat(high, arrays.numbers))
    exact = np.add.reduceat(clipped, arrays.first) if low.size else low
    scales = [_scale(a, b, plan) for a, b, plan in zip(low.tolist(), high.tolist(), plans, strict=True)]
    noisy = with_noise(exact, scales, noise)
    return [[*choice, integer] for choice, integer in zip(choices, noisy, strict=True)]


def with_interval(low: int, high: int, plan: Plan) -> Plan:
    """Completes the plan by the known interval: clipping moves an array mean by `low` up or U - `high` down at most."""
    fine_step = float(plan.step * plan.facts["arrays"])
    clipping = max(low, plan.facts["upper_steps"] * FINE - high)
    bias = min((clipping + plan.facts["grouping_bias"]) * fine_step, float(plan.upper))
    return replace(plan, scale=_scale(low, high, plan), bias_bound=bias)


def _scale(low: int, high: int, plan: Plan) -> Fraction:
    """Scales noise to the drawn interval: the plan's, in proportion to what one user can still move."""
    widest = plan.sensitivity
    return plan.scale * Fraction(min(high - low, widest), widest)
