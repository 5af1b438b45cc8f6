"""Consistent distribution functions from noisy nodes, and their readings.

Distribution functions are float64 (rows, K - 1), the shares of samples below the inner edges t U / K, t = 1, .., K - 1;
0 and 1 at both ends are left out. Readings are in units of U / K, the width of a bin, so that upper edges are whole.
Prefixes are counts, or shares, of samples below these edges. `shares` are levels' of epsilon. cdf: non-decreasing, in
[0, 1]; raw: unbiased, with noise, so neither. scale, (HATs,): noise of a HAT's shares over `law`'s; sds: number of
standard deviations that an interval reaches to either side.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from dpops.trees.shape import Tree
from dpops.types import Float64s, Int64s


def cumulative(
    noisy: Int64s | Float64s, total: Int64s | Float64s | float, tree: Tree, shares: Sequence[Fraction]
) -> Float64s:
    """Combines noisy nodes to prefix counts of bins.

    noisy: (.., nodes), with noise variance proportional to 1 / share^2 by level. total: known root count, broadcast
    over the leading axes. Up: a node's count and the sum of its children are averaged by precision. Down: a parent's
    excess over its children is handed to them in proportion to their variances.
    """
    noisy = np.asarray(noisy, np.float64)
    levels = tree.split(noisy.shape[-1])  # columns of each level
    variances = level_variances(shares)
    averages = [(noisy[..., levels[-1]], np.full(tree.sizes[-1], variances[-1]))]  # (.., size) and variances (size,)
    for level in range(len(levels) - 2, -1, -1):
        summed, variance = (_sums(column, tree.branching[level + 1]) for column in averages[-1])
        node_variance = variances[level]
        value = (noisy[..., levels[level]] * variance + summed * node_variance) / (node_variance + variance)
        averages.append((value, node_variance * variance / (node_variance + variance)))
    counts = np.broadcast_to(np.asarray(total, np.float64), noisy.shape[:-1])[..., None]
    for (value, variance), factor in zip(reversed(averages), tree.branching, strict=True):
        parent = np.arange(variance.size) // factor  # index of each node's parent in `counts`
        missing = counts - _sums(value, factor)
        counts = value + missing[..., parent] * (variance / _sums(variance, factor)[parent])
    return np.cumsum(counts, axis=-1)[..., :-1]


class Law(NamedTuple):
    """Noise law of combined counts, mass and epsilon 1.

    weights: float64 (nodes, K - 1), of each node's noise in each prefix. variances: float64 (nodes,), of that noise.
    """

    weights: Float64s
    variances: Float64s

    def prefix_sd(self) -> Float64s:
        """Computes the standard deviation of each combined prefix."""
        return np.sqrt(self.variances @ self.weights**2)


@lru_cache(maxsize=16)
def law(tree: Tree, shares: tuple[Fraction, ...]) -> Law:
    """Computes the noise law of prefixes, linear in the nodes, at epsilon 1."""
    # Row i is of noise 1 in node i alone; `total`, the known root's noise, is 0.
    weights = cumulative(np.eye(tree.nodes), total=0.0, tree=tree, shares=shares)
    variances = np.repeat(level_variances(shares), tree.sizes)
    for shared in (weights, variances):
        shared.flags.writeable = False  # the cache gives all callers the same arrays
    return Law(weights, variances)


def _sums(values: Float64s, factor: int) -> Float64s:
    """Sums every `factor` neighbours along the last axis."""
    return np.add.reduceat(values, np.arange(0, values.shape[-1], factor), axis=-1)


def level_variances(shares: Sequence[Fraction]) -> list[float]:
    """Computes a node's noise variance by level, from levels' shares of epsilon.

    For epsilon 1, Laplace noise and neighbours that differ in one sample's value. For mass M of one user multiply by
    M^2; the variance 2 b^2 of continuous noise is never below that of discrete noise. Source: algorithms 10.1, 10.2.
    """
    return [2 * float(2 / share) ** 2 for share in shares]  # a sample that moves to another bin changes 2 nodes by 1


def consistent(noisy: Float64s) -> Float64s:
    """Projects rows on distribution functions: isotonic regression, then clipping. Source: algorithms 10.4."""
    return np.clip(isotonic(noisy), 0.0, 1.0)


def isotonic(noisy: Float64s) -> Float64s:
    """Projects rows on non-decreasing sequences, float64 (rows, length)."""
    from scipy.optimize import isotonic_regression  # a slow import, which only trees need

    return np.array([isotonic_regression(row).x for row in noisy]).reshape(noisy.shape)


class Between(NamedTuple):
    """An interval; low and high have the reading's shape."""

    low: Float64s
    high: Float64s


def standard_errors(miss: float) -> float:
    """Computes how many standard deviations Laplace sums exceed with probability `miss`.

    The larger of a single draw's number and the normal law's, between which such sums lie.
    """
    return max(math.log(1 / miss) / math.sqrt(2), NormalDist().inv_cdf(1 - miss / 2))


def quantile(cdf: Float64s, probability: float) -> Float64s:
    """Inverts piecewise linear distribution functions, in bins."""
    ends = _with_ends(cdf)
    edge = (ends < probability).sum(axis=1)  # >= 1, for the first is 0; <= K, for the last is 1
    rows = np.arange(cdf.shape[0])
    low, high = ends[rows, edge - 1], ends[rows, edge]
    return np.asarray(edge - 1 + (probability - low) / (high - low))


def mean(cdf: Float64s) -> Float64s:
    """Computes a distribution's mean in bins: the sum of 1 - F."""
    last = cdf.shape[1] + 0.5  # samples lie in the middle of their bins
    return np.asarray(last - np.cumsum(_with_ends(cdf)[:, :-1], axis=1)[:, -1])


def variance(cdf: Float64s) -> Float64s:
    """Computes the variance of bin middles, float64 (rows,)."""
    return variance_around(cdf, mean(cdf))


def quantile_interval(raw: Float64s, half: Float64s, probability: float) -> Between:
    """Bounds the true quantile by edges of bins.

    raw +- half holds the true distribution function at any one edge with probability 1 - miss. It reaches `probability`
    at edge t and not before. Then raw + half reaches it at t, but for half of a miss, so the first edge where it does
    is none after t; and raw - half stays below it at t - 1, so the last edge where it does is none before that.
    """
    edges = raw.shape[1] + 1  # K
    may_reach = _with_ends(raw + half) >= probability  # (rows, edges 0 to K), with 0 and 1 at the ends
    must_reach = _with_ends(raw - half) >= probability
    last_unsure = edges - (~must_reach)[:, ::-1].argmax(axis=1)  # the last edge where raw - half stays below
    return Between(may_reach.argmax(axis=1) - 1.0, last_unsure + 1.0)


def mean_interval(raw: Float64s, law: Law, scale: Float64s, sds: float) -> Between:
    """Bounds the binned mean by `sds` standard errors of noise: `scale`, (HATs,), times `law`'s."""
    centre, half = mean(raw), sds * scale * mean_sd(law)
    last = raw.shape[1] + 0.5  # means lie between the middles of the first bin, 0.5, and of the last, K - 0.5
    return Between(np.clip(centre - half, 0.5, last), np.clip(centre + half, 0.5, last))


def mean_sd(law: Law) -> float:
    """Computes the mean's standard error at scale 1."""
    # A mean is a constant less the sum of all prefixes.
    node_factors = np.tensordot(law.weights, np.ones((law.weights.shape[1], 1)), axes=1)
    return float(np.sqrt(np.tensordot(law.variances, node_factors**2, axes=1)).item())


def variance_interval(raw: Float64s, law: Law, scale: Float64s, sds: float) -> Between:
    """Computes the interval of the binned variance.

    sds: standard errors at half this interval's miss probability. With e1, e2 the errors of mean m and second
    moment, V' - V = (e2 - 2 m e1) - e1^2 at the true m. The first is linear in the noise; its standard deviation is
    convex in m, so at its largest at an end of the interval of the mean.
    """
    centre, mean_half = mean(raw), sds * scale * mean_sd(law)
    middle = variance_around(raw, centre)
    half = sds * scale * np.maximum(variance_sd(law, centre - mean_half), variance_sd(law, centre + mean_half))
    upper = (raw.shape[1] + 1) ** 2 / 4  # largest variance within [0, K] (Popoviciu)
    return Between(np.clip(middle - half, 0.0, upper), np.clip(middle + half + mean_half**2, 0.0, upper))


def variance_sd(law: Law, centre: Float64s) -> Float64s:
    """Computes the standard error of `variance_interval`'s e2 - 2 m e1 at m."""
    ranks = np.arange(1.0, law.weights.shape[1] + 1)  # prefix t's noise counts -2 (t - m), a node's m second - first
    first, second = (law.weights @ np.stack([2 * ranks, np.full(ranks.size, 2.0)], axis=1)).T
    pairs = ((first, first), (first, second), (second, second))
    square, cross, plain = (float((law.variances * left_sum * right_sum).sum()) for left_sum, right_sum in pairs)
    return np.sqrt(np.maximum(square - 2 * cross * centre + plain * centre**2, 0.0))


def variance_around(cdf: Float64s, centre: Float64s) -> Float64s:
    """Computes second moments around `centre`, (rows,) bins; of raw functions perhaps negative."""
    share = np.diff(_with_ends(cdf), axis=1)
    distance = np.arange(share.shape[1]) + 0.5 - centre[:, None]  # of bins' middles, (rows, K)
    return np.cumsum(share * distance**2, axis=1)[:, -1]  # sums in order: the same bits on every machine


def _with_ends(cdf: Float64s) -> Float64s:
    """Adds the known ends 0 and 1 of functions."""
    rows = cdf.shape[0]
    return np.concatenate([np.zeros((rows, 1)), cdf, np.ones((rows, 1))], axis=1)
