"""Array-Averaging: the mean of the means of equal-sized arrays (pseudo-users) that share users' samples."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal

import numpy as np

from dpops.claims import Adjacency
from dpops.forecast import Float64s, Prior, clamped_errors, normal_scores
from dpops.means.arrays import FINE, ArrayPlan, Arrays, Rule, array_means, check_rule, lay_out, spread
from dpops.means.many import Many, errors_around, quotients
from dpops.means.together import lay_out_together
from dpops.mechanism import Integers, Mechanism, Plan, Totals, with_noise
from dpops.noise import Noise
from dpops.types import CountsKnown, Grid, Int64s


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayAverage(Mechanism):
    """Groups capped users into arrays, averages the array means, adds noise for the user with the largest share.

    Every slot of a user holds the mean of all the user's samples. All divisions round down to a fine integer grid;
    a user who holds r of an array's w slots then moves its mean by at most ceil(U r / w) fine steps, and the
    sensitivity is the largest sum of those over a user's arrays.
    Source: S0/S1 "Array-Averaging", with the exact sensitivities (erratum E2: published WrapAround is twice too large).
    """

    name: ClassVar[str] = "array-average"
    statistics: ClassVar[frozenset[str]] = frozenset({"mean"})
    adjacencies: ClassVar[frozenset[Adjacency]] = frozenset({"counts-public"})

    m_ub: Rule = "median"
    grouping: Literal["best-fit", "wrap-around"] = "best-fit"

    def __post_init__(self) -> None:
        check_rule(self.m_ub)

    @classmethod
    def examples(cls) -> Sequence["ArrayAverage"]:
        rules: list[Rule] = ["median", "argmax", "opt", "convex", 3]
        wrapped: list[Rule] = ["median", "argmax"]
        return [cls(m_ub=rule) for rule in rules] + [cls(m_ub=rule, grouping="wrap-around") for rule in wrapped]

    @classmethod
    def candidates(cls) -> Sequence["ArrayAverage"]:
        return [cls(), cls(m_ub="argmax")]

    def plan(self, known: CountsKnown, grid: Grid, epsilon: Fraction) -> ArrayPlan:
        return self._plans([lay_out(known, grid, epsilon, self.m_ub, self.grouping)], grid, epsilon)[0]

    def plans(self, known: Sequence[CountsKnown], grid: Grid, epsilon: Fraction) -> Sequence[ArrayPlan]:
        if self.grouping != "best-fit":
            return [self.plan(each, grid, epsilon) for each in known]
        return self._plans(lay_out_together(known, grid, epsilon, self.m_ub), grid, epsilon)

    def _plans(self, found: Sequence[Arrays], grid: Grid, epsilon: Fraction) -> list[ArrayPlan]:
        """Steps, by the number of arrays, and scales, by what one user moves, are made once: HATs share them."""
        steps = {n: grid.step / (FINE * n) for n in {laid.facts["arrays"] for laid in found}}
        scales = {moved: moved / epsilon for moved in {laid.moved for laid in found}}
        return [
            ArrayPlan(
                mechanism=self.name,
                epsilon=epsilon,
                step=steps[laid.facts["arrays"]],
                scale=scales[laid.moved],
                upper=grid.upper,
                bias_bound=laid.bias,
                facts={**laid.facts, "sensitivity": laid.moved},
                grouping=laid.grouping,
                weight=laid.weight,
            )
            for laid in found
        ]

    def forecast(self, plan: Plan, counts: Int64s, prior: Prior) -> float:
        bias = spread(plan, counts, prior) * normal_scores(32)
        means = prior.hat_means(float(plan.upper))[:, None]
        return float(clamped_errors(means, float(plan.upper), bias, float(plan.scale * plan.step)).mean())

    def forecasts(self, hats: Many) -> Float64s:
        if self.grouping != "best-fit":
            raise NotImplementedError("only BestFit lays out many HATs together")
        laid = hats.laid(self.m_ub)
        scale = quotients(laid.moved, laid.arrays, hats.grid.step / (FINE * hats.epsilon))
        return errors_around(hats, laid.spread, scale)

    def release(self, totals: Sequence[Totals], plans: Sequence[Plan], noise: Noise) -> list[Integers]:
        arrays = array_means(totals, plans)
        exact = np.add.reduceat(arrays.means, arrays.first) if plans else arrays.means
        return [[integer] for integer in with_noise(exact, [plan.scale for plan in plans], noise)]
