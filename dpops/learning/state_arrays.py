"""What is kept of older days as plain arrays, so that it can be stored and taken up again."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpops.learning.effects import Effects, Strengths
from dpops.learning.groups import Groups
from dpops.learning.releases import DayValues, LevelValues, StageValues
from dpops.learning.start import Start
from dpops.learning.state import State
from dpops.spread import VehicleSpread

Arrays = Mapping[str, NDArray[Any]]

VERSION = 15
"""Of the model: of what arrays mean, and of how they are made of releases. Those of another one are not taken up."""


def arrays_of(state: State) -> dict[str, NDArray[Any]]:
    """Writes into arrays what a state keeps of days that are folded in."""
    arrays: dict[str, NDArray[Any]] = {}
    for index, day in enumerate(state.older):
        arrays |= _of_day(f"older.{index}", day)
    if state.start is not None:
        effects, weights, speeds, spread = state.start
        arrays |= {"start.local": effects.local, "start.border": effects.border}
        arrays["start.spread"] = np.array([spread.vehicle, spread.floor])
        for name, strengths in (("weights", weights), ("speeds", speeds)):
            arrays |= {f"start.{name}.{block}": np.asarray(value) for block, value in strengths.items()}
    return arrays


def taken_up(new: State, days: int, recent: tuple[DayValues, ...], arrays: Arrays) -> State:
    """Restores the state after so many days that gave these arrays.

    Args:
        new: before the first day.
        recent: the last days as released.

    Raises:
        KeyError, ValueError: for arrays that are none of a state.
    """
    older: list[DayValues] = []
    while f"older.{len(older)}.hours" in arrays:
        older.append(_day(f"older.{len(older)}", arrays))
    start = _start(new, arrays) if "start.local" in arrays else None
    return replace(new, days=days, recent=recent, older=tuple(older), start=start)


def _start(new: State, arrays: Arrays) -> Start:
    effects = Effects(arrays["start.local"], arrays["start.border"])
    if any(part.shape != empty.shape for part, empty in zip(effects, new.layouts.weights.zeros(0), strict=True)):
        raise ValueError("the effects are of another city")
    strengths: list[Strengths] = [
        {block.name: arrays[f"start.{name}.{block.name}"] for block in layout.blocks}
        for name, layout in zip(new.layouts._fields, new.layouts, strict=True)
    ]
    vehicle, floor = arrays["start.spread"].tolist()
    return Start(effects, strengths[0], strengths[1], VehicleSpread(vehicle, floor))


def _of_day(of: str, day: DayValues) -> dict[str, NDArray[Any]]:
    arrays = {f"{of}.hours": day.hours, f"{of}.count": np.array(day.count)}
    for number, stage in enumerate(day.stages):
        arrays |= {
            f"{of}.{number}.centre": stage.centre,
            f"{of}.{number}.counts": np.array(stage.counts_vehicles),
        }
        for position, level in enumerate(stage.levels):
            arrays |= {
                f"{of}.{number}.{position}.cells": level.groups.cells,
                f"{of}.{number}.{position}.slots": level.groups.slots,
            }
            values = (level.weights, level.speeds, level.weight_variances, level.speed_variances)
            arrays[f"{of}.{number}.{position}.values"] = np.stack(values)
    return arrays


def _day(of: str, arrays: Arrays) -> DayValues:
    stages: list[StageValues] = []
    while f"{of}.{len(stages)}.centre" in arrays:
        stage = f"{of}.{len(stages)}"
        levels: list[LevelValues] = []
        while f"{stage}.{len(levels)}.values" in arrays:
            levels.append(_level(f"{stage}.{len(levels)}", arrays))
        counts = bool(arrays[f"{stage}.counts"])
        stages.append(StageValues(centre=arrays[f"{stage}.centre"], levels=tuple(levels), counts_vehicles=counts))
    return DayValues(hours=arrays[f"{of}.hours"], stages=tuple(stages), count=float(arrays[f"{of}.count"]))


def _level(of: str, arrays: Arrays) -> LevelValues:
    weights, speeds, weight_variance, speed_variance = arrays[f"{of}.values"]
    groups = Groups(cells=arrays[f"{of}.cells"], slots=arrays[f"{of}.slots"])
    return LevelValues(
        groups=groups,
        weights=weights,
        speeds=speeds,
        weight_variance=weight_variance,
        speed_variance=speed_variance,
    )
