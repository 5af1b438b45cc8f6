"""What is published of a belief: rounded values, intervals, and whether anything is known at all."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from dpops import fitted
from dpops.learning.chances import (
    CAUTIOUS,
    Chances,
    expected_vehicles,
    half_widths,
    left_variances,
    numbers_of,
    traffic_variances,
)
from dpops.learning.learner import Field
from dpops.spread import USUAL
from dpops.types import Float64s, Int64s

STEP_KMH = 0.01
"""Everything is rounded to this before it leaves: last digits of floating point differ between machines."""
Z95 = 1.96
LEAST_VEHICLES = 4.0
"""Below so many expected vehicles an honest interval is as wide as all speeds: the value counts as not known."""


class Status(IntEnum):
    """What a published value is. Held back: the account knows too little of the whole city. Parent: too
    little is known of the HAT, but a coarser group is known, whose value stands beside."""

    OK = 0
    UNRELIABLE = 1
    HELD_BACK = 2
    FORECAST = 3
    PARENT = 4


STATUS_NAMES = np.array([status.name.lower().replace("_", "-") for status in Status])
"""As rows say them, by number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedNumbers:
    """Published numbers, (cells, slots) each, in km/h and rounded.

    lower95, upper95: of the mean of the vehicles that were there. traffic_lower95, traffic_upper95: of the mean that
    very many would have had. vehicles: cautiously expected. status: int64, of `Status`.
    """

    values: Float64s
    sd: Float64s
    lower95: Float64s
    upper95: Float64s
    traffic_lower95: Float64s
    traffic_upper95: Float64s
    vehicles: Float64s
    status: Int64s


def chances_of(field: Field, least: float = 1.0) -> Chances:
    """Computes equally likely numbers of vehicles, and what a mean's own variance is with each.

    least: vehicles in a HAT: 1 where it has reports, 0 as a part of a group.
    """
    if field.chances is not None:
        return field.chances
    expected = expected_vehicles(field.vehicles)
    numbers = numbers_of(expected, field.log_variances, field.unknown_log_variance, least=least)
    # What a release of single HATs says of their own means, as a precision.
    said = np.maximum(1 / field.deviations - 1 / USUAL.of(field.vehicles), 0.0)
    own = USUAL.of(numbers, kmh=field.values[..., None], least=field.floor)
    # Releases hardly tell the floor, and it is all that traffic lies around what describes it by.
    rough = max(field.floor, fitted.ROUGH_FLOOR)
    return Chances(numbers, left_variances(own, said), traffic_variances(np.maximum(own, rough), said, rough))


def missed(field: Field) -> float:
    """Estimates the squared error of a city's values over that of one constant, its true mean; 1 where that would do.

    `Field.unknown` is noise / (pattern + noise), and noise in km/h is inverse to the weight: in variance, to its
    square. A city that looks larger than its fleet was declared is most often one that noise made look so, since
    weights above 0 follow noise upwards alone: then there is as much more noise as if it was of the size declared.
    """
    noise = field.unknown * max(field.larger, 1.0) ** 2
    share = noise / (max(1 - field.unknown, 0.0) + noise) if noise else 0.0
    return max(share, field.unknown)


def held_back(field: Field) -> bool:
    """Says whether too little is known of the whole city: of its speeds, of its weight, or whether it has a pattern.

    Or whether its speeds lie far from where the day's last look expected them: sums divided by another day's weight do.
    """
    seen = field.explained >= fitted.LEAST_EXPLAINED and field.city_variance <= fitted.MOST_CITY_VARIANCE
    return not seen or missed(field) > fitted.MOST_MISSED or field.off_centre_kmh >= fitted.MOST_OFF_CENTRE_KMH


def published(field: Field, upper_kmh: float, *, forecast: bool = False) -> PublishedNumbers:
    """Clamps into [0, upper_kmh], rounds, and says what is not known: a HAT, or the whole city.

    An interval is the middle 95 % of the mixture over the numbers of vehicles that there may be. vehicles is a cautious
    one of these.
    """
    chances = chances_of(field)
    of_cell = chances.described is not None
    described = field.variances[..., None] if chances.described is None else chances.described
    spread = described + np.minimum(chances.own, upper_kmh**2)
    half, vehicles = half_widths(spread), chances.vehicles[..., CAUTIOUS]
    traffic = half_widths(described + np.minimum(chances.traffic, upper_kmh**2))
    values = np.clip(field.values, 0, upper_kmh)
    most = fitted.MOST_OF_CELL if of_cell else fitted.MOST_LOG_VARIANCE
    counted = (vehicles >= LEAST_VEHICLES * field.repeats) & (field.log_variances <= most)
    counted = counted & field.is_seen & np.logical_not(field.misweighed)
    status = np.where(counted, Status.FORECAST if forecast else Status.OK, Status.UNRELIABLE)
    if held_back(field):
        status = np.full(values.shape, Status.HELD_BACK)
    return PublishedNumbers(
        values=rounded(values),
        sd=rounded(np.sqrt(spread.mean(axis=-1))),
        lower95=rounded(np.clip(field.values - half, 0, upper_kmh)),
        upper95=rounded(np.clip(field.values + half, 0, upper_kmh)),
        traffic_lower95=rounded(np.clip(field.values - traffic, 0, upper_kmh)),
        traffic_upper95=rounded(np.clip(field.values + traffic, 0, upper_kmh)),
        vehicles=rounded(vehicles),
        status=status.astype(np.int64),
    )


def rounded(values: Float64s) -> Float64s:
    """Rounds to the nearest step, as the closest float of that decimal."""
    return np.round(np.asarray(values, np.float64) / STEP_KMH) / round(1 / STEP_KMH)
