"""Shared forecasts of mean mechanisms' errors, in vectors.

Errors are expected absolute ones, in units, over the noise and equally likely means and biases. `normal_scores` are
equally likely points of the standard normal law; `clamped_errors` are for estimates that are clipped to [0, U]. A fine
step is 1 / FINE_PER_STEP grid step. `_running_sums` begin with 0; `_picked` are each row's values at its columns.
"""

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from dpops.forecast import HatCounts, clamped_errors, normal_scores
from dpops.means.arrays import FINE_PER_STEP, Rule, groups_of, lay_out
from dpops.mechanism import Plan
from dpops.types import Float64s, Int64s

MIN_SHARE_BETWEEN_USERS = 0.2
"""Least share of the variance between users in forecasts of array means: a user's samples resemble one another, and a
forecast of independent ones promises intervals that are too short."""
FEW_ARRAYS = 8  # most arrays for which a forecast varies the HAT's mean
BIAS_POINTS = 32  # equally likely values that stand for a normal bias in a forecast
_ELEMENTS_AT_ONCE = 1 << 13  # numbers of a matrix that forecasts make at once: a few of these stay in a core's cache


class LaidMany(NamedTuple):
    """Layouts of HATs for forecasts, a column of (HATs,) each.

    sensitivity: in fine steps. grouping_sd: of the bias that unequal weights make; sd: of array means; in units.
    """

    m_ub: Int64s
    arrays: Int64s
    sensitivity: Int64s
    grouping_sd: Float64s
    sd: Float64s

    def take(self, chosen: Int64s) -> "LaidMany":
        """Selects HATs by index."""
        return LaidMany._make(column[chosen] for column in self)


def laid_out(hats: HatCounts, m_ub: Rule) -> LaidMany:
    """Lays HATs out by BestFit, cached by rule, with spreads by the prior.

    Where users' weights differ from their shares of the samples, the noiseless mean is off: `grouping_sd`.
    """
    if m_ub not in hats.remembered:
        users = hats.of_each(lambda counts: np.full(len(counts), counts.shape[1]))  # (HATs,); counts: (HATs, users)
        laid = lay_out(hats.of_each(np.ravel), users, hats.grid, hats.epsilon, m_ub)
        # From one vector of all HATs' users back to a matrix for each of `hats.counts`, (HATs, users).
        weights = np.split(laid.weight, np.cumsum([counts.size for counts in hats.counts])[:-1])
        excess = (  # of users' weights over their shares of the samples
            weight.reshape(counts.shape) - counts / counts.sum(axis=1)[:, None]
            for weight, counts in zip(weights, hats.counts, strict=True)
        )
        grouping_sd = np.concatenate([*map(hats.prior.spread, excess, hats.counts)])
        between = max(hats.prior.between, MIN_SHARE_BETWEEN_USERS)
        # Of array means, (arrays,), over the prior's: users of an array average out, and samples within users.
        variances = between / np.bincount(laid.array) + (1 - between) / laid.fills  # fills: samples in each array
        mean_variances = np.zeros(users.size)  # over a HAT's arrays, (HATs,)
        for arrays, rows in groups_of(laid.arrays):  # HATs of equally many arrays are the rows of one matrix
            mean_variances[rows] = variances[laid.first_array[rows, None] + np.arange(arrays)].mean(axis=1)
        sd = hats.prior.sd * np.sqrt(mean_variances)  # of an array's mean, by HAT
        hats.remembered[m_ub] = LaidMany(laid.length, laid.arrays, laid.sensitivity, grouping_sd, sd)
    return hats.remembered[m_ub]  # type: ignore[no-any-return]


def quotients(numerators: Int64s, denominators: Int64s, factor: Fraction) -> Float64s:
    """Computes numerators / denominators * factor, correctly rounded."""
    top, bottom = factor.as_integer_ratio()  # so that Python's integers are divided once
    pairs = zip(numerators.tolist(), denominators.tolist(), strict=True)
    return np.array([a * top / (b * bottom) for a, b in pairs], np.float64)


def errors_around(
    hats: HatCounts, sd: Float64s, scale: Float64s, points: int = BIAS_POINTS, offset: Float64s | float = 0.0
) -> Float64s:
    """Averages errors over a HAT's equally likely means and biases, float64 (HATs,).

    Means are of the prior alone, the same few for all HATs. The bias is normal, taken at `points` equally likely
    values: sd, (HATs,), around an offset for each mean, (means, 1). scale: of the noise, (HATs,).
    """
    means, scores, mean_errors = hats.prior.hat_means(hats.upper)[:, None], normal_scores(points), np.zeros(sd.size)
    for rows in chunks(sd.size, means.size * points):
        bias = offset + sd[rows, None, None] * scores
        errors = clamped_errors(means, hats.upper, bias, scale[rows, None, None])  # (HATs, means, points)
        mean_errors[rows] = errors.reshape(errors.shape[0], -1).mean(axis=1)
    return mean_errors


def errors_of_weights(hats: HatCounts, plans: Sequence[Plan], weight_changes: Iterable[Float64s]) -> Float64s:
    """Forecasts errors from noise and from differences of users' weights, `weight_changes`, (users,) by HAT."""
    sds = [hats.prior.spread(weights, hat.counts) for weights, hat in zip(weight_changes, hats, strict=True)]
    return errors_around(hats, np.array(sds), np.array([float(plan.scale * plan.step) for plan in plans]))


def chunks(hats: int, of_each: int) -> Iterator[slice]:
    """Slices HATs into chunks that fit into a cache."""
    size = max(1, _ELEMENTS_AT_ONCE // of_each)
    return (slice(start, start + size) for start in range(0, hats, size))


def distinct_rows(*columns: Float64s | Int64s) -> tuple[Int64s, Int64s]:
    """Finds distinct rows of columns, as `np.unique` with index and inverse, but faster."""
    order = np.lexsort(columns[::-1])
    is_new = np.any([np.diff(column[order], prepend=np.nan) != 0 for column in columns], axis=0)
    inverse = np.empty(order.size, np.int64)
    inverse[order] = np.cumsum(is_new) - 1
    return order[is_new], inverse


def expected_quantiles(values: Float64s, upper: Float64s, rank: float, epsilon: float, points: int) -> Float64s:
    """Computes equally likely private quantiles, (HATs, points).

    Inverts the exponential mechanism's distribution function. values: ascending means, (HATs, arrays); between two, the
    log density falls by epsilon / 2 for each rank off `rank`.
    """
    hats = values.shape[0]
    ends = np.concatenate([np.zeros((hats, 1)), values, upper[:, None]], axis=1)
    width = ends[:, 1:] - ends[:, :-1]
    # Each gap's probability, in logarithms less the largest: no exp overflows; an empty gap's is next to none.
    log_weight = np.log(np.maximum(width, 1e-300)) - epsilon / 2 * np.abs(np.arange(width.shape[1]) - rank)
    reach = _running_sums(np.exp(log_weight - log_weight.max(axis=1)[:, None]))
    target = (np.arange(points) + 0.5) / points * reach[:, -1:]
    # As numpy.interp finds it; never the last.
    gap = np.count_nonzero(reach[:, None, :] <= target[:, :, None], axis=2) - 1
    # Within its gap the quantile is uniform: from `low` to `high` while probabilities go from `start` to `stop`.
    low, high, start, stop = (_picked(rows, gap + step) for rows in (ends, reach) for step in (0, 1))
    return (high - low) / (stop - start) * (target - start) + low


class Ends(NamedTuple):
    """Ends of intervals, with sums over array means, (HATs, ends).

    below: of means below the end. moved_up, moved_down: of the end itself, once for each mean below, or not below.
    """

    values: Float64s  # where the ends lie, in units
    below: Float64s
    moved_up: Float64s
    moved_down: Float64s


def ends_of(means: Float64s, edges: Float64s) -> Ends:
    """Sums ascending means, (HATs, arrays), below `edges`, (HATs, ends)."""
    rank = np.count_nonzero(means[:, None, :] < edges[:, :, None], axis=2)
    below, moved_up, moved_down = _picked(_running_sums(means), rank), edges * rank, edges * (means.shape[1] - rank)
    return Ends(edges, below, moved_up, moved_down)  # moved: sums as if means below, or not below, lay at the end


def _picked(rows: Float64s, columns: Int64s) -> Float64s:
    """Picks values at (HATs, n) columns of each row."""
    return rows.take(columns + np.arange(0, rows.size, rows.shape[1])[:, None])


def _running_sums(means: Float64s) -> Float64s:
    """Computes running sums from 0, (HATs, arrays + 1)."""
    return np.pad(np.cumsum(means, axis=1), ((0, 0), (1, 0)))


def interval_errors_of(
    hats: HatCounts, means: Float64s, clipped: Float64s, width: Float64s, sensitivity: Int64s
) -> Float64s:
    """Forecasts errors of clipping intervals, (HATs, intervals).

    means: (HATs, arrays). clipped: sums of clipped means, and width: lengths, of each interval, in units. sensitivity:
    of a sum without clipping, in fine steps. Half of epsilon is left for the noise.
    """
    arrays, total = means.shape[1], _running_sums(means)[:, -1:]  # summed as `clipped` is: equal sums have equal floats
    widest = sensitivity[:, None] * float(hats.grid.step / FINE_PER_STEP)
    scale = np.minimum(width, widest) * 2 / float(hats.epsilon) / arrays  # epsilon / 2; at most as without clipping
    return clamped_errors(total / arrays, hats.upper, (clipped - total) / arrays, scale)
