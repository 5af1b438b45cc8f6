"""Posterior of HATs, their intervals, and published numbers.

Vehicles in a HAT are uncertain: equally likely numbers of them, NODES on arrays' last axis (..), stand for their law.
The mean of those that were there deviates from the field, the less the more they are; "traffic" is that of very many.
"""

import math
from dataclasses import dataclass
from enum import IntEnum
from statistics import NormalDist

import numpy as np
from scipy.special import ndtr

from dpops import fitted
from dpops.forecast import normal_scores
from dpops.spread import LEAST_VEHICLES, Z95, VehicleSpread
from dpops.types import Float64s, Int64s


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Criteria of showing a day.

    Attributes:
        ratio: expected squared error of the map over that of the city's true mean.
        moved_kmh: distance of the map's mean from that of the last stage's centres; two prior deviations of an hour.
        total_sd: of the logarithm of the day's weight; releases tell something of it below its prior, RETAINED_SD.
        is_early: whether no day is folded in yet: it may have moved half a prior deviation of the city's mean then, as
            else a quiet first day is shown at 1.04 of the constant (120 cabs).
    """

    ratio: float
    moved_kmh: float = 0.0
    total_sd: float = 0.0
    is_early: bool = False

    @property
    def is_open(self) -> bool:
        """Whether the day is known well, and moved no further than real days do."""
        limit_kmh = fitted.CITY_SD_KMH / 2 if self.is_early else 2 * fitted.HOURS_KMH
        is_known = self.ratio <= fitted.MAX_RATIO and self.total_sd <= fitted.RETAINED_SD
        return is_known and abs(self.moved_kmh) < limit_kmh


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """Posterior of a day's HATs, (cells, slots), or groups.

    Attributes:
        values: km/h.
        variances: of the field, given weights.
        of_ratios: further ones of means, as weights are unknown (`ratio_variances`).
        deviations: variances of means around the field for equally likely numbers of vehicles, (.., NODES).
        traffic_deviations: likewise, of the mean that very many vehicles would have had.
        precisions: of means, by releases of single HATs.
        spread: law of deviations.
        weights: expected.
        vehicles: equally likely numbers, ascending, (.., NODES).
        hours: of the slots, (slots,).
        day: index in the days of the fit.
        repeats: HATs of a group that one vehicle visits.
    """

    values: Float64s
    variances: Float64s
    of_ratios: Float64s
    deviations: Float64s
    traffic_deviations: Float64s
    precisions: Float64s
    spread: VehicleSpread
    weights: Float64s
    vehicles: Float64s
    hours: Int64s
    day: int
    gate: Gate
    repeats: Float64s | float = 1.0


NODES = 8  # equally likely numbers of vehicles per HAT
MOST_FACTOR = 4  # of a reliable number of vehicles to either end of its interval
CAUTIOUS = 2  # node of the published number: at least as many are there with a probability of two thirds
_STEPS = 8
_QUANTILES = normal_scores(NODES)
_QUANTILES = _QUANTILES / math.sqrt(float(np.mean(_QUANTILES**2)))  # of variance 1, as the law that they stand for


def numbers_of(vehicles: Float64s, log_variances: Float64s) -> Float64s:
    """Computes equally likely, lognormal vehicle numbers, (.., NODES)."""
    sd = np.sqrt(log_variances + 1 / np.maximum(vehicles, 1.0))  # 1 / mean: of a Poisson number's logarithm
    return np.asarray(vehicles[..., None] * np.exp(sd[..., None] * _QUANTILES))


def traffic_variances(deviations: Float64s, precisions: Float64s, floor: float) -> Float64s:
    """Computes the traffic mean's variance around the HAT's value.

    With the Kalman gain k by which single-HAT releases pull the value from the field to the vehicles that were there,
    it errs by (1 - k) of the floor's deviation, and k times those vehicles' own one and the noise.

    Args:
        deviations: variances of the mean of vehicles that were there, floor included, (.., NODES).
        precisions: of releases of single HATs, (..).
        floor: variance of very many vehicles' mean around the field.
    """
    gain = deviations * precisions[..., None] / (1 + deviations * precisions[..., None])
    # The last term is the noise's, gain^2 / precision.
    return np.asarray((1 - gain) ** 2 * floor + gain**2 * (deviations - floor) + gain * (1 - gain) * deviations)


def half_widths(variances: Float64s, share: float = 0.95) -> Float64s:
    """Finds half widths in which normal mixtures, (.., NODES), hold a share."""
    sds = np.sqrt(variances)
    # The share grows ever more slowly with the width, so Newton's steps from below never overshoot.
    width: Float64s = NormalDist().inv_cdf((1 + share) / 2) * sds.min(axis=-1)
    for _ in range(_STEPS):
        scores = width[..., None] / sds
        missing = share - (2 * ndtr(scores) - 1).mean(axis=-1)
        slope = (np.exp(-(scores**2) / 2) / sds).mean(axis=-1) * math.sqrt(2 / math.pi)  # density on both sides
        width = width + np.maximum(missing, 0.0) / np.maximum(slope, 1e-9)
    return width


STEP_KMH = 0.01  # rounding step of published values: last digits of floating point differ between machines


class Status(IntEnum):
    """Status of published values; PARENT has a coarser one."""

    OK = 0
    UNRELIABLE = 1
    HELD_BACK = 2
    FORECAST = 3
    PARENT = 4


STATUS_NAMES = np.array([status.name.lower().replace("_", "-") for status in Status])  # names in rows, by number


def vehicles_about(field: Field, is_declared: bool) -> tuple[Float64s, Int64s]:
    """Estimates vehicle numbers, each with its 95 % interval, (3, ..), and status.

    Unreliable where the fleet's profile is not declared, or the interval is wider than from a fourth to four times.
    Held back, and nan, if releases tell nothing of the day's total weight.
    """
    logs = np.log(field.vehicles)  # (.., NODES)
    mean, lower, upper = np.exp(logs.mean(-1) + np.multiply.outer((0, -Z95, Z95), logs.std(-1)))
    is_narrow = upper <= MOST_FACTOR**2 * np.maximum(lower, 1.0)
    status = np.where(is_declared & is_narrow, Status.OK, Status.UNRELIABLE)
    numbers = np.stack([rounded(mean), np.floor(lower), np.ceil(upper)])
    if field.gate.total_sd > fitted.RETAINED_SD:
        return numbers * np.nan, np.full_like(status, Status.HELD_BACK)
    return numbers, status


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedNumbers:
    """Published numbers, (cells, slots) each, in km/h and rounded.

    Attributes:
        lower95, upper95: of the mean of the vehicles that were there.
        traffic_lower95, traffic_upper95: of the mean that very many would have had.
        vehicles: cautiously expected.
        status: int64, of `Status`.
    """

    values: Float64s
    sd: Float64s
    lower95: Float64s
    upper95: Float64s
    traffic_lower95: Float64s
    traffic_upper95: Float64s
    vehicles: Float64s
    status: Int64s


def published(field: Field, upper_kmh: float, *, forecast: bool = False) -> PublishedNumbers:
    """Rounds clamped values, with status and 95 % intervals, mixed over NODES."""
    of_field = (field.variances + field.of_ratios)[..., None]  # of modelled means; below: plus vehicles', by node
    variances = np.minimum(of_field + field.deviations, upper_kmh**2)
    half, vehicles = half_widths(variances), field.vehicles[..., CAUTIOUS]
    traffic_half = half_widths(np.minimum(of_field + field.traffic_deviations, upper_kmh**2))
    is_reliable = vehicles >= LEAST_VEHICLES * field.repeats  # groups count a vehicle in each of its HATs
    status = np.where(is_reliable, Status.FORECAST if forecast else Status.OK, Status.UNRELIABLE)
    if not field.gate.is_open:  # criteria of showing the day fail
        status = np.full(field.values.shape, Status.HELD_BACK)
    return PublishedNumbers(
        values=rounded(np.clip(field.values, 0, upper_kmh)),
        sd=rounded(np.sqrt(variances.mean(axis=-1))),
        lower95=rounded(np.clip(field.values - half, 0, upper_kmh)),
        upper95=rounded(np.clip(field.values + half, 0, upper_kmh)),
        traffic_lower95=rounded(np.clip(field.values - traffic_half, 0, upper_kmh)),
        traffic_upper95=rounded(np.clip(field.values + traffic_half, 0, upper_kmh)),
        vehicles=rounded(vehicles),
        status=status.astype(np.int64),
    )


def rounded(values: Float64s) -> Float64s:
    """Rounds to the closest float of the nearest step."""
    return np.round(np.asarray(values, np.float64) / STEP_KMH) / round(1 / STEP_KMH)
