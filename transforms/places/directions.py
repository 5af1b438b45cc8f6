"""Lines of one direction: which place a report belongs to follows from where it is and from its own heading."""

from typing import NamedTuple

import numpy as np

from dpops.types import Float64s, Int64s
from transforms.places.ground import NOWHERE, SECTORS, Pieces, Turns

ANY_WAY = -1
"""In the place of a bearing, where a place is of all headings."""
NO_WAY = -2
"""Likewise, where a line turns back on itself: it is of no heading there."""
FITS_DEGREES = 60
"""A heading fits a line whose own direction differs by at most so much."""
ALONG_M = 10.0
"""A line's direction is that between points so far before and behind."""
_EVERY = (1 << SECTORS) - 1


class Near(NamedTuple):
    """Which places lie near fine cells: int64 (pairs,) each, by cell, the nearest place first.

    bearing: which way the place runs there, whole degrees clockwise from north, or ANY_WAY or NO_WAY.
    """

    cell: Int64s
    place: Int64s
    bearing: Int64s


class Shared(NamedTuple):
    """cell: int64 (cells,), fine cells, each once, sorted. place: of a report without a heading, or NOWHERE."""

    cell: Int64s
    place: Int64s
    turns: Turns


def bearings(way: Float64s) -> Int64s:
    """Computes whole degrees of each way, float64 (ways, 2) to the east and north; NO_WAY where it leads nowhere."""
    x, y = way.T
    return np.where((x == 0) & (y == 0), NO_WAY, np.rint(np.degrees(np.arctan2(x, y))) % 360).astype(np.int64)


def shared(near: Near) -> Shared:
    """Finds each fine cell's place, by heading where it has lines of one direction.

    A report belongs to the nearest of the places that its heading fits. Without a heading it belongs to none that is
    of one direction: standing vehicles would be taken for those that come the other way.
    """
    every = np.flatnonzero(np.diff(near.cell, prepend=NOWHERE))
    cell = near.cell[every]
    of_cell = np.repeat(np.arange(cell.size), np.diff(every, append=near.cell.size))
    masks = _masks()[near.bearing]
    place = np.full(cell.size, NOWHERE)
    _set_first(place, of_cell, near.place, near.bearing == ANY_WAY)
    is_directed = np.bincount(of_cell, near.bearing != ANY_WAY, cell.size) > 0
    rows = np.flatnonzero(is_directed[of_cell])
    code = _codes(np.cumsum(is_directed)[of_cell[rows]] - 1, near.place[rows] << SECTORS | masks[rows])
    _, first, number = np.unique(code, return_index=True, return_inverse=True)
    of = np.full(cell.size, NOWHERE)
    of[is_directed] = number
    table = np.full((first.size, SECTORS), NOWHERE)
    kind = np.full(cell.size, NOWHERE)
    kind[np.flatnonzero(is_directed)[first]] = np.arange(first.size)
    chosen = np.flatnonzero(kind[of_cell] != NOWHERE)
    for sector in range(SECTORS):
        fits = masks[chosen] >> sector & 1 == 1
        _set_first(table[:, sector], kind[of_cell[chosen]], near.place[chosen], fits)
    return Shared(cell, place, Turns(of, table))


def cells_by_place(shared: Shared, region_cell: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """Pairs cells of a region with places, and counts how many fine cells both have in common, by whatever heading.

    region_cell: int64 (fine cells,), which cell of a region each lies in; NOWHERE outside.
    """
    inside = region_cell != NOWHERE
    of, table = shared.turns
    row, place, _ = pairs_of(np.repeat(np.arange(len(table)), SECTORS), table.ravel())
    row, place = row[place != NOWHERE], place[place != NOWHERE]
    turning, plain = inside & (of != NOWHERE), inside & (of == NOWHERE)
    turning_cell, turn, cells = pairs_of(region_cell[turning], of[turning])
    start = np.searchsorted(row, turn)
    size = np.searchsorted(row, turn, side="right") - start
    chosen = np.repeat(start, size) + np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)
    plain_cell, plain_place, count = pairs_of(region_cell[plain], shared.place[plain])
    return (
        np.concatenate([np.repeat(turning_cell, size), plain_cell]),
        np.concatenate([place[chosen], plain_place]),
        np.concatenate([np.repeat(cells, size), count]),
    )


def fine_cells_of(pieces: Pieces) -> Int64s:
    """Counts the fine cells of the region that belong to each place, by whatever heading; at least 1."""
    rows = len(pieces.by_heading)
    row, piece, _ = pairs_of(np.repeat(np.arange(rows), SECTORS), pieces.by_heading.ravel())
    plain = pieces.piece[pieces.turn == NOWHERE]
    place = pieces.place[np.concatenate([plain, piece])]
    turning = np.bincount(pieces.turn[pieces.turn != NOWHERE], minlength=rows)
    times = np.concatenate([np.ones(plain.size, np.int64), turning[row]])
    cells = np.bincount(place[place != NOWHERE], times[place != NOWHERE], len(pieces.places.names))
    return np.maximum(cells.astype(np.int64), 1)


def pairs_of(one: Int64s, other: Int64s, times: Int64s | None = None) -> tuple[Int64s, Int64s, Int64s]:
    """Lists the pairs of two columns, each once, sorted by the one, then by the other; and counts each.

    Numbers are from NOWHERE to 2^31. times: how often each row counts, if not once.
    """
    code, number = np.unique((one - NOWHERE) << 32 | (other - NOWHERE), return_inverse=True)
    count = np.bincount(number, times, code.size).astype(np.int64)
    return (code >> 32) + NOWHERE, (code & 0xFFFFFFFF) + NOWHERE, count


def _masks() -> Int64s:
    """Sets bits of sectors whose middle fits each bearing: at 0 to 359 degrees, then (-2, -1) NO_WAY and ANY_WAY."""
    half_degrees = np.abs((2 * np.arange(360)[:, None] - 720 // SECTORS * np.arange(SECTORS) + 360) % 720 - 360)
    bits = (half_degrees <= 2 * FITS_DEGREES) @ (1 << np.arange(SECTORS))
    return np.concatenate([bits, [0, _EVERY]])


def _set_first(target: Int64s, entry: Int64s, value: Int64s, fits: "np.typing.NDArray[np.bool_]") -> None:
    """Sets each entry of the target to the first value that fits. entry: of each value; equal ones lie together."""
    entry, value = entry[fits], value[fits]
    first = np.flatnonzero(np.diff(entry, prepend=NOWHERE))
    target[entry[first]] = value[first]


def _codes(cell: Int64s, value: Int64s) -> Int64s:
    """Numbers cells, those alike that have the same values in the same order. cell: of each value, rising."""
    label = np.unique(value, return_inverse=True)[1]
    first = np.flatnonzero(np.diff(cell, prepend=NOWHERE))
    size = np.diff(first, append=cell.size)
    code, used = np.zeros(first.size, np.int64), 1
    for number in range(int(size.max(initial=0))):
        more = np.flatnonzero(size > number)
        longer = code[more] * (label.size + 1) + label[first[more] + number]
        again = np.unique(longer, return_inverse=True)[1]
        code[more] = used + again
        used += again.size
    return code
