"""Ways to put HATs together: each group is all HATs of some cells in some slots."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpops.types import Float64s, Int64s


@dataclass(frozen=True, kw_only=True)
class Groups:
    """Groups of HATs.

    Attributes:
        cells: int64 (cells,), the group that each cell is in, from 0.
        slots: int64 (slots,), likewise.
    """

    cells: Int64s
    slots: Int64s

    @property
    def shape(self) -> tuple[int, int]:
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
        """Sums over each group, (cell groups, slot groups), of one number per HAT, (cells, slots)."""
        rows, columns = self.shape
        sums = np.bincount(self._index, hats.ravel(), rows * columns)
        return sums.astype(np.float64, copy=False).reshape(rows, columns)

    def to_hats(self, groups: Float64s) -> Float64s:
        """Gives each HAT its group's number, (cells, slots)."""
        hats: Float64s = groups[self.cells[:, None], self.slots]
        return hats
