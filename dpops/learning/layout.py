"""How effects are ordered, so that all but a few meet only effects of their own or a neighbouring block."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpops.learning.design import BLOCKS, HABITS, Design
from dpops.types import Int64s

LEAST_BLOCK = 64
"""Smaller blocks are joined: steps of Python cost more than their arithmetic."""


@dataclass(frozen=True)
class Block:
    """Local effects at the places [start, stop), with positions counted from `start`.

    entries: where this block's parents begin and end in a flat array of all parents' matrices; inside: where each of
    these numbers stands in the block's own matrix, flat. pairs: (2, n) positions of neighbouring cells in this block;
    onward: (2, n) of such pairs with the next block, the second counted from that one's start.
    """

    start: int
    stop: int
    entries: slice
    inside: Int64s
    pairs: Int64s
    onward: Int64s

    @property
    def size(self) -> int:
        return self.stop - self.start


class EffectLayout:
    """The order of a design's effects: local ones (of cells, of parents in parts of the day), then those of the border.

    A parent's cells and its own effects stand together: one *family*. Families are put in layers by their distance from
    one end of the city, as cells touch; so those of a layer touch only it and the next ones, and a matrix that holds
    them is block tridiagonal. The border (the city's number, hours, and `extra` further columns) touches all.
    """

    def __init__(self, design: Design, extra: int) -> None:
        self.design, self.width = design, design.columns + extra
        layers = _layers(design)
        families = np.concatenate(layers)
        members = [
            _family(design, parent, cells) for parent, cells in zip(families, _cells_of(design, families), strict=True)
        ]
        sizes = np.array([member.size for member in members])
        self.local = np.concatenate(members)
        """int64 (places,), the column at each place."""
        self.starts = np.concatenate([[0], np.cumsum(sizes)])
        """int64 (families + 1,), where each family begins."""
        self.family = np.repeat(np.arange(families.size), sizes)
        """int64 (places,)."""
        self.entries = np.concatenate([[0], np.cumsum(sizes**2)])
        """int64 (families + 1,), where each family's own matrix begins in a flat array of them."""
        self.place = np.full(self.width, -1)
        """int64 (columns,), where each column stands among the local ones, -1 in the border."""
        self.place[self.local] = np.arange(self.local.size)
        self.border = np.flatnonzero(self.place < 0)
        """int64, the columns of the border: the city, hours of both kinds of days, and the further ones."""
        self.in_border = np.full(self.width, -1)
        self.in_border[self.border] = np.arange(self.border.size)
        self._layer_sizes = [layer.size for layer in layers]

    @property
    def cell_places(self) -> Int64s:
        """int64 (cells,)."""
        return self.place[self.design.cell_columns]

    @property
    def part_places(self) -> Int64s:
        """int64 (parents, parts of the day)."""
        return self.place[self.design.parent_columns].reshape(-1, BLOCKS)

    @property
    def hours(self) -> slice:
        """Hours of the border."""
        return slice(1, 1 + HABITS)

    def entry(self, row: Int64s, column: Int64s) -> Int64s:
        """Where pairs of places of one family stand among the families' matrices as they lie flat."""
        family = self.family[row]
        start, size = self.starts[family], np.diff(self.starts)[family]
        place: Int64s = self.entries[family] + (row - start) * size + column - start
        return place

    @cached_property
    def neighbours(self) -> Int64s:
        """int64 (2, pairs), places of cells that touch, the smaller first."""
        return np.sort(self.cell_places[self.design.neighbours.T], axis=0)

    @cached_property
    def pair_places(self) -> tuple[Int64s, Int64s]:
        """The places (row, column) of every entry of the families' matrices, as they lie flat."""
        sizes = np.diff(self.starts)
        size = np.repeat(sizes, sizes**2)
        inner = np.arange(size.size) - np.repeat(self.entries[:-1], sizes**2)
        start = np.repeat(self.starts[:-1], sizes**2)
        return start + inner // size, start + inner % size

    @cached_property
    def blocks(self) -> list[Block]:
        """Layers, small ones joined, so that only neighbouring ones touch."""
        bounds, family = [0], 0
        for size in self._layer_sizes:
            family += size
            if self.starts[family] - self.starts[bounds[-1]] >= LEAST_BLOCK:
                bounds.append(family)
        if bounds[-1] != family:
            bounds.append(family)
        places = self.starts[bounds]
        of_place = np.repeat(np.arange(places.size - 1), np.diff(places))
        return [self._block(index, bounds, places, of_place) for index in range(places.size - 1)]

    def _block(self, number: int, bounds: list[int], places: Int64s, of_place: Int64s) -> Block:
        start, stop = int(places[number]), int(places[number + 1])
        entries = slice(int(self.entries[bounds[number]]), int(self.entries[bounds[number + 1]]))
        row, column = (pair_place[entries] - start for pair_place in self.pair_places)
        one, other = self.neighbours
        is_inside = of_place[one] == number
        inside = is_inside & (of_place[other] == number)
        pairs = self.neighbours[:, inside] - start
        onward = self.neighbours[:, is_inside & ~inside] - np.array([[start], [stop]])
        return Block(start, stop, entries, row * (stop - start) + column, pairs, onward)


def _family(design: Design, parent: int, cells: Int64s) -> Int64s:
    """The columns of a parent's cells, and of its own effects."""
    first = design.parent_columns.start + int(parent) * BLOCKS
    return np.concatenate([design.cell_columns.start + cells, np.arange(first, first + BLOCKS)])


def _cells_of(design: Design, families: Int64s) -> list[Int64s]:
    order = np.argsort(design.parents, kind="stable")
    starts = np.searchsorted(design.parents[order], np.arange(int(design.parents.max()) + 2))
    return [order[starts[parent] : starts[parent + 1]] for parent in families]


def _layers(design: Design) -> list[Int64s]:
    """Parents by their distance from an outermost one, part by part of a city in several parts."""
    count = int(design.parents.max()) + 1
    ends = design.parents[design.neighbours]
    ends = np.unique(ends[ends[:, 0] != ends[:, 1]], axis=0)
    both = np.concatenate([ends, ends[:, ::-1]])
    both = both[np.argsort(both[:, 0], kind="stable")]
    starts = np.searchsorted(both[:, 0], np.arange(count + 1))
    seen = np.zeros(count, np.bool_)
    layers: list[Int64s] = []
    for parent in range(count):
        if not seen[parent]:
            outermost = int(_spread_from(parent, both[:, 1], starts, seen.copy())[-1][0])
            layers += _spread_from(outermost, both[:, 1], starts, seen)
    return layers


def _spread_from(parent: int, others: Int64s, starts: Int64s, seen: "np.typing.NDArray[np.bool_]") -> list[Int64s]:
    """Layers around a parent that was not seen; what they hold is marked as seen."""
    layer, layers = np.array([parent]), []
    while layer.size:
        seen[layer] = True
        layers.append(layer)
        near = [others[starts[place] : starts[place + 1]] for place in layer]
        reached = np.unique(np.concatenate(near))
        layer = reached[~seen[reached]]
    return layers
