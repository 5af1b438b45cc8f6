"""AKMV: users' sums, clipped at a private upper quantile."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dpops.forecast import HatCounts, clamped_errors
from dpops.means.clipping import private_quantiles
from dpops.means.forecasts import chunks, expected_quantiles
from dpops.mechanism import Integers, Mechanism, Plan, Totals, check_plan_input, facts_of, stack, with_noise
from dpops.noise import Noise
from dpops.noise.exponential import MOST_CANDIDATES
from dpops.types import CountsKnown, Float64s, Grid

_NODES = 64  # equally likely ones, which stand for T's law in a forecast


@dataclass(frozen=True, slots=True)
class Akmv(Mechanism):
    """Noisy sum of users' sums, privately clipped at T.

    T is drawn with epsilon / 2 near the t-th largest sum of a user, t = min(ceil(2 / epsilon), L), from [0, U m_max] in
    at most 2**30 candidates. Released: T, and the noisy sum in grid steps; one user moves it by at most T.
    Source: S4 section on AKMV (item-level clipping of Amin, Kulesza, Munoz and Vassilvitskii 2019, on user sums).
    """

    name = "akmv"
    chooses = True

    def plan(self, hat: CountsKnown, grid: Grid, epsilon: Fraction) -> Plan:
        """Plans the clipping bound's rank and the noisy sum.

        rank: of T, from below. coarse: bits that sums drop so that candidates stay below 2**30. count_i, users_i: how
        many users have a count, from which the bias of clipping at T follows once it is drawn.
        """
        counts, reported = hat
        check_plan_input(counts, reported, grid.upper_steps, epsilon)
        facts = facts_of(hat, grid)
        max_sum = grid.upper_steps * facts["heaviest"]
        distinct, users = np.unique(counts, return_counts=True)
        by_count: dict[str, int] = {}
        for index, (count, number) in enumerate(zip(distinct[::-1].tolist(), users[::-1].tolist(), strict=True), 1):
            by_count |= {f"count_{index}": count, f"users_{index}": number}
        return Plan(
            mechanism=self.name,
            epsilon=epsilon,
            step=grid.step / facts["samples"],
            scale=2 * max_sum / epsilon,  # half of epsilon is for T, which `resolve` puts in place of max_sum
            upper=grid.upper,
            bias_bound=float(grid.upper),
            sensitivity=max_sum,
            facts={
                **facts,
                "rank": counts.size - min(math.ceil(2 / epsilon), counts.size),
                "coarse": max(0, max_sum.bit_length() - (MOST_CANDIDATES.bit_length() - 1)),
                "counts": distinct.size,
                **by_count,
            },
        )

    def forecasts(self, hats: HatCounts) -> Float64s:
        """Forecasts errors by HAT under the prior."""
        errors, epsilon = [], float(hats.epsilon)
        # Chunks are for 4 numbers of each user; for all _NODES they would be smaller, and slower.
        matrices = (matrix[rows] for matrix in hats.counts for rows in chunks(len(matrix), 4 * matrix.shape[1]))
        for counts in matrices:
            samples = counts.sum(axis=1)[:, None]
            max_sums = (hats.upper * counts[:, 0]).astype(np.float64)  # counts descend
            sums = np.clip(counts * hats.prior.mean, 0.0, max_sums[:, None])  # as if all users had the prior's mean
            rank = counts.shape[1] - min(math.ceil(2 / hats.epsilon), counts.shape[1])
            # Equally likely T, (HATs, _NODES); then the error of each, averaged.
            drawn = expected_quantiles(np.sort(sums, axis=1), max_sums, rank, epsilon / 2, _NODES)
            excess = sums[:, :, None] - drawn[:, None, :]  # (HATs, users, _NODES)
            bias = -np.maximum(excess, 0.0, out=excess).sum(axis=1) / samples  # in place, as it is large
            true = sums.sum(axis=1)[:, None] / samples  # below: T / (epsilon / 2) is the noise scale of the sum
            errors.append(clamped_errors(true, hats.upper, bias, 2 * drawn / (samples * epsilon)).mean(axis=1))
        return np.concatenate(errors)

    def release(self, totals: Sequence[Totals], plans: Sequence[Plan], noise: Noise) -> list[Integers]:
        """Draws the noisy integers of planned HATs."""
        users = stack(totals, plans)  # of all HATs, one after another, checked against plans
        # By HAT: how many bits sums drop, for few enough candidates of T, and number of users.
        coarse, number = (np.array([plan.facts[name] for plan in plans], np.int64) for name in ("coarse", "users"))
        max_sums = np.array([plan.sensitivity for plan in plans], np.int64)
        ranks = [Fraction(plan.facts["rank"]) for plan in plans]
        half = [plan.epsilon / 2 for plan in plans]
        candidates = -(-max_sums >> coarse)  # rounded up
        drawn = private_quantiles(users.sums >> np.repeat(coarse, number), users.start, candidates, ranks, half, noise)
        bound = np.minimum(drawn << coarse, max_sums)  # candidates are multiples of 2**coarse
        exact = np.add.reduceat(np.minimum(users.sums, np.repeat(bound, number)), users.start)
        limits = bound.tolist()
        scales = [plan.scale * Fraction(limit, plan.sensitivity) for limit, plan in zip(limits, plans, strict=True)]
        return [[limit, noisy] for limit, noisy in zip(limits, with_noise(exact, scales, noise), strict=True)]

    @staticmethod
    def resolve(integers: Sequence[int], plan: Plan) -> Plan:
        """Computes noise and worst bias at the drawn T.

        The bias of sum(min(s, T)) / n, s a user's sum, is the distance from the mean of all R reported samples, of
        which n are left. Either every dropped sample is at U, and a user with c samples at U where c U / R -
        min(c U, T) / n is positive, else at 0; or every dropped sample is at 0, and every user's sum at min(c U, T).
        The distance is linear in a user's sum below T and above it, so no other sums are worse.
        Stored plans without all counts keep their released, looser bound: of a sum of samples all at U, only T is left.
        """
        bound, widest, facts = integers[0], plan.sensitivity, plan.facts  # in steps, the first two
        samples, reported, upper = facts["samples"], facts["reported"], facts["upper_steps"]
        if "counts" in facts:
            below, above = Fraction((reported - samples) * upper, reported), Fraction(0)
            for index in range(1, facts["counts"] + 1):
                users, max_sum = facts[f"users_{index}"], facts[f"count_{index}"] * upper
                clipped = Fraction(min(max_sum, bound), samples)
                below += users * max(Fraction(max_sum, reported) - clipped, Fraction(0))
                above += users * clipped * (1 - Fraction(samples, reported))
            steps = max(below, above)
        else:
            clipping = Fraction(samples * upper - bound, samples) if bound < widest else Fraction(0)
            steps = clipping + upper * (1 - Fraction(samples, reported))
        bias = float(min(steps * plan.upper / upper, plan.upper))
        return replace(plan, scale=plan.scale * Fraction(bound, widest), bias_bound=bias)
