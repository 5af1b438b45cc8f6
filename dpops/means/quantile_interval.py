"""The interval between two private quantiles of the array means: what both Quantile mechanisms share."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpops.forecast import Float64s, HatCounts
from dpops.means.arrays import FINE, array_means
from dpops.means.clipped_mean import ClippedArrays, IntervalChoice, clipped_release, with_interval
from dpops.means.forecasts import (
    Ends,
    LaidMany,
    chunks,
    ends_of,
    expected_quantiles,
    interval_errors_of,
    interval_forecasts,
)
from dpops.means.quantile import private_quantiles
from dpops.mechanism import Integers, Plan, Totals
from dpops.noise import Noise

_POINTS = 16
"""A forecast stands each quantile's law by so many points of equal probability."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantileInterval(ClippedArrays):
    """Two private quantiles of the array means with epsilon / 4 each, then the noisy mean of the clipped means.

    Released: the lower and the upper quantile, and the noisy sum of the clipped means, all in fine steps.
    """

    @staticmethod
    def rank(arrays: int, epsilon: Fraction) -> Fraction:
        """Computes the target of the lower end, counted from below; that of the upper end is as far from above."""
        raise NotImplementedError

    def choice(self, arrays: int, m_ub: int, upper: int, epsilon: Fraction) -> IntervalChoice:  # noqa: ARG002
        rank = self.rank(arrays, epsilon)
        return IntervalChoice(upper, {"rank_numerator": rank.numerator, "rank_denominator": rank.denominator})

    def forecasts(self, hats: HatCounts) -> Float64s:
        quarter, upper_steps = float(hats.epsilon) / 4, hats.grid.upper_steps * FINE

        def errors(means: Float64s, laid: LaidMany) -> Float64s:
            arrays, upper, errors = means.shape[1], np.full(len(means), hats.upper), np.zeros(len(means))
            rank = float(self.rank(arrays, hats.epsilon))
            drawn = [expected_quantiles(means, upper, order, quarter, _POINTS) for order in (rank, arrays - rank)]
            ends = [ends_of(means, order) for order in drawn]
            sensitivity = np.minimum(upper_steps, laid.moved)
            for some in chunks(len(means), _POINTS**2):
                width, clipped = _pairs(*(Ends(*(column[some] for column in end)) for end in ends))
                errors[some] = interval_errors_of(hats, means[some], clipped, width, sensitivity[some]).mean(axis=1)
            return errors

        return interval_forecasts(hats, self.m_ub, errors)

    def release(self, totals: Sequence[Totals], plans: Sequence[Plan], noise: Noise) -> list[Integers]:
        arrays = array_means(totals, plans)
        upper = np.array([plan.facts["upper_steps"] * FINE for plan in plans], np.int64)
        quarter = [plan.epsilon / 4 for plan in plans]
        lower_ranks = [Fraction(plan.facts["rank_numerator"], plan.facts["rank_denominator"]) for plan in plans]
        upper_ranks = [plan.facts["arrays"] - rank for plan, rank in zip(plans, lower_ranks, strict=True)]
        ends = [
            private_quantiles(arrays.means, arrays.first, upper, ranks, quarter, noise)
            for ranks in (lower_ranks, upper_ranks)
        ]
        low, high = np.minimum(*ends), np.maximum(*ends)  # independent draws may cross; sorting is post-processing
        choices = [list(pair) for pair in zip(low.tolist(), high.tolist(), strict=True)]
        return clipped_release(arrays, low, high, choices, plans, noise)

    @staticmethod
    def resolve(integers: Sequence[int], plan: Plan) -> Plan:
        low, high, _ = integers
        return with_interval(low, high, plan)


def _pairs(one: Ends, other: Ends) -> tuple[Float64s, Float64s]:
    """Computes every interval's length, from an end to another, and its sum of clipped means; (HATs, ends^2) each."""
    one, other = Ends(*(column[:, :, None] for column in one)), Ends(*(column[:, None, :] for column in other))
    # The higher of two ends has no fewer means below it, so all but what lies above it is more, or equal.
    clipped = np.minimum(one.moved_up, other.moved_up) + np.maximum(one.below, other.below)
    clipped -= np.minimum(one.below, other.below)
    clipped += np.where(one.places > other.places, one.moved_down, other.moved_down)
    hats = len(clipped)
    return np.abs(one.places - other.places).reshape(hats, -1), clipped.reshape(hats, -1)
