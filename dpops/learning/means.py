"""Mean speeds from noisy sums: linear-Gaussian effects, a day's own hours eliminated, one information matrix kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dpops.learning.design import HOURS, Design, Smoothness, hour_smoothness
from dpops.learning.information import Information, inverse, solved
from dpops.learning.queries import GroupRows
from dpops.types import Float64s, Int64s

DEFAULT = Smoothness(cells=0.006, hours=0.1, parents=0.3)
CITY_MEAN_KMH, CITY_SD_KMH = 20.0, 5.0
SLOPE_KMH, SLOPE_SD_KMH = -2.0, 1.5
"""Where e times as many vehicles report, they are so much slower: stops and centres. Three real cities agree."""
DAY_PRECISION = 1.0
"""Prior precision of a day's own deviation by hour."""
_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class SpeedQueries:
    """Noisy values of linear combinations of HAT means.

    rows: made with `columns_of`. hats: (cells, slots, kinds), each HAT's coefficient in its group times its effects'.
    values, variances: (queries,), in coefficient times km/h; the variance counts noise and the HATs' own deviations.
    """

    rows: GroupRows
    hats: Float64s
    values: Float64s
    variances: Float64s


@dataclass(frozen=True, slots=True)
class Means:
    """Effects in km/h, (columns + 1,), and their covariance. The last one is per unit of a HAT's traffic."""

    effects: Float64s
    covariance: Float64s

    def described(self, design: Design, hours: Int64s, traffic: Float64s) -> Float64s:
        """The usual mean of each HAT, (cells, slots)."""
        usual: Float64s = design.described(self.effects[:-1], hours) + self.effects[-1] * traffic
        return usual


@dataclass(frozen=True, slots=True)
class DayInformation:
    """What one day says of the lasting effects (`kept`), and of its own 24 hours given them.

    own: the precision of its own hours, prior included. cross: (columns, 24), with the lasting effects. vector: (24,).
    """

    kept: Information
    own: Float64s
    cross: Float64s
    vector: Float64s

    def deviations(self, means: Means) -> "Deviations":
        spread = inverse(self.own)
        back = self.cross @ spread
        joint = -means.covariance @ back
        return Deviations(spread @ self.vector - back.T @ means.effects, spread - back.T @ joint, joint)


@dataclass(frozen=True, slots=True)
class Deviations:
    """A day's own deviation by hour, (24,), its covariance, and its covariance with the effects, (columns, 24)."""

    values: Float64s
    covariance: Float64s
    joint: Float64s

    @staticmethod
    def unknown(design: Design) -> "Deviations":
        """Of a day that is still to come."""
        spread = inverse(DAY_PRECISION * hour_smoothness())
        return Deviations(np.zeros(HOURS), spread, np.zeros((design.columns + 1, HOURS)))


def traffic_of(weights: Float64s) -> Float64s:
    """Logarithm of each HAT's weight around its own weighted mean, cut to [-3, 3]."""
    logs = np.log(weights)
    around: Float64s = np.clip(logs - np.sum(logs * weights) / weights.sum(), -3.0, 3.0)
    return around


def columns_of(design: Design, hours: Int64s) -> Int64s:
    """The effects that describe each HAT's mean, int64 (cells, slots, 5): the design's, and traffic."""
    columns = design.of_hats(hours)
    return np.concatenate([columns, np.full((*columns.shape[:2], 1), design.columns)], axis=-1)


def coefficients_of(traffic: Float64s) -> Float64s:
    """How much of each of these effects a HAT has, (cells, slots, 5)."""
    return np.concatenate([np.ones((*traffic.shape, 4)), traffic[..., None]], axis=-1)


def day_information(design: Design, queries: Sequence[SpeedQueries]) -> DayInformation:
    """Adds up a day's queries and eliminates its own hours by the Schur complement."""
    matrix, vector = np.zeros((design.columns + 1, design.columns + 1)), np.zeros(design.columns + 1)
    span = design.hour_columns
    for query in queries:
        rows, weight = query.rows(query.hats), 1 / query.variances
        matrix += rows.gram(weight)
        vector += rows.project(weight * query.values)
    own = DAY_PRECISION * hour_smoothness() + matrix[span, span]
    cross, day_vector = matrix[:, span].copy(), vector[span].copy()
    back = solved(own, cross.T)
    return DayInformation(Information(matrix - cross @ back, vector - back.T @ day_vector), own, cross, day_vector)


def fit_means(design: Design, information: Information) -> Means:
    """Effects from all days' information; their smoothness is learned from it by EM, from the default."""
    smoothness = DEFAULT
    vector = information.vector.copy()
    vector[0] += CITY_MEAN_KMH / CITY_SD_KMH**2
    vector[-1] += SLOPE_KMH / SLOPE_SD_KMH**2
    for at in range(_ROUNDS):
        prior = np.zeros((design.columns + 1, design.columns + 1))
        prior[:-1, :-1] = smoothness.matrix(design)
        prior[0, 0], prior[-1, -1] = CITY_SD_KMH**-2, SLOPE_SD_KMH**-2
        covariance = inverse(information.matrix + prior)
        effects = covariance @ vector
        if at + 1 < _ROUNDS:
            smoothness = smoothness.learned(design, effects, covariance, DEFAULT)
    return Means(effects, covariance)


class Spread(NamedTuple):
    """How well each HAT's described mean is known. variances: (cells, slots). unknown: see `spread_of`."""

    variances: Float64s
    unknown: float


def spread_of(
    design: Design, means: Means, deviations: Deviations, hours: Int64s, traffic: Float64s, weights: Float64s
) -> Spread:
    """Variances of the described means, and what part of the city's pattern is not known.

    The second is the expected squared error of the described means over that of one constant, the city's true mean:
    0 where all is known, 1 where one constant would do as well, above 1 where not even that is known.
    """
    columns, parts = columns_of(design, hours), coefficients_of(traffic)
    share = weights / weights.sum()
    row = np.bincount(columns.ravel(), (share[..., None] * parts).ravel(), design.columns + 1)
    by_hour = np.bincount(hours, share.sum(axis=0), HOURS)
    with_mean = np.sum(parts * (means.covariance @ row + deviations.joint @ by_hour)[columns], axis=-1)
    with_mean = with_mean + (row @ deviations.joint + by_hour @ deviations.covariance)[hours]
    own = np.broadcast_to(deviations.covariance[hours, hours], traffic.shape).copy()
    for one in range(columns.shape[-1]):
        own += 2 * parts[..., one] * deviations.joint[columns[..., one], hours]
        for other in range(columns.shape[-1]):
            covariance = means.covariance[columns[..., one], columns[..., other]]
            own += parts[..., one] * parts[..., other] * covariance
    own = np.maximum(own, 0.0)
    values = means.described(design, hours, traffic) + deviations.values[hours]
    constant = (values - np.sum(share * values)) ** 2 + own - 2 * with_mean + np.sum(share * with_mean)
    return Spread(own, float(np.sum(share * own) / max(np.sum(share * constant), 1e-9)))
