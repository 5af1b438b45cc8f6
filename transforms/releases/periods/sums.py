"""Noisy sums of `levels` stages, as table rows."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from dpops.levels.bounded import ReleasedLevel, ReleasedStage
from dpops.levels.stages import CENTRE_STEP_KMH, CLASS, PLACE, Level
from transforms.places.hierarchy import CITY, GRANDPARENT, PARENT, parent_texts, texts_of
from transforms.public import Fact
from transforms.recorded.units import StageUnit
from transforms.releases import SlotFacts
from transforms.releases.periods.stages import LevelsPolicy, read_unit

SCHEMA = pa.schema(
    [
        *(
            pa.field(name, pa.string(), nullable=False)
            for name in ("spec_id", "period", "level", "cell", "slot_start", "slot_end")
        ),
        pa.field("stage", pa.int64(), nullable=False),
        pa.field("sequence", pa.int64(), nullable=False),
        pa.field("weight", pa.float64()),
        pa.field("weight_sd", pa.float64()),
        pa.field("speed", pa.float64()),
        pa.field("speed_sd", pa.float64()),
        pa.field("centre_kmh", pa.float64(), nullable=False),
    ]
)
"""weight: noisy sum of the vehicles' weights in a group. speed: noisy sum of weight times (speed - centre), km/h. Both
None where the level had no share of the budget. centre_kmh: mean of the centres of the group's HATs. sequence: the
place of the stage among those of the specification, 1, 2, .."""


def sums_of(unit: StageUnit, place: int, policy: LevelsPolicy, slots: Sequence[SlotFacts]) -> Iterator[dict[str, Fact]]:
    """Yields a stage's noisy sums; place: its ordinal (`counted`)."""
    stage = read_unit(unit, policy.region, policy.public_places)
    for level in stage.levels:
        places, times = _places(level.level, policy), _times(level.level, slots)
        kinds = _kinds(level.level, policy)
        for group, numbers in enumerate(_numbers(level, stage)):
            start, end = times[group % level.level.slot_groups]
            names = ("weight", "weight_sd", "speed", "speed_sd", "centre_kmh")
            row: dict[str, Fact] = {
                "spec_id": policy.spec_id,
                "period": unit.period,
                "level": kinds[group % len(kinds)],
                "cell": places[group // level.level.slot_groups],
                "slot_start": start,
                "slot_end": end,
                "stage": unit.stage,
                "sequence": place,
            }
            yield row | dict(zip(names, numbers, strict=True))


def _numbers(level: ReleasedLevel, stage: ReleasedStage) -> Iterator[list[Any]]:
    """Yields the numbers of each group, as in SCHEMA."""
    groups = level.level.groups().ravel()
    hats = np.bincount(groups, minlength=level.level.size)
    centres = np.bincount(groups, stage.stage.centres.ravel(), level.level.size) / hats * float(CENTRE_STEP_KMH)
    for weight, speed, centre in zip(level.weights.tolist(), level.speeds.tolist(), centres.tolist(), strict=True):
        yield [*_with_sd(weight, level.weight_sd), *_with_sd(speed, level.speed_sd), round(centre, 6)]


def _with_sd(value: float, sd: float) -> tuple[float | None, float | None]:
    return (round(value, 9), round(sd, 9)) if np.isfinite(sd) else (None, None)


def _places(level: Level, policy: LevelsPolicy) -> Sequence[str]:
    """Names groups of cells by cell, parent, or place."""
    if level.name == PLACE and policy.places is not None:
        return policy.places.places.names
    region = policy.region
    if level.name == CLASS:
        classes = len(level.cell_group) // len(region)
        return [name for name in texts_of(region) for _ in range(classes)]
    coarser = {"grandparent-day": GRANDPARENT} | dict.fromkeys(("parent", "parent-day", "parent-hour"), PARENT)
    first = [level.cell_group.index(group) for group in range(max(level.cell_group) + 1)]
    names = parent_texts(region, coarser[level.name]) if level.name in coarser else texts_of(region)
    return [CITY] if level.name in ("city", "hour", "part") else [names[place] for place in first]


def _kinds(level: Level, policy: LevelsPolicy) -> list[str]:
    """Names the level, also by class and its range."""
    if level.name != CLASS or policy.classes is None:
        return [level.name]
    grid = policy.value.standard
    edges = [f"{float(edge * grid.step):g}" for edge in (0, *policy.classes.edges, grid.upper_steps)]
    return [f"{level.name} {low} to {high}" for low, high in pairwise(edges)]


def _times(level: Level, slots: Sequence[SlotFacts]) -> list[tuple[str, str]]:
    """Lists start and end of each group of slots."""
    times = []
    for group in range(level.slot_groups):
        slots_of_group = [
            slot_number for slot_number, group_of_slot in enumerate(level.slot_group) if group_of_slot == group
        ]
        times.append((slots[slots_of_group[0]].start, slots[slots_of_group[-1]].end))
    return times
