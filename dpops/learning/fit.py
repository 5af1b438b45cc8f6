"""Fits of weights and speeds, and updates by day."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from dpops import fitted
from dpops.learning.effects import Effects, Start
from dpops.learning.posterior import NoisySums
from dpops.learning.releases import HOURS, DayValues, LevelValues, StageValues
from dpops.learning.speeds import SpeedField
from dpops.learning.state import State
from dpops.learning.weights import VehicleNumber, WeightField
from dpops.spread import FLEET_SD
from dpops.types import Float64s

COLD, WARM = (5, 3, 2, 2), (2, 1, 2, 2)
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


def rough_fields(state: State) -> tuple[WeightField, SpeedField, list[Float64s]]:
    """Fits weights by their sums, then speeds by theirs; returns HATs' weights too."""
    days = (*state.older, *state.recent) or (DayValues(hours=np.arange(HOURS)),)  # the prior, before any release
    vehicles = _typical_vehicles(state, days)
    counted_vehicles = [_number(day, vehicles) for day in days]
    totals = [_released_total(day) for day in days]
    weights = WeightField(state.layouts.weights, days, counted_vehicles, totals, state.start)
    speeds = SpeedField(state.layouts.speeds, days, state.facts, state.start)
    rounds = COLD if state.start is None else WARM
    weights.fit(_sums(days, "weights"), rounds[0])
    hats = weights.weights(weights.effects)
    speeds.fit(_sums(days, "speeds"), weights, hats, rounds[1], is_last=False)
    return weights, speeds, hats


def fitted_fields(state: State) -> Fit:
    """Fits both fields, with the next day appended, which has no releases yet."""
    weights, speeds, hats = rough_fields(state)
    days, (*_, weight_rounds, speed_rounds) = weights.days, COLD if state.start is None else WARM
    next_day, vehicles = DayValues(hours=days[-1].hours), _typical_vehicles(state, days)
    speed_sums = _sums(days, "speeds")
    weight_sums = _merged(_sums(days, "weights") + _weights_from_speeds(speeds, speed_sums))
    weights.fit(weight_sums, weight_rounds)
    weights.finish(weight_sums, next_day, _number(next_day, vehicles))
    # Sums of speeds move a day's total by its doubt alone, so totals stay those of weights.
    *fitted_hats, of_coming = weights.weights(weights.effects)
    scaled = [end * (start.sum() / end.sum()) for start, end in zip(hats, fitted_hats, strict=True)]
    speeds.add(next_day)
    speeds.fit(speed_sums, weights, [*scaled, of_coming], speed_rounds, is_last=True)
    return Fit(state, (*days, next_day), weights, speeds)


def _sums(days: Sequence[DayValues], kind: Literal["weights", "speeds"]) -> list[NoisySums]:
    """Lists released sums of weights or of speeds."""
    result = []
    for index, stage, level in _levels(days):
        variances = level.weight_variances if kind == "weights" else level.speed_variances
        if np.any(np.isfinite(variances)):
            values = level.weights if kind == "weights" else level.speeds
            result.append(NoisySums(index, level.groups, values.ravel(), variances.ravel(), stage.centre))
    return result


def _levels(days: Sequence[DayValues]) -> Iterator[tuple[int, StageValues, LevelValues]]:
    return (
        (index, stage, level) for index, day in enumerate(days) for stage in day.speed_stages for level in stage.levels
    )


def _weights_from_speeds(speeds: SpeedField, sums: Sequence[NoisySums]) -> list[NoisySums]:
    """Reads weight sums off speed sums: one step of variational Bayes.

    A sum is a group's weight times its mean's distance from the centre (`slope`), normal with known variance. The
    expected log likelihood is quadratic in the weight: its maximum is the sum times slope / E[slope^2], of variance
    noise / E[slope^2]. A city's mean is near the centre, so that sums of all cells tell nothing of weights.
    """
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


def _merged(sums: Sequence[NoisySums]) -> list[NoisySums]:
    """Averages sums of the same day and groups, weighted by precision."""
    by_group: dict[tuple[int, bytes], list[NoisySums]] = {}
    for item in sums:
        by_group.setdefault((item.day, item.groups.key), []).append(item)
    result = []
    for items in by_group.values():
        precisions = np.maximum(1 / np.stack([item.variances for item in items]), 1e-300)
        values = np.sum(precisions * np.stack([item.values for item in items]), axis=0) / precisions.sum(axis=0)
        result.append(replace(items[0], values=values, variances=1 / precisions.sum(axis=0)))
    return result


def _counted(days: Sequence[DayValues]) -> tuple[float, float]:
    """Averages counts of vehicles by precision; returns mean, 0 without counts, and precision."""
    counts = [level for day in days for level in day.counted]
    precision = sum(1 / float(level.weight_variances[0, 0]) for level in counts)
    total = sum(float(level.weights[0, 0] / level.weight_variances[0, 0]) for level in counts)
    return total / max(precision, 1e-300), precision


def _typical_vehicles(state: State, days: Sequence[DayValues]) -> float:
    """Estimates a typical day's vehicles, declared and counted, by precision; above 0."""
    fleet, (mean, precision) = state.facts.vehicles, _counted(days)
    prior = (FLEET_SD * fleet) ** -2
    return max((prior * fleet + precision * mean) / (prior + precision), 0.1 * fleet)


def _released_total(day: DayValues) -> float | None:
    """Reads a day's total weight off its most precise level; None if noise."""
    sums = [(float(item.variances.sum()), float(item.values.sum())) for item in _sums([day], "weights")]
    variance, total = min(sums, default=(math.inf, 0.0))
    return total if total > 3 * math.sqrt(variance) else None


def _number(day: DayValues, vehicles: float) -> VehicleNumber:
    """Estimates a day's vehicles: as counted, at least the noise's deviation; else as expected."""
    if not day.counted:
        return VehicleNumber(vehicles, FLEET_SD**2, is_counted=False)
    mean, precision = _counted([day])
    number = max(mean, precision**-0.5)
    return VehicleNumber(number, 1 / precision / number**2)


def add_day(state: State, day: DayValues) -> State:
    """Adds a day; folds the older half of twice `least_recent` into mean days.

    Folding needs speeds around a common centre, hence weights (`rough_fields`); effects of single days are dropped.
    """
    state = replace(state, days=state.days + 1, recent=(*state.recent, day))
    if state.least_recent is None or len(state.recent) < 2 * state.least_recent:
        return state
    weights, speeds, _ = rough_fields(replace(state, recent=state.recent[: state.least_recent]))
    by_hours: dict[bytes, list[int]] = {}
    older = [_aged(day) for day in state.older]
    days = [*older, *state.recent[: state.least_recent]]
    for index, past in enumerate(days):
        by_hours.setdefault(past.hours.tobytes(), []).append(index)
    folded = tuple(_mean_day([(days[index], speeds.weights[index]) for index in group]) for group in by_hours.values())
    lasting = state.layouts.weights.zeros(0)  # effects without those of days, which come last
    effects = Effects(*(values[: empty.size] for values, empty in zip(weights.effects, lasting, strict=True)))
    start = Start(effects, weights.strengths, speeds.strengths, speeds.spread)
    return replace(state, older=folded, recent=state.recent[state.least_recent :], start=start)


def _aged(day: DayValues) -> DayValues:
    """Discounts an older day's information, to follow seasons."""
    memory = 1 - fitted.FORGOTTEN

    def aged(level: LevelValues) -> LevelValues:
        weight_variance, speed_variance = level.weight_variances / memory, level.speed_variances / memory
        return replace(level, weight_variance=weight_variance, speed_variance=speed_variance)

    stages = tuple(replace(stage, levels=tuple(map(aged, stage.levels))) for stage in day.stages)
    return replace(day, stages=stages, count=memory * day.count)


def _mean_day(days: Sequence[tuple[DayValues, Float64s]]) -> DayValues:
    """Averages days of equal hours, weighted by precision."""
    by_groups: dict[bytes, list[tuple[Float64s, StageValues, LevelValues]]] = {}
    for day, hats in days:
        for _, stage, level in _levels([day]):
            by_groups.setdefault(level.groups.key, []).append((hats, stage, level))
    stages = [_mean_stage(of_days) for of_days in by_groups.values()]
    counting = [stage for day, _ in days for stage in day.stages if stage.counts_vehicles]
    if counting:
        mean, precision = _counted([day for day, _ in days])
        number = replace(counting[0].levels[0], weights=np.array([[mean]]), weight_variance=1 / precision)
        stages.insert(0, replace(counting[0], levels=(number,)))
    return DayValues(hours=days[0][0].hours, stages=tuple(stages), count=sum(day.count for day, _ in days))


def _mean_stage(of_days: Sequence[tuple[Float64s, StageValues, LevelValues]]) -> StageValues:
    """Averages one level of several days by precision, around their mean centre.

    A sum of weight times (speed - own centre) needs the weights times (own - mean centre) more: `shifts`.
    """
    hats, stages, levels = zip(*of_days, strict=True)
    groups, centres = levels[0].groups, np.stack([stage.centre for stage in stages])
    of_weights, of_speeds = (
        np.maximum(1 / np.stack(variances), 1e-300)
        for variances in ([level.weight_variances for level in levels], [level.speed_variances for level in levels])
    )
    importance = of_speeds.max(axis=(1, 2))  # of each day: its most precise group's
    centre = np.tensordot(importance / importance.sum(), centres, 1)
    shifts = [groups.totals(weights * (around - centre)) for weights, around in zip(hats, centres, strict=True)]
    speeds = np.sum(of_speeds * (np.stack([level.speeds for level in levels]) + shifts), axis=0)
    weights = np.sum(of_weights * np.stack([level.weights for level in levels]), axis=0)
    level = LevelValues(
        groups=groups,
        weights=weights / of_weights.sum(axis=0),
        speeds=speeds / of_speeds.sum(axis=0),
        weight_variance=1 / of_weights.sum(axis=0),
        speed_variance=1 / of_speeds.sum(axis=0),
    )
    return StageValues(centre=centre, levels=(level,))
