"""Expected accuracy of daily place maps, from public numbers.

Rough: only releases and timetables show how places of a city, and their traffic, differ.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist

import numpy as np

from dpops import fitted
from dpops.learning.expected import MEAN_ABSOLUTE_NORMAL, speed_noise, weight_noise
from dpops.levels.defaults import RETAINED, Fleet, weight_at_places
from dpops.levels.stages import Stage
from dpops.spread import INFORMATIVE_KMH, TYPICAL, Z95
from dpops.types import Float64s

LEAST_VEHICLES = 1
"""A place of a single vehicle is never `ok`."""
Z90 = 1.645
"""A normal law exceeds its mean by fewer standard deviations with a probability of 95 %."""
EVEN, SPREAD, CONCENTRATED = (fitted.BUSIER * times for times in (1 / 2, 3 / 2, 5 / 2))
"""Spreads of traffic over segments of streets, which many share, and over hexagons: lines lie between the latter."""
_CLASSES = 1_000


@dataclass(frozen=True, kw_only=True)
class ExpectedMap:
    """Mean absolute errors of a map after `day` days.

    kmh: of places; cell_kmh: of their cells' values. half_width_kmh: half of all reports lie at places with a narrower
    95 % interval. ok: part of all reports at places of status `ok`.
    """

    day: int
    kmh: float
    cell_kmh: float
    half_width_kmh: float
    ok: float


def expected_maps(
    stage: Stage, fleet: Fleet, *, places: int, cells: int, crowding: float, days: Sequence[int]
) -> list[ExpectedMap]:
    """Forecasts the map after each of these days.

    stage: a day's stage of places. cells: of the region that hold them. crowding: as SPREAD or CONCENTRATED. A place of
    weight w is known to (noise / w)^2 a day; the error of its weight moves its difference likewise.
    """
    share = dict(stage.shares)["place"]
    of_speed, of_weight = speed_noise(stage, share), weight_noise(stage, share)
    relative_visits = _popular(crowding)
    visits = RETAINED * fleet.vehicles * weight_at_places(fleet.profile, stage.kind, places / cells)
    weights = visits * relative_visits / places
    own = TYPICAL.of(np.maximum(weights, 1.0))
    maps, reports = [], relative_visits / relative_visits.sum()
    for day in days:
        # Places around their cells, and what is unknown of cells, a third of the city's variance, less every day.
        prior_variance = fitted.PLACES_KMH**2 + fitted.PLACES_KMH**2 / 3 / day**2
        noise_variance = (of_speed**2 + prior_variance * of_weight**2) / weights**2
        variance = 1 / (1 / prior_variance + day / (noise_variance + own))
        half = Z95 * np.sqrt(variance + own / day)
        is_sure = weights - Z90 * of_weight / math.sqrt(day) > LEAST_VEHICLES
        maps.append(
            ExpectedMap(
                day=day,
                kmh=MEAN_ABSOLUTE_NORMAL * float(reports @ np.sqrt(variance)),
                cell_kmh=MEAN_ABSOLUTE_NORMAL * math.sqrt(prior_variance),
                half_width_kmh=_median(half, reports),
                ok=float(reports @ ((half < INFORMATIVE_KMH) & is_sure)),
            )
        )
    return maps


@cache
def _popular(crowding: float) -> Float64s:
    """Computes relative traffic of _CLASSES equal classes of places, lognormal, at their midpoints."""
    normal = NormalDist()
    z = np.array([normal.inv_cdf((number + 0.5) / _CLASSES) for number in range(_CLASSES)])
    raw = np.exp(crowding * z)
    return np.asarray(raw / raw.mean())


def _median(values: Float64s, weights: Float64s) -> float:
    """Finds the weighted median; weights add up to 1."""
    order = np.argsort(values)
    return float(values[order][np.searchsorted(np.cumsum(weights[order]), 0.5)])
