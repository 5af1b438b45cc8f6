"""What is published of a belief: rounded values, intervals, and whether anything is known at all."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from dpops.learning.chances import CAUTIOUS, half_widths
from dpops.learning.field import Field
from dpops.types import Float64s, Int64s

STEP_KMH = 0.01
"""Everything is rounded to this before it leaves: last digits of floating point differ between machines."""
Z95 = 1.96
LEAST_VEHICLES = 4.0
"""Below so many expected vehicles an honest interval is as wide as all speeds: the value is unreliable."""


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

    Attributes:
        lower95, upper95: of the mean of the vehicles that were there.
        traffic_lower95, traffic_upper95: of the mean that very many would have had.
        vehicles: cautiously expected.
        status: int64, of `Status`.
    """

    values: Float64s
    sd: Float64s
    lower95: Float64s
    upper95: Float64s
    traffic_lower95: Float64s
    traffic_upper95: Float64s
    vehicles: Float64s
    status: Int64s


def published(field: Field, upper_kmh: float, *, forecast: bool = False) -> PublishedNumbers:
    """Clamps into [0, upper_kmh], rounds, and says what is not known: a HAT, or the whole city.

    An interval is the middle 95 % of the mixture over the numbers of vehicles that there may be.
    """
    variances = field.variances[..., None] + np.minimum(field.deviations, upper_kmh**2)
    half, vehicles = half_widths(variances), field.vehicles[..., CAUTIOUS]
    traffic = half_widths(field.variances[..., None] + np.minimum(field.traffic_deviations, upper_kmh**2))
    is_reliable = (vehicles >= LEAST_VEHICLES * field.repeats) & np.logical_not(field.is_misweighed)
    status = np.where(is_reliable, Status.FORECAST if forecast else Status.OK, Status.UNRELIABLE)
    if not field.gate.is_open:
        status = np.full(field.values.shape, Status.HELD_BACK)
    return PublishedNumbers(
        values=rounded(np.clip(field.values, 0, upper_kmh)),
        sd=rounded(np.sqrt(variances.mean(axis=-1))),
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
