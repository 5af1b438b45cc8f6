"""Private quantiles on the integers."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from dpops.noise import Noise
from dpops.noise.exponential import choose
from dpops.types import Int64s


def private_quantiles(
    values: Int64s,
    first: Int64s,
    upper: Int64s,
    ranks: Sequence[Fraction],
    epsilons: Sequence[Fraction],
    noise: Noise,
) -> Int64s:
    """Draws per HAT an integer x in 1..upper with P(x) falling with the distance of its rank from the target rank.

    values: int64, of many HATs one behind another, each HAT's in [0, upper]; first: where each HAT starts; upper: int64
    (HATs,), at most 2**30; ranks: targets, between 0 and the number of values, the same for all neighbours.
    The rank of x is the number of values below it, so x lies behind the target rank's value and not behind the next.
    A neighbour that replaces one value moves every rank by at most 1: epsilon-DP.
    Source: Smith 2011, Algorithm 2, on integers: a gap between two values holds as many candidates as it is wide.
    """
    numbers = np.diff(first, append=values.size)
    hat = np.repeat(np.arange(first.size), numbers)
    ordered = values[np.lexsort((values, hat))]
    # The ends of the gaps: 0, the ordered values, upper; one gap more than values.
    gap_first = first + np.arange(first.size)
    gaps = numbers + 1
    low = np.zeros(values.size + first.size, np.int64)
    high = np.repeat(upper, gaps)
    place = np.arange(values.size) + hat
    low[place + 1] = ordered
    high[place] = ordered
    rank = np.arange(low.size) - np.repeat(gap_first, gaps)
    # Distances in units of the target's denominator are integers.
    units = np.array([target.denominator for target in ranks], np.int64)
    target = np.array([target.numerator for target in ranks], np.int64)
    costs = np.abs(rank * np.repeat(units, gaps) - np.repeat(target, gaps))
    rates = [epsilon / (2 * rank.denominator) for epsilon, rank in zip(epsilons, ranks, strict=True)]
    drawn = choose(high - low, costs, gap_first, rates, noise)
    return low[drawn.entry] + 1 + drawn.offset
