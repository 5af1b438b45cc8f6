"""Ground (H3 cells, pieces of places, or keys) and hierarchy of cells.

`region`: its sorted H3 cells, or Keys, which are numbered from 0. A fine cell is an H3 cell finer than those; a piece
is all fine cells of one cell that lie in one place, or the cell's remainder, in none. Where a fine cell's place depends
on a report's heading, tables have a row of places or pieces for it, by sector, a sixteenth of all headings.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import h3.api.basic_int as h3_int
import numpy as np

from dpops.levels.stages import PublicHats
from dpops.types import Int64s

if TYPE_CHECKING:
    from dpops.learning import Design

BETWEEN = "|"  # stands between the two parts of a pair's name
MOST_KEYS, MOST_LETTERS = 200_000, 256
BLOCK = 8  # so many consecutive keys of one list share a parent, as neighbours in it differ less


@dataclass(frozen=True)
class Keys(Sequence[int]):
    """Public keys that rows name, such as lines, numbered like a region's cells.

    >>> Keys.of(["1", "2"], ["north", "south"]).names
    ('1|north', '1|south', '2|north', '2|south')
    """

    names: tuple[str, ...]
    groups: tuple[str, ...]  # names of the keys' parents, as cells have coarser ones
    parents: tuple[int, ...]  # index of each key's group
    resolution: ClassVar[None] = None

    @classmethod
    def of(cls, keys: Sequence[str], inner: Sequence[str] | None = None) -> "Keys":
        """Creates keys, or all pairs with `inner`, grouped by first key. Raises ValueError."""
        for listed in (keys, *([] if inner is None else [inner])):
            if not listed or len(set(listed)) < len(listed):
                raise ValueError("keys must be at least one, without repeats")
            is_wrong = any(key != key.strip() or not 0 < len(key) <= MOST_LETTERS for key in listed)
            if is_wrong or (inner is not None and any(BETWEEN in key for key in listed)):
                rule = "" if inner is None else f", and in pairs without {BETWEEN!r}"
                raise ValueError(f"a key must be 1 to {MOST_LETTERS} letters without white space at its ends{rule}")
        number = len(keys) * (1 if inner is None else len(inner))
        if number > MOST_KEYS:
            raise ValueError(f"there are {number:,} keys; at most {MOST_KEYS:,}")
        if inner is None:
            parents = tuple(index // BLOCK for index in range(number))  # consecutive keys count as neighbours
            block_names = tuple(f"{keys[first]}{BETWEEN}.." for first in range(0, number, BLOCK))  # by the first key
            return cls(tuple(keys), block_names, parents)
        names = tuple(f"{outer}{BETWEEN}{key}" for outer in keys for key in inner)
        return cls(names, tuple(keys), tuple(index for index in range(len(keys)) for _ in inner))

    @cached_property
    def number(self) -> dict[bytes, int]:
        """Number of each key, by its name in rows."""
        return {name.encode(): index for index, name in enumerate(self.names)}

    def keys(self, cells: Int64s, heading: Int64s | None = None) -> Int64s:  # noqa: ARG002 - of `ground.Ground`
        """Returns the numbers of keys unchanged."""
        return cells

    def __getitem__(self, index: Any) -> Any:
        return range(len(self.names))[index]

    def __len__(self) -> int:
        return len(self.names)


NOWHERE = -1  # in the place of an index: outside of the region, or in no place

SECTORS = 16  # headings are told apart by 22.5 degrees


@dataclass(frozen=True)
class Hexagons:
    """H3 cells of a region, or everywhere."""

    resolution: int
    region: tuple[int, ...] | None

    def keys(self, cells: Int64s, heading: Int64s | None = None) -> Int64s:  # noqa: ARG002 - of the interface
        """Returns the H3 cells, NOWHERE for those outside."""
        return cells if self.region is None else np.where(np.isin(cells, self._region_cells), cells, NOWHERE)

    @cached_property
    def _region_cells(self) -> Int64s:
        return np.array(self.region, np.int64)


class Places(NamedTuple):
    """Public places, numbered from 0."""

    names: tuple[str, ...]
    cell: Int64s  # int64 (places,), index of the region's cell that holds most of it
    geometries: tuple[dict[str, object], ...] = ()  # GeoJSON; none for H3 cells
    visits: tuple[float, ...] = ()  # public rough number of vehicles a day, above 0; none if unknown


class Turns(NamedTuple):
    """Table of places by heading, for fine cells in which the heading decides."""

    row: Int64s  # int64 (fine cells,), index into `place`; NOWHERE where the heading decides nothing
    place: Int64s  # int64 (rows, SECTORS), place or NOWHERE, by sector clockwise from north


def sector_of(heading: Int64s) -> Int64s:
    """Computes the nearest sectors of headings, whole degrees from 0 to 359."""
    return (heading * SECTORS + 180) // 360 % SECTORS


@dataclass(frozen=True, eq=False)
class Pieces:
    """Intersections of a region's cells with public places."""

    resolution: int  # of the fine H3 cells
    coarse: int  # of the region's cells
    region: Int64s  # its cells, sorted
    fine: Int64s  # sorted fine cells in a place
    piece: Int64s  # of each fine cell, without a heading
    cell: Int64s  # int64 (pieces,), index into the region; cells' remainders come first
    place: Int64s  # int64 (pieces,), index into `places`; NOWHERE for a cell's remainder
    places: Places
    heading_row: Int64s  # int64 (fine cells,), row of by_heading or NOWHERE
    by_heading: Int64s  # int64 (rows, SECTORS), pieces

    @staticmethod
    def cut(
        region: Sequence[int], resolution: int, fine: Int64s, place: Int64s, places: Places, turns: Turns
    ) -> "Pieces":
        """Cuts a sorted region by fine cells' places.

        fine: H3 cells; place, of each: that of reports without a heading. turns: places of reports with one. Raises
        ValueError for a resolution not finer than the region's.
        """
        coarse = _checked_coarser(region, resolution)
        cells = np.array(region, np.int64)
        order = np.argsort(fine)
        cell = number_in(cells, ancestors(fine[order], coarse))  # each fine cell's region cell
        order, cell = order[cell != NOWHERE], cell[cell != NOWHERE]
        row_cell, turn_row, by_heading = _turns_of_cells(cell, order, turns)  # rows' cells; fine cells' rows; places
        # The cell and place of each fine cell without a heading, then of each row of `by_heading` and sector.
        all_cells = np.concatenate([cell, np.repeat(row_cell, SECTORS)])
        all_places = np.concatenate([place[order], by_heading.ravel()])
        # Pieces are numbered: cells' remainders, then distinct pairs of cell and place.
        inside = all_places != NOWHERE
        pairs, pair = np.unique(all_cells[inside] * len(places.names) + all_places[inside], return_inverse=True)
        of_cell, of_place = np.divmod(pairs, len(places.names))
        piece = all_cells.copy()
        piece[inside] = cells.size + pair
        return Pieces(
            resolution=resolution,
            coarse=coarse,
            region=cells,
            fine=fine[order],
            piece=piece[: cell.size],
            cell=np.concatenate([np.arange(cells.size), of_cell]),
            place=np.concatenate([np.full(cells.size, NOWHERE), of_place]),
            places=places,
            heading_row=turn_row,
            by_heading=piece[cell.size :].reshape(-1, SECTORS),
        )

    @property
    def is_directed(self) -> bool:
        """Whether headings decide any place of a report."""
        return bool(self.by_heading.size)

    def keys(self, cells: Int64s, heading: Int64s | None = None) -> Int64s:
        """Looks up fine cells' pieces, or NOWHERE. heading: degrees, negative if unknown."""
        fine_index = np.minimum(np.searchsorted(self.fine, cells), max(self.fine.size - 1, 0))
        # Cells in no place are not in `fine`: their piece is the remainder of their region cell.
        is_cut = self.fine[fine_index] == cells if self.fine.size else np.zeros(cells.size, np.bool_)
        pieces = np.full(cells.size, NOWHERE, np.int64)
        pieces[is_cut] = self.piece[fine_index[is_cut]]
        pieces[~is_cut] = number_in(self.region, ancestors(cells[~is_cut], self.coarse))
        if self.is_directed and heading is not None:
            rows = np.flatnonzero(is_cut & (heading >= 0))
            heading_row = self.heading_row[fine_index[rows]]  # NOWHERE: one place in all directions
            rows, heading_row = rows[heading_row != NOWHERE], heading_row[heading_row != NOWHERE]
            pieces[rows] = self.by_heading[heading_row, sector_of(heading[rows])]
        return pieces


Ground = Hexagons | Pieces | Keys  # what maps a position to its counted public unit: one H3 lookup, and one in a table


def _turns_of_cells(cell: Int64s, order: Int64s, turns: Turns) -> tuple[Int64s, Int64s, Int64s]:
    """Splits rows of `turns` whose fine cells lie in several region cells, by cell.

    cell, order: of each fine cell in the region, its cell and its index in `turns.row`. Returns each row's cell; each
    fine cell's row, or NOWHERE; and places, (rows, SECTORS).
    """
    row_codes = len(turns.place) + 1  # a row's code is the row + 1, as NOWHERE is -1
    pairs, pair_of_fine = np.unique(cell * row_codes + turns.row[order] + 1, return_inverse=True)
    of_cell, row_code = np.divmod(pairs, row_codes)  # of each pair of region cell and row
    is_row = row_code > 0  # else no heading decides
    row = np.where(is_row, np.cumsum(is_row) - 1, NOWHERE)
    return of_cell[is_row], row[pair_of_fine], turns.place[row_code[is_row] - 1]


def ancestors(cells: Int64s, resolution: int) -> Int64s:
    """Computes H3 cells' ancestors from their indices' bits."""
    # The resolution is in bits 52 to 55; the lowest 45 are 15 digits of 3 bits, all ones where finer than it.
    return (cells & ~(15 << 52)) | (resolution << 52) | ((1 << 3 * (15 - resolution)) - 1)


def hexagon_pieces(region: Sequence[int], resolution: int) -> Pieces:
    """Cuts a region by finer H3 cells. Raises ValueError."""
    coarse = _checked_coarser(region, resolution)
    children = [child for cell in region for child in h3_int.cell_to_children(cell, resolution)]
    fine = np.sort(np.array(children, np.int64))
    places = Places(tuple(texts_of(None, fine)), cell=number_in(np.array(region, np.int64), ancestors(fine, coarse)))
    no_turns = Turns(np.full(fine.size, NOWHERE), np.zeros((0, SECTORS), np.int64))
    return Pieces.cut(region, resolution, fine, np.arange(fine.size), places, no_turns)


def _checked_coarser(region: Sequence[int], resolution: int) -> int:
    """Returns the region's resolution. Raises ValueError if not coarser."""
    coarse: int = h3_int.get_resolution(region[0])
    if not coarse < resolution <= 15:
        raise ValueError(f"places need cells finer than the region's resolution {coarse}; they have {resolution}")
    return coarse


def number_in(ascending: Int64s, cells: Int64s) -> Int64s:
    """Finds cells' indices in an ascending list, or NOWHERE."""
    number = np.minimum(np.searchsorted(ascending, cells), ascending.size - 1)
    return np.where(ascending[number] == cells, number, NOWHERE)


PARENT, GRANDPARENT = 1, 2  # how many resolutions coarser
CITY = "city"  # in the place of a cell, where a row is about the whole region


def hats_of(region: Sequence[int], hours: Sequence[int]) -> PublicHats:
    """Lists a region's HATs, with local hours of slots."""
    if isinstance(region, Keys):  # whose only grandparent is the city
        return PublicHats(parents=region.parents, grandparents=(0,) * len(region), hours=_clock_hours(hours))
    parents, grandparents = (_ancestors(tuple(region), above) for above in (PARENT, GRANDPARENT))  # numbers by cell
    are_small = h3_int.get_resolution(region[0]) >= 8  # from there on, neighbouring cells are nearly alike
    return PublicHats(parents=parents, grandparents=grandparents, hours=_clock_hours(hours), are_small=are_small)


def hats_of_places(places: Places, hours: Sequence[int]) -> PublicHats:
    """Lists places' HATs; each place's parent is its cell."""
    cells = tuple(places.cell.tolist())
    return PublicHats(parents=cells, grandparents=cells, hours=_clock_hours(hours))


def _clock_hours(hours: Sequence[int]) -> tuple[int, ...]:
    """Maps hours of `calendar.hours_of` (24 more on weekends) to the clock's hours."""
    from dpops.learning.releases import HOURS  # who learns nothing begins sooner without it

    return tuple(hour % HOURS for hour in hours)


@lru_cache(maxsize=4)  # a release asks for the same ones at each of its steps
def _ancestors(region: tuple[int, ...], above: int) -> tuple[int, ...]:
    """Numbers each cell's ancestor among the region's, from 0 by ascending index."""
    return tuple(np.unique(_coarser(region, above), return_inverse=True)[1].tolist())


def _coarser(region: Sequence[int], above: int) -> Int64s:
    """Computes each cell's ancestor so many resolutions above, if there are as many."""
    return ancestors(np.array(region, np.int64), max(h3_int.get_resolution(region[0]) - above, 0))


def texts_of(region: Sequence[int] | None, cells: Int64s | None = None) -> list[str]:
    """Names a region's cells or keys, all by default."""
    if isinstance(region, Keys):
        return list(region.names) if cells is None else [region.names[cell] for cell in cells.tolist()]
    return list(map("%x".__mod__, region or () if cells is None else cells.tolist()))


def parent_texts(region: Sequence[int], levels_up: int = PARENT) -> list[str]:
    """Names each cell's ancestor, or each key's group (at PARENT) or CITY (above)."""
    if isinstance(region, Keys):
        return [region.groups[parent] if levels_up == PARENT else CITY for parent in region.parents]
    return texts_of(region, _coarser(region, levels_up))


def design_of(region: Sequence[int]) -> "Design":
    """Gathers what the model knows of a region: neighbours, parents, size of cells."""
    from dpops.learning import Design

    if isinstance(region, Keys):  # names, such as of lines, which have no neighbours
        return Design(parents=np.array(region.parents), neighbours=np.zeros((0, 2), np.int64))
    position_of = {cell: position for position, cell in enumerate(region)}
    pairs = [
        (position, position_of[neighbour])
        for cell, position in position_of.items()
        for neighbour in h3_int.grid_disk(cell, 1)
        if position < position_of.get(neighbour, -1)  # each pair once; -1: outside of the region
    ]
    hats = hats_of(region, hours=[0])  # only facts of cells are taken: any hour does
    return Design(
        parents=np.array(hats.parents, np.int64),
        neighbours=np.array(sorted(pairs), np.int64).reshape(-1, 2),
        are_small=hats.are_small,
    )
