"""Fits of weights and speeds, and updates by day."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from dpops import fitted
from dpops.learning.effects import Effects, Start
from dpops.learning.posterior import NoisySums
from dpops.learning.releases import HOURS, DayValues, LevelValues, StageValues
from dpops.learning.speeds import DayWeights, SpeedField
from dpops.learning.state import State
from dpops.learning.weights import VehicleNumber, WeightField
from dpops.spread import FLEET_SD
from dpops.types import Float64s

COLD, WARM = (5, 3, 2, 2), (2, 2, 2, 2)
"""Rounds of weights, speeds, weights given speeds, speeds; without and with folded days."""


@dataclass(frozen=True, slots=True)
class Fit:
    """Both fields fitted to all days, the coming included."""

    state: State
    days: tuple[DayValues, ...]
    weights: WeightField
    speeds: SpeedField

    @property
    def coming(self) -> int:
        """Index of the day to come."""
        return len(self.days) - 1


class RoughFields(NamedTuple):
    """Rough fields, without weights from speeds or HAT covariances."""

    weights: WeightField
    speeds: SpeedField
    hats: list[Float64s]


def rough_fields(state: State) -> RoughFields:
    """Fits weights, then speeds, each to their sums."""
    days = (*state.older, *state.recent) or (DayValues(hours=np.arange(HOURS)),)
    vehicles = _typical_vehicles(state, days)
    numbers = [_number(day, vehicles) for day in days]
    totals = [_released_total(day) for day in days]
    weights = WeightField(state.layouts.weights, days, numbers, totals, state.start)
    speeds = SpeedField(state.layouts.speeds, days, state.facts.hat_weight, state.start)
    rounds = COLD if state.start is None else WARM
    weights.fit(list(_weight_sums(days)), rounds[0])
    hats = weights.weights(weights.effects)
    speeds.fit(list(_speed_sums(days)), _day_weights(weights, hats), rounds[1])
    return RoughFields(weights, speeds, hats)


def fitted_fields(state: State) -> Fit:
    """Fits both fields, with a coming day appended."""
    weights, speeds, hats = rough_fields(state)
    days, (*_, to_weights, to_speeds) = weights.days, COLD if state.start is None else WARM
    coming, vehicles = DayValues(hours=days[-1].hours), _typical_vehicles(state, days)
    weight_sums, speed_sums = list(_weight_sums(days)), list(_speed_sums(days))
    weight_sums += _weights_from_speeds(speeds, speed_sums)
    weights.fit(weight_sums, to_weights)
    weights.finish(weight_sums, coming, _number(coming, vehicles))
    # NoisySums of speeds move a day's total by its doubt alone, so totals stay those of weights.
    *fitted_hats, of_coming = weights.weights(weights.effects)
    scaled = [
        informed * (released.sum() / informed.sum()) for released, informed in zip(hats, fitted_hats, strict=True)
    ]
    speeds.add(coming)
    speeds.fit(speed_sums, _day_weights(weights, [*scaled, of_coming]), to_speeds, is_last=True)
    return Fit(state, (*days, coming), weights, speeds)


def typical_traffic(weights: WeightField, day: DayValues) -> Float64s:
    """Computes centred logarithms of a day's typical weights."""
    logs = weights.layout.hats(weights.effects, day.hours, None)
    shares = np.exp(logs)
    centred: Float64s = logs - np.sum(logs * shares) / shares.sum()
    return np.clip(centred, -3, 3)


def _day_weights(weights: WeightField, hats: list[Float64s]) -> DayWeights:
    traffic = [typical_traffic(weights, day) for day in weights.days]
    return DayWeights(hats, traffic, weights.total_variances, weights.retention)


def _weight_sums(days: Sequence[DayValues]) -> Iterator[NoisySums]:
    for index, stage, level in _levels(days):
        if np.any(np.isfinite(level.weight_variance)):
            yield NoisySums(index, level.groups, level.weights.ravel(), level.weight_variances.ravel(), stage.centre)


def _speed_sums(days: Sequence[DayValues]) -> Iterator[NoisySums]:
    for index, stage, level in _levels(days):
        if np.any(np.isfinite(level.speed_variance)):
            yield NoisySums(index, level.groups, level.speeds.ravel(), level.speed_variances.ravel(), stage.centre)


def _levels(days: Sequence[DayValues]) -> Iterator[tuple[int, StageValues, LevelValues]]:
    return (
        (index, look, level) for index, day in enumerate(days) for look in day.speed_stages for level in look.levels
    )


def _weights_from_speeds(speeds: SpeedField, sums: Sequence[NoisySums]) -> list[NoisySums]:
    """Reads weight sums off speed sums: one variational step."""
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
        result.append(NoisySums(day, item.groups, item.values * slope / square, noise / square, item.centre))
    return result


def _typical_vehicles(state: State, days: Sequence[DayValues]) -> float:
    """Estimates a typical day's vehicles, and whether counts existed."""
    declared = state.facts.vehicles
    precision = (FLEET_SD * declared) ** -2
    total = precision * declared
    for level in (level for day in days for level in day.counted):
        precision += float(level.weight_precision[0, 0])
        total += float(level.weight_precision[0, 0] * level.weights[0, 0])
    return max(total / precision, 0.1 * declared)


def _released_total(day: DayValues) -> float | None:
    """Reads a day's most precise weight; None if noise."""
    sums = [
        (float(level.weight_variances.sum()), float(level.weights.sum()))
        for level in day.levels
        if np.all(np.isfinite(level.weight_variance))
    ]
    variance, total = min(sums, default=(math.inf, 0.0))
    return total if total > 3 * math.sqrt(variance) else None


def _number(day: DayValues, vehicles: float) -> VehicleNumber:
    if not day.counted:
        return VehicleNumber(vehicles, FLEET_SD**2)
    precision = sum(float(level.weight_precision[0, 0]) for level in day.counted)
    mean = sum(float(level.weight_precision[0, 0] * level.weights[0, 0]) for level in day.counted) / precision
    number = max(mean, precision**-0.5)
    return VehicleNumber(number, 1 / precision / number**2)


def add_day(state: State, day: DayValues) -> State:
    """Adds a day to the state, folding older ones."""
    state = replace(state, days=state.days + 1, recent=(*state.recent, day))
    if state.least_recent is None or len(state.recent) < 2 * state.least_recent:
        return state
    weights, speeds, _ = rough_fields(state)
    kinds: dict[bytes, list[int]] = {}
    older = [_aged(day) for day in state.older]
    days = [*older, *state.recent[: state.least_recent]]
    for index, old in enumerate(days):
        kinds.setdefault(old.hours.tobytes(), []).append(index)
    folded = tuple(_mean_day([(days[index], speeds.weights[index]) for index in indices]) for indices in kinds.values())
    lasting = state.layouts.weights.zeros(0)
    effects = Effects(*(part[: empty.size] for part, empty in zip(weights.effects, lasting, strict=True)))
    start = Start(effects, weights.strengths, speeds.strengths, speeds.spread)
    return replace(state, older=folded, recent=state.recent[state.least_recent :], start=start)


def _aged(day: DayValues) -> DayValues:
    """Discounts an older day's information, to follow seasons."""
    retained = 1 - fitted.FORGOTTEN

    def aged(level: LevelValues) -> LevelValues:
        variances = (1 / (retained * precision) for precision in (level.weight_precision, level.speed_precision))
        weight_variance, speed_variance = variances
        return replace(level, weight_variance=weight_variance, speed_variance=speed_variance)

    stages = tuple(replace(stage, levels=tuple(map(aged, stage.levels))) for stage in day.stages)
    return replace(day, stages=stages, count=retained * day.count)


def _mean_day(days: Sequence[tuple[DayValues, Float64s]]) -> DayValues:
    """Averages days of equal hours, weighted by precision."""
    levels: dict[bytes, list[tuple[DayValues, Float64s, StageValues, LevelValues]]] = {}
    counts = sum(day.count for day, _ in days)
    for day, hats in days:
        for stage in day.speed_stages:
            for level in stage.levels:
                levels.setdefault(level.groups.key, []).append((day, hats, stage, level))
    stages = tuple(_mean_stage(parts) for parts in levels.values())
    counted = [level for day, _ in days for level in day.counted]
    if counted:
        precision = sum(float(level.weight_precision[0, 0]) for level in counted)
        mean = sum(float(level.weight_precision[0, 0] * level.weights[0, 0]) for level in counted) / precision
        number = replace(counted[0], weights=np.array([[mean]]), weight_variance=1 / precision)
        counting = next(stage for day, _ in days for stage in day.stages if stage.counts_vehicles)
        stages = (replace(counting, levels=(number,)), *stages)
    return DayValues(hours=days[0][0].hours, stages=stages, count=counts)


def _mean_stage(parts: Sequence[tuple[DayValues, Float64s, StageValues, LevelValues]]) -> StageValues:
    groups = parts[0][3].groups
    speed_precision = np.maximum(np.sum([level.speed_precision for *_, level in parts], axis=0), 1e-300)
    weight_precision = np.maximum(np.sum([level.weight_precision for *_, level in parts], axis=0), 1e-300)
    importance = np.array([float(level.speed_precision.max()) for *_, level in parts]) + 1e-300
    centre = np.tensordot(importance / importance.sum(), np.stack([stage.centre for _, _, stage, _ in parts]), 1)
    speeds = np.sum(
        [
            level.speed_precision * (level.speeds + groups.totals(hats * (stage.centre - centre)))
            for _, hats, stage, level in parts
        ],
        axis=0,
    )
    weights = np.sum([level.weight_precision * level.weights for *_, level in parts], axis=0)
    level = LevelValues(
        groups=groups,
        weights=weights / weight_precision,
        speeds=speeds / speed_precision,
        weight_variance=1 / weight_precision,
        speed_variance=1 / speed_precision,
    )
    return StageValues(centre=centre, levels=(level,))
