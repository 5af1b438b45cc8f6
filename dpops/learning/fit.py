"""Both latent fields fitted to all that a state keeps."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dpops import fitted
from dpops.learning.design import HOURS
from dpops.learning.releases import DayValues
from dpops.learning.speeds import DayWeights, SpeedField, SpeedSums
from dpops.learning.state import State
from dpops.learning.weights import VehicleNumber, WeightField, WeightSums
from dpops.types import Float64s

COLD, WARM = (5, 3, 2, 2), (2, 2, 2, 2)
"""Rounds of weights, of speeds, of weights given speeds, of speeds; before and after days were folded in."""


@dataclass(frozen=True, slots=True)
class Fit:
    """Both fields fitted to a state.

    Attributes:
        days: older mean days, recent ones, and one to come of which nothing is released.
    """

    state: State
    days: tuple[DayValues, ...]
    weights: WeightField
    speeds: SpeedField

    @property
    def coming(self) -> int:
        """Index of the day to come."""
        return len(self.days) - 1


class RoughFields(NamedTuple):
    """Both fields before sums of speeds tell weights, and without covariances of HATs."""

    weights: WeightField
    speeds: SpeedField
    hats: list[Float64s]


def rough_fields(state: State) -> RoughFields:
    """Fits weights to sums of weights, then speeds to sums of speeds; without days, to one of which nothing is said."""
    days = (*state.older, *state.recent) or (DayValues(hours=np.arange(HOURS)),)
    vehicles, is_counted = _typical_vehicles(state, days)
    numbers = [_number(day, vehicles) for day in days]
    totals = [_released_total(day) for day in days]
    retained_sd = fitted.RETAINED_SD if is_counted else math.hypot(fitted.RETAINED_SD, fitted.FLEET_SD)
    weights = WeightField(state.layouts.weights, days, numbers, totals, retained_sd, state.start)
    speeds = SpeedField(state.layouts.speeds, days, state.facts.hat_weight, state.start)
    rounds = COLD if state.start is None else WARM
    weights.fit(list(_weight_sums(days)), rounds[0])
    hats = weights.weights(weights.effects)
    speeds.fit(list(_speed_sums(days)), _day_weights(weights, hats), rounds[1])
    return RoughFields(weights, speeds, hats)


def fitted_fields(state: State) -> Fit:
    """Fits both fields to all days of a state, and describes a day to come."""
    weights, speeds, hats = rough_fields(state)
    days, (*_, to_weights, to_speeds) = weights.days, COLD if state.start is None else WARM
    coming, vehicles = DayValues(hours=days[-1].hours), _typical_vehicles(state, days)[0]
    weight_sums, speed_sums = list(_weight_sums(days)), list(_speed_sums(days))
    weight_sums += _weights_from_speeds(speeds, speed_sums)
    weights.fit(weight_sums, to_weights)
    weights.finish(weight_sums, coming, VehicleNumber(vehicles, 0.0))
    # Sums of speeds move a day's total by its doubt alone, so totals stay those of weights.
    *fitted_hats, of_coming = weights.weights(weights.effects)
    scaled = [after * (before.sum() / after.sum()) for before, after in zip(hats, fitted_hats, strict=True)]
    speeds.add(coming)
    speeds.fit(speed_sums, _day_weights(weights, [*scaled, of_coming]), to_speeds, is_last=True)
    return Fit(state, (*days, coming), weights, speeds)


def typical_traffic(weights: WeightField, day: DayValues) -> Float64s:
    """Computes logarithms of a day's typical weights around their mean by weight, (cells, slots)."""
    logs = weights.layout.hats(weights.effects, day.hours, None) + weights.night(day)
    shares = np.exp(logs)
    centred: Float64s = logs - np.sum(logs * shares) / shares.sum()
    return np.clip(centred, -3, 3)


def _day_weights(weights: WeightField, hats: list[Float64s]) -> DayWeights:
    traffic = [typical_traffic(weights, day) for day in weights.days]
    return DayWeights(hats, traffic, weights.total_variances, weights.retention)


def _weight_sums(days: Sequence[DayValues]) -> Iterator[WeightSums]:
    for index, day in enumerate(days):
        for level in day.levels:
            if np.any(np.isfinite(level.weight_variance)):
                yield WeightSums(index, level.groups, level.weights.ravel(), level.weight_variances.ravel())


def _speed_sums(days: Sequence[DayValues]) -> Iterator[SpeedSums]:
    for index, day in enumerate(days):
        for stage in day.looks:
            for level in stage.levels:
                if np.any(np.isfinite(level.speed_variance)):
                    variances = level.speed_variances.ravel()
                    yield SpeedSums(index, level.groups, stage.centre, level.speeds.ravel(), variances)


def _weights_from_speeds(speeds: SpeedField, sums: Sequence[SpeedSums]) -> list[WeightSums]:
    """Reads sums of speeds as sums of weights, given the speeds: one variational step."""
    result, variances = [], dict[int, Float64s]()
    for item in sums:
        if item.groups.shape[0] < 2:
            continue
        day, totals = item.day, item.groups.totals
        if day not in variances:
            regressors = {"traffic": speeds.traffic[day]}
            variances[day] = speeds.posterior.variances_of_hats(speeds.days[day].hours, day, regressors)
        hats = speeds.weights[day]
        total = totals(hats)
        slope = (totals(hats * (speeds.values[day] - item.centre)) / total).ravel()
        square = slope**2 + (totals(hats * variances[day]) / total).ravel()
        noise = item.variances + totals(hats**2 * speeds.hat_variances(day)).ravel()
        result.append(WeightSums(day, item.groups, item.values * slope / square, noise / square))
    return result


def _typical_vehicles(state: State, days: Sequence[DayValues]) -> tuple[float, bool]:
    """Estimates a typical day's number of vehicles: declared, and counted where days were."""
    declared = state.facts.vehicles
    precision = (fitted.FLEET_SD * declared) ** -2
    total = precision * declared
    counted = [level for day in days for level in day.counted]
    for level in counted:
        precision += float(level.weight_precision[0, 0])
        total += float(level.weight_precision[0, 0] * level.weights[0, 0])
    return max(total / precision, 0.1 * declared), bool(counted)


def _released_total(day: DayValues) -> float | None:
    """Reads a day's weight off its most precise level; None where that is mostly noise."""
    sums = [
        (float(level.weight_variances.sum()), float(level.weights.sum()))
        for level in day.levels
        if np.all(np.isfinite(level.weight_variance))
    ]
    variance, total = min(sums, default=(math.inf, 0.0))
    return total if total > 3 * math.sqrt(variance) else None


def _number(day: DayValues, vehicles: float) -> VehicleNumber:
    if not day.counted:
        return VehicleNumber(vehicles, 0.0)
    precision = sum(float(level.weight_precision[0, 0]) for level in day.counted)
    mean = sum(float(level.weight_precision[0, 0] * level.weights[0, 0]) for level in day.counted) / precision
    number = max(mean, precision**-0.5)
    return VehicleNumber(number, 1 / precision / number**2)
