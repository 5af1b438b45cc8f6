"""A day's releases for learning: noisy sums around centres."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpops.types import Float64s, Int64s

HOURS = 24
HABITS = 2 * HOURS
"""Hours of a working day, then of a day off, which have different habits."""
BLOCK_H = 4
"""Hours of a part of the day: a parent's own effect lasts that long."""


@dataclass(frozen=True, kw_only=True)
class Design:
    """Public facts of a city. Hours: 0 to 23, days off 24 to 47.

    Attributes:
        parents: int64 (cells,), the coarser cell that each cell belongs to, numbered from 0.
        neighbours: int64 (pairs, 2), cells that touch; each pair once.
        are_small: see `dpops.levels.stages.PublicHats`.
        visits: vehicles that a timetable has in each cell and hour, (cells, HABITS); None: unknown.
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


@dataclass(frozen=True, kw_only=True)
class Groups:
    """Groups of HATs: each cell's and slot's group, int64."""

    cells: Int64s
    slots: Int64s

    @staticmethod
    def everything(cells: int, slots: int) -> "Groups":
        """Makes one group of all HATs."""
        return Groups(cells=np.zeros(cells, np.int64), slots=np.zeros(slots, np.int64))

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of cell groups and of slot groups."""
        return int(self.cells.max()) + 1, int(self.slots.max()) + 1

    @cached_property
    def key(self) -> bytes:
        """Bytes that are equal for equal groups."""
        return self.cells.tobytes() + b"/" + self.slots.tobytes() + b"/"

    @cached_property
    def _index(self) -> Int64s:
        return (self.cells[:, None] * self.shape[1] + self.slots).ravel()

    @property
    def is_wide(self) -> bool:
        """Whether each group has many of the cells."""
        return self.shape[0] < max(2, self.cells.size // 200)

    def totals(self, hats: Float64s) -> Float64s:
        """Sums HATs' numbers by group, (cell groups, slot groups)."""
        rows, columns = self.shape
        sums = np.bincount(self._index, hats.ravel(), rows * columns)
        return sums.astype(np.float64, copy=False).reshape(rows, columns)

    def to_hats(self, groups: Float64s) -> Float64s:
        """Gives each HAT its group's number, (cells, slots)."""
        return np.asarray(groups[self.cells[:, None], self.slots])


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelValues:
    """Noisy weights and weighted speeds of a level's groups.

    Noise variances are one number, or one per group; infinite where there is no sum.
    """

    groups: Groups
    weights: Float64s
    speeds: Float64s
    weight_variance: float | Float64s
    speed_variance: float | Float64s

    def __post_init__(self) -> None:
        if not self.weights.shape == self.speeds.shape == self.groups.shape:
            raise ValueError(f"a level's values must be {self.groups.shape}, one per group")
        if not (np.all(np.isfinite(self.weights)) and np.all(np.isfinite(self.speeds))):
            raise ValueError("a level's values must be finite")
        if not (np.all(np.asarray(self.weight_variance) >= 0) and np.all(np.asarray(self.speed_variance) > 0)):
            raise ValueError("the noise of speeds must have a variance above 0, that of weights at least 0")

    @property
    def weight_variances(self) -> Float64s:
        """Noise variances per group, never below 1e-6."""
        return np.asarray(np.maximum(np.broadcast_to(self.weight_variance, self.groups.shape), 1e-6))

    @property
    def speed_variances(self) -> Float64s:
        """Noise variances per group."""
        return np.broadcast_to(np.asarray(self.speed_variance, np.float64), self.groups.shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class StageValues:
    """One stage's levels, and residuals' centres, km/h, (cells, slots).

    counts_vehicles: it only counts them; each weighs as a typical vehicle-day without a clip.
    """

    centre: Float64s
    levels: tuple[LevelValues, ...]
    counts_vehicles: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DayValues:
    """Everything released of one day; hours: of its slots, as in `Design`."""

    hours: Int64s
    stages: tuple[StageValues, ...] = ()
    count: float = 1.0

    def __post_init__(self) -> None:
        if self.hours.size == 0 or self.hours.min() < 0 or self.hours.max() >= HABITS:
            raise ValueError("a day needs slots whose hours are 0 to 47")
        shapes = [(level.groups.cells.size, level.groups.slots.size) for s in self.stages for level in s.levels]
        shapes += [stage.centre.shape for stage in self.stages]
        if any(slots != self.hours.size for _, slots in shapes):
            raise ValueError("stages and hours are about different slots")

    @property
    def speed_stages(self) -> list[StageValues]:
        """Stages that release speeds, without vehicle counts."""
        return [stage for stage in self.stages if not stage.counts_vehicles]

    @property
    def counted(self) -> list[LevelValues]:
        """Numbers of its vehicles, each of one group."""
        return [level for stage in self.stages if stage.counts_vehicles for level in stage.levels]
