"""Levy: array means clipped around their private median bin.

tau, the width of bins, is even; `upper`, U, ends the last bin, which may be narrower. All is in fine steps, of 1 /
FINE_PER_STEP grid step, but for means in forecasts, in units.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from dpops.forecast import HatCounts
from dpops.means.arrays import FINE_PER_STEP, array_means, groups_of
from dpops.means.clipping import ClippedArrays, clipped_release, with_interval
from dpops.means.forecasts import LaidMany, ends_of, interval_errors_of
from dpops.mechanism import Integers, Plan, Totals
from dpops.noise import Noise
from dpops.noise.exponential import choose
from dpops.types import Float64s, Int64s

GAMMA = 0.2  # the chance that the paper allows for an array mean to lie farther than tau from the expectation


@dataclass(frozen=True, slots=True, kw_only=True)
class Levy(ClippedArrays):
    """Noisy mean of array means, clipped around their median.

    Means are clipped to 1.5 bins around the one drawn with epsilon / 2. Bins are tau = U sqrt(ln(2 Kbar / GAMMA) /
    (2 m_UB)) wide (Hoeffding, union bound over Kbar arrays). A bin's cost is the larger number of array means in lower
    or in higher bins: one user moves it by at most 1, so P(bin) falls by at most exp(epsilon / 4) per unit.
    Source: S0 Algorithm 3, with the nearest midpoint (erratum E5) and the exact length of a truncated interval.
    """

    name = "levy"

    def choice(self, arrays: int, m_ub: int, upper: int, epsilon: Fraction) -> tuple[int, dict[str, int]]:  # noqa: ARG002
        """Plans a histogram's bins of width tau, and the longest interval, in fine steps."""
        tau = _tau(arrays, m_ub, upper)
        return min(3 * tau, upper), {"tau": tau, "bins": -(-upper // tau)}  # rounded up

    def errors(self, hats: HatCounts, means: Float64s, laid: LaidMany) -> Float64s:
        """Averages E|error| over drawn bins."""
        fine_step, upper = float(hats.grid.step / FINE_PER_STEP), hats.grid.upper_steps * FINE_PER_STEP
        widths = np.array([_tau(means.shape[1], m_ub, upper) for m_ub in laid.m_ub.tolist()], np.int64)
        hat_errors = np.zeros(widths.size)
        for bins, rows in groups_of(-(-upper // widths)):
            tau, bin_index, row_means = widths[rows, None], np.arange(bins), means[rows]
            # Numbers of means in lower bins and up to each, costs and chances: (HATs, bins).
            bin_of = _bins(np.rint(row_means / fine_step).astype(np.int64), tau, upper)[:, None, :]
            below, through = (np.count_nonzero(bin_of < bin_index[:, None] + step, axis=2) for step in (0, 1))
            cost = np.maximum(below, means.shape[1] - through)
            chance = np.exp(-float(hats.epsilon) / 4 * (cost - cost.min(axis=1)[:, None]))
            low, high = (np.float64(fine_step) * end for end in _interval(bin_index, tau, upper))
            start, stop = (ends_of(row_means, np.broadcast_to(end, cost.shape)) for end in (low, high))
            # Sums of the means clipped to the interval: those below it at `low`, those inside, those above at `high`.
            clipped = start.moved_up + stop.below - start.below + stop.moved_down
            # Noise is for the interval's length, 3 bins at most, or for less where unclipped sums move by less.
            widest = np.minimum(np.minimum(3 * widths[rows], upper), laid.sensitivity[rows])
            errors = interval_errors_of(hats, row_means, clipped, stop.values - start.values, widest)
            hat_errors[rows] = (chance * errors).sum(axis=1) / chance.sum(axis=1)
        return hat_errors

    def release(self, totals: Sequence[Totals], plans: Sequence[Plan], noise: Noise) -> list[Integers]:
        """Draws a bin near the median, then the clipped sum."""
        arrays = array_means(totals, plans)
        tau, bins = (np.array([plan.facts[name] for plan in plans], np.int64) for name in ("tau", "bins"))
        upper = np.array([plan.facts["upper_steps"] * FINE_PER_STEP for plan in plans], np.int64)
        numbers, first = arrays.numbers, np.cumsum(bins) - bins  # numbers: array means by HAT; first: bin of each HAT
        bin_of = _bins(arrays.means, np.repeat(tau, numbers), np.repeat(upper, numbers))
        # Numbers of array means in each bin, and in it and lower ones of its HAT: the cost is the larger side's.
        in_bin = np.bincount(bin_of + np.repeat(first, numbers), minlength=int(bins.sum()))
        through = np.cumsum(in_bin)
        through -= np.repeat(through[first] - in_bin[first], bins)
        cost = np.maximum(through - in_bin, np.repeat(numbers, bins) - through)
        rates = [plan.epsilon / 4 for plan in plans]  # `choose` spends twice that, half of epsilon
        drawn = choose(np.ones(cost.size, np.int64), cost, first, rates, noise).entry - first  # bins of equal width
        low, high = _interval(drawn, tau, upper)
        return clipped_release(arrays, low, high, [[choice] for choice in drawn.tolist()], plans, noise)

    @staticmethod
    def resolve(integers: Sequence[int], plan: Plan) -> Plan:
        """Adds the interval around the drawn bin, the first integer, to the plan."""
        upper = plan.facts["upper_steps"] * FINE_PER_STEP
        low, high = _interval(np.array(integers[0]), plan.facts["tau"], upper)
        return with_interval(int(low), int(high), plan)


@lru_cache(maxsize=4096)  # HATs share a few numbers
def _tau(arrays: int, m_ub: int, upper: int) -> int:
    """Computes the width of a bin in fine steps."""
    share = math.sqrt(math.log(2 * arrays / GAMMA) / (2 * m_ub))
    return 2 * math.ceil(min(share, 1.0) * upper / 2)  # even, so that midpoints and 1.5 tau are integers


def _bins(means: Int64s, tau: Int64s | int, upper: Int64s | int) -> Int64s:
    """Finds bins of nearest midpoint, lower on ties.

    Bins are (0, tau], (tau, 2 tau], .. As the last may be narrower, sums of midpoints decide between the last two.
    """
    last: Int64s = np.asarray(-(-upper // tau) - 1, np.int64)
    before_last = np.clip((means - 1) // tau, 0, np.maximum(last - 1, 0))  # the nearest of bins before the last
    edge = (2 * last - 1) * tau // 2 + _midpoint(last, tau, upper)  # sum of the last two midpoints
    return np.asarray(before_last + ((last > 0) & (2 * means > edge)))


def _midpoint(index: Int64s, tau: Int64s | int, upper: Int64s | int) -> Int64s:
    """Computes the middle of bins, of which the last ends at U."""
    return np.asarray((index * tau + np.minimum((index + 1) * tau, upper)) // 2)


def _interval(index: Int64s, tau: Int64s | int, upper: Int64s | int) -> tuple[Int64s, Int64s]:
    """Computes bins' intervals, midpoints +- 1.5 tau, within [0, U]."""
    middle, half = _midpoint(index, tau, upper), 3 * (tau // 2)  # of a single bin, tau >= U, that is all
    return np.maximum(middle - half, 0), np.minimum(middle + half, upper)
