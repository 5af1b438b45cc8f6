"""How far the true mean of a HAT lies from what describes it: one law, asked by fits, intervals, plans and strategies.

A vehicle's usual speed in a HAT differs from that of others, and each of its reports from that. Where traffic is fast
both differ more.
"""

from dataclasses import dataclass

import numpy as np

from dpops import fitted
from dpops.types import Float64s, Int64s

USUAL_KMH = 20.0
"""What a HAT is described as before any release."""
_LEAST_KMH, _MOST_KMH = 5.0, 65.0


@dataclass(frozen=True, slots=True)
class Spread:
    """Variances of HATs' means around what describes them, (km/h)^2.

    vehicle: of one vehicle's usual mean, at 20 km/h; report: of one report around that; least: that of a HAT of many.
    The first two grow with the described speed to the power 3/4.
    """

    vehicle: float
    report: float
    least: float

    def of(
        self,
        vehicles: Int64s | Float64s,
        reports: Int64s | Float64s | None = None,
        kmh: Float64s | float = USUAL_KMH,
        least: float | None = None,
    ) -> Float64s:
        """Computes the variance for such numbers of vehicles and reports.

        reports: None where they are secret. kmh: what describes the HATs. least: another one than this law's, where
        releases told it.
        """
        vehicles, speed = np.maximum(vehicles, 1e-6), _relative(kmh)
        reports_made = fitted.REPORTS * vehicles * speed**-fitted.DWELL_POWER if reports is None else reports
        grown = speed**fitted.SPREAD_POWER * (self.vehicle / vehicles + self.report / reports_made)
        return grown + (self.least if least is None else least)

    @property
    def of_one(self) -> float:
        """Variance of one vehicle's mean in a HAT at 20 km/h, beside the least."""
        return self.vehicle + self.report / fitted.REPORTS


USUAL = Spread(vehicle=fitted.OF_VEHICLES, report=fitted.OF_REPORTS, least=fitted.LEAST_SPREAD)
"""Fitted on Austin's buses without noise, all of them and a third and a sixth of them. There reports' own variance is
nearly all; where vehicles report every few seconds, vehicles' own is."""


def _relative(kmh: Float64s | float) -> Float64s:
    return np.clip(kmh, _LEAST_KMH, _MOST_KMH) / USUAL_KMH
