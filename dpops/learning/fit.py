"""Fits of weights and speeds, and updates by day.

Sums of weights tell weights, hence in sums of speeds the speeds; given speeds, sums of speeds tell weights too. A first
fit is rough, without the latter. `hats` are numbers of a day's HATs, (cells, slots).
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from dpops import fitted
from dpops.learning.effects import Effects, Start
from dpops.learning.latent import SpeedField, VehicleNumber, WeightField
from dpops.learning.posterior import NoisySums
from dpops.learning.releases import HOURS, DayValues, LevelValues, StageValues
from dpops.learning.state import State
from dpops.spread import FLEET_SD
from dpops.types import Float64s

COLD, WARM = (5, 3, 2, 2), (2, 1, 2, 2)
"""Rounds of fits, of weights, speeds, weights given speeds, and speeds; from the prior, and from folded days."""


def rough_fields(state: State) -> tuple[WeightField, SpeedField, list[Float64s]]:
    """Fits weights by their sums, then speeds; returns both, and days' HAT weights."""
    days = (*state.older, *state.recent) or (DayValues(hours=np.arange(HOURS)),)  # the prior, before any release
    typical_vehicles = _typical_vehicles(state, days)
    vehicle_numbers = [_vehicle_number(day, typical_vehicles) for day in days]
    totals = [_released_total(day) for day in days]
    weights = WeightField(state.weight_layout, days, vehicle_numbers, totals, state.start)
    speeds = SpeedField(state.speed_layout, days, state.facts, state.start)
    weight_rounds, speed_rounds, *_ = COLD if state.start is None else WARM  # fewer rounds from a fitted start
    weights.fit(_sums(days, "weights"), weight_rounds)
    hat_weights = weights.weights(weights.effects)
    speeds.fit(_sums(days, "speeds"), weights, hat_weights, speed_rounds)
    return weights, speeds, hat_weights


def fitted_fields(state: State) -> tuple[WeightField, SpeedField]:
    """Fits weights by sums of speeds too, then speeds; appends the forecast day."""
    weights, speeds, rough_hats = rough_fields(state)
    days = weights.days
    *_rough, weight_rounds, speed_rounds = COLD if state.start is None else WARM  # fewer rounds from a fitted start
    next_day, vehicles = DayValues(hours=days[-1].hours), _typical_vehicles(state, days)
    speed_sums = _sums(days, "speeds")
    weight_sums = _merged(_sums(days, "weights") + _weights_from_speeds(speeds, speed_sums))
    weights.fit(weight_sums, weight_rounds)
    weights.finish(weight_sums, next_day, _vehicle_number(next_day, vehicles))  # appends the day
    # A day's total stays that of the rough fit, from sums of weights alone: what sums of speeds tell of it is left to
    # the fit of speeds, whose effect "doubt" is the error of the day's log total.
    *fitted_hats, next_hats = weights.weights(weights.effects)
    scaled = [hats * (rough.sum() / hats.sum()) for rough, hats in zip(rough_hats, fitted_hats, strict=True)]
    speeds.fit(speed_sums, weights, [*scaled, next_hats], speed_rounds, next_day)
    return weights, speeds


def _sums(days: Sequence[DayValues], kind: Literal["weights", "speeds"]) -> list[NoisySums]:
    """Lists released sums of weights or of speeds, of levels that have such."""
    sums = []
    for index, day in enumerate(days):
        for stage, level in day.speed_levels:
            variances = level.weight_variances if kind == "weights" else level.speed_variances
            if np.any(np.isfinite(variances)):
                values = level.weights if kind == "weights" else level.speeds
                sums.append(NoisySums(index, level.groups, values.ravel(), variances.ravel(), stage.centre))
    return sums


def _weights_from_speeds(speeds: SpeedField, sums: Sequence[NoisySums]) -> list[NoisySums]:
    """Estimates weights from sums of speeds: one step of variational Bayes.

    A sum is a group's weight times its mean's distance from the centre (`slope`), plus normal noise. The expected log
    likelihood is quadratic in the weight: its maximum is the sum times E[slope] / E[slope^2], of variance noise /
    E[slope^2]. A city's mean is near the centre, so sums over all cells tell nothing of weights.
    """
    of_weights, variances = [], dict[int, Float64s]()  # variances: of HATs' mean speeds, (cells, slots), by day
    for item in sums:
        if item.groups.shape[0] < 2:  # over all cells
            continue
        day, totals = item.day, item.groups.totals
        if day not in variances:
            regressors = {"traffic": speeds.traffic[day]}
            variances[day] = speeds.posterior.variances_of_hats(speeds.days[day].hours, day, regressors)
        hats = speeds.weights[day]
        total = totals(hats)
        slope = (totals(hats * (speeds.values[day] - item.centre)) / total).ravel()
        square = slope**2 + (totals(hats * variances[day]) / total).ravel()  # a bound: as if HATs' errors were equal
        noise = item.variances + totals(hats**2 * speeds.hat_variances(day)).ravel()  # HATs vary around the field
        of_weights.append(NoisySums(day, item.groups, item.values * slope / square, noise / square, item.centre))
    return of_weights


def _merged(sums: Sequence[NoisySums]) -> list[NoisySums]:
    """Averages sums of the same day and groups, weighted by precision."""
    by_group: dict[tuple[int, bytes], list[NoisySums]] = {}
    for item in sums:
        by_group.setdefault((item.day, item.groups.key), []).append(item)
    means = []
    for items in by_group.values():
        values, variances = _pooled([item.values for item in items], [item.variances for item in items])
        means.append(replace(items[0], values=values, variances=variances))
    return means


def _pooled(values: Sequence[Float64s], variances: Sequence[Float64s]) -> tuple[Float64s, Float64s]:
    """Averages arrays by precision; returns means and their variances."""
    precisions = np.maximum(1 / np.stack(variances), 1e-300)  # variances may be infinite
    return np.average(np.stack(values), axis=0, weights=precisions), 1 / precisions.sum(axis=0)


def _counted(days: Sequence[DayValues]) -> tuple[float, float]:
    """Averages counts of vehicles by precision; returns (mean, precision), 0 without counts."""
    counts = [level for day in days for level in day.counted]  # each of one group, the city
    precision = sum(1 / float(level.weight_variances[0, 0]) for level in counts)
    total = sum(float(level.weights[0, 0] / level.weight_variances[0, 0]) for level in counts)
    return total / max(precision, 1e-300), precision  # never divided by 0


def _typical_vehicles(state: State, days: Sequence[DayValues]) -> float:
    """Estimates a typical day's vehicles: the mean of declared and counted, by precision."""
    fleet, (mean, precision) = state.facts.vehicles, _counted(days)
    prior = (FLEET_SD * fleet) ** -2  # precision of the declared number
    return max((prior * fleet + precision * mean) / (prior + precision), 0.1 * fleet)  # noisy counts may be < 0


def _released_total(day: DayValues) -> float | None:
    """Reads a day's total weight off its most precise level; None: perhaps noise."""
    sums = [(float(item.variances.sum()), float(item.values.sum())) for item in _sums([day], "weights")]
    variance, total = min(sums, default=(math.inf, 0.0))
    return total if total > 3 * math.sqrt(variance) else None  # 3 standard errors: noise alone hardly exceeds these


def _vehicle_number(day: DayValues, typical: float) -> VehicleNumber:
    """Estimates a day's number of vehicles: as counted, else the typical one."""
    if not day.counted:
        return VehicleNumber(typical, FLEET_SD**2, is_counted=False)
    mean, precision = _counted([day])
    number = max(mean, precision**-0.5)  # at least the noise's deviation: it must be above 0
    return VehicleNumber(number, 1 / precision / number**2)  # variance of the log, by the delta method


def add_day(state: State, day: DayValues) -> State:
    """Adds a day; folds the older half of twice `least_recent` into mean days.

    Days are averaged around a common centre, which needs the weights that `rough_fields` fits.
    """
    state = replace(state, days=state.days + 1, recent=(*state.recent, day))
    if state.least_recent is None or len(state.recent) < 2 * state.least_recent:
        return state
    weights, speeds, _ = rough_fields(replace(state, recent=state.recent[: state.least_recent]))
    by_hours: dict[bytes, list[tuple[DayValues, Float64s]]] = {}  # by hours: days and HATs' weights, (cells, slots)
    days = [*map(_aged, state.older), *state.recent[: state.least_recent]]  # older mean days are discounted again
    for past, hats in zip(days, speeds.weights, strict=True):
        by_hours.setdefault(past.hours.tobytes(), []).append((past, hats))
    lasting = state.weight_layout.zeros(days=0)  # shaped as effects without those of days, which come last
    effects = Effects(*(values[: empty.size] for values, empty in zip(weights.effects, lasting, strict=True)))
    start = Start(effects, weights.strengths, speeds.strengths, speeds.spread)
    recent = state.recent[state.least_recent :]
    return replace(state, older=tuple(map(_mean_day, by_hours.values())), recent=recent, start=start)


def _aged(day: DayValues) -> DayValues:
    """Discounts an older mean day's information by FORGOTTEN, to follow seasons."""
    share = 1 - fitted.FORGOTTEN

    def aged(sums: LevelValues) -> LevelValues:
        weights, speeds = sums.weight_variances / share, sums.speed_variances / share
        return replace(sums, weight_variances=weights, speed_variances=speeds)

    stages = tuple(replace(stage, levels=tuple(map(aged, stage.levels))) for stage in day.stages)
    return replace(day, stages=stages, count=share * day.count)  # as the mean of fewer days


def _mean_day(days: Sequence[tuple[DayValues, Float64s]]) -> DayValues:
    """Averages days, each with its HATs' weights, level by level, by precision."""
    by_groups: dict[bytes, list[tuple[Float64s, StageValues, LevelValues]]] = {}
    for day, hat_weights in days:
        for stage, level in day.speed_levels:
            by_groups.setdefault(level.groups.key, []).append((hat_weights, stage, level))
    stages = [_mean_stage(of_days) for of_days in by_groups.values()]
    counting = [stage for day, _ in days for stage in day.stages if stage.counts_vehicles]
    if counting:
        mean, precision = _counted([day for day, _ in days])
        city, variance = counting[0].levels[0], np.array(1 / precision)
        levels = (replace(city, weights=np.array([[mean]]), weight_variances=variance),)
        stages.insert(0, replace(counting[0], levels=levels))  # a day's count precedes its other stages
    of_days = sum(day.count for day, _ in days)  # days, not vehicles: of so many it is the mean
    return DayValues(hours=days[0][0].hours, stages=tuple(stages), count=of_days)


def _mean_stage(of_days: Sequence[tuple[Float64s, StageValues, LevelValues]]) -> StageValues:
    """Averages one level of several days by precision, around their mean centre.

    A day's sum of weights times (speed - the day's centre), plus its weights times (the day's - mean centre), is its
    sum around the mean centre. of_days: HATs' weights (cells, slots), stage and level of each day.
    """
    hats, stages, levels = zip(*of_days, strict=True)
    groups, centres = levels[0].groups, np.stack([stage.centre for stage in stages])
    # Any mean centre is right; near precise days' ones their shifts, which rest on estimated weights, are small.
    importance = np.array([max(1 / level.speed_variances.min(), 1e-300) for level in levels])  # by days' most precise
    centre = np.tensordot(importance / importance.sum(), centres, 1)
    shifted = [  # sums around the mean centre
        level.speeds + groups.totals(weights * (of_day - centre))
        for level, weights, of_day in zip(levels, hats, centres, strict=True)
    ]
    weight_noise = [level.weight_variances for level in levels]
    weights, weight_variances = _pooled([level.weights for level in levels], weight_noise)
    speeds, speed_variances = _pooled(shifted, [level.speed_variances for level in levels])
    mean = LevelValues(groups, weights, speeds, weight_variances, speed_variances)
    return StageValues(centre=centre, levels=(mean,))
