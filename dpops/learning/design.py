"""The public grid that is learned on: cells with neighbours and parents, and hours of the day."""

from dataclasses import dataclass

import numpy as np

from dpops.types import Int64s

HOURS = 24
HABITS = 2 * HOURS
"""The hours of a working day, then those of a day off: each kind has its own habits."""
BLOCK_H = 4
"""Hours of a part of the day: a parent's own effect lasts that long."""
BLOCKS = HOURS // BLOCK_H


@dataclass(frozen=True, kw_only=True)
class Design:
    """What is public about a city before any release. Hours are 0 to 23 on working days, 24 to 47 on days off.

    Attributes:
        parents: int64 (cells,), the coarser cell that each cell belongs to, numbered from 0.
        neighbours: int64 (pairs, 2), cells that touch; each pair once.
        are_small: see `dpops.levels.stages.PublicHats`.
    """

    parents: Int64s
    neighbours: Int64s
    are_small: bool = False

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
        return int(self.parents.size)
