"""Mean speeds from noisy sums: linear-Gaussian effects, a day's own hours eliminated, one information matrix kept."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpops.learning.design import HOURS, Design, Smoothness, hour_smoothness
from dpops.learning.information import Information, inverse, solved
from dpops.learning.queries import GroupRows
from dpops.types import Float64s, Int64s

DEFAULT = Smoothness(cells=0.006, hours=0.1, parents=0.3)
CITY_MEAN_KMH, CITY_SD_KMH = 20.0, 5.0
DAY_PRECISION = 1.0
"""Prior precision of a day's own deviation by hour."""
_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class SpeedQueries:
    """Noisy values of linear combinations of HAT means. hats: (cells, slots), each HAT's coefficient in its group.

    values, variances: (queries,), in coefficient times km/h; the variance counts noise and the HATs' own deviations.
    """

    rows: GroupRows
    hats: Float64s
    values: Float64s
    variances: Float64s


@dataclass(frozen=True, slots=True)
class Means:
    """Effects in km/h, (columns,), and their covariance."""

    effects: Float64s
    covariance: Float64s


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
        return Deviations(np.zeros(HOURS), spread, np.zeros((design.columns, HOURS)))


def day_information(design: Design, queries: Sequence[SpeedQueries]) -> DayInformation:
    """Adds up a day's queries and eliminates its own hours by the Schur complement."""
    matrix, vector, span = np.zeros((design.columns, design.columns)), np.zeros(design.columns), design.hour_columns
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
    for at in range(_ROUNDS):
        prior = smoothness.matrix(design)
        prior[0, 0] = CITY_SD_KMH**-2
        covariance = inverse(information.matrix + prior)
        effects = covariance @ vector
        if at + 1 < _ROUNDS:
            smoothness = smoothness.learned(design, effects, covariance, DEFAULT)
    return Means(effects, covariance)


def variances(design: Design, means: Means, deviations: Deviations, hours: Int64s) -> Float64s:
    """Variance of each HAT's described mean, (cells, slots): of its effects and of the day's own hours."""
    columns = design.of_hats(hours)
    total = np.zeros(columns.shape[:2])
    for one in range(columns.shape[-1]):
        for other in range(columns.shape[-1]):
            total += means.covariance[columns[..., one], columns[..., other]]
        total += 2 * deviations.joint[columns[..., one], hours]
    total += deviations.covariance[hours, hours]
    return np.maximum(total, 0.0)
