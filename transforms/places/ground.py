"""What a position is counted under: an H3 cell, or a piece of one that lies in a public place."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import h3
import h3.api.basic_int as h3_int
import numpy as np

from dpops.types import Int64s
from transforms.places.hexagons import cell_text

NOWHERE = -1
"""In the place of a key, where a position is outside; in the place of a place, where a piece lies in none."""

_DIGIT_BITS, _RESOLUTION_SHIFT = 3, 52
_RESOLUTION_MASK = 15 << _RESOLUTION_SHIFT


class Ground(Protocol):
    """How positions are told apart: one H3 lookup, and one in a public table."""

    @property
    def resolution(self) -> int:
        """Resolution of the H3 cells that are looked up."""
        ...

    def keys(self, cells: Int64s) -> Int64s:
        """What each H3 cell of that resolution is counted under, int64 (cells,); NOWHERE for those outside."""
        ...


@dataclass(frozen=True)
class Hexagons:
    """H3 cells, counted under their own index. region: the only ones that are released, sorted, or None for all."""

    resolution: int
    region: tuple[int, ...] | None

    def keys(self, cells: Int64s) -> Int64s:
        return cells if self.region is None else np.where(np.isin(cells, self._known), cells, NOWHERE)

    @cached_property
    def _known(self) -> Int64s:
        return np.array(self.region, np.int64)


class Places(NamedTuple):
    """Public places, numbered from 0.

    names: of each; unique. cell: int64 (places,), which of the region's cells holds most of it.
    geometries: GeoJSON of each; none where a place is the H3 cell of its name. visits: public numbers of vehicles that
    come to each on a day, roughly, above 0; none where nobody says.
    """

    names: tuple[str, ...]
    cell: Int64s
    geometries: tuple[dict[str, object], ...] = ()
    visits: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False)
class Pieces:
    """A region cut by places: a piece is what one cell of the region has of one place, or of none.

    resolution: of the fine H3 cells that are looked up. coarse: of the region's cells; a fine cell belongs to the one
    that is its ancestor. fine, piece: sorted fine cells that lie in a place, and the piece of each; what is in the
    region besides is a cell's rest. cell, place: int64 (pieces,), indices into the region and the places, or NOWHERE;
    the rests come first, in the order of the region. code: which pieces there are, in one text.
    """

    resolution: int
    coarse: int
    region: Int64s
    fine: Int64s
    piece: Int64s
    cell: Int64s
    place: Int64s
    places: Places

    @staticmethod
    def cut(region: Sequence[int], resolution: int, fine: Int64s, place: Int64s, places: Places) -> "Pieces":
        """fine: cells of `resolution`, each once; those outside of the region are left out. place: of each.

        region: sorted. Raises ValueError for a resolution that is not finer than the region's.
        """
        coarse = _finer_than(region, resolution)
        cells = np.array(region, np.int64)
        order = np.argsort(fine)
        fine, place = fine[order], place[order]
        cell = _found_in(cells, ancestors(fine, coarse))
        fine, place, cell = (column[cell != NOWHERE] for column in (fine, place, cell))
        pairs, number = np.unique(cell * max(len(places.names), 1) + place, return_inverse=True)
        of_cell, of_place = np.divmod(pairs, max(len(places.names), 1))
        return Pieces(
            resolution=resolution,
            coarse=coarse,
            region=cells,
            fine=fine,
            piece=cells.size + number.astype(np.int64),
            cell=np.concatenate([np.arange(cells.size), of_cell]),
            place=np.concatenate([np.full(cells.size, NOWHERE), of_place]),
            places=places,
        )

    def keys(self, cells: Int64s) -> Int64s:
        """The piece that each fine cell belongs to."""
        at = np.minimum(np.searchsorted(self.fine, cells), max(self.fine.size - 1, 0))
        known = self.fine[at] == cells if self.fine.size else np.zeros(cells.size, np.bool_)
        found = np.full(cells.size, NOWHERE, np.int64)
        found[known] = self.piece[at[known]]
        found[~known] = _found_in(self.region, ancestors(cells[~known], self.coarse))
        return found


def ancestors(cells: Int64s, resolution: int) -> Int64s:
    """The coarser cell that each H3 cell belongs to, by its index alone. resolution: at most the cells' own."""
    unused = (1 << (_DIGIT_BITS * (15 - resolution))) - 1
    return (cells & ~_RESOLUTION_MASK) | (resolution << _RESOLUTION_SHIFT) | unused


def hexagon_pieces(region: Sequence[int], resolution: int) -> Pieces:
    """Every H3 cell of a finer resolution whose ancestor is in the region is a place.

    region: sorted. Raises ValueError for a resolution that is not finer than the region's.
    """
    _finer_than(region, resolution)
    children = [
        (index, child) for index, cell in enumerate(region) for child in h3_int.cell_to_children(cell, resolution)
    ]
    cell, fine = np.array(sorted(children, key=lambda pair: pair[1]), np.int64).T
    names = tuple(cell_text(child) for child in fine.tolist())
    return Pieces.cut(region, resolution, fine, np.arange(fine.size), Places(names, cell))


def _finer_than(region: Sequence[int], resolution: int) -> int:
    """The region's own resolution."""
    coarse: int = h3.get_resolution(cell_text(region[0]))
    if not coarse < resolution <= 15:
        raise ValueError(f"places need cells finer than the region's resolution {coarse}; they have {resolution}")
    return coarse


def _found_in(known: Int64s, cells: Int64s) -> Int64s:
    """Where each cell stands in a sorted list, or NOWHERE."""
    at = np.minimum(np.searchsorted(known, cells), known.size - 1)
    return np.where(known[at] == cells, at, NOWHERE)
