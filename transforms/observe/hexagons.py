"""H3 cells of positions, mostly from remembered squares.

A square of 2^k by 2^k steps of 1e-7 degrees counts as inside a cell if the four corners of a larger one do, half as
wide again from south to north, twice as wide from west to east. That is enough. The edges of a cell are arcs of great
circles, and it is convex but where they cross an edge of H3's icosahedron: there they turn by 22.7 degrees at most, so
that what lies outside fills an angle of 157 degrees or more, seen from the turn. Up to 70 degrees of latitude, two
neighbouring corners are less than 155 degrees apart, seen from any point of the square: a turn inside it would show at
a corner. (A parallel is no great circle, but strays from one by less than a hundredth of the side.) All that is nearer
to a pole or at the 180th meridian is left to H3.
"""

from functools import cache
from itertools import repeat
from typing import NamedTuple

import h3
import h3.api.basic_int as h3_int
import numpy as np
from numpy.typing import NDArray

from dpops.types import Int64s

OUTSIDE_REGION = "outside-region"


FEW_POSITIONS = 256  # below, H3 is asked at once
OFTEN = 3  # a square is learnt, which asks H3 for four corners, when so many positions have been in its bucket
BUCKET_BITS = 19  # a hash table has 2**19 buckets
FARTHEST_E7, WIDEST_E7 = 700_000_000, 1_800_000_000
KM_PER_E7 = 1.112e-5  # of a great circle
SQUARES_AN_EDGE = 3, 12, 48
"""Squares along the edge of a cell: a few coarse ones hold most positions, finer ones most of those near edges."""
MOST_BITS = 22  # of a side, 47 km: parallels would stray too far from great circles in larger squares

_SHIFT_E7 = 1 << 32  # makes every coordinate positive; sides are of 4 steps at least, so a key is below 2^63
_HASH_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # 2**64 over the golden ratio: Fibonacci hashing (Knuth, volume 3, 6.4)
_UNKNOWN, _NO_CELL = -1, 0


class _SquareTable(NamedTuple):
    """Squares of one size and their cells, in a write-once hash table."""

    resolution: int  # of the cells
    bits: int  # of the side, which is 2**bits steps of 1e-7 degrees
    key: Int64s  # square by bucket, or _UNKNOWN
    cell: Int64s  # by bucket, written before the key: the square's cell, or _NO_CELL if it lies in several
    met: NDArray[np.uint8]  # positions in a free bucket's squares, up to OFTEN


def cells_at(lat_e7: Int64s, lon_e7: Int64s, resolution: int) -> Int64s:
    """Finds H3 cells of positions in 1e-7 degrees, asking H3 near their edges."""
    if lat_e7.size < FEW_POSITIONS:
        return cells_by_h3(lat_e7, lon_e7, resolution)
    cells = np.full(lat_e7.size, _NO_CELL, np.int64)
    rows: slice | Int64s = slice(None)  # all
    for table in _tables(resolution):
        cells[rows] = _remembered(table, lat_e7[rows], lon_e7[rows])
        rows = np.flatnonzero(cells == _NO_CELL)
        if rows.size == 0:
            return cells
    cells[rows] = cells_by_h3(lat_e7[rows], lon_e7[rows], resolution)
    return cells


def cells_by_h3(lat_e7: Int64s, lon_e7: Int64s, resolution: int) -> Int64s:
    """Asks H3 for the cell of each position in 1e-7 degrees."""
    lat, lon = (lat_e7 / 1e7).tolist(), (lon_e7 / 1e7).tolist()
    return np.fromiter(map(h3_int.latlng_to_cell, lat, lon, repeat(resolution)), np.int64, len(lat))


@cache
def _tables(resolution: int) -> tuple[_SquareTable, ...]:
    """Creates empty tables of coarse to fine squares, sides powers of 2."""
    edge_e7 = h3.average_hexagon_edge_length(resolution, unit="km") / KM_PER_E7
    sides = (edge_e7 / number for number in SQUARES_AN_EDGE if edge_e7 / number >= 4)  # at least 4: see _SHIFT_E7
    sizes = dict.fromkeys(min(int(np.log2(side)), MOST_BITS) for side in sides)
    key, cell = np.full(1 << BUCKET_BITS, _UNKNOWN, np.int64), np.zeros(1 << BUCKET_BITS, np.int64)
    return tuple(_SquareTable(resolution, bits, key.copy(), cell.copy(), met=cell.astype(np.uint8)) for bits in sizes)


def _remembered(table: _SquareTable, lat_e7: Int64s, lon_e7: Int64s) -> Int64s:
    """Looks up cells by square, else _NO_CELL, and learns frequent squares."""
    row, column = (lat_e7 + _SHIFT_E7) >> table.bits, (lon_e7 + _SHIFT_E7) >> table.bits
    squares = (row << 32) | column  # never below 0
    cell, is_known = _cells_of(table, squares)
    unknown = np.flatnonzero(~is_known)
    if unknown.size and _learn(table, squares[unknown]):
        cell[unknown], _ = _cells_of(table, squares[unknown])  # those that were learnt are known now
    return cell


def _buckets(square: Int64s) -> Int64s:
    mixed: NDArray[np.uint64] = square.view(np.uint64) * _HASH_FACTOR
    return (mixed >> np.uint64(64 - BUCKET_BITS)).view(np.int64)


def _cells_of(table: _SquareTable, squares: Int64s) -> tuple[Int64s, NDArray[np.bool_]]:
    """Looks up squares' cells, _NO_CELL if unknown; marks the known ones."""
    bucket = _buckets(squares)
    is_known = table.key[bucket] == squares
    return np.where(is_known, table.cell[bucket], _NO_CELL), is_known


def _learn(table: _SquareTable, key: Int64s) -> bool:
    """Counts positions in unknown squares, and stores cells of frequent ones; False for none."""
    key = key[table.key[_buckets(key)] == _UNKNOWN]
    squares, positions = np.unique(key, return_counts=True)
    bucket, first = np.unique(_buckets(squares), return_index=True)  # of several squares in a bucket, one is counted
    squares = squares[first]
    counts = np.minimum(table.met[bucket] + positions[first], OFTEN)  # of positions so far; no more is counted
    table.met[bucket] = counts
    bucket, squares = bucket[counts == OFTEN], squares[counts == OFTEN]
    if not squares.size:
        return False
    table.cell[bucket] = _cell_around(table, squares)
    table.key[bucket] = squares  # last: who finds the key finds the cell too, in any thread
    return True


def _cell_around(table: _SquareTable, squares: Int64s) -> Int64s:
    """Finds the cell that contains each square and a margin; _NO_CELL if several."""
    side = 1 << table.bits
    high, wide = -(-side // 4), -(-side // 2)  # margins on each side, rounded up: 1.5 by 2 sides in all
    # A square's number has its row from the south in the upper 32 bits, its column from the west in the lower.
    south = ((squares >> 32) << table.bits) - _SHIFT_E7 - high
    west = ((squares & 0xFFFFFFFF) << table.bits) - _SHIFT_E7 - wide
    north, east = south + side + 2 * high, west + side + 2 * wide
    is_regular = (south >= -FARTHEST_E7) & (north <= FARTHEST_E7) & (west >= -WIDEST_E7) & (east <= WIDEST_E7)
    corners = [(south, west), (south, east), (north, west), (north, east)]
    lat_lon = (np.where(is_regular, corner, 0) for corner in corners)
    cells = [cells_by_h3(lat, lon, table.resolution) for lat, lon in lat_lon]
    is_in_one = is_regular & np.logical_and.reduce([corner == cells[0] for corner in cells[1:]])
    return np.where(is_in_one, cells[0], _NO_CELL)
