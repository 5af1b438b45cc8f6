"""Linear queries of HATs: sums over groups, their rows in terms of effects, and what such rows add up to."""

from dataclasses import dataclass

import numpy as np

from dpops.types import Float64s, Int64s


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """A way to put HATs together: each group is all HATs of some cells in some slots.

    cells: int64 (cells,), the group that each cell is in, from 0. slots: int64 (slots,), likewise.
    """

    cells: Int64s
    slots: Int64s

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.cells.max()) + 1, int(self.slots.max()) + 1

    def totals(self, hats: Float64s) -> Float64s:
        """Sums over each group, (cell groups, slot groups), of one number per HAT, (cells, slots)."""
        rows, columns = self.shape
        by_slot = np.zeros((hats.shape[0], columns))
        np.add.at(by_slot.T, self.slots, hats.T)
        total = np.zeros((rows, columns))
        np.add.at(total, self.cells, by_slot)
        return total

    def spread(self, groups: Float64s) -> Float64s:
        """Each group's number at each of its HATs, (cells, slots)."""
        taken: Float64s = groups[self.cells[:, None], self.slots]
        return taken

    def same(self, other: "Groups") -> bool:
        return np.array_equal(self.cells, other.cells) and np.array_equal(self.slots, other.slots)


@dataclass(frozen=True, slots=True)
class Rows:
    """Sparse rows of a matrix: row i is sum of values[i, k] at column columns[i, k]; int64 and float (rows, width)."""

    columns: Int64s
    values: Float64s
    width: int
    """Columns of the whole matrix."""

    def dense(self) -> Float64s:
        count = self.columns.shape[0]
        flat = (np.arange(count)[:, None] * self.width + self.columns).ravel()
        return _added(flat, self.values, count * self.width).reshape(count, self.width)

    def gram(self, weights: Float64s) -> Float64s:
        """rows' diag(weights) rows, (width, width); pair by pair where rows are short, else as one product."""
        count, most = self.columns.shape
        if most * most * 8 > self.width * self.width // 4 or count * most * most > 50_000_000:
            matrix = self.dense()
            product: Float64s = (matrix.T * weights) @ matrix
            return product
        flat = self.columns[:, :, None] * self.width + self.columns[:, None, :]
        scaled = self.values * weights[:, None]
        pairs = scaled[:, :, None] * self.values[:, None, :]
        return _added(flat, pairs, self.width**2).reshape(self.width, self.width)

    def project(self, targets: Float64s) -> Float64s:
        """rows' targets, (width,)."""
        return _added(self.columns, self.values * targets[:, None], self.width)


class GroupRows:
    """Makes the rows of groups: the places of their entries are found once, their values change with the weights."""

    def __init__(self, groups: Groups, columns: Int64s, width: int) -> None:
        """columns: int64 (cells, slots, kinds), the effects of each HAT; width: of all effects."""
        self.groups, self._kinds, self._width = groups, columns.shape[-1], width
        count = groups.shape[0] * groups.shape[1]
        query = groups.cells[:, None] * groups.shape[1] + groups.slots
        keys, self._place = np.unique((query[:, :, None] * width + columns).ravel(), return_inverse=True)
        self._row, column = np.divmod(keys, width)
        self._position = np.arange(keys.size) - np.searchsorted(self._row, np.arange(count))[self._row]
        self._columns = np.zeros((count, int(self._position.max()) + 1), np.int64)
        self._columns[self._row, self._position] = column

    def __call__(self, hats: Float64s) -> Rows:
        """The sum over each group of `hats` times the HAT's effects; (cells, slots), or (cells, slots, kinds)."""
        values = np.zeros(self._columns.shape)
        spread = np.repeat(hats.ravel(), self._kinds) if hats.ndim == 2 else hats.ravel()
        values[self._row, self._position] = np.bincount(self._place, spread, self._row.size)
        return Rows(self._columns, values, self._width)


def _added(places: Int64s, values: Float64s, size: int) -> Float64s:
    """Sums of the values that share a place."""
    return np.bincount(places.ravel(), values.ravel(), size).astype(np.float64, copy=False)
