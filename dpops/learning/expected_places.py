"""What a map of places is expected to be worth, released day after released day: from public numbers alone.

Rough: how far places of this city differ, and how its traffic lies in them, only releases and timetables can tell.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist

import numpy as np

from dpops.learning.half_widths import speed_noise, weight_noise
from dpops.learning.interval import Z95
from dpops.learning.learner import KEPT
from dpops.learning.places import FLOOR, OWN
from dpops.levels.defaults import Fleet, weight_at_places
from dpops.levels.stages import Stage
from dpops.types import Float64s

MOST_HALF_WIDTH_KMH = 8.0
"""A place is `ok` below it."""
LEAST_VEHICLES = 1.0
"""A place is `ok` where more vehicle-days a day are expected, cautiously: one that a single vehicle visits never is."""
CAUTIOUS = 1.64
"""Standard deviations that a place's weight is taken to be smaller by."""
SPREAD, CONCENTRATED = 1.5, 2.6
"""Standard deviation of the logarithm of how busy a place is. Buses' stops and lines lie between both; taxis with ranks
are concentrated: 2 of 100 places have three quarters of all reports (docs/streets.md)."""
APART_VARIANCE, LEAST_APART = 32.0, 16.0
"""Of places around their cell's mean, by reports, (km/h)^2: so much more with each seven places in the place of one. In
five feeds 20 to 45 at a cell's seven parts, 45 to 110 at its forty-nine."""
WIDE = 78 / 32
"""How many times as much quiet places lie off, which the learner allows all of them: busy ones make a cell's mean."""
FIRST_CELL_SD_KMH = 5.0
"""How far the cell's own value lies off after the first released day; after n days an n-th of it."""
_CLASSES = 1_000
_OF_NORMAL = math.sqrt(2 / math.pi)


@dataclass(frozen=True, kw_only=True)
class ExpectedMap:
    """The map after so many released days. kmh: its mean absolute error by reports. cell_kmh: of the cells' values.

    half_width_kmh: half of all reports lie at places with a narrower 95 % interval. ok: part of all reports at places
    of status `ok`.
    """

    day: int
    kmh: float
    cell_kmh: float
    half_width_kmh: float
    ok: float


def expected_maps(
    stage: Stage, fleet: Fleet, *, places: int, cells: int, crowding: float, days: Sequence[int]
) -> list[ExpectedMap]:
    """stage: a day's look at places. cells: of the region that hold them. crowding: as SPREAD and CONCENTRATED.

    A place where w weigh is known to (noise / w)^2 a day; its weight is known as badly, which moves what it differs by.
    """
    share = dict(stage.shares)["place"]
    apart = max(APART_VARIANCE * math.log(places / cells, 7), LEAST_APART)
    of_speed, of_weight = speed_noise(stage, share), weight_noise(stage, share)
    popular = _popular(crowding)
    weights = KEPT * fleet.vehicles * weight_at_places(fleet.profile, stage.kind, places / cells) * popular / places
    maps, reports = [], popular / popular.sum()
    for day in days:
        before, noise = apart + (FIRST_CELL_SD_KMH / day) ** 2, (of_speed / weights, of_weight / weights)
        variance, wide = (_left(factor * before, noise, OWN[0] / weights, day) for factor in (1.0, WIDE))
        half = Z95 * np.sqrt(wide + FLOOR)
        sure = weights - CAUTIOUS * of_weight / math.sqrt(day) > LEAST_VEHICLES
        maps.append(
            ExpectedMap(
                day=day,
                kmh=_OF_NORMAL * float(reports @ np.sqrt(variance)),
                cell_kmh=_OF_NORMAL * math.sqrt(before),
                half_width_kmh=_median(half, reports),
                ok=float(reports @ ((half < MOST_HALF_WIDTH_KMH) & sure)),
            )
        )
    return maps


def _left(before: float, noise: tuple[Float64s, Float64s], own: Float64s, days: int) -> Float64s:
    """Variances of places after so many days. noise: of speeds, and of weights, as parts of each place's weight."""
    told = (noise[0] ** 2 + before * noise[1] ** 2 + own) / days
    result: Float64s = 1 / (1 / before + 1 / told)
    return result


@cache
def _popular(crowding: float) -> Float64s:
    """How busy places are beside the average one, in classes of equally many: a lognormal law."""
    normal = NormalDist()
    z = np.array([normal.inv_cdf((number + 0.5) / _CLASSES) for number in range(_CLASSES)])
    raw = np.exp(crowding * z)
    result: Float64s = raw / raw.mean()
    return result


def _median(values: Float64s, weights: Float64s) -> float:
    order = np.argsort(values)
    return float(values[order][np.searchsorted(np.cumsum(weights[order]), 0.5)])
