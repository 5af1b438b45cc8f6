"""Blocks of effects that make up a latent field.

A HAT's value is a sum of effects: of each block the one at the keys of its cell and of its slot, times the block's
regressor if it has one. Local effects have sparse columns, border ones, which touch most cells, dense columns. A row
sums HATs of a group by weight. `hats` are numbers of a day's HATs, (cells, slots).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import NamedTuple, TypeVar

import numpy as np
import scipy.sparse as sparse

from dpops.learning.releases import HABITS
from dpops.levels.stages import Groups
from dpops.spread import VehicleSpread
from dpops.types import Float64s, Int64s

Days = TypeVar("Days", int, Int64s)
Strengths = Mapping[str, Float64s]  # precision of effects by block's name: (1,), or (days,) for daily blocks
Regressors = Mapping[str, Float64s]
"""Numbers that multiply effects, by name: (cells, slots) or one number; effects of regressors without are left out."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """Effects of one kind, keyed by cell and hour.

    Attributes:
        cell_keys: int64 (cells,); HATs with the same two keys share an effect.
        slot_keys: int64 (HABITS,), by hour; -1 where HATs of the hour have no effect.
        precision: prior of the strength; the strength itself if `is_learned` is false.
        differences: incidence D, (effects, pairs); the prior precision is the strength times D D' + ridge I.
        is_daily: one set of effects for each day.
        is_border: in the dense border of the arrowhead precision matrix, as its effects touch most cells.
        regressor: name of a number of each HAT that multiplies the block's only effect.
    """

    name: str
    cell_keys: Int64s
    precision: float
    slot_keys: Int64s = field(default_factory=lambda: np.zeros(HABITS, np.int64))
    mean: float = 0.0
    differences: sparse.csr_matrix | None = None
    ridge: float = 1.0
    is_daily: bool = False
    is_border: bool = False
    is_learned: bool = True
    regressor: str | None = None

    @cached_property
    def keys(self) -> bytes:
        """Bytes that are equal for blocks of equal keys."""
        return self.cell_keys.tobytes() + b"/" + self.slot_keys.tobytes()

    @cached_property
    def slots(self) -> int:
        """Number of keys by hour."""
        return int(self.slot_keys.max()) + 1

    @cached_property
    def size(self) -> int:
        """Number of effects, of one day."""
        return (int(self.cell_keys.max()) + 1) * self.slots

    @cached_property
    def root(self) -> sparse.csr_matrix:
        """R, (rows, effects), where R'R is the prior precision at strength 1."""
        ridge = math.sqrt(self.ridge) * sparse.identity(self.size, format="csr")
        return ridge if self.differences is None else sparse.vstack([ridge, self.differences.T], format="csr")


class Effects(NamedTuple):
    """Effects of all blocks: of cells (local), and those that touch most cells (border)."""

    local: Float64s
    border: Float64s


class Start(NamedTuple):
    """Initial values of fits: effects, strengths and vehicle variance."""

    effects: Effects
    weights: Strengths  # of the log weights' effects
    speeds: Strengths  # of the speeds' effects
    spread: VehicleSpread


@dataclass(frozen=True, slots=True)
class EffectRows:
    """Rows of sums over groups, sparse in local effects, dense in border ones."""

    local: sparse.csr_matrix
    border: Float64s

    def times(self, effects: Effects) -> Float64s:
        """Multiplies rows by effects, (rows, ..)."""
        return np.asarray(self.local @ effects.local + self.border @ effects.border)

    def adjoint(self, values: Float64s) -> Effects:
        """Multiplies the transposed rows by values, (rows, ..)."""
        return Effects(self.local.T @ values, self.border.T @ values)

    def __getitem__(self, rows: slice) -> "EffectRows":
        return EffectRows(self.local[rows], self.border[rows])


class EffectPrior(NamedTuple):
    """Roots R, (rows, effects), of prior precisions R'R; means at the border.

    blocks: int64 (rows of both,), index of each row's block.
    """

    local: sparse.csr_matrix
    border: sparse.csr_matrix
    means: Float64s
    blocks: Int64s

    def rows_times(self, effects: Effects) -> Float64s:
        """Multiplies all rows by effects, (rows of both, ..)."""
        return np.concatenate([self.local @ effects.local, self.border @ effects.border])


class EffectLayout:
    """Order of effects by block and day; known: regressors of every day, (cells, HABITS).

    `start` is a block's first effect on a day, numbered among local or among border ones, `span` the slice of all.
    """

    def __init__(self, blocks: Sequence[Block], known: Regressors | None = None) -> None:
        self.blocks = tuple(blocks)
        self._known = dict(known or {})
        self.local = tuple(block for block in blocks if not block.is_border)
        self._starts: dict[str, int] = {}  # first effect of each block among the lasting ones, or those of a day
        self._sizes = dict.fromkeys(product((False, True), repeat=2), 0)  # number of effects by (is_border, is_daily)
        for block in self.blocks:
            self._starts[block.name] = self._sizes[block.is_border, block.is_daily]
            self._sizes[block.is_border, block.is_daily] += block.size
        self._memory: dict[bytes, list[_PairSums]] = {}  # `pair_sums` by groups and hours: equal for many days

    @property
    def cells(self) -> int:
        """Number of cells."""
        return int(self.blocks[0].cell_keys.size)

    def size(self, days: int, *, border: bool) -> int:
        """Counts local or border effects, with those of so many days."""
        return self._sizes[border, False] + days * self._sizes[border, True]

    def zeros(self, days: int) -> Effects:
        """Creates effects of 0."""
        return Effects(np.zeros(self.size(days, border=False)), np.zeros(self.size(days, border=True)))

    def padded(self, effects: Effects, days: int) -> Effects:
        """Appends zero effects of further days."""
        return Effects(*(np.append(old, new[old.size :]) for old, new in zip(effects, self.zeros(days), strict=True)))

    def start(self, block: Block, day: Days) -> Days:
        """Finds a block's first effect; lasting blocks precede daily ones, day by day."""
        first_of_day = self._sizes[block.is_border, False] + day * self._sizes[block.is_border, True]
        return self._starts[block.name] + (first_of_day if block.is_daily else 0 * day)

    def span(self, block: Block, day: int = 0) -> slice:
        """Finds a block's slice of local or border effects."""
        start = self.start(block, day)
        return slice(start, start + block.size)

    def index_of(self, name: str, day: int = 0) -> int:
        """Finds the border index of a block of a single effect."""
        return next(int(self.span(block, day).start) for block in self.blocks if block.name == name)

    def prior(self, strengths: Strengths, days: Sequence[float]) -> EffectPrior:
        """Builds the prior. days: of how many days each one is the mean."""
        means, roots = np.zeros(self.size(len(days), border=True)), []
        for index, block in enumerate(self.blocks):
            for day, strength in enumerate(np.broadcast_to(strengths[block.name], len(days) if block.is_daily else 1)):
                # A mean of n days has an n-th of their effects' variance; precisions that are not learned hold as is.
                factor = days[day] if block.is_daily and block.is_learned else 1
                span, root = self.span(block, day), math.sqrt(float(strength) * factor) * block.root
                # Blocks' roots R of precisions R'R, with the index of the block of each row.
                roots.append((block.is_border, span.start, root, np.full(root.shape[0], index)))
                if block.is_border:  # means of local effects are 0
                    means[span] = block.mean
        roots.sort(key=lambda root: root[:2])  # in the order of effects: local or border, then first effect
        local, border = (
            sparse.block_diag([root for at_border, _, root, _ in roots if at_border == is_border], format="csr")
            for is_border in (False, True)
        )
        return EffectPrior(local, border, means, np.concatenate([blocks for *_, blocks in roots]))

    def known(self, hours: Int64s) -> dict[str, Float64s]:
        """Takes known regressors of HATs in slots of these hours, by name, (cells, slots)."""
        return {name: values[:, hours] for name, values in self._known.items()}

    def hats(self, effects: Effects, hours: Int64s, day: int | None, regressors: Regressors | None = None) -> Float64s:
        """Sums effects of each HAT, (cells, slots). day: None leaves daily effects out."""
        days = None if day is None else np.full(hours.size, day)
        # (slots,), equal in all cells: border effects, but for those with a regressor, which follow.
        total = self.slot_rows(hours, days, effects.border.size) @ effects.border
        regressors = self.known(hours) | dict(regressors or {})
        for block in self.blocks:
            if day is not None or not block.is_daily:
                values = effects[block.is_border][self.span(block, day or 0)]  # effects: (local, border)
                if block.regressor is not None:  # a factor of the block's only effect; 0 where it is absent
                    total = total + values[0] * regressors.get(block.regressor, 0.0)
                elif not block.is_border:
                    of_cells = values.reshape(-1, block.slots)[block.cell_keys]  # (cells, slot keys), see `Block`
                    total = total + (of_cells if block.slots == 1 else of_cells[:, block.slot_keys[hours]])
        return np.asarray(total)

    def slot_rows(self, hours: Int64s, days: Int64s | None, size: int) -> Float64s:
        """Builds indicators of slots' border effects without regressor, (slots, size), 0 or 1.

        days: index of each slot's day, (slots,); None leaves daily effects out.
        """
        rows = np.zeros((hours.size, size))
        for block in self.blocks:
            if block.is_border and block.regressor is None and (days is not None or not block.is_daily):
                keys = block.slot_keys[hours]
                columns = self.start(block, 0 * hours if days is None else days) + keys  # a lasting block has no days
                rows[keys >= 0, columns[keys >= 0]] = 1  # -1: the hour has no effect
        return rows

    def pair_sums(self, item: "Item") -> "list[_PairSums]":
        """Prepares each block's sums by group and effect; blocks of equal keys share them."""
        key = item.groups.key + item.hours.tobytes()
        if key not in self._memory:
            blocks = {block.keys: block for block in self.blocks}  # one of each distinct keys
            sums = {keys: _PairSums(block, item) for keys, block in blocks.items()}
            self._memory[key] = [sums[block.keys] for block in self.blocks]
        return self._memory[key]


class Item(NamedTuple):
    """Sums of a day: groups of HATs, slots' hours, the day's index, regressors' names."""

    groups: Groups
    hours: Int64s
    day: int
    regressors: tuple[str, ...] = ()


class Stack:
    """Rows of items' weighted sums of HATs, by effect; built once for any weights.

    An `Item` is a day's sums: groups of HATs, slots' hours, the day's index, names of its own regressors. `_PairSums`
    of a block and an item sum HATs by each pair of group and effect that meet: `rows` number the item's groups,
    `columns` the block's effects, both from 0.
    """

    def __init__(self, layout: EffectLayout, items: Sequence[Item], days: int) -> None:
        """Lays out the sums: a row per item's group, a column per effect."""
        self.starts = np.cumsum([0, *(math.prod(item.groups.shape) for item in items)])  # items' first rows, the end
        distinct_hours = {item.hours.tobytes(): item.hours for item in items}  # few, as many items have equal ones
        by_hours = {key: layout.known(hours) for key, hours in distinct_hours.items()}
        self._known = [by_hours[item.hours.tobytes()] for item in items]  # the layout's regressors, by item
        self._terms: list[tuple[int, Block, _PairSums, int]] = []  # (item, block, sums, first local or border effect)
        local = [np.zeros((2, 0), np.int64)]  # rows and columns of local effects, by term
        for index, item in enumerate(items):
            names = {*item.regressors, *self._known[index]}  # of regressors; blocks with any other one are left out
            for block, sums in zip(layout.blocks, layout.pair_sums(item), strict=True):
                if block.regressor is None or block.regressor in names:
                    first = layout.span(block, item.day).start
                    self._terms.append((index, block, sums, first))
                    if not block.is_border:
                        local.append(np.stack([self.starts[index] + sums.rows, first + sums.columns]))
        rows, columns = np.concatenate(local, axis=1)
        shape, self._border = (self.starts[-1], layout.size(days, border=False)), layout.size(days, border=True)
        # Values are positions in the concatenated terms: by them `__call__` fills in sums without sorting them again.
        self._order = sparse.coo_matrix((np.arange(rows.size), (rows, columns)), shape).tocsr()

    def __call__(self, hats: Sequence[Float64s], regressors: Sequence[Regressors] | None = None) -> EffectRows:
        """Fills in the rows. hats: weights, (cells, slots), by item; regressors: by item, too."""
        order, border = self._order, np.zeros((self.starts[-1], self._border))  # (rows, border effects)
        local, sums_by_key = [np.zeros(0)], dict[tuple[int, int, str | None], Float64s]()
        for index, block, sums, first in self._terms:
            key = index, id(sums), block.regressor  # blocks that share `sums` and regressor are summed up once
            if key not in sums_by_key:
                factors_by_regressor = {**self._known[index], **(regressors[index] if regressors else {})}
                factors = factors_by_regressor.get(block.regressor or "")  # None for blocks without regressor
                sums_by_key[key] = sums(hats[index] if factors is None else hats[index] * factors)
            if block.is_border:  # from the item's first row, and the block's first effect on
                border[self.starts[index] :, first:][sums.rows, sums.columns] = sums_by_key[key]
            else:
                local.append(sums_by_key[key])
        values = np.concatenate(local)[order.data]  # `order` holds positions in the concatenated terms
        return EffectRows(sparse.csr_matrix((values, order.indices, order.indptr), order.shape), border)


class _PairSums:
    """Sums HATs' numbers by pair of group (row) and effect (column) that meet."""

    def __init__(self, block: Block, item: Item) -> None:
        # A HAT's group follows from its cell's and its slot's, its effect from both keys (see `Block`): so a HAT's pair
        # follows from its cell's and its slot's pair of group and key, whose indices are cell_pair and slot_pair.
        groups, slot_keys = item.groups, block.slot_keys[item.hours]
        (cell_groups, cell_keys), cell_pair = np.unique([groups.cells, block.cell_keys], axis=1, return_inverse=True)
        (slot_groups, slot_keys), slot_pair = np.unique([groups.slots, slot_keys], axis=1, return_inverse=True)
        rows = cell_groups[:, None] * groups.shape[1] + slot_groups
        columns = cell_keys[:, None] * block.slots + slot_keys
        self._present = np.broadcast_to(slot_keys >= 0, rows.shape)  # -1: the hour has no effect, so no pair
        self.rows, self.columns = rows[self._present], columns[self._present]
        # Indicators of pairs, (slots, slot pairs) and (cell pairs, cells): HATs are summed by product with both.
        self._of_slots = (np.arange(slot_pair.max() + 1) == slot_pair[:, None]).astype(np.float64)
        self._of_cells = sparse.csr_matrix((np.ones(cell_pair.size), (cell_pair, np.arange(cell_pair.size))))

    def __call__(self, hats: Float64s) -> Float64s:
        return np.asarray((self._of_cells @ (hats @ self._of_slots))[self._present])
