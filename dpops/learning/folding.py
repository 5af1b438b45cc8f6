"""A state taken on by a day; older days are folded into mean days, one for each kind of hours."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dpops import fitted
from dpops.learning.effects import Effects
from dpops.learning.fit import rough_fields
from dpops.learning.releases import DayValues, LevelValues, StageValues
from dpops.learning.start import Start
from dpops.learning.state import State
from dpops.types import Float64s


def taken_in(state: State, day: DayValues) -> State:
    """Takes a day into the state; folds the older half in when twice the recent days are kept."""
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
    """Forgets a part of what an older day says, so that a season is followed."""
    retained = 1 - fitted.FORGOTTEN

    def aged(level: LevelValues) -> LevelValues:
        variances = (1 / (retained * precision) for precision in (level.weight_precision, level.speed_precision))
        weight_variance, speed_variance = variances
        return replace(level, weight_variance=weight_variance, speed_variance=speed_variance)

    stages = tuple(replace(stage, levels=tuple(map(aged, stage.levels))) for stage in day.stages)
    return replace(day, stages=stages, count=retained * day.count)


def _mean_day(days: Sequence[tuple[DayValues, Float64s]]) -> DayValues:
    """Folds days of equal hours into their mean, each level weighted by its precision.

    days: each with the weights of its HATs, by which sums are brought to a common centre.
    """
    levels: dict[bytes, list[tuple[DayValues, Float64s, StageValues, LevelValues]]] = {}
    counts = sum(day.count for day, _ in days)
    for day, hats in days:
        for stage in day.looks:
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
