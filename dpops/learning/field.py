"""Belief about a day's HATs, or about groups of them, as values."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dpops import fitted
from dpops.spread import VehicleSpread
from dpops.types import Float64s, Int64s


@dataclass(frozen=True, slots=True, kw_only=True)
class DayFields:
    """Where a day stands in both fields.

    Attributes:
        index: among the days of the fit.
        hours: of its slots.
        weights: of its HATs before releases of single HATs, (cells, slots).
        regressors: of its speeds.
    """

    index: int
    hours: Int64s
    weights: Float64s
    regressors: Mapping[str, Float64s]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """What decides whether a day is shown.

    Attributes:
        ratio: expected squared error of the map over that of the city's true mean.
        moved_kmh: how far the map's mean lies from that of the centres of the last look.
        total_sd: of the logarithm of the day's weight.
        is_early: whether the account has few days.
    """

    ratio: float
    moved_kmh: float = 0.0
    total_sd: float = 0.0
    is_early: bool = False

    @property
    def is_open(self) -> bool:
        moved_kmh = fitted.FIRST_MOVED_KMH if self.is_early else fitted.MAX_MOVED_KMH
        is_known = self.ratio <= fitted.MAX_RATIO and self.total_sd <= fitted.MAX_TOTAL_SD
        return is_known and abs(self.moved_kmh) < moved_kmh


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """Belief about each HAT of a day, (cells, slots), or about groups of them.

    Attributes:
        values: km/h.
        variances: of the field.
        deviations: variances of means around the field for equally likely numbers of vehicles, (.., NODES).
        traffic_deviations: the same of the mean that very many vehicles would have had.
        precisions: what releases of single HATs say of their means.
        spread: law of deviations.
        weights: expected.
        vehicles: equally likely numbers, ascending, (.., NODES).
        repeats: HATs of a group that one vehicle is in.
        is_misweighed: whether what standing vehicles weigh may decide a group's mean.
    """

    values: Float64s
    variances: Float64s
    deviations: Float64s
    traffic_deviations: Float64s
    precisions: Float64s
    spread: VehicleSpread
    weights: Float64s
    vehicles: Float64s
    day: DayFields
    gate: Gate
    repeats: Float64s | float = 1.0
    is_misweighed: "np.typing.NDArray[np.bool_] | bool" = False
