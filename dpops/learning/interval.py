"""What is published of a belief: rounded values, intervals, and whether anything is known at all."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from dpops.learning.learner import Field
from dpops.types import Float64s, Int64s

STEP_KMH = 0.01
"""Everything is rounded to this before it leaves: last digits of floating point differ between machines."""
Z95 = 1.96
LEAST_VEHICLES = 4.0
"""Below so many expected vehicles an honest interval is as wide as all speeds: the value counts as not known."""


class Status(IntEnum):
    """What a published value is. Held back: the account knows too little of the whole city."""

    OK = 0
    UNRELIABLE = 1
    HELD_BACK = 2
    FORECAST = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimates:
    """Published numbers, (cells, slots) each, in km/h and rounded. vehicles: expected. status: int64, of `Status`."""

    values: Float64s
    sd: Float64s
    lower95: Float64s
    upper95: Float64s
    vehicles: Float64s
    status: Int64s


def published(field: Field, upper_kmh: float, *, forecast: bool = False) -> Estimates:
    """Clamps into [0, upper_kmh] and rounds. Of HATs with too few vehicles the status says that they are not known."""
    sd = np.sqrt(field.variances + field.deviations)
    values = np.clip(field.values, 0, upper_kmh)
    usual = Status.FORECAST if forecast else Status.OK
    return Estimates(
        values=rounded(values),
        sd=rounded(sd),
        lower95=rounded(np.clip(field.values - Z95 * sd, 0, upper_kmh)),
        upper95=rounded(np.clip(field.values + Z95 * sd, 0, upper_kmh)),
        vehicles=rounded(field.vehicles),
        status=np.where(field.vehicles < LEAST_VEHICLES, Status.UNRELIABLE, usual).astype(np.int64),
    )


def rounded(values: Float64s) -> Float64s:
    """To the nearest step, as the closest float of that decimal."""
    return np.round(np.asarray(values, np.float64) / STEP_KMH) / round(1 / STEP_KMH)
