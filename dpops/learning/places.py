"""Places: what noisy sums of days tell of each one's usual mean, around its cell's. Cost: places times a constant.

Places are independent around their cells: smoothness between neighbours was tried, and gains nothing (docs/streets.md).
A place's weight and mean are learned together. How weights are spread, how far places lie from their cells, and how
far those of one group do, are learned from all of them: an empirical prior, by expectation and maximisation.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dpops import fitted
from dpops.types import Float64s, Int64s

RATIOS = np.concatenate([[0.0], np.geomspace(0.01, 110, 32)])
"""What a place may weigh, where 1 is what its cell's declared traffic gives to each of its places."""
SDS_KMH = np.array(fitted.PLACE_SDS_KMH)
"""How far places may lie from their cell: a mixture of these."""
ROUNDS = 8
_NEAR = np.linspace(-4, 4, RATIOS.size)
_CHUNK = 4_096


class PlaceDay(NamedTuple):
    """A day's noisy sums, float64 (places,): weights, and weights times km/h around the centres.

    weight_variance, speed_variance: of the noise in each. day_weight: how much the day weighs; 1 is a usual one.
    """

    weights: Float64s
    speeds: Float64s
    centres: Float64s
    weight_variance: float
    speed_variance: float
    day_weight: float


@dataclass(frozen=True)
class PlaceSums:
    """What is kept of all days, (places,) each or one number. S, W: sums, c: centres, a: day_weight, v: variance.

    speeds: of a S / v. centred: a c S / v. centres: a^2 c / v. squares: a^2 c^2 / v. weights: a W / v of weights.
    surprise: S^2 / v. speed_precision: a^2 / v. weight_precision: likewise of weights. days: how many.
    """

    speeds: Float64s
    centred: Float64s
    centres: Float64s
    squares: Float64s
    weights: Float64s
    surprise: Float64s
    speed_precision: float = 0.0
    weight_precision: float = 0.0
    days: int = 0

    @staticmethod
    def none(places: int) -> "PlaceSums":
        zeros = np.zeros(places)
        return PlaceSums(zeros, zeros, zeros, zeros, zeros, zeros)

    def after(self, day: PlaceDay) -> "PlaceSums":
        """With one more day."""
        a, speed, weight = day.day_weight, 1 / day.speed_variance, 1 / day.weight_variance
        return PlaceSums(
            speeds=self.speeds + a * speed * day.speeds,
            centred=self.centred + a * speed * day.centres * day.speeds,
            centres=self.centres + a * a * speed * day.centres,
            squares=self.squares + a * a * speed * day.centres**2,
            weights=self.weights + a * weight * day.weights,
            surprise=self.surprise + speed * day.speeds**2,
            speed_precision=self.speed_precision + a * a * speed,
            weight_precision=self.weight_precision + a * a * weight,
            days=self.days + 1,
        )


@dataclass(frozen=True, kw_only=True)
class Around:
    """What is known of places beside their own sums, (places,) each.

    values: km/h, of their cells. expected: weights on a usual day that their cells' traffic gives them. groups: int64,
    from 0, which of them lie together.
    """

    values: Float64s
    expected: Float64s
    groups: Int64s


@dataclass(frozen=True, kw_only=True)
class PlaceBelief:
    """What is believed of places, float64 (places,) each. values: km/h; variances: of them. weights: on a usual day,
    and their variances. own: variance of a day's own mean around the usual one, as squares of sums tell."""

    values: Float64s
    variances: Float64s
    weights: Float64s
    weight_variances: Float64s
    own: Float64s


@dataclass(frozen=True, kw_only=True)
class _Prior:
    """ratios: probabilities of RATIOS. sds: of SDS_KMH. groups: mean of each group, km/h; its variance; sd of all."""

    ratios: Float64s
    sds: Float64s
    groups: Float64s
    group_variances: Float64s
    group_sd: float


def whole_weight(sums: PlaceSums, anchor: float) -> float:
    """Weight of all places on a usual day: the declared fleet's, and what releases say, by their precisions."""
    if not sums.days:
        return anchor
    said = float(sums.weights.sum()) / sums.weight_precision
    variance = sums.weights.size / sums.weight_precision
    grid = anchor * np.exp(np.linspace(-3, 3, 601) * fitted.ANCHOR_SD)
    log = -0.5 * (np.log(grid / anchor) / fitted.ANCHOR_SD) ** 2 - 0.5 * (grid - said) ** 2 / variance
    likely = np.exp(log - log.max())
    return float(likely @ grid / likely.sum())


def learn_places(sums: PlaceSums, around: Around) -> PlaceBelief:
    """around.expected adds up to `whole_weight`. A function of its arguments alone."""
    groups = int(around.groups.max(initial=0)) + 1
    prior = _Prior(
        ratios=_first_ratios(),
        sds=np.full(SDS_KMH.size, 1 / SDS_KMH.size),
        groups=np.zeros(groups),
        group_variances=np.full(groups, fitted.PLACE_GROUP_SD_KMH**2),
        group_sd=fitted.PLACE_GROUP_SD_KMH,
    )
    for _ in range(ROUNDS if sums.days else 0):
        prior = _improved(prior, sums, around)
    parts = [_posterior(prior, sums, around, chosen).moments for chosen in _chunks(sums.weights.size)]
    values, variances, weights, weight_variances = (np.concatenate(column) for column in zip(*parts, strict=True))
    own = _own(sums, values, weights)
    return PlaceBelief(
        values=values,
        variances=variances + own / max(sums.days, 1) + fitted.PLACE_FLOOR,
        weights=weights,
        weight_variances=weight_variances,
        own=own,
    )


def _first_ratios() -> Float64s:
    """Half of all places are not visited, and few have most."""
    raw = np.concatenate([[1.0], np.full(RATIOS.size - 1, 1 / (RATIOS.size - 1))])
    return _anchored(raw / raw.sum())


def _anchored(counts: Float64s) -> Float64s:
    """The most likely probabilities of RATIOS whose mean is 1. counts: how much speaks for each, adds up to 1."""
    low, high = -1 / (RATIOS[-1] - 1) * (1 - 1e-9), 1 - 1e-9
    counts = (counts + 1e-9) / (1 + 1e-9 * counts.size)
    for _ in range(60):
        middle = (low + high) / 2
        result = counts / (1 + middle * (RATIOS - 1))
        if result @ RATIOS / result.sum() > 1:
            low = middle
        else:
            high = middle
    probabilities: Float64s = result / result.sum()
    return probabilities


def _chunks(places: int) -> list[slice]:
    return [slice(start, min(start + _CHUNK, places)) for start in range(0, max(places, 1), _CHUNK)]


class _Found(NamedTuple):
    """moments: mean and variance of value, of weight. ratios, sds: how much speaks for each. obs, precision: of the
    group's mean, by place."""

    moments: tuple[Float64s, Float64s, Float64s, Float64s]
    ratios: Float64s
    sds: Float64s
    obs: Float64s
    precision: Float64s


def _posterior(prior: _Prior, sums: PlaceSums, around: Around, chosen: slice) -> _Found:
    """Over weights and components, (places, RATIOS, SDS_KMH), of which the speeds are integrated out."""
    expected, groups = around.expected[chosen], around.groups[chosen]
    middle, spread = around.values[chosen] + prior.groups[groups], prior.group_variances[groups]
    weights, log, nearest = _nodes(prior, sums, expected, chosen)
    weight, precision = weights[..., None], sums.speed_precision
    speeds, centres = sums.speeds[chosen, None, None], sums.centres[chosen, None, None]
    told = weight * speeds + weight**2 * centres
    around_middle = told - weight**2 * precision * middle[:, None, None]  # of value less middle
    sharp = SDS_KMH**-2.0
    more = sharp + weight**2 * precision
    step = around_middle / more
    far = middle[:, None, None]
    constant = weight * (speeds * far - sums.centred[chosen, None, None]) - 0.5 * weight**2 * (
        far**2 * precision - 2 * far * centres + sums.squares[chosen, None, None]
    )
    log = log[..., None] + np.log(prior.sds + 1e-12) + 0.5 * (np.log(sharp / more) + more * step**2) + constant
    log -= log.max(axis=(1, 2), keepdims=True)
    likely = np.exp(log)
    likely /= likely.sum(axis=(1, 2), keepdims=True)
    mean = np.sum(likely * step, axis=(1, 2))
    shrunk = sharp / more
    variance = np.sum(likely * (1 / more + step**2), axis=(1, 2)) - mean**2
    variance = variance + spread * np.sum(likely * shrunk, axis=(1, 2)) ** 2
    of_group = weight**2 * precision * shrunk
    return _Found(
        moments=(middle + mean, np.maximum(variance, 1e-6), *_weighed(likely.sum(axis=2), weights)),
        ratios=np.bincount(nearest.ravel(), likely.sum(axis=2).ravel(), RATIOS.size).astype(np.float64),
        sds=likely.sum(axis=(0, 1)),
        obs=np.sum(likely * (around_middle * shrunk + of_group * prior.groups[groups][:, None, None]), axis=(1, 2)),
        precision=np.sum(likely * of_group, axis=(1, 2)),
    )


def _weighed(likely: Float64s, weights: Float64s) -> tuple[Float64s, Float64s]:
    """Mean and variance of each place's weight."""
    mean = np.sum(likely * weights, axis=1)
    return mean, np.maximum(np.sum(likely * weights**2, axis=1) - mean**2, 0.0)


def _nodes(prior: _Prior, sums: PlaceSums, expected: Float64s, chosen: slice) -> tuple[Float64s, Float64s, Int64s]:
    """Weights that each place may have, (places, RATIOS), the logarithm of how likely each is, the nearest ratio."""
    precision = max(sums.weight_precision, 1e-300)
    seen = sums.weights[chosen] / precision
    sure = seen > fitted.SURE / np.sqrt(precision)
    weights = np.where(sure[:, None], seen[:, None] + _NEAR / np.sqrt(precision), RATIOS * expected[:, None])
    log = -0.5 * precision * (weights - seen[:, None]) ** 2
    log = log + np.where(sure[:, None], 0.0, np.log(prior.ratios + 1e-12))
    ratio = np.clip(weights / np.maximum(expected[:, None], 1e-12), 1e-6, None)
    near = np.clip(np.rint(np.interp(np.log(ratio), np.log(RATIOS[1:]), np.arange(1, RATIOS.size))), 1, None)
    nearest = np.where(sure[:, None], near, np.arange(RATIOS.size)).astype(np.int64)
    return weights, log, nearest


def _improved(prior: _Prior, sums: PlaceSums, around: Around) -> _Prior:
    result = [_posterior(prior, sums, around, chosen) for chosen in _chunks(sums.weights.size)]
    obs, precision = (np.concatenate([getattr(part, name) for part in result]) for name in ("obs", "precision"))
    of_group = [np.bincount(around.groups, part, prior.groups.size) for part in (obs, precision)]
    left = 1 / (prior.group_sd**-2 + of_group[1])
    means = left * of_group[0]
    ratios, sds = (np.sum([getattr(part, name) for part in result], axis=0) for name in ("ratios", "sds"))
    return _Prior(
        ratios=_anchored(ratios / np.sum(ratios)),
        sds=(sds + 1.0) / np.sum(sds + 1.0),
        groups=means,
        group_variances=left,
        group_sd=float(np.sqrt(np.mean(means**2 + left))),
    )


def _own(sums: PlaceSums, values: Float64s, weights: Float64s) -> Float64s:
    """Variance of a day's own mean around the usual one, by how far sums lie off beyond their noise.

    A place where w weigh has PLACE_OWN / w of its vehicles, and what all share: both are fitted to all places.
    """
    one, shared = fitted.PLACE_OWN, fitted.PLACE_COMMON
    if sums.days > 1:
        missed = (
            sums.surprise
            - 2 * weights * (values * sums.speeds - sums.centred)
            + weights**2 * (values**2 * sums.speed_precision - 2 * values * sums.centres + sums.squares)
        )
        columns = np.stack([weights, weights**2], axis=1) * sums.speed_precision
        excess = missed - (sums.days - 1)
        trust = 1 / np.sqrt(2 * sums.days + columns.sum(axis=1) ** 2)
        before = np.diag([1 / one, 1 / shared])
        rows = np.concatenate([columns * trust[:, None], before])
        result = np.linalg.lstsq(rows, np.concatenate([excess * trust, np.ones(2)]), rcond=None)[0]
        one, shared = np.clip(result, [0.0, 0.0], [fitted.MOST_PLACE_OWN, fitted.MOST_PLACE_COMMON]).tolist()
    own: Float64s = np.minimum(one / np.maximum(weights, 0.05), fitted.MOST_PLACE_OWN) + shared
    return own
