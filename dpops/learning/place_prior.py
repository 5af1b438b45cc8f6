"""What all places teach of one: how far places lie from their cells, and groups of them do."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from dpops import fitted
from dpops.learning.place_sums import Around, PlaceSums
from dpops.learning.place_traffic import RATIOS, chunks, nodes
from dpops.types import Float64s

SDS_KMH = np.array(fitted.PLACE_SDS_KMH)
"""How far places may lie from their cell: a mixture of these."""
MANY = 20_000
"""Of more places a part teaches the prior: whole groups of them, evenly."""
_TINY = 1e-12


@dataclass(frozen=True, kw_only=True)
class PlacePrior:
    """ratios: probabilities of RATIOS. slowed: a place that weighs r times what is expected is thought to be slower by
    r to this power. sds: probabilities of SDS_KMH. groups: mean of each group, km/h; its variance; sd of all."""

    ratios: Float64s
    slowed: float
    sds: Float64s
    groups: Float64s
    group_variances: Float64s
    group_sd: float

    @staticmethod
    def first(ratios: Float64s, slowed: float, around: Around) -> "PlacePrior":
        groups = int(around.groups.max(initial=0)) + 1
        return PlacePrior(
            ratios=ratios,
            slowed=slowed,
            sds=np.full(SDS_KMH.size, 1 / SDS_KMH.size),
            groups=np.zeros(groups),
            group_variances=np.full(groups, fitted.PLACE_GROUP_SD_KMH**2),
            group_sd=fitted.PLACE_GROUP_SD_KMH,
        )


class Believed(NamedTuple):
    """Float64 (places,) each. values: mean of each; variances: around it. of_reports: mean where reports are, which are
    more the more a place weighs. log_likelihood: of what was released of all, up to a constant of the sums."""

    values: Float64s
    of_reports: Float64s
    variances: Float64s
    weights: Float64s
    weight_variances: Float64s
    log_likelihood: float


def believed(prior: PlacePrior, sums: PlaceSums, around: Around) -> Believed:
    """Finds it of each place, by the prior and the place's own sums."""
    parts = [_posterior(prior, sums, around, chosen) for chosen in chunks(sums.weights.size)]
    values, of_reports, variances, weights, weight_variances = (
        np.concatenate(column) for column in zip(*(part.moments for part in parts), strict=True)
    )
    log_likelihood = sum(part.log_likelihood for part in parts)
    return Believed(values, of_reports, variances, weights, weight_variances, log_likelihood)


def improved(prior: PlacePrior, sums: PlaceSums, around: Around) -> PlacePrior:
    """Improves the prior by a step of expectation and maximisation."""
    result = [_posterior(prior, sums, around, chosen) for chosen in chunks(sums.weights.size)]
    obs, precision = (np.concatenate([getattr(part, name) for part in result]) for name in ("obs", "precision"))
    of_group = [np.bincount(around.groups, part, prior.groups.size) for part in (obs, precision)]
    there = np.bincount(around.groups, minlength=prior.groups.size) > 0
    left = 1 / (prior.group_sd**-2 + of_group[1])
    means = left * of_group[0]
    sds = np.sum([part.sds for part in result], axis=0)
    return PlacePrior(
        ratios=prior.ratios,
        slowed=prior.slowed,
        sds=(sds + 1.0) / np.sum(sds + 1.0),
        groups=means,
        group_variances=left,
        group_sd=float(np.sqrt(np.mean((means**2 + left)[there]))),
    )


def some(sums: PlaceSums, around: Around) -> tuple[PlaceSums, Around]:
    """Takes every so many groups of more than MANY places; all of fewer."""
    every = -(-sums.weights.size // MANY)
    if every <= 1:
        return sums, around
    chosen = around.groups % every == 0
    names = ("speeds", "centred", "centres", "squares", "weights", "surprise", "speed_precision")
    part = replace(sums, **{name: getattr(sums, name)[chosen] for name in names})
    named = ("values", "of_hours", "expected", "groups")
    return part, replace(around, **{name: getattr(around, name)[chosen] for name in named})


def copies_log_likelihood(ratios: Float64s, sums: PlaceSums, around: Around) -> float:
    """Finds `Believed.log_likelihood` as if every place were as its cell."""
    total = 0.0
    for chosen in chunks(sums.weights.size):
        weights, log = nodes(ratios, sums, around.expected[chosen], chosen)
        total += _normed(log + _fits(weights, around.values[chosen, None], sums, chosen))[1]
    return total


def _fits(weights: Float64s, values: Float64s, sums: PlaceSums, chosen: slice) -> Float64s:
    """Computes how well speeds fit places that weigh so much and have these values, as a logarithm up to a constant."""
    centred, centres, squares = (part[chosen, None] for part in (sums.centred, sums.centres, sums.squares))
    missed = values**2 * sums.speed_precision[chosen, None] - 2 * values * centres + squares
    logarithm: Float64s = weights * (sums.speeds[chosen, None] * values - centred) - 0.5 * weights**2 * missed
    return logarithm


def _normed(log: Float64s) -> tuple[Float64s, float]:
    """Scales each place's probabilities to add up to 1; gives the logarithm of what they added up to, of all places."""
    axes = tuple(range(1, log.ndim))
    most = log.max(axis=axes, keepdims=True)
    likely = np.exp(log - most)
    whole = likely.sum(axis=axes, keepdims=True)
    return likely / whole, float(np.sum(most) + np.sum(np.log(whole)))


class _Found(NamedTuple):
    """moments: those of `Believed`, in its order. sds: how much speaks for each. obs, precision: of the group's
    mean, by place."""

    moments: tuple[Float64s, Float64s, Float64s, Float64s, Float64s]
    log_likelihood: float
    sds: Float64s
    obs: Float64s
    precision: Float64s


def _posterior(prior: PlacePrior, sums: PlaceSums, around: Around, chosen: slice) -> _Found:
    """Computes how likely weights and components are, (places, RATIOS, SDS_KMH), with the speeds integrated out."""
    groups = around.groups[chosen]
    weights, log = nodes(prior.ratios, sums, around.expected[chosen], chosen)
    speed_precision = sums.speed_precision[chosen, None]
    middle = around.values[chosen, None] * _faster(prior, weights / around.expected[chosen, None])
    middle = middle + prior.groups[groups][:, None]
    beyond = (  # how far values lie from the middle, times how much is told of them
        weights * sums.speeds[chosen, None] + weights**2 * (sums.centres[chosen, None] - speed_precision * middle)
    )[..., None]
    told = (weights**2 * speed_precision)[..., None]
    precision = SDS_KMH**-2.0 + told
    shrunk = SDS_KMH**-2.0 / precision
    log = (log + _fits(weights, middle, sums, chosen))[..., None]
    log = log + np.log(prior.sds + _TINY) + 0.5 * (np.log(shrunk) + beyond**2 / precision)
    likely, whole = _normed(log)
    spread = prior.group_variances[groups] * np.sum(likely * shrunk, axis=(1, 2)) ** 2
    of_group = told * shrunk
    obs = beyond * shrunk + of_group * prior.groups[groups][:, None, None]
    return _Found(
        moments=_moments(likely, weights, beyond / precision, 1 / precision, middle, spread),
        log_likelihood=whole,
        sds=likely.sum(axis=(0, 1)),
        obs=np.sum(likely * obs, axis=(1, 2)),
        precision=np.sum(likely * of_group, axis=(1, 2)),
    )


def _moments(
    likely: Float64s, weights: Float64s, step: Float64s, variance: Float64s, middle: Float64s, spread: Float64s
) -> tuple[Float64s, Float64s, Float64s, Float64s, Float64s]:
    """Computes the moments of `Believed`.

    step, variance: of value less middle, by weight and component. spread: more variance.
    """
    value = middle[..., None] + step
    mean = np.sum(likely * value, axis=(1, 2))
    whole = np.sum(likely * (variance + (value - mean[:, None, None]) ** 2), axis=(1, 2)) + spread
    weight, weight_variance = _weighed(likely.sum(axis=2), weights)
    visited = np.sum(np.sum(likely * value, axis=2) * weights, axis=1) / np.maximum(weight, _TINY)
    of_reports = np.where(weight > _TINY, visited, mean)
    return mean, of_reports, np.maximum(whole, 1e-6), weight, weight_variance


def _weighed(likely: Float64s, weights: Float64s) -> tuple[Float64s, Float64s]:
    """Computes the mean and variance of each place's weight."""
    mean = np.sum(likely * weights, axis=1)
    return mean, np.maximum(np.sum(likely * weights**2, axis=1) - mean**2, 0.0)


def _faster(prior: PlacePrior, ratios: Float64s) -> Float64s:
    """Estimates how much faster than its cell a place is that weighs so much, as a factor; 1 by all reports.

    Reports are time: vehicles that pass a street send the more of them there, the slower they drive.
    """
    power, (least, most) = -prior.slowed, fitted.PLACE_SLOWED_RATIOS
    usual = prior.ratios @ (RATIOS * np.clip(RATIOS, least, most) ** power)
    result: Float64s = np.clip(ratios, least, most) ** power / usual
    return result
