"""The plain Laplace mechanism on the pooled sum: no clipping, noise for the heaviest user."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from dpops.accuracy import Prior, clamped_errors
from dpops.mechanism import Integers, Mechanism, Plan, Totals, check_plan_input, stack, with_noise
from dpops.noise import Noise
from dpops.privacy import Adjacency
from dpops.types import Grid, Int64s


@dataclass(frozen=True, slots=True)
class Baseline(Mechanism):
    """Releases the noisy sum of all kept samples; the public count turns it into a mean.

    Source: S0/S1 "Baseline": f + Lap(U m_max / (n epsilon)); here on the integer sum, so sensitivity U m_max is exact.
    """

    name: ClassVar[str] = "baseline"
    statistic: ClassVar[str] = "mean"
    adjacencies: ClassVar[frozenset[Adjacency]] = frozenset({"counts-public"})

    def plan(self, counts: Int64s, reported: int, grid: Grid, epsilon: Fraction) -> Plan:
        check_plan_input(counts, reported, grid.upper_steps, epsilon)
        samples = int(counts.sum())
        sensitivity = grid.upper_steps * int(counts.max())
        return Plan(
            mechanism=self.name,
            epsilon=epsilon,
            step=grid.step / samples,
            scale=sensitivity / epsilon,
            upper=grid.upper,
            bias_bound=float(grid.upper * (1 - Fraction(samples, reported))),
            facts={
                "users": counts.size,
                "samples": samples,
                "heaviest": int(counts.max()),
                "reported": reported,
                "upper_steps": grid.upper_steps,
                "sensitivity": sensitivity,
            },
        )

    def forecast(self, plan: Plan, counts: Int64s, prior: Prior) -> float:  # noqa: ARG002 - the interface
        means = prior.hat_means(float(plan.upper))
        return float(clamped_errors(means, float(plan.upper), np.zeros(1), float(plan.scale * plan.step)).mean())

    def release(self, totals: Sequence[Totals], plans: Sequence[Plan], noise: Noise) -> list[Integers]:
        users = stack(totals, plans)
        exact = np.add.reduceat(users.sums, users.start) if users.start.size else users.sums
        return [[integer] for integer in with_noise(exact, [plan.scale for plan in plans], noise)]
