"""Linear queries of HATs: sums over groups, and what they say about the effects that describe HATs."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dpops.learning.information import Information, Wide
from dpops.learning.layout import EffectLayout
from dpops.learning.system import Solved
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
        group = self.cells[:, None] * columns + self.slots
        return _added(group, hats, rows * columns).reshape(rows, columns)

    def spread(self, groups: Float64s) -> Float64s:
        """Gives each HAT its group's number, (cells, slots)."""
        taken: Float64s = groups[self.cells[:, None], self.slots]
        return taken

    def same(self, other: "Groups") -> bool:
        return np.array_equal(self.cells, other.cells) and np.array_equal(self.slots, other.slots)


class GroupRows:
    """The rows of groups: the places of their entries are found once, their values change with the weights."""

    def __init__(self, groups: Groups, columns: Int64s, layout: EffectLayout, key: bytes) -> None:
        """Finds the rows' entries.

        columns: int64 (cells, slots, kinds), the effects of each HAT. key: says which groups these are.
        """
        self.groups, self._kinds, self._layout, self._key = groups, columns.shape[-1], layout, key
        self._count = groups.shape[0] * groups.shape[1]
        query = groups.cells[:, None] * groups.shape[1] + groups.slots
        keys, self._entry = np.unique((query[:, :, None] * layout.width + columns).ravel(), return_inverse=True)
        self._row, self._column = np.divmod(keys, layout.width)
        place = layout.place[self._column]
        self._is_local = place >= 0
        self._local = _Padded(self._row[self._is_local], place[self._is_local], self._count)
        self._border = _Padded(self._row[~self._is_local], layout.in_border[self._column[~self._is_local]], self._count)

    def __call__(self, hats: Float64s) -> "ValuedRows":
        """Sums `hats` times the HAT's effects over each group; hats: (cells, slots), or (cells, slots, kinds)."""
        spread = np.repeat(hats.ravel(), self._kinds) if hats.ndim == 2 else hats.ravel()
        return ValuedRows(self, np.bincount(self._entry, spread, self._row.size).astype(np.float64, copy=False))

    def applied(self, entries: Float64s, effects: Float64s) -> Float64s:
        return _added(self._row, entries * effects[self._column], self._count)

    def information(self, entries: Float64s, precisions: Float64s, values: Float64s) -> Information:
        layout, none = self._layout, Information.none(self._layout)
        local, border = self._local.filled(entries[self._is_local]), self._border.filled(entries[~self._is_local])
        beside = self._border.dense(border, layout.border.size)
        if not self.is_narrow:
            wide = Wide(self._local.dense(local, layout.local.size), beside, precisions, values)
            return replace(none, wide={self._key: wide.scaled()})
        weighted = local * precisions[:, None]
        mixed = _added(self._across, weighted[:, :, None] * border[:, None, :], none.mixed.size)
        return Information(
            families=_added(self._pairs, weighted[:, :, None] * local[:, None, :], none.families.size),
            mixed=mixed.reshape(none.mixed.shape),
            corner=(beside.T * precisions) @ beside,
            local=_added(self._local.columns, weighted * values[:, None], layout.local.size),
            border=beside.T @ (precisions * values),
        )

    def variances(self, entries: Float64s, solved: Solved, border: Float64s) -> Float64s:
        """Computes the variances of rows times effects, (queries,).

        border: (lasting border, whole border), where each column of it stands.
        """
        local = self._local.filled(entries[self._is_local])
        beside = self._border.dense(self._border.filled(entries[~self._is_local]), self._layout.border.size)
        total = np.sum((beside @ (border @ solved.spread @ border.T)) * beside, axis=1)
        mixed = solved.mixed @ border.T
        if self.is_narrow:
            total += np.einsum("ri,rij,rj->r", local, solved.families[self._pairs], local)
            total += 2 * np.einsum("ri,rik,rk->r", local, mixed[self._local.columns], beside)
        else:
            dense = self._local.dense(local, self._layout.local.size)
            total += np.sum(dense.T * solved.reached(dense.T), axis=0) + 2 * np.sum((dense @ mixed) * beside, axis=1)
        variances: Float64s = np.maximum(total, 0.0)
        return variances

    @cached_property
    def is_narrow(self) -> bool:
        """Whether each row touches one family only."""
        family = self._layout.family[self._local.columns]
        return bool(np.all(family == family[:, :1]))

    @cached_property
    def _across(self) -> Int64s:
        """Where each pair of a row's local and border entries stands in what mixes both."""
        return self._local.columns[:, :, None] * self._layout.border.size + self._border.columns[:, None, :]

    @cached_property
    def _pairs(self) -> Int64s:
        """Where each pair of a row's local entries stands among the families' matrices."""
        layout, columns = self._layout, self._local.columns
        family = layout.family[columns[:, 0]]
        start, size = layout.starts[family, None], np.diff(layout.starts)[family, None, None]
        inner = columns - start
        pairs: Int64s = layout.entries[family, None, None] + inner[:, :, None] * size + inner[:, None, :]
        return pairs


class RowMaker:
    """Makes the rows of each kind of groups once.

    layout: of the effects. columns_of: gives those of each HAT whose slots have some hours, (cells, slots, kinds).
    """

    def __init__(self, layout: EffectLayout, columns_of: Callable[[Int64s], Int64s]) -> None:
        self.layout, self._columns_of = layout, columns_of
        self._made: dict[bytes, GroupRows] = {}

    def __call__(self, groups: Groups, hours: Int64s) -> GroupRows:
        key = b"/".join((groups.cells.tobytes(), groups.slots.tobytes(), hours.tobytes()))
        if key not in self._made:
            self._made[key] = GroupRows(groups, self._columns_of(hours), self.layout, key)
        return self._made[key]


@dataclass(frozen=True, slots=True)
class ValuedRows:
    """Rows of groups with their values."""

    of: GroupRows
    entries: Float64s

    def applied(self, effects: Float64s) -> Float64s:
        """Multiplies rows by effects, (queries,)."""
        return self.of.applied(self.entries, effects)

    def variances(self, solved: Solved, border: Float64s) -> Float64s:
        """Computes the variances of rows times effects, (queries,). border: see `GroupRows.variances`."""
        return self.of.variances(self.entries, solved, border)

    def information(self, precisions: Float64s, values: Float64s) -> Information:
        """Computes what observing `values` of the rows says; (queries,) each."""
        return self.of.information(self.entries, precisions, values)


class _Padded:
    """Entries of sparse rows as a rectangle: columns, int64 (rows, most), repeat a row's first where it has fewer."""

    def __init__(self, row: Int64s, column: Int64s, count: int) -> None:
        self._row = row
        first = np.searchsorted(row, np.arange(count))
        self._position = np.arange(row.size) - first[row]
        shape = count, int(self._position.max(initial=0)) + 1
        self.columns = np.broadcast_to(column[np.minimum(first, column.size - 1)][:, None], shape).copy()
        self.columns[row, self._position] = column

    def filled(self, entries: Float64s) -> Float64s:
        values = np.zeros(self.columns.shape)
        values[self._row, self._position] = entries
        return values

    def dense(self, values: Float64s, width: int) -> Float64s:
        count = self.columns.shape[0]
        flat = np.arange(count)[:, None] * width + self.columns
        return _added(flat, values, count * width).reshape(count, width)


def _added(places: Int64s, values: Float64s, size: int) -> Float64s:
    """Adds up the values that share a place."""
    return np.bincount(places.ravel(), values.ravel(), size).astype(np.float64, copy=False)
