"""Worst-case-optimal bounding: heavy users' sums are clipped around U/2."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from dpops.forecast import HatCounts, clamped_errors, normal_scores
from dpops.means.arrays import groups_of
from dpops.means.forecasts import BIAS_POINTS, chunks, distinct_rows, quotients
from dpops.mechanism import Integers, Mechanism, Plan, Totals, check_plan_input, facts_of, noisy_integers, stack
from dpops.noise import Noise
from dpops.types import CountsKnown, Float64s, Grid, Int64s


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstCaseOptimal(Mechanism):
    """Noisy sum of users' sums, each clipped to T.

    Where U m > T that is [(U m - T) / 2, (U m + T) / 2]: worst bias plus noise is least. T is the k-th largest U m,
    k = ceil(2 / epsilon), or 0 if there are fewer users (the release is then U/2 without a draw, so it costs nothing).
    Every user's samples stand at the user's mean. If 2 / epsilon is an integer, every T from the (k+1)-th to the k-th
    largest is as good in the worst case; `tie` takes the largest, or the smallest, which is better on average. With
    `constant` T is 0. Integers are in half grid steps, so bounds are whole; one user moves their sum by at most 2 T.
    Source: S4 Theorem III.1; the worst bias of both sides (erratum E3) agrees there with the published one.
    """

    name = "worst-case-optimal"
    may_be_constant = True
    example_options = candidate_options = ({}, {"tie": "smallest"})

    tie: Literal["largest", "smallest"] = "largest"
    constant: bool = False

    def plan(self, hat: CountsKnown, grid: Grid, epsilon: Fraction) -> Plan:
        """Plans the clipping bound of smallest worst-case error."""
        counts, reported = hat
        check_plan_input(counts, reported, 2 * grid.upper_steps, epsilon)
        bound = grid.upper_steps * int(self._bounded_count(np.sort(counts)[::-1], epsilon))
        samples = int(counts.sum())
        clipped = np.maximum(counts * grid.upper_steps - bound, 0)  # of users' ranges [0, U m], half at either end
        clipping = Fraction(int(clipped.sum()), 2 * samples) * grid.step
        left_out = 1 - Fraction(samples, reported)  # share of samples beyond a cap, which may all be at the other end
        bias = clipping + grid.upper * left_out if bound else grid.upper / 2
        return Plan(
            mechanism=self.name,
            epsilon=epsilon if bound else Fraction(0),
            step=grid.step / (2 * samples),
            scale=2 * bound / epsilon,
            upper=grid.upper,
            bias_bound=float(bias),
            sensitivity=2 * bound,
            facts={
                **facts_of(hat, grid),
                "bound": bound,
                **({} if bound else {"constant": samples * grid.upper_steps}),
            },
        )

    def forecasts(self, hats: HatCounts) -> Float64s:
        """Forecasts mean absolute errors, (HATs,) in units, under the prior."""
        # At each equally likely mean of a HAT, the same few for all HATs, the bias is taken as normal: its mean and sd
        # follow from moments of what clipping moves each user's mean by, as users are independent.
        bound = hats.grid.upper_steps * hats.of_each(lambda counts: self._bounded_count(counts, hats.epsilon))
        scores = normal_scores(BIAS_POINTS)
        scale = quotients(bound, hats.samples, factor=hats.grid.step / hats.epsilon)
        means, mean_errors = hats.prior.hat_means(hats.upper)[:, None], np.zeros(bound.size)  # means: (means, 1)
        clipped_users, shares, columns, moments = _clipped(hats, bound, means)
        start = np.cumsum(clipped_users) - clipped_users
        for users, hats_of_size in groups_of(clipped_users):  # HATs of equally many, for rectangular arrays
            for rows in chunks(hats_of_size.size, means.size * max(users, scores.size)):
                hat = hats_of_size[rows]
                entries = start[hat, None] + np.arange(users)  # a HAT's clipped users follow one another
                share, column = shares[entries], columns[entries]  # (HATs, users): of samples; in `moments`
                first, second = (moment.take(column, axis=1) for moment in moments)  # (means, HATs, users)
                bias = (share * first).sum(axis=2).T  # (HATs, means), in units
                sd = np.sqrt(np.maximum((share**2 * (second - first**2)).sum(axis=2), 0.0)).T
                around = bias[:, :, None] + sd[:, :, None] * scores  # (HATs, means, BIAS_POINTS)
                errors = clamped_errors(means, hats.upper, around, scale[hat, None, None])
                mean_errors[hat] = errors.reshape(hat.size, -1).mean(axis=1)
        return mean_errors

    def _bounded_count(self, counts: Int64s, epsilon: Fraction) -> Int64s:
        """Picks m of T = U m by HAT from descending counts, (.., users)."""
        rank = math.ceil(2 / epsilon)
        if self.tie == "smallest" and rank * epsilon == 2:
            rank += 1
        of_rank = counts[..., rank - 1 : rank]  # none where there are fewer users
        return np.asarray(of_rank.sum(axis=-1) * (not self.constant))

    def release(self, totals: Sequence[Totals], plans: Sequence[Plan], noise: Noise) -> list[Integers]:
        """Draws the noisy clipped sums of planned HATs."""
        users = stack(totals, plans)  # of all HATs, one after another, checked against plans
        names = "bound", "upper_steps", "users"
        bound, upper, users_of_hat = (np.array([plan.facts[name] for plan in plans], np.int64) for name in names)
        max_sums = users.counts * np.repeat(upper, users_of_hat)  # U m
        bound = np.repeat(bound, users_of_hat)
        clipped = np.clip(2 * users.sums, max_sums - bound, max_sums + bound)  # in half steps
        return noisy_integers(np.add.reduceat(clipped, users.start), plans, noise)


def _clipped(
    hats: HatCounts, bound: Int64s, means: Float64s
) -> tuple[Int64s, Float64s, Int64s, tuple[Float64s, Float64s]]:
    """Computes how far clipping at T, `bound` by HAT, moves users' means.

    means: equally likely ones of a HAT, (means, 1). Returns the number of clipped users of each HAT; of each of them
    its share of the HAT's samples, and its column in the first and second moments; these, (means, columns) each. Users
    of equal counts and T have one column.
    """
    size = hats.of_each(lambda counts: np.full(len(counts), counts.shape[1]))  # (HATs,); counts: (HATs, users)
    hat, counts = np.repeat(np.arange(size.size), size), hats.of_each(np.ravel)  # of every user, HAT after HAT
    reach = (bound * hats.upper / hats.grid.upper_steps)[hat] / (2 * counts)  # of a mean from U / 2, after clipping
    heavy = np.flatnonzero(reach < hats.upper / 2)
    hat, counts, reach = hat[heavy], counts[heavy], reach[heavy]
    column_user, column = distinct_rows(counts, bound[hat])
    # A user's mean is normal, of `sd`: means and mean squares of how far clipping raises and lowers it.
    sd, reach = np.maximum(hats.prior.mean_sd(counts[column_user]), 1e-9), reach[column_user]  # never divided by 0
    raised, raised_square = _excess((hats.upper / 2 - reach - means) / sd, sd)
    lowered, lowered_square = _excess((means - hats.upper / 2 - reach) / sd, sd)
    moments = raised - lowered, raised_square + lowered_square
    return np.bincount(hat, minlength=size.size), counts / hats.samples[hat], column, moments


def _excess(edge: Float64s, sd: Float64s) -> tuple[Float64s, Float64s]:
    """Computes mean and mean square of sd max(0, edge - Z), Z standard normal.

    By parts E[max(0, a - Z)] = a P(a) + p(a), and E[max(0, a - Z)^2] = (a^2 + 1) P(a) + a p(a), with a the edge.
    """
    density = np.exp(-edge * edge / 2) / math.sqrt(2 * math.pi)
    below = np.array([math.erfc(-x / math.sqrt(2)) / 2 for x in edge.ravel().tolist()]).reshape(edge.shape)
    return sd * (edge * below + density), sd * sd * ((edge * edge + 1) * below + edge * density)
