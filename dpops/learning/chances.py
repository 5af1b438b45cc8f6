"""How many vehicles may be behind a HAT, how far its mean may lie from the field then, and how wide that makes it.

The number is secret and its estimate noisy, and the fewer vehicles there are the farther a HAT's mean may lie from the
field. So belief is a mixture over equally likely numbers, and intervals are its quantiles.
"""

import math
from statistics import NormalDist

import numpy as np
from scipy.special import ndtr

from dpops.types import Float64s

NODES = 8
"""Equally likely numbers of vehicles that stand for all, for each HAT."""
CAUTIOUS = 2
"""The node that counts as how many there are: there are at least so many with a probability of two thirds."""
_STEPS = 8
_QUANTILES = np.array([NormalDist().inv_cdf((node + 0.5) / NODES) for node in range(NODES)])
_QUANTILES = _QUANTILES / math.sqrt(float(np.mean(_QUANTILES**2)))


def numbers_of(vehicles: Float64s, log_variances: Float64s) -> Float64s:
    """Computes equally likely numbers of vehicles of a lognormal law; (.., NODES).

    Args:
        vehicles: expected, (..).
        log_variances: of the logarithm of what is expected; vehicles are there by chance, which adds 1 / n.
    """
    sd = np.sqrt(log_variances + 1 / np.maximum(vehicles, 1.0))
    numbers: Float64s = vehicles[..., None] * np.exp(sd[..., None] * _QUANTILES)
    return numbers


def remaining_variances(deviations: Float64s, precisions: Float64s) -> Float64s:
    """Computes what a release of single HATs leaves of deviations, (.., NODES). precisions: what it says, (..)."""
    variances: Float64s = 1 / (1 / deviations + precisions[..., None])
    return variances


def traffic_variances(deviations: Float64s, precisions: Float64s, floor: float) -> Float64s:
    """Computes the variance of very many vehicles' mean around the value, beside the field's; (.., NODES).

    Args:
        deviations: of the vehicles' mean that were there, of which the floor is what all have in common.
        precisions: what a release of single HATs says, (..): the value followed it, and with it those vehicles.
        floor: variance of very many vehicles' mean around the field.
    """
    followed = deviations * precisions[..., None] / (1 + deviations * precisions[..., None])
    variances: Float64s = (
        (1 - followed) ** 2 * floor + followed**2 * (deviations - floor) + followed * (1 - followed) * deviations
    )
    return variances


def half_widths(variances: Float64s, share: float = 0.95) -> Float64s:
    """Finds how far around the mean a mixture of normals of these variances, (.., NODES), holds this share."""
    sds = np.sqrt(variances)
    # The share grows ever more slowly with the width, so Newton's steps from below never overshoot.
    width: Float64s = NormalDist().inv_cdf((1 + share) / 2) * sds.min(axis=-1)
    for _ in range(_STEPS):
        scores = width[..., None] / sds
        missing = share - (2 * ndtr(scores) - 1).mean(axis=-1)
        slope = (np.exp(-(scores**2) / 2) / sds).mean(axis=-1) * math.sqrt(2 / math.pi)
        width = width + np.maximum(missing, 0.0) / np.maximum(slope, 1e-9)
    return width
