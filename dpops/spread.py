"""How far the true mean of a HAT lies from what describes it: one law, asked by fits, intervals, plans and strategies.

Vehicles in a HAT differ, and differ more where traffic is fast.
"""

from dataclasses import dataclass

import numpy as np

from dpops import fitted
from dpops.types import Float64s

TYPICAL_KMH = 20.0
"""What a HAT is described as before any release."""
_LOWEST_KMH, _HIGHEST_KMH = 5.0, 65.0


@dataclass(frozen=True, slots=True)
class VehicleSpread:
    """Variances of HATs' means around what describes them, (km/h)^2.

    Attributes:
        vehicle: of one vehicle's mean at 20 km/h, beside the floor.
        floor: of the mean of very many vehicles.
    """

    vehicle: float = fitted.VEHICLE_VARIANCE
    floor: float = fitted.FLOOR_VARIANCE

    def of(self, vehicles: Float64s, kmh: Float64s | float = TYPICAL_KMH) -> Float64s:
        """Computes the variance for such numbers of vehicles where such speeds are driven."""
        return growth(kmh) * self.vehicle / np.maximum(vehicles, 1e-6) + self.floor

    def of_reports(self, vehicles: Float64s, kmh: Float64s, precisions: Float64s) -> Float64s:
        """Computes the same of the mean of their reports, once a release said so much of these vehicles.

        Source: Kish, Survey Sampling (1965), section 11.2: the part that unequal numbers of reports add is independent
        of the mean of vehicles, so no release tells it.
        """
        of_vehicles = 1 / (1 / self.of(vehicles, kmh) + precisions)
        unequal = (fitted.DESIGN_EFFECT - 1) * growth(kmh) * self.vehicle / np.maximum(vehicles, 1e-6)
        return np.asarray(of_vehicles + unequal)


TYPICAL = VehicleSpread()


def growth(kmh: Float64s | float) -> Float64s:
    """Computes how many times as much vehicles differ, in variance, as where 20 km/h are driven: it grows as speeds."""
    return np.clip(kmh, _LOWEST_KMH, _HIGHEST_KMH) / TYPICAL_KMH
