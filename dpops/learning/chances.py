"""How many vehicles may be behind a HAT, how far its mean may be from the usual one then, and how wide that makes it.

The number of vehicles is secret and its estimate noisy, and the fewer there are the farther a HAT's own mean may lie
from what describes it. So what is believed of that mean is a mixture over the numbers, and intervals are its quantiles.
"""

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from dpops import fitted
from dpops.types import Float64s

NODES = 12
"""Equally likely numbers of vehicles that stand for all, for each HAT."""
CAUTIOUS = 4
"""The node that counts as how many there are: there are more with a probability of about two thirds."""
_STEPS = 10
_EXACT = 1e-9
"""Variance of what is known."""
_AT = np.array([NormalDist().inv_cdf((node + 0.5) / NODES) for node in range(NODES)])
_AT = _AT / math.sqrt(float(np.mean(_AT**2)))
_GRID = np.linspace(0.0, 8.0, 4001)
_WITHIN = np.array([math.erf(float(reach) / math.sqrt(2)) for reach in _GRID])


class Chances(NamedTuple):
    """HATs or groups, (.., NODES) each: equally likely numbers of vehicles, ascending, and what the variance
    of their own mean is with so many; of a cell's day or part of it also that of what describes it. traffic: the same
    as own, of the mean that very many vehicles would have had there."""

    vehicles: Float64s
    own: Float64s
    traffic: Float64s
    described: Float64s | None = None


def factors_of(log_variances: Float64s, most: float, vehicles: Float64s | None = None) -> Float64s:
    """Computes equally likely factors of a number of vehicles, or of a weight; (.., NODES).

    log_variances: of their logarithm, as the count model has it where its values are. most: the variance where nothing
    is released. vehicles: expected, where it is their number that is asked for: they are there by chance, so that the
    logarithm of n has a variance of 1 / n beside. A weight's has WEIGHT_DOUBT. What a release says of a weight is
    precise on the weight's own scale, not on that of its logarithm: a HAT that noise made look busy may well have few
    vehicles, but one that looks idle is not busy. So nodes are where information (x - 1)^2 + prior (log x)^2, of a
    weight x in units of the estimate, comes to the squares of a normal law's quantiles.
    """
    variances, prior = np.clip(log_variances, _EXACT, max(most, _EXACT))[..., None], 1 / max(most, _EXACT)
    information, logs = 1 / variances - prior, np.sqrt(variances) * _AT
    for _ in range(_STEPS):
        logs = np.where(np.abs(logs) < 1e-6, 1e-6, logs)
        logs = _AT / np.sqrt(prior + information * (np.expm1(logs) / logs) ** 2)
    own = fitted.WEIGHT_DOUBT if vehicles is None else 1 / np.maximum(vehicles, 1.0)[..., None]
    factors: Float64s = np.exp(logs * np.sqrt(1 + own / variances))
    return factors


def expected_vehicles(weights: Float64s) -> Float64s:
    """Estimates a HAT's vehicles. weights: its weight, in vehicles of the declared profile."""
    return fitted.MORE_VEHICLES * weights


def numbers_of(vehicles: Float64s, log_variances: Float64s, most: float, least: float = 1.0) -> Float64s:
    """Computes equally likely numbers of vehicles in a HAT, at least so many; (.., NODES).

    vehicles: expected; see `factors_of`.
    """
    numbers: Float64s = np.maximum(vehicles[..., None] * factors_of(log_variances, most, vehicles), least)
    return numbers


def described_variances(variances: Float64s, factors: Float64s, most: float) -> Float64s:
    """Computes the variance of what describes a place, (km/h)^2, if it has so many times as many vehicles; (.., NODES).

    variances: with the number that is thought. most: where nothing is released. Noise in km/h is inverse to the weight,
    so what was released of a place says little if few drive there, even if many were thought to.
    """
    said = np.maximum(1 / np.maximum(variances, _EXACT) - 1 / max(most, _EXACT), 0.0)
    of_described: Float64s = 1 / (1 / max(most, _EXACT) + said[..., None] * factors**2)
    return of_described


def left_variances(own: Float64s, said: Float64s) -> Float64s:
    """Computes the variances that a release of single HATs left; (.., NODES). said: what it told, a precision, (..)."""
    variances: Float64s = fitted.UNSAID * own + 1 / (1 / ((1 - fitted.UNSAID) * own) + said[..., None])
    return variances


def traffic_variances(own: Float64s, said: Float64s, floor: float) -> Float64s:
    """Computes the variance of very many vehicles' mean in a HAT around the value, beside its description; (.., NODES).

    own: of the vehicles' mean that were there, of which the floor is what all have in common. said: what a release of
    single HATs told of it, (..), a precision: the value followed it so far, and with it those vehicles' own speeds.
    """
    followed = own * said[..., None] / (1 + own * said[..., None])
    left: Float64s = (1 - followed) ** 2 * floor + followed**2 * (own - floor) + followed * (1 - followed) * own
    return left


def half_widths(variances: Float64s, share: float = 0.95) -> Float64s:
    """Finds how far around the mean a mixture of normals of these variances, (.., NODES), holds this share."""
    sds = np.sqrt(variances)
    # What is held grows ever more slowly with the width, so Newton's steps from below never go too far.
    width: Float64s = NormalDist().inv_cdf((1 + share) / 2) * sds.min(axis=-1)
    for _ in range(_STEPS):
        reached = width[..., None] / sds
        held = np.interp(reached, _GRID, _WITHIN).mean(axis=-1)
        slope = (np.exp(-(reached**2) / 2) / sds).mean(axis=-1) * math.sqrt(2 / math.pi)
        width = width + np.maximum(share - held, 0.0) / np.maximum(slope, 1e-9)
    return width
