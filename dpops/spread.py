"""Residual variance of HAT means, for fits and plans."""

import math
from dataclasses import dataclass

import numpy as np

from dpops import fitted
from dpops.types import Float64s

Z95 = 1.96
"""A normal law exceeds its mean by more standard deviations, on either side, with a probability of 5 %."""
FLEET_SD = math.log(fitted.FLEETS_DIFFER) / Z95
"""Prior standard deviation of logarithms of what differs by fleet: its variance, and its number of one digit."""
CAUTION = math.exp(FLEET_SD)
"""Factor of residual variances in intervals: one of these deviations, as releases show less than HATs vary."""
INFORMATIVE_KMH = Z95 * fitted.PLACES_KMH * math.sqrt(fitted.MAX_RATIO)
"""Half width of an interval that tells of a place as much as a day that is shown must tell of its city's pattern."""
TYPICAL_KMH = 20.0  # prior mean of a HAT, and first centre of releases
LEAST_VEHICLES = 4.0  # expected ones, below which an honest interval spans all speeds: the value is unreliable
_LOWEST_KMH, _HIGHEST_KMH = 5.0, 65.0  # between which variance is proportional to speed


@dataclass(frozen=True, slots=True)
class VehicleSpread:
    """Variances of HAT means, (km/h)^2: per vehicle at 20 km/h, plus a floor."""

    vehicle: float = fitted.VEHICLE_VARIANCE
    floor: float = fitted.FLOOR_VARIANCE

    @property
    def cautious(self) -> "VehicleSpread":
        """CAUTION times these variances, for intervals: releases barely identify them."""
        return VehicleSpread(CAUTION * self.vehicle, CAUTION * self.floor)

    def of(self, vehicles: Float64s | float, kmh: Float64s | float = TYPICAL_KMH) -> Float64s:
        """Computes variances of HATs' means from numbers of vehicles and mean speeds, (HATs,)."""
        return growth(kmh) * self.vehicle / np.maximum(vehicles, 1e-6) + self.floor  # never divided by 0

    def of_reports(self, vehicles: Float64s | float, kmh: Float64s | float, precisions: Float64s | float) -> Float64s:
        """Computes posterior variances of reports' means; precisions: of noisy releases, (km/h)^-2.

        Source: Kish, Survey Sampling (1965), section 11.2: the part that unequal numbers of reports add is independent
        of the mean of vehicles, so no release informs it.
        """
        of_vehicles = 1 / (1 / self.of(vehicles, kmh) + precisions)  # posterior, by precisions
        unequal = (fitted.DESIGN_EFFECT - 1) * growth(kmh) * self.vehicle / np.maximum(vehicles, 1e-6)
        return np.asarray(of_vehicles + unequal)


PRIOR_SPREAD = VehicleSpread()  # before any release


def growth(kmh: Float64s | float) -> Float64s:
    """Computes vehicles' variance relative to that at 20 km/h."""
    return np.clip(kmh, _LOWEST_KMH, _HIGHEST_KMH) / TYPICAL_KMH
