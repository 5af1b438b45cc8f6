"""Blocks of effects that make up a latent field."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sparse

from dpops.learning.releases import HABITS, Groups
from dpops.spread import VehicleSpread
from dpops.types import Float64s, Int64s

Strengths = Mapping[str, Float64s]
"""Precision of each block by name: (1,), or (days,) for daily blocks."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """Effects of one kind, keyed by cell and hour.

    Attributes:
        cell_keys: int64 (cells,).
        slot_keys: maps hours of slots, 0 to 47, to keys; -1 where the HAT has none.
        slots: number of the latter keys.
        precision: prior of the strength; the strength itself if `is_learned` is false.
        differences: incidence D, (effects, pairs); the structure matrix is D D' + ridge I.
        is_daily: one set of effects for each day.
        is_border: in the dense border of the arrowhead precision matrix, as its effects touch most cells.
        regressor: name of a number by which each HAT's effect is multiplied.
    """

    name: str
    cell_keys: Int64s
    slot_keys: Callable[[Int64s], Int64s]
    slots: int
    precision: float
    mean: float = 0.0
    differences: sparse.csr_matrix | None = None
    ridge: float = 1.0
    is_daily: bool = False
    is_border: bool = False
    is_learned: bool = True
    regressor: str | None = None

    @cached_property
    def size(self) -> int:
        """Number of effects, of one day."""
        return (int(self.cell_keys.max()) + 1) * self.slots

    @cached_property
    def structure(self) -> sparse.csr_matrix:
        """Builds the structure matrix, (effects, effects)."""
        ridge = self.ridge * sparse.identity(self.size, format="csr")
        return ridge if self.differences is None else (self.differences @ self.differences.T + ridge).tocsr()

    def draws(self, rng: np.random.Generator, columns: int) -> Float64s:
        """Draws vectors whose covariance is the structure matrix."""
        values = np.sqrt(self.ridge) * rng.normal(size=(self.size, columns))
        if self.differences is not None:
            values = values + self.differences @ rng.normal(size=(self.differences.shape[1], columns))
        return np.asarray(values)

    def of_hats(self, effects: Float64s, hours: Int64s) -> Float64s:
        """Expands effects to HATs, (cells, slots) or (cells, 1)."""
        table = effects.reshape(-1, self.slots)[self.cell_keys]
        return table if self.slots == 1 else table[:, self.slot_keys(hours)]


class Effects(NamedTuple):
    """Effects of all blocks, local and border."""

    local: Float64s
    border: Float64s


class Start(NamedTuple):
    """Initial values of fits: effects, strengths and vehicle variance."""

    effects: Effects
    weights: Strengths
    speeds: Strengths
    spread: VehicleSpread


@dataclass(frozen=True, slots=True)
class EffectRows:
    """Sparse rows of sums over groups, in effects.

    A border effect belongs to an hour of a day, so a row has its sums over hours, and these have the effects.

    Attributes:
        local: of local effects.
        hourly: sums over each day's hours, (rows, days x HABITS).
        regressed: of border effects that have a regressor, (rows, border).
        incidence: border effects of each day's hours, (days x HABITS, border).
    """

    local: sparse.csr_matrix
    hourly: sparse.csr_matrix
    regressed: sparse.csr_matrix
    incidence: sparse.csr_matrix

    def times(self, effects: "Effects") -> Float64s:
        """Multiplies rows by effects, (rows, ..)."""
        of_border = self.hourly @ (self.incidence @ effects.border) + self.regressed @ effects.border
        return np.asarray(self.local @ effects.local + of_border)

    def adjoint(self, values: Float64s) -> "Effects":
        """Multiplies the transposed rows by values, (rows, ..)."""
        of_border = self.incidence.T @ (self.hourly.T @ values) + self.regressed.T @ values
        return Effects(self.local.T @ values, np.asarray(of_border))

    def border_square(self) -> Float64s:
        """Computes the Gram matrix of border effects' rows."""
        square = self.incidence.T @ (self.hourly.T @ self.hourly) @ self.incidence
        mixed = self.incidence.T @ (self.hourly.T @ self.regressed)
        return np.asarray((square + mixed + mixed.T + self.regressed.T @ self.regressed).toarray())

    def __getitem__(self, rows: slice) -> "EffectRows":
        return EffectRows(self.local[rows], self.hourly[rows], self.regressed[rows], self.incidence)

    def scaled(self, factors: Float64s) -> "EffectRows":
        """Multiplies each row by its factor."""
        local, hourly, regressed = (_scaled(part, factors) for part in (self.local, self.hourly, self.regressed))
        return EffectRows(local, hourly, regressed, self.incidence)


class EffectPrior(NamedTuple):
    """Prior precision of effects; shift: precision times mean."""

    local: sparse.csc_matrix
    border: Float64s
    shift: Float64s


class EffectLayout:
    """Index of effects by block and day."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self.blocks = tuple(blocks)
        self.local = tuple(block for block in blocks if not block.is_border)
        self._starts: dict[str, int] = {}
        self._sizes = {}
        for is_border in (False, True):
            for is_daily in (False, True):
                start = 0
                for block in self.blocks:
                    if (block.is_border, block.is_daily) == (is_border, is_daily):
                        self._starts[block.name] = start
                        start += block.size
                self._sizes[is_border, is_daily] = start
        self._memory: dict[bytes, list[_PairSums]] = {}

    @property
    def cells(self) -> int:
        """Number of cells."""
        return int(self.blocks[0].cell_keys.size)

    def size(self, days: int, *, border: bool) -> int:
        """Counts coefficients of days, inside or at the border."""
        return self._sizes[border, False] + days * self._sizes[border, True]

    def zeros(self, days: int) -> Effects:
        """Creates zero coefficients."""
        return Effects(np.zeros(self.size(days, border=False)), np.zeros(self.size(days, border=True)))

    def padded(self, effects: Effects, days: int) -> Effects:
        """Appends zero effects of further days."""
        return Effects(*(np.append(old, new[old.size :]) for old, new in zip(effects, self.zeros(days), strict=True)))

    def span(self, block: Block, day: int = 0) -> slice:
        """Finds a block's slice of local or border effects."""
        start = self._starts[block.name]
        if block.is_daily:
            start += self.size(day, border=block.is_border)
        return slice(start, start + block.size)

    def named(self, name: str) -> Block:
        """Finds a block by name."""
        return next(block for block in self.blocks if block.name == name)

    def place(self, name: str, day: int = 0) -> int:
        """Finds the place of a single-effect block."""
        return int(self.span(self.named(name), day).start)

    def part(self, effects: Effects, block: Block, day: int = 0) -> Float64s:
        """Takes a block's effects, (effects, ..)."""
        return effects[block.is_border][self.span(block, day)]

    def prior(self, strengths: Strengths, days: Sequence[float]) -> EffectPrior:
        """Builds the prior; `days`: numbers of days averaged."""
        count = len(days)
        border = np.zeros((self.size(count, border=True),) * 2)
        shift, parts = np.zeros(len(border)), []
        for block, day, precision in self.precisions(strengths, days):
            span = self.span(block, day)
            if block.is_border:
                border[span, span] = precision * block.structure.toarray()
                shift[span] = precision * block.ridge * block.mean
            else:
                parts.append((span.start, precision * block.structure))
        parts.sort(key=lambda item: item[0])
        local = sparse.block_diag([matrix for _, matrix in parts], format="csc")
        return EffectPrior(local, border, shift)

    def precisions(self, strengths: Strengths, days: Sequence[float]) -> list[tuple[Block, int, float]]:
        """Lists precisions by block and day, times averaged days."""
        rows = []
        for block in self.blocks:
            of_block = np.broadcast_to(strengths[block.name], len(days) if block.is_daily else 1)
            for day, strength in enumerate(of_block):
                factor = days[day] if block.is_daily and block.is_learned else 1
                rows.append((block, day, float(strength) * factor))
        return rows

    def prior_draws(self, strengths: Strengths, days: Sequence[float], columns: int) -> Effects:
        """Draws seeded vectors with the prior precision as covariance."""
        rng, count = np.random.default_rng(0), len(days)
        draws = Effects(*(np.zeros((self.size(count, border=border), columns)) for border in (False, True)))
        for block, day, precision in self.precisions(strengths, days):
            draws[block.is_border][self.span(block, day)] = np.sqrt(precision) * block.draws(rng, columns)
        return draws

    def hats(
        self, effects: Effects, hours: Int64s, day: int | None, regressors: Mapping[str, Float64s] | None = None
    ) -> Float64s:
        """Sums effects by HAT of a day, (cells, slots)."""
        of_slots = np.zeros(hours.size)
        total: Float64s | float = 0.0
        for block in self.blocks:
            if block.is_daily and day is None:
                continue
            values = self.part(effects, block, day or 0)
            if block.regressor is not None:
                total = total + values[0] * (regressors or {}).get(block.regressor, 0.0)
            elif block.is_border:
                keys = block.slot_keys(hours)
                of_slots = of_slots + np.where(keys >= 0, values[keys], 0.0)
            else:
                total = total + block.of_hats(values, hours)
        return np.asarray(total + of_slots)

    def incidence(self, hours: Sequence[Int64s | None]) -> sparse.csr_matrix:
        """Builds the matrix from effects that all cells share to days' hours."""
        entries = [(np.zeros(0, np.int64),) * 2]
        for day, of_day in enumerate(hours):
            slots = np.unique(of_day) if of_day is not None else np.zeros(0, np.int64)
            for block in self.blocks:
                if block.is_border and block.regressor is None:
                    keys = block.slot_keys(slots)
                    entries.append((day * HABITS + slots[keys >= 0], self.span(block, day).start + keys[keys >= 0]))
        rows, columns = (np.concatenate(parts) for parts in zip(*entries, strict=True))
        shape = (len(hours) * HABITS, self.size(len(hours), border=True))
        return sparse.csr_matrix((np.ones(rows.size), (rows, columns)), shape)

    def stack(self, items: Sequence["Item"], days: int) -> "Stack":
        """Prepares these sums' sparse rows, for any weights."""
        return Stack(self, items, days, [self._sums(item) for item in items])

    def _sums(self, item: "Item") -> "list[_PairSums]":
        key = item.groups.key + item.hours.tobytes()
        if key not in self._memory:
            local = [(block.cell_keys, block.slot_keys(item.hours), block.slots) for block in self.local]
            hourly = np.zeros_like(item.groups.cells), item.hours, HABITS
            self._memory[key] = [_PairSums(*keys, item.groups) for keys in (*local, hourly)]
        return self._memory[key]


class Item(NamedTuple):
    """Sums of a day over groups, and their regressors."""

    groups: Groups
    hours: Int64s
    day: int
    regressors: tuple[str, ...] = ()


class Stack:
    """Concatenated rows of sums; starts: first row of each."""

    def __init__(
        self, layout: EffectLayout, items: Sequence[Item], days: int, sums: "Sequence[list[_PairSums]]"
    ) -> None:
        self._items, self._sums, self._layout = items, sums, layout
        hours: list[Int64s | None] = [None] * days
        none = np.zeros(0, np.int64)
        local, hourly = [(none, none)], [(none, none)]
        regressed = [(none, none)]
        start, starts = 0, [0]
        self._regressed = [[block for block in layout.blocks if block.regressor in item.regressors] for item in items]
        for item, of_item, blocks_of_item in zip(items, sums, self._regressed, strict=True):
            hours[item.day] = item.hours
            for block, of_block in zip(layout.local, of_item, strict=False):
                local.append((start + of_block.rows, layout.span(block, item.day).start + of_block.columns))
            hourly.append((start + of_item[-1].rows, item.day * HABITS + of_item[-1].columns))
            size = item.groups.shape[0] * item.groups.shape[1]
            for block in blocks_of_item:
                place = np.full(size, layout.span(block, item.day).start)
                regressed.append((start + np.arange(size), place))
            start += size
            starts.append(start)
        self.starts, self._incidence = np.array(starts), layout.incidence(hours)
        border = layout.size(days, border=True)
        self._patterns = [
            _Pattern(local, (start, layout.size(days, border=False))),
            _Pattern(hourly, (start, days * HABITS)),
            _Pattern(regressed, (start, border)),
        ]

    def __call__(
        self, hats: Sequence[Float64s], regressors: Sequence[Mapping[str, Float64s]] | None = None
    ) -> EffectRows:
        """Fills in rows with weights of HATs and regressors."""
        local, hourly, regressed = ([np.zeros(0)] for _ in range(3))
        for index, (of_hats, of_item) in enumerate(zip(hats, self._sums, strict=True)):
            *of_blocks, of_hours = of_item
            local += [sums(of_hats) for sums in of_blocks]
            hourly.append(of_hours(of_hats))
            for block in self._regressed[index]:
                factor = regressors[index][str(block.regressor)] if regressors is not None else np.array(1.0)
                regressed.append(self._items[index].groups.totals(of_hats * factor).ravel())
        local_pattern, hourly_pattern, regressed_pattern = self._patterns
        parts = local_pattern(local), hourly_pattern(hourly), regressed_pattern(regressed)
        return EffectRows(*parts, self._incidence)


class _Pattern:
    """Sparse matrix pattern whose values are filled in later."""

    def __init__(self, entries: Sequence[tuple[Int64s, Int64s]], shape: tuple[int, int]) -> None:
        rows, columns = (np.concatenate(parts) for parts in zip(*entries, strict=True))
        self._order = np.lexsort((columns, rows))
        self._columns, self._shape = columns[self._order].astype(np.int32), shape
        self._pointers = np.searchsorted(rows[self._order], np.arange(shape[0] + 1)).astype(np.int32)

    def __call__(self, values: Sequence[Float64s]) -> sparse.csr_matrix:
        return sparse.csr_matrix((np.concatenate(values)[self._order], self._columns, self._pointers), self._shape)


class _PairSums:
    """Sums of HATs by pair of group and effect."""

    def __init__(self, cell_keys: Int64s, slot_keys: Int64s, slots: int, groups: Groups) -> None:
        cell_pairs, of_cells = _numbered(groups.cells, cell_keys)
        slot_pairs, of_slots = _numbered(groups.slots, slot_keys)
        rows = cell_pairs[0][:, None] * groups.shape[1] + slot_pairs[0]
        columns = cell_pairs[1][:, None] * slots + slot_pairs[1]
        self._present = np.broadcast_to(slot_pairs[1] >= 0, rows.shape)
        self.rows, self.columns = rows[self._present], columns[self._present]
        self._of_slots = (np.arange(of_slots.max() + 1) == of_slots[:, None]).astype(np.float64)
        self._order = np.argsort(of_cells, kind="stable")
        self._starts = np.searchsorted(of_cells[self._order], np.arange(of_cells.max() + 1))

    def __call__(self, hats: Float64s) -> Float64s:
        by_slot = hats @ self._of_slots
        if self._starts.size == 1:
            sums = by_slot.sum(axis=0, keepdims=True)
        elif self._starts.size == self._order.size:
            sums = by_slot[self._order]
        else:
            sums = np.add.reduceat(by_slot[self._order], self._starts, axis=0)
        return np.asarray(sums[self._present])


def _numbered(groups: Int64s, keys: Int64s) -> tuple[tuple[Int64s, Int64s], Int64s]:
    """Numbers distinct pairs of group and key."""
    width = int(keys.max(initial=0)) + 2
    pairs, inverse = np.unique(groups * width + keys + 1, return_inverse=True)
    return (pairs // width, pairs % width - 1), inverse.astype(np.int64)


def _scaled(rows: sparse.csr_matrix, factors: Float64s) -> sparse.csr_matrix:
    """Multiplies each row by its factor."""
    values = rows.data * np.repeat(factors, np.diff(rows.indptr))
    return sparse.csr_matrix((values, rows.indices, rows.indptr), rows.shape)
