"""A day's releases: noisy sums of weights, and of weights times (speed - centre)."""

from dataclasses import dataclass

import numpy as np

from dpops.levels.stages import Groups
from dpops.types import Float64s, Int64s

HOURS = 24
HABITS = 2 * HOURS  # hours of a working day, 0 to 23, then of a day off, 24 to 47: people drive differently


@dataclass(frozen=True, kw_only=True)
class Design:
    """Public facts of a city.

    Attributes:
        parents: int64 (cells,), the coarser cell that each cell belongs to, numbered from 0.
        neighbours: int64 (pairs, 2), cells that touch; each pair once.
        are_small: see `dpops.levels.stages.PublicHats`.
        visits: vehicles in each cell and hour by a timetable, (cells, HABITS); None: unknown.
    """

    parents: Int64s
    neighbours: Int64s
    are_small: bool = False
    visits: Float64s | None = None

    def __post_init__(self) -> None:
        pairs = np.asarray(self.neighbours, np.int64).reshape(-1, 2)
        parents = np.asarray(self.parents, np.int64)
        if parents.size == 0 or parents.min() < 0:
            raise ValueError("a design needs at least one cell, and parents numbered from 0")
        if pairs.size and (pairs.min() < 0 or pairs.max() >= parents.size or np.any(pairs[:, 0] == pairs[:, 1])):
            raise ValueError("neighbours must be pairs of two different cells of the region")
        object.__setattr__(self, "parents", parents)
        object.__setattr__(self, "neighbours", pairs)

    @property
    def cells(self) -> int:
        """Number of cells."""
        return int(self.parents.size)


@dataclass(frozen=True, slots=True)
class LevelValues:
    """Noisy sums of a level by group: weights, and weights times (speed - centre).

    weight_variances, speed_variances: of the noise, by group, or one for all; infinite where there is no sum, 0 for
    exact weights, of which 1e-6 is made, as they are divisors.
    """

    groups: Groups
    weights: Float64s
    speeds: Float64s
    weight_variances: Float64s
    speed_variances: Float64s

    def __post_init__(self) -> None:
        if not self.weights.shape == self.speeds.shape == self.groups.shape:
            raise ValueError(f"a level's values must be {self.groups.shape}, one per group")
        if not (np.all(np.isfinite(self.weights)) and np.all(np.isfinite(self.speeds))):
            raise ValueError("a level's values must be finite")
        weights, speeds, shape = self.weight_variances, self.speed_variances, self.groups.shape
        if not (np.all(weights >= 0) and np.all(speeds > 0)):
            raise ValueError("the noise of speeds must have a variance above 0, that of weights at least 0")
        object.__setattr__(self, "weight_variances", np.broadcast_to(np.maximum(weights, 1e-6), shape))
        object.__setattr__(self, "speed_variances", np.broadcast_to(speeds, shape))


@dataclass(frozen=True, slots=True, kw_only=True)
class StageValues:
    """One stage's levels. centre: from which speeds are measured, km/h, (cells, slots).

    counts_vehicles: its only sum is a noisy number of vehicles.
    """

    centre: Float64s
    levels: tuple[LevelValues, ...]
    counts_vehicles: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DayValues:
    """All that is released of one day. hours: of its slots, (slots,), below HABITS.

    count: number of days that it is the mean of; folded days count less as they age.
    """

    hours: Int64s
    stages: tuple[StageValues, ...] = ()
    count: float = 1.0

    def __post_init__(self) -> None:
        if self.hours.size == 0 or self.hours.min() < 0 or self.hours.max() >= HABITS:
            raise ValueError("a day needs slots whose hours are 0 to 47")  # from 24 on: of a day off
        slots = {level.groups.slots.size for stage in self.stages for level in stage.levels}  # distinct numbers
        if not slots.union(stage.centre.shape[1] for stage in self.stages) <= {self.hours.size}:
            raise ValueError("stages and hours are about different slots")

    @property
    def speed_stages(self) -> list[StageValues]:
        """Stages that release speeds, without vehicle counts."""
        return [stage for stage in self.stages if not stage.counts_vehicles]

    @property
    def speed_levels(self) -> list[tuple[StageValues, LevelValues]]:
        """Levels of `speed_stages`, each with its stage."""
        return [(stage, level) for stage in self.speed_stages for level in stage.levels]

    @property
    def counted(self) -> list[LevelValues]:
        """Noisy numbers of its vehicles, as the weight of one group, the city."""
        return [level for stage in self.stages if stage.counts_vehicles for level in stage.levels]
