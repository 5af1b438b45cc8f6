"""Sums of Laplace noise, which is large more often than Gaussian noise of the same variance: what an outlier tells."""

from dataclasses import replace

import numpy as np

from dpops.learning.place_sums import PlaceSums
from dpops.types import Float64s


def surprise(off: Float64s, draws: int) -> Float64s:
    """Computes minus the logarithm of the density of a sum of Laplace draws, up to a constant.

    off: how many standard deviations of the sum it lies off its mean. By the saddle point (Daniels, 1954): with the
    cumulants K(t) = -log(1 - t^2 / 2) of a draw of variance 1 it is n (t x - K(t)) + log(K''(t)) / 2 where K'(t) = x,
    x being how far the mean of n draws lies off. Many draws give off^2 / 2.

    >>> surprise(np.array([2.0, 5.0]), 1).round(1).tolist(), surprise(np.array([2.0, 5.0]), 1000).round(1).tolist()
    ([2.2, 6.4], [2.0, 12.4])
    """
    x = np.abs(off) / np.sqrt(draws)
    t = 2 * x / (1 + np.sqrt(1 + 2 * x * x))
    left = 1 - t * t / 2
    result: Float64s = draws * (t * x + np.log(left)) + np.log((2 - left) / left**2) / 2
    return result


def tempered(sums: PlaceSums) -> PlaceSums:
    """Lets sums of speeds with Laplace noise speak for places as far as their distance from 0 is not noise's.

    All that such a sum says of a place is multiplied by how surprising it is, over how surprising it would be if noise
    was Gaussian. Else of a thousand places those with the largest noise were taken for busy ones.
    """
    if not sums.is_laplace:
        return sums
    off = np.maximum(np.abs(sums.speeds) / np.sqrt(sums.speed_precision), 1e-6)
    part = np.minimum(2 * surprise(off, sums.days) / off**2, 1.0)
    names = ("speeds", "centred", "centres", "squares", "surprise", "speed_precision")
    return replace(sums, **{name: part * getattr(sums, name) for name in names})
