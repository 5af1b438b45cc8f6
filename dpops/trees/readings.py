"""What a noisy distribution says: quantiles, mean and variance, each with an interval. All of it post-processing.

Distribution functions are float64 (rows, K - 1), the shares of samples below the inner edges t U / K, t = 1, .., K - 1;
0 and 1 at both ends are left out. Everything is in units of U / K, the width of a bin, so that upper edges are whole.
"""

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from dpops.forecast import Float64s
from dpops.trees.combine import Law


class Between(NamedTuple):
    """An interval: low and high have the shape of what they hold."""

    low: Float64s
    high: Float64s


def standard_errors(miss: float) -> float:
    """Computes how many standard deviations a sum of Laplace draws exceeds, either way, with at most that probability.

    It is the larger of a single Laplace draw's and of the normal law's, between which sums of independent Laplace draws
    lie (tests compare with the exact tails of trees' estimates).
    """
    return max(math.log(1 / miss) / math.sqrt(2), NormalDist().inv_cdf(1 - miss / 2))


def quantile(cdf: Float64s, level: float) -> Float64s:
    """Finds where the distribution function, straight within bins, reaches that level: float64 (rows,).

    cdf: non-decreasing, within [0, 1]. level: above 0, below 1. Of several such places the lowest.
    """
    ends = _with_ends(cdf)
    edge = (ends < level).sum(axis=1)  # >= 1, for the first is 0; <= K, for the last is 1
    rows = np.arange(cdf.shape[0])
    low, high = ends[rows, edge - 1], ends[rows, edge]
    places: Float64s = edge - 1 + (level - low) / (high - low)
    return places


def mean(cdf: Float64s) -> Float64s:
    """Computes the mean with every sample at the middle of its bin: float64 (rows,), within [1/2, K - 1/2]."""
    last = cdf.shape[1] + 0.5
    means: Float64s = last - np.cumsum(_with_ends(cdf)[:, :-1], axis=1)[:, -1]
    return means


def variance(cdf: Float64s) -> Float64s:
    """Computes the variance with every sample at the middle of its bin: float64 (rows,), at least 0."""
    return variance_around(cdf, mean(cdf))


def cdf_interval(raw: Float64s, half: Float64s) -> Between:
    """Lays intervals around the unbiased estimates, within [0, 1]. half: half-widths, of the same shape."""
    return Between(np.clip(raw - half, 0.0, 1.0), np.clip(raw + half, 0.0, 1.0))


def quantile_interval(raw: Float64s, half: Float64s, level: float) -> Between:
    """Finds the edges that hold the true quantile between them, wherever it lies in its bin: float64 (rows,) each.

    raw +- half holds the true distribution function at any one edge with probability 1 - miss. Say it reaches `level`
    at edge t and not before. Then raw + half reaches it at t, but for half of a miss, so the first edge where it does
    is none after t; and raw - half stays below it at t - 1, so the last edge where it does is none before that.
    """
    edges = raw.shape[1] + 1
    reached = _with_ends(raw + half) >= level
    sure = _with_ends(raw - half) >= level
    last_unsure = edges - (~sure)[:, ::-1].argmax(axis=1)
    return Between(reached.argmax(axis=1) - 1.0, last_unsure + 1.0)


def mean_interval(raw: Float64s, law: Law, size: Float64s, widths: float) -> Between:
    """Computes the interval of the binned mean.

    size: float64 (rows,), noise of the distribution function in units of the law's. widths: standard errors to either
    side.
    """
    centre, half = mean(raw), widths * size * mean_sd(law)
    last = raw.shape[1] + 0.5
    return Between(np.clip(centre - half, 0.5, last), np.clip(centre + half, 0.5, last))


def mean_sd(law: Law) -> float:
    """Computes the standard deviation of the noise of the unclipped mean, for masses of 1 and epsilon 1."""
    return float(law.sd(np.ones((law.weights.shape[1], 1)))[0])


def variance_interval(raw: Float64s, law: Law, size: Float64s, widths: float) -> Between:
    """Computes the interval of the binned variance.

    widths: standard errors, of which a miss has half of the probability of this interval's.

    With e1, e2 the errors of mean m and second moment, V' - V = (e2 - 2 m e1) - e1^2 at the true m. The first is linear
    in the noise; its standard deviation is convex in m, so at its largest at an end of the interval of the mean.
    """
    centre, beside = mean(raw), widths * size * mean_sd(law)
    around = variance_around(raw, centre)
    spread = np.maximum(variance_sd(law, centre - beside), variance_sd(law, centre + beside))
    half = widths * size * spread
    most = (raw.shape[1] + 1) ** 2 / 4
    return Between(np.clip(around - half, 0.0, most), np.clip(around + half + beside**2, 0.0, most))


def variance_sd(law: Law, centre: Float64s) -> Float64s:
    """Computes the standard deviation of e2 - 2 m e1 at means m = centre, (rows,), for masses of 1 and epsilon 1.

    An error f(t) of the prefix at edge t adds -2 (t - m) f(t).
    """
    places = np.arange(1.0, law.weights.shape[1] + 1)
    square, cross, plain = _products(law, np.stack([2 * places, np.full(places.size, 2.0)], axis=1))
    return np.sqrt(np.maximum(square - 2 * cross * centre + plain * centre**2, 0.0))


def variance_around(raw: Float64s, centre: Float64s) -> Float64s:
    """Computes the second moment around the mean of estimates that need not be monotone, so that it may be below 0."""
    share = np.diff(_with_ends(raw), axis=1)
    middle = np.arange(share.shape[1]) + 0.5 - centre[:, None]
    return np.cumsum(share * middle**2, axis=1)[:, -1]


def _products(law: Law, functionals: Float64s) -> tuple[float, float, float]:
    """Computes the variance of the first function of the noise, the covariance of both, the variance of the second."""
    first, second = (law.weights @ functionals).T
    return (
        float((law.variances * first * first).sum()),
        float((law.variances * first * second).sum()),
        float((law.variances * second * second).sum()),
    )


def _with_ends(cdf: Float64s) -> Float64s:
    """Adds to the function its known ends 0 and 1, float64 (rows, K + 1)."""
    rows = cdf.shape[0]
    return np.concatenate([np.zeros((rows, 1)), cdf, np.ones((rows, 1))], axis=1)
