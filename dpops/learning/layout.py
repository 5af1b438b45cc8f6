"""How effects are ordered, so that what touches all of them stands apart."""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpops.learning.design import BLOCKS, HABITS, Design
from dpops.learning.elimination import Elimination, elimination
from dpops.types import Int64s


class EffectLayout:
    """The order of a design's effects: local ones (of cells, of parents in parts of the day), then those of the border.

    A parent's cells and its own effects stand together: one *family*. Effects touch those of their family, and cells
    their neighbours. The border (the city's number, hours, and `extra` further columns) touches all.
    """

    def __init__(self, design: Design, extra: int, like: "EffectLayout | None" = None) -> None:
        """Orders the effects. like: of the same design; the order of elimination is found once for both."""
        self.design, self.width, self._like = design, design.columns + extra, like
        members = [_family(design, parent, cells) for parent, cells in enumerate(_cells_of(design))]
        sizes = np.array([member.size for member in members])
        self.local = np.concatenate(members)
        """int64 (places,), the column at each place."""
        self.starts = np.concatenate([[0], np.cumsum(sizes)])
        """int64 (families + 1,), where each family begins."""
        self.family = np.repeat(np.arange(sizes.size), sizes)
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
        """Finds where pairs of places of one family stand among the families' matrices as they lie flat."""
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
    def touching(self) -> Int64s:
        """int64 (cells,), how many neighbours each has."""
        return np.bincount(self.design.neighbours.ravel(), minlength=self.design.cells)

    @cached_property
    def inside(self) -> Int64s:
        """Where pairs of cells of one family that touch stand among the families' matrices, each pair twice."""
        one, other = self.neighbours[:, ~self._are_apart]
        return np.concatenate([self.entry(one, other), self.entry(other, one)])

    @cached_property
    def apart(self) -> Int64s:
        """int64 (2, pairs), places of cells of two families that touch."""
        return self.neighbours[:, self._are_apart]

    @cached_property
    def _are_apart(self) -> NDArray[np.bool_]:
        one, other = self.neighbours
        apart: NDArray[np.bool_] = self.family[one] != self.family[other]
        return apart

    @cached_property
    def diagonal(self) -> Int64s:
        """Where each place's own number stands among the families' matrices."""
        places = np.arange(self.local.size)
        return self.entry(places, places)

    @cached_property
    def elimination(self) -> Elimination:
        """The order for matrices whose numbers are those of families, then of pairs of cells apart, each pair twice."""
        if self._like is not None:
            return self._like.elimination
        row, column = (
            np.concatenate(ends) for ends in zip(self.pair_places, self.apart, self.apart[::-1], strict=True)
        )
        return elimination(self.family, self.apart, row, column)


def _family(design: Design, parent: int, cells: Int64s) -> Int64s:
    """Lists the columns of a parent's cells, and of its own effects."""
    first = design.parent_columns.start + int(parent) * BLOCKS
    return np.concatenate([design.cell_columns.start + cells, np.arange(first, first + BLOCKS)])


def _cells_of(design: Design) -> list[Int64s]:
    order = np.argsort(design.parents, kind="stable")
    return np.split(order, np.cumsum(np.bincount(design.parents))[:-1])
