"""What error a released distribution will have where values are as a prior says: from public information alone."""

from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from dpops.forecast import Float64s, Prior
from dpops.trees.combine import cumulative, law
from dpops.trees.consistent import consistent
from dpops.trees.readings import mean, quantile, variance
from dpops.trees.shape import Tree

SIZES = np.geomspace(1e-6, 100.0, 65)
"""Sizes of the noise for which errors are found once; between them they are interpolated."""

_DRAWS = 48


class ReadingErrors(NamedTuple):
    """Mean absolute errors, float64 (sizes,) each. cdf: of shares, over the inner edges. p50, p85, mean: in bins;
    variance: in bins squared."""

    cdf: Float64s
    p50: Float64s
    p85: Float64s
    mean: Float64s
    variance: Float64s


def errors_at(
    size: Float64s | float, tree: Tree, shares: tuple[Fraction, ...], prior: Prior, upper: float
) -> ReadingErrors:
    """Forecasts errors of the consistent estimates for noise of that size: M / (epsilon total mass), the law's unit.

    upper: U, in the prior's units. Clipping of users is not counted here.
    """
    curves = _curves(tree, shares, prior.mean, prior.sd, upper)
    log_size = np.log(np.clip(size, SIZES[0], SIZES[-1]))
    return ReadingErrors(
        *(np.exp(np.interp(log_size, np.log(SIZES), np.log(np.maximum(curve, 1e-12)))) for curve in curves)
    )


@lru_cache(maxsize=16)
def expected_cdfs(bins: int, prior_mean: float, prior_sd: float, upper: float) -> Float64s:
    """Lists equally likely distribution functions of HATs: normal around their means, float64 (cases, K - 1)."""
    edges = (np.arange(1, bins) * upper / bins).tolist()
    means = Prior(prior_mean, prior_sd).hat_means(upper).tolist()
    return np.array([[NormalDist(mean, prior_sd).cdf(edge) for edge in edges] for mean in means]).reshape(-1, bins - 1)


@lru_cache(maxsize=16)
def _curves(
    tree: Tree, shares: tuple[Fraction, ...], prior_mean: float, prior_sd: float, upper: float
) -> ReadingErrors:
    """Simulates with a fixed seed: noise of the tree on what is expected, made consistent and read."""
    cases = expected_cdfs(tree.bins, prior_mean, prior_sd, upper)
    uniform = np.random.default_rng(1).random((_DRAWS, tree.nodes)) - 0.5
    laplace = -np.sign(uniform) * np.log1p(-2 * np.abs(uniform))
    noise = cumulative(laplace * np.sqrt(law(tree, shares).variances / 2), 0.0, tree, shares)
    true, noise = np.repeat(cases, _DRAWS, axis=0), np.tile(noise, (cases.shape[0], 1))
    curves = [_errors(consistent(true + size * noise), true) for size in SIZES.tolist()]
    return ReadingErrors(*np.array(curves).T)


def _errors(released: Float64s, true: Float64s) -> list[float]:
    off = [
        released - true,
        quantile(released, 0.5) - quantile(true, 0.5),
        quantile(released, 0.85) - quantile(true, 0.85),
        mean(released) - mean(true),
        variance(released) - variance(true),
    ]
    return [float(np.abs(errors).mean()) if errors.size else 0.0 for errors in off]
