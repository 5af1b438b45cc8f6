"""Means of array means clipped to a private interval.

But for forecasts, array means, intervals' ends and U are in fine steps, of 1 / FINE_PER_STEP grid step. Plans are for
the longest interval that may be drawn; the drawn one takes their noise (`_scale`) and bias (`with_interval`) down.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from statistics import fmean

import numpy as np

from dpops.forecast import HatCounts, normal_scores
from dpops.means import forecasts
from dpops.means.arrays import FINE_PER_STEP, ArrayMeans, Rule, array_means, array_plans, groups_of, lay_out_together
from dpops.means.forecasts import Ends, LaidMany
from dpops.mechanism import Integers, Mechanism, Plan, Totals, with_noise
from dpops.noise import Noise
from dpops.noise.exponential import choose
from dpops.types import CountsKnown, Float64s, Grid, Int64s


def private_quantiles(
    values: Int64s, first: Int64s, upper: Int64s, ranks: Sequence[Fraction], epsilons: Sequence[Fraction], noise: Noise
) -> Int64s:
    """Draws per HAT an integer near a target rank, by the exponential mechanism.

    values: int64, concatenated HATs, in [0, upper]. first: start of each HAT. upper: int64 (HATs,), at most 2**30.
    ranks: targets in [0, number of values], equal for all neighbours. The rank of x is the number of values below it. A
    neighbour that replaces one value moves every rank by at most 1: epsilon-DP.
    Source: Smith 2011, Algorithm 2, on integers: a gap between two values holds as many candidates as it is wide.
    """
    numbers = np.diff(first, append=values.size)
    hat = np.repeat(np.arange(first.size), numbers)
    ordered = values[np.lexsort((values, hat))]
    # The ends of the gaps: 0, the ordered values, upper; one gap more than values in each HAT.
    gap_first = first + np.arange(first.size)
    gaps = numbers + 1
    low = np.zeros(values.size + first.size, np.int64)
    high = np.repeat(upper, gaps)
    position = np.arange(values.size) + hat  # the gap that each ordered value ends; the next one begins at it
    low[position + 1] = ordered
    high[position] = ordered
    rank = np.arange(low.size) - np.repeat(gap_first, gaps)
    # Distances in units of 1 / the target's denominator are integers; a neighbour moves them by that denominator.
    denominators = np.array([target.denominator for target in ranks], np.int64)
    numerators = np.array([target.numerator for target in ranks], np.int64)
    costs = np.abs(rank * np.repeat(denominators, gaps) - np.repeat(numerators, gaps))
    rates = [epsilon / (2 * target.denominator) for epsilon, target in zip(epsilons, ranks, strict=True)]
    drawn = choose(high - low, costs, gap_first, rates, noise)
    return low[drawn.entry] + 1 + drawn.offset  # a gap's candidates are the integers in (low, high]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClippedArrays(Mechanism):
    """Base of mechanisms that clip array means privately."""

    chooses = True
    example_options = ({}, {"m_ub": 3})

    m_ub: Rule = "argmax"

    def choice(self, arrays: int, m_ub: int, upper: int, epsilon: Fraction) -> tuple[int, dict[str, int]]:
        """Computes the longest possible interval, in fine steps, and the choice's public facts.

        arrays: their number. m_ub: samples that one holds at most. upper: U, in fine steps. epsilon: the release's.
        """
        raise NotImplementedError

    def plans(self, hats: Sequence[CountsKnown], grid: Grid, epsilon: Fraction) -> Sequence[Plan]:
        """Plans half of epsilon each for interval and mean.

        A user lies in one array, so the clipped sum moves by at most the interval's length and the user's own move. The
        scale is for the longest interval, the bias bound all of U; `resolve` makes both exact, from the interval and
        `grouping_bias`, that of users' unequal weights in arrays, in fine steps.
        """
        layouts = lay_out_together(hats, grid, epsilon, self.m_ub)
        shapes = [(laid.facts["arrays"], laid.m_ub) for laid in layouts]  # few differ: each is planned once
        # (Longest interval, facts) of the private choice.
        choice_of = {shape: self.choice(*shape, grid.upper_steps * FINE_PER_STEP, epsilon) for shape in set(shapes)}
        upper, step = float(grid.upper), float(grid.step)
        clipped = []
        for laid, (widest, choice_facts) in zip(layouts, map(choice_of.__getitem__, shapes), strict=True):
            facts = {**laid.facts, "grouping_bias": math.ceil(laid.bias * FINE_PER_STEP / step), **choice_facts}
            clipped.append(laid._replace(sensitivity=min(widest, laid.sensitivity), bias=upper, facts=facts))
        return array_plans(self.name, clipped, grid, epsilon, noise_epsilon=epsilon / 2)

    def errors(self, hats: HatCounts, means: Float64s, laid: LaidMany) -> Float64s:
        """Forecasts E|error| of HATs, (HATs,) in units, averaged over drawn intervals.

        means: of arrays, (HATs, arrays), which ascend as the prior expects them, in units. laid: these HATs' layouts.
        """
        raise NotImplementedError

    def forecasts(self, hats: HatCounts) -> Float64s:
        """Forecasts errors by HAT under the prior; equal HATs once."""
        laid = forecasts.laid_out(hats, self.m_ub)
        # First rows of distinct HATs, and each HAT's index among them.
        first, distinct_index = forecasts.distinct_rows(laid.arrays, laid.m_ub, laid.sensitivity, laid.sd)
        distinct, expected = laid.take(first), np.zeros(first.size)
        for arrays, hats_of_size in groups_of(distinct.arrays):  # HATs of equal numbers of arrays, as a matrix
            # With few arrays the mean of the HAT decides where an interval must lie, so there it varies.
            are_few = arrays <= forecasts.FEW_ARRAYS
            likely_means = hats.prior.hat_means(hats.upper).tolist() if are_few else [hats.prior.mean]
            for rows in (hats_of_size[chunk] for chunk in forecasts.chunks(hats_of_size.size, arrays)):
                around = distinct.sd[rows, None] * normal_scores(arrays)  # of array means around the HAT's
                layouts = distinct.take(rows)
                # By mean, then HAT; averaged over means exactly, the same on every machine.
                cases = [self.errors(hats, np.clip(mean + around, 0.0, hats.upper), layouts) for mean in likely_means]
                expected[rows] = [fmean(of_hat) for of_hat in np.transpose(cases).tolist()]
        # Users' weights in arrays are not their shares of samples: independent of clipping, so errors add in squares.
        grouping_error = math.sqrt(2 / math.pi) * laid.grouping_sd  # the mean absolute value of a normal law
        return np.array([*map(math.hypot, expected[distinct_index].tolist(), grouping_error.tolist())])


def clipped_release(
    arrays: ArrayMeans, low: Int64s, high: Int64s, choices: Sequence[list[int]], plans: Sequence[Plan], noise: Noise
) -> list[Integers]:
    """Sums array means, clipped to each HAT's [low, high], with noise.

    low, high: int64 (HATs,), in fine steps. choices: integers of the private choice, released before each noisy sum.
    """
    clipped = np.clip(arrays.means, np.repeat(low, arrays.numbers), np.repeat(high, arrays.numbers))
    exact = np.add.reduceat(clipped, arrays.first)
    scales = [_scale(a, b, plan) for a, b, plan in zip(low.tolist(), high.tolist(), plans, strict=True)]
    return [[*choice, noisy] for choice, noisy in zip(choices, with_noise(exact, scales, noise), strict=True)]


def with_interval(low: int, high: int, plan: Plan) -> Plan:
    """Narrows a plan's noise and bias to the drawn interval, in fine steps.

    A mean at 0 or U moves by as much as the interval leaves out there; grouping users adds to that.
    """
    fine_step = float(plan.step * plan.facts["arrays"])  # in units; the plan's step is of the sum over arrays
    clipping = max(low, plan.facts["upper_steps"] * FINE_PER_STEP - high)
    bias = min((clipping + plan.facts["grouping_bias"]) * fine_step, float(plan.upper))
    return replace(plan, scale=_scale(low, high, plan), bias_bound=bias)


def _scale(low: int, high: int, plan: Plan) -> Fraction:
    """Scales a plan's noise, which is for the longest interval, to the drawn one."""
    widest = plan.sensitivity  # an array moves the sum by no more than this, nor than the interval's length
    return plan.scale * Fraction(min(high - low, widest), widest)


_NODES = 16  # equally likely points that stand for a quantile's law in a forecast


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantileInterval(ClippedArrays):
    """Base of mechanisms that clip to two private quantiles.

    Released: both quantiles, with epsilon / 4 each, and the noisy sum of the clipped means, in fine steps.
    """

    @staticmethod
    def rank(arrays: int, epsilon: Fraction) -> Fraction:
        """Computes the rank of the lower end, mirrored above."""
        raise NotImplementedError

    def choice(self, arrays: int, m_ub: int, upper: int, epsilon: Fraction) -> tuple[int, dict[str, int]]:  # noqa: ARG002
        """Plans the ranks of the interval's quantiles; nothing but U limits its length."""
        rank = self.rank(arrays, epsilon)
        return (upper, {"rank_numerator": rank.numerator, "rank_denominator": rank.denominator})

    def errors(self, hats: HatCounts, means: Float64s, laid: LaidMany) -> Float64s:
        """Averages errors over pairs of equally likely lower and upper ends."""
        arrays, upper, hat_errors = means.shape[1], np.full(len(means), hats.upper), np.zeros(len(means))
        rank = float(self.rank(arrays, hats.epsilon))
        ranks = rank, arrays - rank  # of the lower and the upper end
        quarter, most_steps = float(hats.epsilon) / 4, hats.grid.upper_steps * FINE_PER_STEP  # ends are U apart at most
        drawn = [forecasts.expected_quantiles(means, upper, target, quarter, _NODES) for target in ranks]
        ends = [forecasts.ends_of(means, quantiles) for quantiles in drawn]
        sensitivity = np.minimum(most_steps, laid.sensitivity)  # of the sum
        for rows in forecasts.chunks(len(means), _NODES**2):
            # Every lower end with every upper one, (HATs, _NODES, _NODES): the sum of the means clipped to both.
            low = Ends(*(column[rows, :, None] for column in ends[0]))
            high = Ends(*(column[rows, None, :] for column in ends[1]))
            # By `Ends`: means below the lower end count as it (`moved_up`), those between as they are (of `below`),
            # those above as the higher (`moved_down`). Either drawn end may be the lower: it has the smaller sums.
            clipped = np.minimum(low.moved_up, high.moved_up) + np.maximum(low.below, high.below)
            clipped -= np.minimum(low.below, high.below)
            clipped += np.where(low.values > high.values, low.moved_down, high.moved_down)
            shape = len(clipped), _NODES**2
            width, clipped = np.abs(low.values - high.values).reshape(shape), clipped.reshape(shape)
            of_pairs = forecasts.interval_errors_of(hats, means[rows], clipped, width, sensitivity[rows])
            hat_errors[rows] = of_pairs.mean(axis=1)
        return hat_errors

    def release(self, totals: Sequence[Totals], plans: Sequence[Plan], noise: Noise) -> list[Integers]:
        """Draws the interval's ends, then the clipped sum."""
        arrays = array_means(totals, plans)
        upper = np.array([plan.facts["upper_steps"] * FINE_PER_STEP for plan in plans], np.int64)
        quarter = [plan.epsilon / 4 for plan in plans]
        lower_ranks = [Fraction(plan.facts["rank_numerator"], plan.facts["rank_denominator"]) for plan in plans]
        upper_ranks = [plan.facts["arrays"] - rank for plan, rank in zip(plans, lower_ranks, strict=True)]
        targets = lower_ranks, upper_ranks
        ends = [private_quantiles(arrays.means, arrays.first, upper, ranks, quarter, noise) for ranks in targets]
        low, high = np.minimum(*ends), np.maximum(*ends)  # independent draws may cross; sorting is post-processing
        choices = [list(pair) for pair in zip(low.tolist(), high.tolist(), strict=True)]
        return clipped_release(arrays, low, high, choices, plans, noise)

    @staticmethod
    def resolve(integers: Sequence[int], plan: Plan) -> Plan:
        """Returns the plan with the drawn interval."""
        low, high, _ = integers
        return with_interval(low, high, plan)
