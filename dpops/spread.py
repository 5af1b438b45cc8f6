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


TYPICAL = VehicleSpread()


def growth(kmh: Float64s | float) -> Float64s:
    """Computes how many times as much vehicles differ, in variance, as where 20 km/h are driven."""
    return (np.clip(kmh, _LOWEST_KMH, _HIGHEST_KMH) / TYPICAL_KMH) ** fitted.SPREAD_POWER
