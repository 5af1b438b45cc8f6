"""The plain Laplace mechanism on the pooled sum: noise for the heaviest user, which a cap can make lighter."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from dpops.claims import Adjacency
from dpops.forecast import Prior, clamped_errors, normal_scores
from dpops.means.arrays import FINE
from dpops.means.capping import CapRule, CountCap, Retained, check_cap, chosen, retained, weights
from dpops.mechanism import Integers, Mechanism, Plan, Totals, check_plan_input, facts_of, stack, with_noise
from dpops.noise import Noise
from dpops.types import CountsKnown, Grid, Int64s


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline(Mechanism):
    """Releases the noisy sum of all kept samples; the public count turns it into a mean.

    m_ub: "none" leaves every user as it is; a number caps each at so many samples, by scaling its own sum; "opt" takes
    the cap of least worst bias plus noise. Where somebody is capped the integer is the exact sum rounded down to fine
    steps; as floor(a) - floor(b) <= ceil(a - b), one user moves it by at most its U m_ub.
    Source: S0/S1 "Baseline": f + Lap(U m_max / (n epsilon)); here on the integer sum, so sensitivity U m_max is exact.
    The cap: algorithms 9.4; its bias is U times the weight moved, S0 section on clipping bias.
    """

    name: ClassVar[str] = "baseline"
    statistics: ClassVar[frozenset[str]] = frozenset({"mean"})
    adjacencies: ClassVar[frozenset[Adjacency]] = frozenset({"counts-public"})

    m_ub: CapRule = "none"

    def __post_init__(self) -> None:
        check_cap(self.m_ub)

    @classmethod
    def examples(cls) -> Sequence["Baseline"]:
        return [cls(), cls(m_ub="opt"), cls(m_ub=3)]

    def plan(self, known: CountsKnown, grid: Grid, epsilon: Fraction) -> Plan:
        counts, reported = known
        check_plan_input(counts, reported, grid.upper_steps * (1 if self.m_ub == "none" else FINE), epsilon)
        rate = float(epsilon)
        cap = chosen(self.m_ub, counts, reported, lambda cap: _worst(cap, rate))
        fine = 1 if cap.whole else FINE
        step = grid.step / (fine * cap.kept)
        sensitivity = fine * grid.upper_steps * cap.most
        return Plan(
            mechanism=self.name,
            epsilon=epsilon,
            step=step,
            scale=sensitivity / epsilon,
            upper=grid.upper,
            bias_bound=float(grid.upper * Fraction(*cap.moved)),
            facts={**facts_of(known, grid), **cap.facts(), "sensitivity": sensitivity},
            rounding=float(grid.step / 2 if cap.whole else grid.step / 2 + step),
        )

    def forecast(self, plan: Plan, counts: Int64s, prior: Prior) -> float:
        spread = prior.spread(weights(plan, counts) - counts / plan.facts["samples"], counts)
        bias = spread * normal_scores(32 if spread > 0 else 1)
        means = prior.hat_means(float(plan.upper))[:, None]
        return float(clamped_errors(means, float(plan.upper), bias, float(plan.scale * plan.step)).mean())

    def release(self, totals: Sequence[Totals], plans: Sequence[Plan], noise: Noise) -> list[Integers]:
        users = stack(totals, plans)
        sums = retained(users, [users.sums], plans)
        exact = [_in_steps(each, plan) for each, plan in zip(sums, plans, strict=True)]
        drawn = with_noise(np.array(exact, np.int64), [plan.scale for plan in plans], noise)
        return [[integer] for integer in drawn]


def _worst(cap: CountCap, epsilon: float) -> float:
    """Worst bias plus noise, per U."""
    moved, whole = cap.moved
    return moved / whole + cap.most / (cap.kept * epsilon)


def _in_steps(sums: Retained, plan: Plan) -> int:
    """The sum over what is retained: exact if nobody is capped, else floored to fine steps."""
    (total,) = sums.totals
    return (FINE if "m_ub" in plan.facts else 1) * total // sums.denominator
