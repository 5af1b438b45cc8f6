"""The public grid that is learned on: cells with neighbours and parents, hours of the day, and the smooth effects."""

from dataclasses import astuple, dataclass, field, replace
from functools import cache

import numpy as np

from dpops import fitted
from dpops.types import Float64s, Int64s

HOURS = 24
HABITS = 2 * HOURS
"""The hours of a working day, then those of a day off: each kind has its own habits."""
BLOCK_H = 4
"""Hours of a part of the day: a parent's own effect lasts that long."""
BLOCKS = HOURS // BLOCK_H
_FARTHER = 1.7
"""So far as a power; below 2 it cannot go to and fro for ever."""


@dataclass(frozen=True, kw_only=True)
class Design:
    """What is public about a city before any release, and which effects describe it.

    parents: int64 (cells,), the coarser cell that each cell belongs to, numbered from 0.
    neighbours: int64 (pairs, 2), cells that touch; each pair once. are_small: see `dpops.levels.groups.PublicHats`.

    An effect is a number per city (1), per cell, per hour of a working day and of a day off, and per parent and part of
    the day: one column each, in this order. A HAT is described by one column of each kind. Wherever hours are asked
    for, they are 0 to 23 on working days, and 24 to 47 on days off.
    """

    parents: Int64s
    neighbours: Int64s
    are_small: bool = False
    columns: int = field(init=False)

    def __post_init__(self) -> None:
        pairs = np.asarray(self.neighbours, np.int64).reshape(-1, 2)
        parents = np.asarray(self.parents, np.int64)
        if parents.size == 0 or parents.min() < 0:
            raise ValueError("a design needs at least one cell, and parents numbered from 0")
        if pairs.size and (pairs.min() < 0 or pairs.max() >= parents.size or np.any(pairs[:, 0] == pairs[:, 1])):
            raise ValueError("neighbours must be pairs of two different cells of the region")
        object.__setattr__(self, "parents", parents)
        object.__setattr__(self, "neighbours", pairs)
        object.__setattr__(self, "columns", 1 + self.cells + HABITS + BLOCKS * (int(parents.max()) + 1))

    @property
    def cells(self) -> int:
        return int(self.parents.size)

    @property
    def cell_columns(self) -> slice:
        return slice(1, 1 + self.cells)

    @property
    def hour_columns(self) -> slice:
        return slice(1 + self.cells, 1 + self.cells + HABITS)

    @property
    def parent_columns(self) -> slice:
        return slice(1 + self.cells + HABITS, self.columns)

    def of_hats(self, hours: Int64s) -> Int64s:
        """Lists the columns that describe each HAT, int64 (cells, slots, 4); hours: of the slots, 0 to 47."""
        shape = (self.cells, hours.size)
        cell = np.broadcast_to(np.arange(1, 1 + self.cells)[:, None], shape)
        hour = np.broadcast_to(self.hour_columns.start + hours, shape)
        block = self.parent_columns.start + self.parents[:, None] * BLOCKS + part_of(hours)
        return np.stack([np.zeros(shape, np.int64), cell, hour, block], axis=-1)

    def described(self, effects: Float64s, hours: Int64s) -> Float64s:
        """Sums each HAT's effects, (cells, slots)."""
        block = effects[self.parent_columns].reshape(-1, BLOCKS)[self.parents]
        by_hour = effects[self.hour_columns] + block[:, part_of(np.arange(HABITS))]
        total: Float64s = effects[0] + effects[self.cell_columns, None] + by_hour[:, hours]
        return total


def part_of(hours: Int64s) -> Int64s:
    """Finds the part of the day in which hours of either kind lie."""
    return hours % HOURS // BLOCK_H


@cache
def hour_smoothness() -> Float64s:
    """Builds the Laplacian of the ring of 24 hours plus half the identity. Not to be written to."""
    ring = np.roll(np.eye(HOURS), 1, axis=1)
    penalty: Float64s = 2.5 * np.eye(HOURS) - ring - ring.T
    penalty.flags.writeable = False
    return penalty


@cache
def off_smoothness() -> Float64s:
    """Builds how days off differ, hour by hour: as hours do, with a twentieth of the identity.

    They have that twentieth because they differ all day long.
    """
    penalty: Float64s = hour_smoothness() - (0.5 - 0.05) * np.eye(HOURS)
    penalty.flags.writeable = False
    return penalty


@cache
def both_kinds() -> Float64s:
    """Maps hours of the clock to where they stand among those of both kinds of days, (48, 24). Not to be written to."""
    stacked: Float64s = np.concatenate([np.eye(HOURS), np.eye(HOURS)])
    stacked.flags.writeable = False
    return stacked


@dataclass(frozen=True, slots=True, kw_only=True)
class Smoothness:
    """How strongly effects are held together: prior precisions of cells, hours, parents by part of the day, of how days
    off differ from working days by hour, and of a day's own deviation by hour.

    Cells: times the graph Laplacian of neighbours plus the identity; hours and a day's own: times `hour_smoothness`;
    days off: times `off_smoothness`.
    """

    cells: float
    hours: float
    parents: float
    off: float
    days: float = 1.0

    def of(self, design: Design) -> "Smoothness":
        """Adapts the smoothness before any release to a design: neighbours that are small differ as streets do."""
        return replace(self, cells=self.cells * fitted.OF_SMALL_CELLS) if design.are_small else self

    def is_near(self, other: "Smoothness", share: float) -> bool:
        """Says whether none is that share larger or smaller than the other's."""
        pairs = zip(astuple(self), astuple(other), strict=True)
        return all(abs(one / another - 1) <= share for one, another in pairs)

    def beyond(self, before: "Smoothness") -> "Smoothness":
        """Goes farther on the way from `before`: expectation-maximisation goes it in small steps."""
        return Smoothness(
            **{
                name: getattr(before, name) * (getattr(self, name) / getattr(before, name)) ** _FARTHER
                for name in Smoothness.__dataclass_fields__
            }
        )

    def of_hours(self) -> Float64s:
        """Builds the prior precision of hours of both kinds of days, (48, 48)."""
        usual, apart = self.hours * hour_smoothness(), self.off * off_smoothness()
        return np.block([[usual + apart, -apart], [-apart, apart]])

    def cost(self, design: Design, effects: Float64s) -> float:
        """Computes what effects cost: their prior precision, multiplied by them from both sides."""
        cells, hours, parts = (
            effects[span] for span in (design.cell_columns, design.hour_columns, design.parent_columns)
        )
        one, other = design.neighbours.T
        rough = float(cells @ cells + np.sum((cells[one] - cells[other]) ** 2))
        return self.cells * rough + float(hours @ self.of_hours() @ hours) + self.parents * float(parts @ parts)
