"""How far the true mean of a HAT may lie from what describes it, and what noisy means say of that themselves."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dpops.types import Float64s, Int64s

_KMH = 20.0
_LEAST_KMH, _MOST_KMH = 5.0, 65.0
_POWER = 0.75
_PER_VEHICLE = 2.5
"""Reports of a vehicle in a HAT, roughly."""
_UNEVEN = 0.3
"""Of how much more the vehicle that reports most weighs than an even share, what comes to be variance."""
PRIOR_SD = np.array([1.5, 0.5, 3.0])
"""How far vehicles', reports' and the least variance may be from the usual ones, as factors, before any release."""
LEAST, MOST = np.array([0.3, 0.3, 0.2]), np.array([8.0, 3.0, 20.0])
"""Of these factors: so far releases are believed."""
_OF_SQUARES = 4.0
"""Variance of the square of what was missed, in squares of its variance: 2 of normal laws, 5 of Laplace's."""
_MOST_LEVERAGE = 0.9


@dataclass(frozen=True, slots=True)
class OwnVariances:
    """Variances of HATs' means around what describes them, (km/h)^2.

    vehicle: of one vehicle's usual mean, at 20 km/h; report: of one report around that; least: that of a HAT of many.
    The first two grow with the described speed to the power 3/4.
    """

    vehicle: float
    report: float
    least: float

    def of(self, vehicles: Int64s | Float64s, reports: Int64s | Float64s, kmh: Float64s | float = _KMH) -> Float64s:
        """(hats,), of such numbers of vehicles and reports. kmh: what describes them."""
        found: Float64s = _growth(kmh) * (self.vehicle / vehicles + self.report / reports) + self.least
        return found

    def of_uneven(self, vehicles: Int64s, reports: Int64s, heaviest: Int64s, kmh: Float64s) -> Float64s:
        """What it adds that some vehicles report more often. heaviest: reports of the one that has most."""
        found: Float64s = _growth(kmh) * self.vehicle * _UNEVEN * (heaviest / reports - 1 / vehicles)
        return found

    @property
    def times_usual(self) -> float:
        """Of one vehicle's mean: the more vehicles differ, the more a cap on counts pulls."""
        return self._of_one / USUAL._of_one

    @property
    def _of_one(self) -> float:
        return self.vehicle + self.report / _PER_VEHICLE


USUAL = OwnVariances(vehicle=40.0, report=280.0, least=1.0)
"""Fitted on Austin's buses without noise, all of them and a third and a sixth of them. There reports' own variance is
nearly all; where vehicles report every few seconds, vehicles' own is: the releases themselves tell (docs/estimates.md,
"Beside the mechanisms that release HAT by HAT")."""


class Missed(NamedTuple):
    """How far noisy means lie from what the model makes of them, (hats,) each.

    squares: (km/h)^2. known: the variance of what the model makes. noise: that of the values themselves. kmh: what
    describes their HATs.
    """

    squares: Float64s
    known: Float64s
    noise: Float64s
    vehicles: Float64s
    reports: Float64s
    kmh: Float64s


def learned_variances(days: Iterable[Missed]) -> OwnVariances:
    """By least squares around the usual ones, from all values of some days.

    A value lies around what the model makes of it by noise, whose variance is known, and by its HAT's own deviation.
    """
    precision = np.diag(PRIOR_SD**-2)
    value = precision @ np.ones(3)
    for each in days:
        grown = _growth(each.kmh)
        of_vehicles, of_reports = grown * USUAL.vehicle / each.vehicles, grown * USUAL.report / each.reports
        parts = np.stack([of_vehicles, of_reports, np.full(grown.size, USUAL.least)])
        whole = each.noise + parts.sum(axis=0)
        leverage = np.minimum(each.known / (each.known + whole), _MOST_LEVERAGE)
        weighted = parts / (_OF_SQUARES * whole**2)
        precision = precision + weighted @ parts.T
        value = value + weighted @ (each.squares / (1 - leverage) - each.noise)
    vehicle, report, least = np.clip(np.linalg.solve(precision, value), LEAST, MOST).tolist()
    return OwnVariances(vehicle * USUAL.vehicle, report * USUAL.report, least * USUAL.least)


def _growth(kmh: Float64s | float) -> Float64s:
    found: Float64s = (np.clip(kmh, _LEAST_KMH, _MOST_KMH) / _KMH) ** _POWER
    return found
