"""Expected accuracy of maps of places, from public numbers.

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

LEAST_VEHICLES = 1  # a place of a single vehicle is never `ok`
Z90 = 1.645  # a normal law exceeds its mean by more standard deviations with a probability of 5 %
EVEN, SPREAD, CONCENTRATED = (fitted.BUSIER * times for times in (1 / 2, 3 / 2, 5 / 2))
"""Guessed: standard deviations of places' log traffic. Segments of streets, which many lines share, lie between the
first two, hexagons between the last two."""
_CLASSES = 1_000  # equally many places in each


@dataclass(frozen=True, kw_only=True)
class ExpectedMap:
    """Mean absolute errors of a map after `day` days.

    error_kmh: of places; cell_error_kmh: if each place is taken to be like its cell. half_width_kmh: half of all
    reports lie at places with a narrower 95 % interval. ok: part of all reports at places of status `ok`.
    """

    day: int
    error_kmh: float
    cell_error_kmh: float
    half_width_kmh: float
    ok: float


def expected_maps(
    stage: Stage, fleet: Fleet, *, places: int, cells: int, crowding: float, days: Sequence[int]
) -> list[ExpectedMap]:
    """Forecasts the map after each of these numbers of released days.

    stage: a day's stage of places. cells: of the region that hold places. crowding: EVEN, SPREAD or CONCENTRATED.
    """
    share = dict(stage.shares)["place"]
    speed_sd, weight_sd = speed_noise(stage, share), weight_noise(stage, share)  # of a place's sums
    traffic = _relative_traffic(crowding)
    total_weight = RETAINED * fleet.vehicles * weight_at_places(fleet.profile, stage.kind, places / cells)
    weights = total_weight * traffic / places  # of a place in each class, (classes,); bounds leave the part RETAINED
    day_variances = TYPICAL.of(np.maximum(weights, 1.0))  # of a day's mean around the usual one
    maps, reports = [], traffic / traffic.sum()
    for day in days:
        # Places vary around their cells; guessed: cells by a third as much, of which n days leave 1 / n^2 unknown.
        prior_variance = fitted.PLACES_KMH**2 + fitted.PLACES_KMH**2 / 3 / day**2
        # Noise of a day's mean, sum of speeds over weight; an error of the weight scales the place's difference.
        noise_variance = (speed_sd**2 + prior_variance * weight_sd**2) / weights**2
        variance = 1 / (1 / prior_variance + day / (noise_variance + day_variances))
        half = Z95 * np.sqrt(variance + day_variances / day)  # of the released days' mean, as in `learn_places`
        is_sure = weights - Z90 * weight_sd / math.sqrt(day) > LEAST_VEHICLES
        maps.append(
            ExpectedMap(
                day=day,
                error_kmh=MEAN_ABSOLUTE_NORMAL * float(reports @ np.sqrt(variance)),
                cell_error_kmh=MEAN_ABSOLUTE_NORMAL * math.sqrt(prior_variance),
                half_width_kmh=_median(half, reports),
                ok=float(reports @ ((half < INFORMATIVE_KMH) & is_sure)),
            )
        )
    return maps


@cache
def _relative_traffic(crowding: float) -> Float64s:
    """Computes traffic of _CLASSES equal classes of places, lognormal, of mean 1."""
    z_scores = np.array([NormalDist().inv_cdf((number + 0.5) / _CLASSES) for number in range(_CLASSES)])  # midpoints
    raw = np.exp(crowding * z_scores)
    return np.asarray(raw / raw.mean())


def _median(values: Float64s, weights: Float64s) -> float:
    """Finds the weighted median; weights add up to 1."""
    order = np.argsort(values)
    return float(values[order][np.searchsorted(np.cumsum(weights[order]), 0.5)])
