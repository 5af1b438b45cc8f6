"""Places: posterior of their usual speeds around cells' speeds.

Places are independent given their cells: neither smoothness between neighbours nor effects of groups gain anything.
A released sum of speeds is weight times (speed - centre), so a place's weight and mean are learned together: weights
are summed over on a grid, of RATIOS times the expected weight, and speeds integrated out. A law, or `ratios`, is a
distribution of RATIOS, learned from all places. A report mean is weighted by the uncertain weight, as reports are.
`around` has, by place, its cell's mean speed (`values`), an expected weight, and the size of a segment of streets.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpops import fitted
from dpops.levels.stages import Kind
from dpops.spread import FLEET_SD, PRIOR_SPREAD
from dpops.types import Float64s, Int64s

SDS_KMH = fitted.PLACES_KMH * np.array([0.25, 0.5, 1.0, 2.0])
COPIES_KMH = np.array([1e-3])
"""Standard deviations of places' means around their cells', an even mixture; those of a model without differences."""
RATIOS = np.concatenate([[0.0], np.geomspace(0.01, 110, 32)])
"""Grid of possible weights of a place, relative to the expected one: 0, and evenly in logs."""
AT_LEAST = 4  # vehicles that a product names: one to three that come every day must not be taken for as many
EVIDENCE = 5  # Kass and Raftery's (1995) "very strong": log likelihood ratio from which places differ from cells
CHANCE = 0.05  # that at any place, on any day, four vehicles are spoken of where fewer were
_TINY = 1e-12
_CHUNK = 512  # places at once, which bounds memory
_NEAR = np.linspace(-4, 4, RATIOS.size)
_SURE = 5.0
"""A weight measured so many standard deviations of noise above 0 has its grid near, at such deviations from it:
RATIOS are then too coarse."""
_POWERS = np.linspace(0, 1, 3)
"""Slowness of a segment that weighs r times the expected is r to one of these powers: slow passes have more reports."""


class PlaceDay(NamedTuple):
    """A day's noisy weights, and sums of weights times (speed - centre), (places,).

    weight_variance, speed_variance: of the noise. day_weight: the city's, relative to a usual day. is_laplace: the
    noise's law, else Gaussian.
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
    """Sums over days that determine likelihoods, (places,) each or one number.

    A day's sums have the means W = a w, S = a w (x - c): w, x are a place's usual weight and speed, a the day's weight,
    c its centres; v are noise variances. speeds: of a S / v. centred: of a c S / v. centres: of a^2 c / v. squares: of
    a^2 c^2 / v. weights: of a W / v. speed_precision, weight_precision: of a^2 / v.
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
        a, of_speeds, of_weights = day.day_weight, 1 / day.speed_variance, 1 / day.weight_variance  # 1 / v of both
        return PlaceSums(
            speeds=self.speeds + a * of_speeds * day.speeds,
            centred=self.centred + a * of_speeds * day.centres * day.speeds,
            centres=self.centres + a * a * of_speeds * day.centres,
            squares=self.squares + a * a * of_speeds * day.centres**2,
            weights=self.weights + a * of_weights * day.weights,
            speed_precision=self.speed_precision + a * a * of_speeds,
            weight_precision=self.weight_precision + a * a * of_weights,
            days=self.days + 1,
            is_laplace=day.is_laplace,
        )


@dataclass(frozen=True, kw_only=True)
class Around:
    """Facts of places from cells and maps, (places,) each.

    values: mean speeds of their cells, km/h. expected: weights on a usual day by their cells' traffic, above 0. sizes:
    of segments of streets, which vehicles pass in full, so that they report more on long and on slow ones; else None.
    """

    values: Float64s
    expected: Float64s
    sizes: Float64s | None = None


@dataclass(frozen=True, kw_only=True)
class PlaceFit:
    """Posterior of places, float64 (places,) each.

    values: mean of reports at the place, or its cell's while evidence is below EVIDENCE, km/h; variances: of released
    days' mean around them. weights: on a usual day, and their variances. day_variances: of a day's mean around the
    usual one. evidence: log likelihood ratio of places that differ from their cells to places that do not.
    """

    values: Float64s
    variances: Float64s
    weights: Float64s
    weight_variances: Float64s
    day_variances: Float64s
    evidence: float


def whole_weight(sums: PlaceSums, expected: float) -> float:
    """Computes the posterior mean of all places' total weight, lognormal around `expected`."""
    if not sums.days:
        return expected
    scores = np.linspace(-20, 20, 20_001)  # grid of z-scores of the log total, fine enough for small noise
    totals = expected * np.exp(FLEET_SD * scores)
    precision = sums.weight_precision / sums.weights.size  # of the total: noise variances of places add up
    residuals = totals - float(sums.weights.sum()) / sums.weight_precision  # `weights` are times their precision
    costs = scores**2 + precision * residuals**2  # twice the negative log posterior
    likely = np.exp(-0.5 * (costs - costs.min()))
    return float(likely @ totals / likely.sum())


def learn_places(sums: PlaceSums, around: Around) -> PlaceFit:
    """Learns places from sums; around.expected adds up to the city's weight, `whole_weight`."""
    sums = tempered(sums)  # large z-scores of Laplace noise tell less
    expected, ratios = learned_traffic(sums, around.expected, around.sizes)
    around = replace(around, expected=expected)
    # By likelihood: do places differ from cells, and by which power of its relative weight is a segment slower?
    powers = _POWERS if around.sizes is not None else np.zeros(1)  # places other than segments have no sizes
    posteriors = [_posterior(ratios, -float(power), sums, around, SDS_KMH) for power in powers]
    moments, log_likelihood = max(posteriors, key=lambda posterior: posterior[1])
    # Of a place's speed at a time, of a report's speed (`report_means`), and of its weight.
    means, report_means, variances, weights, weight_variances = moments
    # Against places that copy their cells' speeds; 0 without days.
    evidence = log_likelihood - _posterior(ratios, 0.0, sums, around, COPIES_KMH)[1] if sums.days else 0.0
    values = report_means if evidence >= EVIDENCE else around.values  # means of reports are published; else of cells
    day_variances = PRIOR_SPREAD.of(np.maximum(weights, 1.0))  # of a mean of so many vehicles
    # Squared errors of `values` add up: variance of the usual mean, distance from it, and the days' mean around it.
    return PlaceFit(
        values=values,
        variances=variances + (means - values) ** 2 + day_variances / max(sums.days, 1),
        weights=weights,
        weight_variances=weight_variances,
        day_variances=day_variances,
        evidence=evidence,
    )


def _posterior(
    ratios: Float64s, power: float, sums: PlaceSums, around: Around, sds_kmh: Float64s
) -> tuple[Float64s, float]:
    """Computes posterior moments of places' speeds and weights, and the sums' log likelihood.

    Given a place's weight w and speed x, sums of speeds have the log likelihood w (speeds x - centred) - w^2 (x^2
    speed_precision - 2 x centres + squares) / 2, up to a constant: quadratic in x, which is integrated out.

    Args:
        ratios: probabilities of RATIOS.
        power: a place that weighs r times what is expected is as fast as its cell times r to this power.
        sds_kmh: of places around their cells, an even mixture.

    Returns:
        Mean, mean by reports, variance, weight and its variance, (5, places); log likelihood, up to a constant.
    """
    moments, log_likelihood = [], 0.0
    typical = ratios @ (RATIOS * _slowed(RATIOS, power))  # relative speed of all reports: makes their mean the cell's
    for chosen in _chunks(sums.weights.size):
        expected = around.expected[chosen]
        weights, log_by_weights = weight_nodes(ratios, sums, expected, chosen)  # (places, nodes); log: by weights alone
        speeds, centred, centres, squares, information = (
            item[chosen, None] for item in (sums.speeds, sums.centred, sums.centres, sums.squares, sums.speed_precision)
        )
        relative_speed = _slowed(weights / expected[:, None], power) / typical  # `_slowed` clips r near 1 first
        expected_kmh = around.values[chosen, None] * relative_speed
        # The log likelihood at the expected speed, and its derivative by the speed there.
        misfit = expected_kmh**2 * information - 2 * expected_kmh * centres + squares
        log_at_expected = log_by_weights + weights * (speeds * expected_kmh - centred) - 0.5 * weights**2 * misfit
        slope = (weights * speeds + weights**2 * (centres - information * expected_kmh))[..., None]
        # Given weight and deviation the speed is normal, of `precision`: (places, nodes, deviations) from here on.
        precision = sds_kmh**-2.0 + (weights**2 * information)[..., None]
        gain = np.log(sds_kmh**-2.0 / precision) + slope**2 / precision  # of the integral over speeds, times 2
        joint = log_at_expected[..., None] + 0.5 * gain - math.log(sds_kmh.size)
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
        weighted = np.sum(np.sum(likely * value, axis=2) * weights, axis=1) / np.maximum(weight, _TINY)
        report_mean = np.where(weight > _TINY, weighted, mean)  # reports are as many as the weight
        moments.append(np.stack([mean, report_mean, np.maximum(variance, 1e-6), weight, weight_variance]))
    return np.concatenate(moments, axis=1), log_likelihood


def _slowed(ratios: Float64s, power: float) -> Float64s:
    """Computes relative speeds at relative weights, which are clipped to one deviation of busyness."""
    return np.asarray(np.clip(ratios, math.exp(-fitted.BUSIER), math.exp(fitted.BUSIER)) ** power)


def _chunks(places: int) -> list[slice]:
    """Lists slices of at most _CHUNK places; an empty one without places."""
    return [slice(start, min(start + _CHUNK, places)) for start in range(0, max(places, 1), _CHUNK)]


def learned_traffic(sums: PlaceSums, expected: Float64s, sizes: Float64s | None = None) -> tuple[Float64s, Float64s]:
    """Learns places' expected weights and probabilities of RATIOS from released weights.

    Expected weights go with powers of cells' traffic and streets' sizes, the likeliest ones of a few. Of RATIOS, weight
    over expected, LAWS (distributions) are averaged by likelihood, so that places busy by noise are not believed to be.
    """
    if not sums.days:
        return expected, LAWS.mean(axis=0)
    candidates = []  # (log likelihood, expected, ratios)
    for power in np.linspace(0, 1, 4):  # 0: places are alike whatever traffic their cells have
        for size_power in (0.0,) if sizes is None else np.linspace(0, 1, 3):
            scaled = expected**power * (1.0 if sizes is None else sizes**size_power)
            scaled = scaled * (expected.sum() / scaled.sum())
            logs = np.sum([_law_logs(sums, scaled[chosen], chosen) for chosen in _chunks(expected.size)], axis=0)
            likely = np.exp(logs - logs.max())  # of LAWS, (laws,), up to a factor
            candidates.append((float(np.logaddexp.reduce(logs)), scaled, likely @ LAWS / likely.sum()))
    return max(candidates, key=lambda candidate: candidate[0])[1:]


def weight_nodes(law: Float64s, sums: PlaceSums, expected: Float64s, chosen: slice) -> tuple[Float64s, Float64s]:
    """Lists possible weights and log posteriors, (places, RATIOS). law: probabilities of RATIOS. chosen: places."""
    weights, log_likelihood, below, fraction, density = _weight_grid(sums, expected, chosen)
    above = np.minimum(below + 1, RATIOS.size - 1)
    # A weight lies `fraction` of the way between two RATIOS; `density` turns their probabilities into the grid's.
    prior = density * ((1 - fraction) * law[below] + fraction * law[above])
    return weights, log_likelihood + np.log(prior + _TINY)


def _law_logs(sums: PlaceSums, expected: Float64s, chosen: slice) -> Float64s:
    """Computes log likelihoods of LAWS, (laws,), up to a constant. chosen: places."""
    _, log_likelihood, below, fraction, density = _weight_grid(sums, expected, chosen)
    likely = density * np.exp(log_likelihood - log_likelihood.max(axis=1, keepdims=True))  # of the grid's weights
    # Likelihoods of RATIOS, (places, RATIOS): a weight `fraction` of the way from `below` to the next counts for both.
    of_ratios, rows = np.zeros(likely.shape), np.arange(len(likely))[:, None]
    np.add.at(of_ratios, (rows, below), (1 - fraction) * likely)
    np.add.at(of_ratios, (rows, np.minimum(below + 1, RATIOS.size - 1)), fraction * likely)
    # A law, (RATIOS,), gives a place the sum of its probabilities times those likelihoods; places multiply.
    return np.asarray(np.sum(np.log(of_ratios @ LAWS.T + _TINY), axis=0))


def _weight_grid(
    sums: PlaceSums, expected: Float64s, chosen: slice
) -> tuple[Float64s, Float64s, Int64s, Float64s, Float64s]:
    """Lays grids of possible weights, RATIOS of expected ones, for chosen places, with likelihoods.

    Returns:
        (places, RATIOS) each: weights; the log likelihood of the place's sum; the index in RATIOS of the ratio below,
        and the fraction of the way to the next; the factor that turns probabilities of RATIOS into the grid's: 1,
        or d log(ratio) / d ratio where the grid is even in weights, near a measured one.
    """
    precision = max(sums.weight_precision, _TINY)
    measured = sums.weights[chosen] / precision  # estimates by sums alone, of variance 1 / precision
    is_sure = measured > _SURE / np.sqrt(precision)  # these have a grid around the estimate: _NEAR, in deviations
    weights = np.where(is_sure[:, None], measured[:, None] + _NEAR / np.sqrt(precision), RATIOS * expected[:, None])
    low = np.broadcast_to(np.arange(RATIOS.size), weights.shape).copy()
    fraction, density = np.zeros(weights.shape), np.ones(weights.shape)
    if is_sure.any():  # `low` is at least 1, as RATIOS[0] has no log; at the last ratio the fraction is 0
        ratio = weights[is_sure] / expected[is_sure, None]
        position = np.clip(1 + np.log(ratio / RATIOS[1]) / np.log(RATIOS[2] / RATIOS[1]), 1, RATIOS.size - 1)
        low[is_sure] = position.astype(np.int64)
        fraction[is_sure], density[is_sure] = position - low[is_sure], 1 / ratio  # as RATIOS[1:] are even in logs
    scores = np.sqrt(precision) * (weights - measured[:, None])
    log = -surprise(scores, sums.days) if sums.is_laplace else -0.5 * scores**2
    return weights, log, low, fraction, density


def _laws() -> Iterator[Float64s]:
    """Yields distributions of RATIOS with mean 1: a share of places unvisited, others lognormal."""
    for unvisited in np.linspace(0, 1, 7, endpoint=False):  # coarse grids: LAWS are averaged by likelihood
        ratios = RATIOS[1:] * (1 - unvisited)  # RATIOS[0] is 0, of the unvisited; the mean of the others is 1
        for sd in np.geomspace(0.25, 4, 9):
            density = np.exp(-0.5 * (np.log(ratios) / sd + sd / 2) ** 2)  # lognormal of mean 1, by log ratio
            yield _with_mean_1(np.concatenate([[unvisited], (1 - unvisited) * density / density.sum()]))


def _with_mean_1(probabilities: Float64s) -> Float64s:
    """Tilts probabilities of RATIOS to mean 1, by empirical likelihood (Owen, 1988)."""
    # They are proportional to p / (1 + multiplier (ratio - 1)): at multipliers between these ends all are above 0.
    low, high = -1 / (RATIOS[-1] - 1) * (1 - 1e-9), 1 - 1e-9
    probabilities = (probabilities + 1e-9) / (1 + 1e-9 * probabilities.size)  # none 0
    for _ in range(60):  # bisections, to the last bit: the mean falls as the multiplier grows
        multiplier = (low + high) / 2
        result = probabilities / (1 + multiplier * (RATIOS - 1))
        low, high = (multiplier, high) if result @ RATIOS / result.sum() > 1 else (low, multiplier)
    return np.asarray(result / result.sum())


LAWS = np.array(list(_laws()))  # possible distributions of RATIOS, float64 (laws, RATIOS)


def surprise(scores: Float64s, draws: int) -> Float64s:
    """Computes negative log densities of sums of n Laplace draws, unnormalised.

    By the saddle point (Daniels, 1954): a draw of variance 1 has the cumulant function K(t) = -log(1 - t^2 / 2). At
    the mean x of n draws the result is n (t x - K(t)) + log(K''(t)) / 2, where K'(t) = x. Many draws give scores^2 / 2.

    Args:
        scores: the sum in its standard deviations. draws: n, one for each day.

    >>> surprise(np.array([2.0, 5.0]), 1).round(1).tolist(), surprise(np.array([2.0, 5.0]), 1000).round(1).tolist()
    ([2.2, 6.4], [2.0, 12.4])
    """
    x = np.abs(scores) / np.sqrt(draws)
    t = 2 * x / (1 + np.sqrt(1 + 2 * x * x))  # solves K'(t) = t / (1 - t^2 / 2) = x
    remainder = 1 - t * t / 2
    return np.asarray(draws * (t * x + np.log(remainder)) + np.log((2 - remainder) / remainder**2) / 2)


def tempered(sums: PlaceSums) -> PlaceSums:
    """Scales sums of speeds with Laplace noise to the likelihood of normal ones.

    A normal law would be too sure: large z-scores are likelier under Laplace noise. Its z^2 / 2 becomes `surprise`,
    without which of a thousand places those with the largest noise would be taken for fast or slow ones.
    """
    if not sums.is_laplace:
        return sums
    scores = np.maximum(np.abs(sums.speeds) / np.sqrt(sums.speed_precision), 1e-6)  # z-scores, never 0
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

    are_there: bool (places,). one_vehicle: what a vehicle of every day adds to `PlaceSums.weights` at most, the sum of
    a / v. largest_scale: of a day's noise in these sums, a b / v, if the noise were Laplace of scale b = sqrt(v / 2).
    """

    are_there: NDArray[np.bool_] = field(repr=False)
    one_vehicle: float = 0.0
    largest_scale: float = 0.0

    @staticmethod
    def none(places: int) -> "VehiclesProved":
        """Creates proofs of no vehicles."""
        return VehiclesProved(are_there=np.zeros(places, np.bool_))

    def after(self, day: PlaceDay, sums: PlaceSums, kind: Kind) -> "VehiclesProved":
        """Adds one more day, the last of the sums."""
        one_vehicle = self.one_vehicle + day.day_weight / day.weight_variance
        largest_scale = max(self.largest_scale, day.day_weight / math.sqrt(2 * day.weight_variance))
        chance = CHANCE / (self.are_there.size * sums.days * (sums.days + 1))
        # Noise of variance v, weighted by a / v, has variance a^2 / v: that of the sum is `weight_precision`.
        largest = largest_noise(kind, chance, sums.weight_precision, largest_scale)
        are_there = self.are_there | (sums.weights > (AT_LEAST - 1) * one_vehicle + largest)
        return VehiclesProved(are_there=are_there, one_vehicle=one_vehicle, largest_scale=largest_scale)


def largest_noise(kind: Kind, chance: float, variance: float, scale: float) -> float:
    """Bounds days' summed noise, which exceeds it with at most this chance.

    chance: below half. variance: of the sum. scale: the largest of the days'. Gaussian: the quantile. (Steps of the
    integers are a millionth of the noise.) Laplace: Chernoff's bound, with moments of n = sum b_i^2 / scale^2 draws of
    the largest scale, as -log(1 - x) / x grows with x. A discrete Laplace has no larger moments than a continuous one.
    """
    if kind == "gaussian":
        return -NormalDist().inv_cdf(chance) * math.sqrt(variance)
    draws, log = variance / 2 / scale**2, -math.log(chance)  # a Laplace law's variance is 2 scale^2
    low, high = 0.0, 2 * (log + math.sqrt(log * draws)) + 1  # at this end the exponent is above log
    for _ in range(60):  # bisections of the bound, in scales, at which the exponent of Chernoff's bound is log
        middle = (low + high) / 2
        tilt = (math.sqrt(draws**2 + middle**2) - draws) / middle  # that makes the exponent largest
        exponent = tilt * middle + draws * math.log1p(-(tilt**2))
        low, high = (low, middle) if exponent >= log else (middle, high)
    return high * scale
