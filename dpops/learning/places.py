"""Places: posterior of their usual speeds around cells' speeds.

Places are independent around their cells: neither smoothness between neighbours nor effects of groups gain anything.
A place's weight and mean are learned together, on a grid of weights; how weights are spread is learned from all.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpops import fitted
from dpops.spread import FLEET_SD, TYPICAL
from dpops.types import Float64s, Int64s

if TYPE_CHECKING:
    from dpops.levels.stages import Kind

SDS_KMH = fitted.PLACES_KMH * np.array([0.25, 0.5, 1.0, 2.0])
COPIES_KMH = np.array([1e-3])
"""Standard deviations of places around their cells, and those of a model without differences."""
RATIOS = np.concatenate([[0.0], np.geomspace(0.01, 110, 32)])
"""Possible weights of a place, relative to the expected one."""
AT_LEAST = 4
"""Vehicles that a product names. One to three that come every day must not be taken for as many."""
EVIDENCE = 5
"""Kass and Raftery's (1995) "very strong": log ratio of likelihoods from which on places may differ from cells."""
CHANCE = 0.05
"""That at any place, on any day, four vehicles are spoken of where fewer were."""
_TINY = 1e-12
_CHUNK = 512  # places at once, which bounds memory
_NEAR = np.linspace(-4, 4, RATIOS.size)  # in standard deviations of a weight's noise
_SURE = 5.0
"""A weight so many standard deviations above 0 is looked for near what was measured."""
_POWERS = np.linspace(0, 1, 3)
"""Segments that vehicles pass have reports as they are slow: one that weighs r times as much may be r slower."""


class PlaceDay(NamedTuple):
    """A day's noisy weights and centred weighted speeds, (places,).

    weight_variance, speed_variance: of the noise. day_weight: relative to a usual day. is_laplace: else it is Gaussian.
    """

    weights: Float64s
    speeds: Float64s
    centres: Float64s
    weight_variance: float
    speed_variance: float
    day_weight: float
    is_laplace: bool = False


@dataclass(frozen=True)
class PlaceSums:
    """Sums over all days, (places,) each or one number.

    S, W: a day's sums; c: centres; a: day_weight; v: variance. speeds: of a S / v. centred: a c S / v.
    centres: a^2 c / v. squares: a^2 c^2 / v. weights: a W / v. speed_precision, weight_precision: a^2 / v.
    """

    speeds: Float64s
    centred: Float64s
    centres: Float64s
    squares: Float64s
    weights: Float64s
    speed_precision: Float64s
    weight_precision: float = 0.0
    days: int = 0
    is_laplace: bool = False

    @staticmethod
    def none(places: int) -> "PlaceSums":
        """Creates sums of no day."""
        return PlaceSums(*np.zeros((6, places)))

    def after(self, day: PlaceDay) -> "PlaceSums":
        """Adds a day's sums, weighted by precision."""
        a, speed, weight = day.day_weight, 1 / day.speed_variance, 1 / day.weight_variance
        return PlaceSums(
            speeds=self.speeds + a * speed * day.speeds,
            centred=self.centred + a * speed * day.centres * day.speeds,
            centres=self.centres + a * a * speed * day.centres,
            squares=self.squares + a * a * speed * day.centres**2,
            weights=self.weights + a * weight * day.weights,
            speed_precision=self.speed_precision + a * a * speed,
            weight_precision=self.weight_precision + a * a * weight,
            days=self.days + 1,
            is_laplace=day.is_laplace,
        )


@dataclass(frozen=True, kw_only=True)
class Around:
    """Facts of places without their sums, (places,) each.

    values: km/h, of their cells. expected: weights on a usual day by their cells' traffic. sizes: of segments of
    streets, which vehicles pass in full, so that they report more on long and on slow ones; else None.
    """

    values: Float64s
    expected: Float64s
    sizes: Float64s | None = None


@dataclass(frozen=True, kw_only=True)
class PlaceFit:
    """Posterior of places, float64 (places,) each.

    values: km/h, of a report at the place, or of its cell where evidence is too small; variances: around them.
    weights: on a usual day, and their variances. own: variance of a day's own mean around the usual one. evidence: log
    likelihood ratio of places that differ from their cells to places that do not.
    """

    values: Float64s
    variances: Float64s
    weights: Float64s
    weight_variances: Float64s
    own: Float64s
    evidence: float


class Traffic(NamedTuple):
    """Expected weights, (places,), and probabilities of RATIOS, mean 1."""

    expected: Float64s
    ratios: Float64s


def whole_weight(sums: PlaceSums, expected: float) -> float:
    """Computes the posterior mean of all places' total weight."""
    if not sums.days:
        return expected
    scores = np.linspace(-20, 20, 20_001)  # of the logarithm, in prior deviations: a grid fine at small noise too
    weights = expected * np.exp(FLEET_SD * scores)
    precision = sums.weight_precision / sums.weights.size  # of the total: noises of places add up
    residuals = weights - float(sums.weights.sum()) / sums.weight_precision
    costs = scores**2 + precision * residuals**2
    likely = np.exp(-0.5 * (costs - costs.min()))
    return float(likely @ weights / likely.sum())


def learn_places(sums: PlaceSums, around: Around) -> PlaceFit:
    """Learns places from sums; around.expected adds up to `whole_weight`."""
    sums = tempered(sums)
    expected, ratios = learned_traffic(sums, around.expected, around.sizes)
    around = replace(around, expected=expected)
    # The power of slowness, and whether places differ from cells at all, are chosen by likelihood.
    powers = _POWERS if around.sizes is not None else np.zeros(1)
    posteriors = [_posterior(ratios, -float(power), sums, around, SDS_KMH) for power in powers]
    moments, log_likelihood = max(posteriors, key=lambda posterior: posterior[1])
    means, of_reports, variances, weights, weight_variances = moments
    evidence = log_likelihood - _posterior(ratios, 0.0, sums, around, COPIES_KMH)[1] if sums.days else 0.0
    values = of_reports if evidence >= EVIDENCE else around.values
    own = TYPICAL.of(np.maximum(weights, 1.0))
    return PlaceFit(
        values=values,
        variances=variances + (means - values) ** 2 + own / max(sums.days, 1),
        weights=weights,
        weight_variances=weight_variances,
        own=own,
        evidence=evidence,
    )


def _posterior(
    ratios: Float64s, power: float, sums: PlaceSums, around: Around, sds_kmh: Float64s
) -> tuple[Float64s, float]:
    """Computes places' posterior moments, integrating weights and speeds out.

    Args:
        ratios: probabilities of RATIOS.
        power: a place that weighs r times what is expected is as fast as its cell times r to this power.
        sds_kmh: of places around their cells, an even mixture.

    Returns:
        Mean, mean by reports, variance, weight and its variance, (5, places); log likelihood of sums, up to a constant.
    """
    moments, log_likelihood = [], 0.0
    factors = _slowed(RATIOS, power)
    typical = ratios @ (RATIOS * factors)  # so that cells' values are those of all reports
    for chosen in _chunks(sums.weights.size):
        expected = around.expected[chosen]
        weights, log = nodes(ratios, sums, expected, chosen)
        speeds, centred, centres, squares, information = (
            item[chosen, None] for item in (sums.speeds, sums.centred, sums.centres, sums.squares, sums.speed_precision)
        )
        relative_speed = _slowed(weights / expected[:, None], power) / typical
        expected_kmh = around.values[chosen, None] * relative_speed
        misfit = expected_kmh**2 * information - 2 * expected_kmh * centres + squares
        # Log likelihood at the place's expected speed (`expected_kmh`), then its derivative by the speed (`slope`).
        log = log + weights * (speeds * expected_kmh - centred) - 0.5 * weights**2 * misfit
        slope = (weights * speeds + weights**2 * (centres - information * expected_kmh))[..., None]
        precision = sds_kmh**-2.0 + (weights**2 * information)[..., None]
        gain = np.log(sds_kmh**-2.0 / precision) + slope**2 / precision  # the speed integrated out, times 2
        joint = log[..., None] + 0.5 * gain - math.log(sds_kmh.size)
        largest = joint.max(axis=(1, 2), keepdims=True)  # log-sum-exp over weights and deviations
        likely = np.exp(joint - largest)
        total = likely.sum(axis=(1, 2), keepdims=True)
        likely /= total
        log_likelihood += float(np.sum(largest) + np.sum(np.log(total)))
        value = expected_kmh[..., None] + slope / precision
        mean = np.sum(likely * value, axis=(1, 2))
        variance = np.sum(likely * (1 / precision + (value - mean[:, None, None]) ** 2), axis=(1, 2))
        likely_weights = likely.sum(axis=2)
        weight = np.sum(likely_weights * weights, axis=1)
        weight_variance = np.maximum(np.sum(likely_weights * weights**2, axis=1) - weight**2, 0.0)
        of_visits = np.sum(np.sum(likely * value, axis=2) * weights, axis=1) / np.maximum(weight, _TINY)
        of_reports = np.where(weight > _TINY, of_visits, mean)
        moments.append(np.stack([mean, of_reports, np.maximum(variance, 1e-6), weight, weight_variance]))
    return np.concatenate(moments, axis=1), log_likelihood


def _slowed(ratios: Float64s, power: float) -> Float64s:
    """Computes relative speeds at relative weights, which count within one deviation of busyness."""
    return np.asarray(np.clip(ratios, math.exp(-fitted.BUSIER), math.exp(fitted.BUSIER)) ** power)


def _chunks(places: int) -> list[slice]:
    return [slice(start, min(start + _CHUNK, places)) for start in range(0, max(places, 1), _CHUNK)]


def learned_traffic(sums: PlaceSums, expected: Float64s, sizes: Float64s | None = None) -> Traffic:
    """Learns how traffic spreads over places, from released weights.

    By the likelihood of all released weights. LAWS count by their likelihood, none is chosen, so that what releases
    leave open stays open, and places that look busy are not believed to be. expected: float64 (places,), above 0.
    """
    if not sums.days:
        return Traffic(expected, LAWS.mean(axis=0))
    candidates = []
    for power in np.linspace(0, 1, 4):  # 0: places are alike whatever traffic their cells have
        for size_power in (0.0,) if sizes is None else np.linspace(0, 1, 3):
            scaled = expected**power * (1.0 if sizes is None else sizes**size_power)
            scaled = scaled * (expected.sum() / scaled.sum())
            logs = np.sum([_of_laws(sums, scaled[chosen], chosen) for chosen in _chunks(expected.size)], axis=0)
            likely = np.exp(logs - logs.max())
            traffic = Traffic(scaled, likely @ LAWS / likely.sum())
            candidates.append((float(np.logaddexp.reduce(logs)), traffic))
    return max(candidates, key=lambda candidate: candidate[0])[1]


def nodes(ratios: Float64s, sums: PlaceSums, expected: Float64s, chosen: slice) -> tuple[Float64s, Float64s]:
    """Lists possible weights and log posteriors, (places, RATIOS) each."""
    weights, log, low, fraction, density = _weight_grid(sums, expected, chosen)
    high = np.minimum(low + 1, RATIOS.size - 1)
    prior = density * ((1 - fraction) * ratios[low] + fraction * ratios[high])  # interpolated between RATIOS
    return weights, log + np.log(prior + _TINY)


def _of_laws(sums: PlaceSums, expected: Float64s, chosen: slice) -> Float64s:
    """Computes LAWS' log likelihoods; weights between two RATIOS count for both."""
    _, log, low, fraction, density = _weight_grid(sums, expected, chosen)
    likely = density * np.exp(log - log.max(axis=1, keepdims=True))
    grid, rows = np.zeros(likely.shape), np.arange(len(likely))[:, None]
    np.add.at(grid, (rows, low), (1 - fraction) * likely)
    np.add.at(grid, (rows, np.minimum(low + 1, RATIOS.size - 1)), fraction * likely)
    return np.asarray(np.sum(np.log(grid @ LAWS.T + _TINY), axis=0))


def _weight_grid(
    sums: PlaceSums, expected: Float64s, chosen: slice
) -> tuple[Float64s, Float64s, Int64s, Float64s, Float64s]:
    """Lays weight grids: RATIOS, or near precisely measured weights.

    Returns:
        (places, RATIOS) each: weights; the log likelihood of the place's sum; index of the ratio below, and the part of
        the way to the next; and the density of ratios.
    """
    precision = max(sums.weight_precision, _TINY)
    measured = sums.weights[chosen] / precision
    is_sure = measured > _SURE / np.sqrt(precision)
    weights = np.where(is_sure[:, None], measured[:, None] + _NEAR / np.sqrt(precision), RATIOS * expected[:, None])
    low = np.broadcast_to(np.arange(RATIOS.size), weights.shape).copy()
    fraction, density = np.zeros(weights.shape), np.ones(weights.shape)
    if is_sure.any():
        ratio = weights[is_sure] / expected[is_sure, None]
        position = np.clip(1 + np.log(ratio / RATIOS[1]) / np.log(RATIOS[2] / RATIOS[1]), 1, RATIOS.size - 1)
        low[is_sure] = position.astype(np.int64)
        fraction[is_sure], density[is_sure] = position - low[is_sure], 1 / ratio  # as RATIOS[1:] are even in logs
    scores = np.sqrt(precision) * (weights - measured[:, None])
    log = -surprise(scores, sums.days) if sums.is_laplace else -0.5 * scores**2
    return weights, log, low, fraction, density


def _laws() -> Iterator[Float64s]:
    """Tabulates laws of RATIOS with mean 1: a share of places unvisited, others lognormal."""
    for unvisited in np.linspace(0, 1, 7, endpoint=False):
        ratios = RATIOS[1:] * (1 - unvisited)  # the mean of those that are visited is 1
        for sd in np.geomspace(0.25, 4, 9):
            density = np.exp(-0.5 * (np.log(ratios) / sd + sd / 2) ** 2)  # lognormal of mean 1
            yield _anchored(np.concatenate([[unvisited], (1 - unvisited) * density / density.sum()]))


def _anchored(counts: Float64s) -> Float64s:
    """Maximises the likelihood of `counts` over probabilities of RATIOS with mean 1."""
    # Empirical likelihood (Owen, 1988): bisection finds Lagrange's multiplier of the mean.
    low, high = -1 / (RATIOS[-1] - 1) * (1 - 1e-9), 1 - 1e-9
    counts = (counts + 1e-9) / (1 + 1e-9 * counts.size)
    for _ in range(60):
        multiplier = (low + high) / 2
        result = counts / (1 + multiplier * (RATIOS - 1))
        if result @ RATIOS / result.sum() > 1:
            low = multiplier
        else:
            high = multiplier
    return np.asarray(result / result.sum())


LAWS = np.array(list(_laws()))
"""Possible laws of RATIOS, float64 (laws, RATIOS)."""


def surprise(scores: Float64s, draws: int) -> Float64s:
    """Computes the unnormalised negative log density of Laplace sums.

    By the saddle point (Daniels, 1954): with the cumulants K(t) = -log(1 - t^2 / 2) of a draw of variance 1 it is
    n (t x - K(t)) + log(K''(t)) / 2 where K'(t) = x, x being the mean of n draws. Many draws give scores^2 / 2.

    Args:
        scores: the sum in its standard deviations.

    >>> surprise(np.array([2.0, 5.0]), 1).round(1).tolist(), surprise(np.array([2.0, 5.0]), 1000).round(1).tolist()
    ([2.2, 6.4], [2.0, 12.4])
    """
    x = np.abs(scores) / np.sqrt(draws)
    t = 2 * x / (1 + np.sqrt(1 + 2 * x * x))
    remainder = 1 - t * t / 2
    return np.asarray(draws * (t * x + np.log(remainder)) + np.log((2 - remainder) / remainder**2) / 2)


def tempered(sums: PlaceSums) -> PlaceSums:
    """Scales sums of Laplace noise to the surprise of Gaussian ones.

    Speeds are weighted by precision, so speeds / sqrt(precision) are z-scores; z^2 / 2 falls to the surprise.
    Without it, of a thousand places those with the largest noise would be taken for busy ones.
    """
    if not sums.is_laplace:
        return sums
    scores = np.maximum(np.abs(sums.speeds) / np.sqrt(sums.speed_precision), 1e-6)
    factor = np.minimum(2 * surprise(scores, sums.days) / scores**2, 1.0)
    names = ("speeds", "centred", "centres", "squares", "speed_precision")
    return replace(sums, **{name: factor * getattr(sums, name) for name in names})


@dataclass(frozen=True, kw_only=True)
class VehiclesProved:
    """Places where releases prove AT_LEAST vehicles, over all days.

    A vehicle-day weighs at most 1 at a place (`dpops.levels.bounded`), and one vehicle has one a day. So where three
    vehicles or fewer were on all days together, no day's exact weight is above 3; any excess is noise. The chance that
    noise alone makes any place seem to have four, on any day ever published, is at most CHANCE: it is divided among
    places, whose number is public, and among days, the n-th of which has 1 / (n (n + 1)) of it. A proof stays: vehicles
    of more days are no fewer.

    are_there: bool (places,). one_vehicle: a / v of all days, see `PlaceSums`. step: the largest scale of a day's noise
    in these, a b / v, where b is that of a Laplace law of the same variance.
    """

    are_there: NDArray[np.bool_] = field(repr=False)
    one_vehicle: float = 0.0
    step: float = 0.0

    @staticmethod
    def none(places: int) -> "VehiclesProved":
        """Creates proofs of no vehicles."""
        return VehiclesProved(are_there=np.zeros(places, np.bool_))

    def after(self, day: PlaceDay, sums: PlaceSums, kind: "Kind") -> "VehiclesProved":
        """Adds one more day, the last of the sums."""
        one_vehicle = self.one_vehicle + day.day_weight / day.weight_variance
        step = max(self.step, day.day_weight / math.sqrt(2 * day.weight_variance))
        chance = CHANCE / (self.are_there.size * sums.days * (sums.days + 1))
        largest = largest_noise(kind, chance, sums.weight_precision, step)
        are_there = self.are_there | (sums.weights > (AT_LEAST - 1) * one_vehicle + largest)
        return VehiclesProved(are_there=are_there, one_vehicle=one_vehicle, step=step)


def largest_noise(kind: "Kind", chance: float, variance: float, step: float) -> float:
    """Bounds days' summed noise at a chance below half.

    step: the largest of their scales. Gaussian: the quantile of their sum. (Steps of the integers are a millionth of
    the noise.) Laplace: Chernoff's bound, with moments of n = sum b_i^2 / step^2 draws of the largest scale, as
    -log(1 - x) / x grows with x. A discrete Laplace has no larger moments than the continuous one of its scale.
    """
    if kind == "gaussian":
        return -NormalDist().inv_cdf(chance) * math.sqrt(variance)
    days, log = variance / 2 / step**2, -math.log(chance)  # a Laplace law's variance is 2 scale^2
    low, high = 0.0, 2 * (log + math.sqrt(log * days)) + 1
    for _ in range(60):  # bisection of the bound's exponent; at each sum the best tilt is a root of a quadratic
        middle = (low + high) / 2
        tilt = (math.sqrt(days**2 + middle**2) - days) / middle
        exponent = tilt * middle + days * math.log1p(-(tilt**2))
        low, high = (low, middle) if exponent >= log else (middle, high)
    return high * step
