"""Laplace mechanism on the pooled sum or users' means."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from dpops.forecast import HatCounts
from dpops.means.arrays import FINE_PER_STEP
from dpops.means.capping import CapRule, chosen, retained, weights
from dpops.means.forecasts import errors_around, errors_of_weights, quotients
from dpops.mechanism import Integers, Mechanism, Plan, Totals, check_plan_input, facts_of, noisy_integers, stack
from dpops.noise import Noise
from dpops.types import CountsKnown, Float64s, Grid


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline(Mechanism):
    """Noisy sum of samples, or of users' means.

    m_ub: "none" caps nobody; a number caps each user at so many samples, by scaling its sum; "opt" takes the cap of
    least worst bias plus noise. With a cap the integer is the exact sum rounded down to fine steps; as
    floor(a) - floor(b) <= ceil(a - b), one user moves it by at most its U m_ub.
    Source: S0/S1 "Baseline": f + Lap(U m_max / (n epsilon)); on the integer sum the sensitivity U m_max is exact. The
    cap: algorithms 9.4; its bias is U times the weight moved, S0 section on clipping bias.

    statistic: "mean-of-vehicles" (`counts_once`) releases the sum of the L users' means, as a cap at one sample leaves:
    the floor of the rational F sum_v s_v / c_v; s_v: sum in grid steps, c_v: samples, F: FINE_PER_STEP. One s_v / c_v
    lies in [0, U], so moves the rational by at most F U, a whole number, and the floor no more: attained from 0 to U.
    Bias, if D samples were dropped: a_v of each user who is left, and all of e others, sum a_v + e <= D. The true mean
    gives s_v / c_v the weight c_v / (c_v + a_v) / (L + e) <= 1 / L; these weights agree with the released ones for a
    share of sum 1 / (1 + a_v) / (L + e) or more, so of L^2 / ((L + sum a_v) (L + e)) by Cauchy and Schwarz, so of
    (L / (L + D / 2))^2, as a product of a known sum is largest where both are equal. U times the rest,
    1 - (2 L / (2 L + D))^2, is the worst bias; none without D.
    """

    name = "baseline"
    statistics = frozenset({"mean", "mean-of-vehicles"})
    example_options = ({}, {"m_ub": "opt"}, {"m_ub": 3}, {"statistic": "mean-of-vehicles"})

    m_ub: CapRule = "none"
    statistic: Literal["mean", "mean-of-vehicles"] = "mean"

    def __post_init__(self) -> None:
        Mechanism.__post_init__(self)
        if self.counts_once and self.m_ub != "none":
            raise ValueError("m_ub does not go with mean-of-vehicles, where every vehicle counts once")

    @property
    def counts_once(self) -> bool:
        """Whether every user counts once, not with its samples."""
        return self.statistic == "mean-of-vehicles"

    def plan(self, hat: CountsKnown, grid: Grid, epsilon: Fraction) -> Plan:
        """Plans a noisy sum within a cap on samples."""
        counts, reported = hat
        m_ub = 1 if self.counts_once else self.m_ub
        check_plan_input(counts, reported, grid.upper_steps * (1 if m_ub == "none" else FINE_PER_STEP), epsilon)
        rate = float(epsilon)
        # Of least bias plus noise, both as parts of U.
        cap = chosen(m_ub, counts, reported, lambda cap: cap.share_moved + cap.max_count / (cap.samples * rate))
        moved = Fraction(*cap.moved_weight)  # the most that the cap moves the mean by, as a part of U
        if self.counts_once:  # worst case of dropped samples, see the class: L is counts.size
            moved = 1 - Fraction(2 * counts.size, 2 * counts.size + reported - int(counts.sum())) ** 2
        fine = 1 if cap.is_uncapped else FINE_PER_STEP  # a capped user's share of a sum is no whole number of steps
        step = grid.step / (fine * cap.samples)
        sensitivity = fine * grid.upper_steps * cap.max_count
        return Plan(
            mechanism=self.name,
            epsilon=epsilon,
            step=step,
            scale=sensitivity / epsilon,
            upper=grid.upper,
            bias_bound=float(grid.upper * moved),
            sensitivity=sensitivity,
            facts={**facts_of(hat, grid), **cap.facts()},
            rounding=float(grid.step / 2 + (0 if cap.is_uncapped else step)),  # of samples to the grid; of a capped sum
        )

    def forecasts(self, hats: HatCounts) -> Float64s:
        """Forecasts errors by HAT: noise, and bias of users' changed weights."""
        if self.counts_once or self.m_ub != "none":  # of means of users, or capped counts: weights may change
            plans, counts = self.plans(list(hats), hats.grid, hats.epsilon), [hat.counts for hat in hats]
            raw_weights = (np.ones_like(column) if self.counts_once else column for column in counts)
            true_weights = (column / column.sum() for column in raw_weights)  # in the true mean; `weights`: as planned
            return errors_of_weights(hats, plans, map(np.subtract, map(weights, plans, counts), true_weights))
        heaviest = hats.of_each(lambda counts: counts[:, 0])  # counts descend
        scale = quotients(heaviest, hats.samples, factor=hats.grid.upper_steps * hats.grid.step / hats.epsilon)
        return errors_around(hats, np.zeros(scale.size), scale, points=1)  # Laplace noise; a bias of sd 0: one point

    def release(self, totals: Sequence[Totals], plans: Sequence[Plan], noise: Noise) -> list[Integers]:
        """Draws the noisy sums of planned HATs."""
        users = stack(totals, plans)  # of all HATs, one after another, checked against plans
        sums = retained(users, [users.sums], plans)
        # A HAT's sum is total / denominator in grid steps: whole if nobody is capped, else floored to fine steps.
        fine = [FINE_PER_STEP if "m_ub" in plan.facts else 1 for plan in plans]
        exact = [steps * total // denominator for steps, (denominator, (total,)) in zip(fine, sums, strict=True)]
        return noisy_integers(np.array(exact, np.int64), plans, noise)
