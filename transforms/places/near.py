"""Assignment of fine cells to the nearest public shapes.

A fine cell belongs to shapes (lines or areas, a place each) that contain its centre or pass near it. A bearing is the
direction of a one-way line there; a sector is a sixteenth of all headings. A twin is the first of equal shapes.
`np.flatnonzero(np.diff(column, prepend=-1))` is where each run of equal values begins. NOWHERE, -1: no place.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import h3.api.basic_int as h3_int
import numpy as np
from numpy.typing import NDArray

from dpops.types import Float64s, Int64s
from transforms.places.ground import NOWHERE, SECTORS, Pieces, Turns

ANY_WAY = -1  # in the place of a bearing, where a place is of all headings
NO_WAY = -2  # likewise, where a line turns back on itself: it is of no heading there
FITS_DEGREES = 60  # a heading fits a line whose own direction differs by at most so much
ALONG_M = 10.0  # a line's direction is that between points so far before and behind


class NearPairs(NamedTuple):
    """Pairs of fine cell and place, ascending by cell, its nearest first; (pairs,)."""

    cell: Int64s
    place: Int64s
    bearing: Int64s  # degrees from north, ANY_WAY or NO_WAY


class CellPlaces(NamedTuple):
    """The place of each fine cell, in ascending order; by heading where that decides."""

    cell: Int64s  # int64 (cells,)
    place: Int64s  # without a heading, or NOWHERE
    turns: Turns


def places_of_cells(near: NearPairs) -> CellPlaces:
    """Assigns fine cells their nearest places, also by heading.

    Without a heading a report belongs to no one-way line: it could stand there, or have come the other way.
    """
    first_pair = np.flatnonzero(np.diff(near.cell, prepend=NOWHERE))  # of each cell, with its nearest place
    cell = near.cell[first_pair]
    of_cell = np.repeat(np.arange(cell.size), np.diff(first_pair, append=near.cell.size))  # each pair's cell
    # A mask has a bit for each sector that fits a bearing: none for NO_WAY, -2, all for ANY_WAY, -1: the last indices.
    centres = 720 // SECTORS * np.arange(SECTORS)  # of sectors, in half degrees: they may lie between whole ones
    half_degrees = np.abs((2 * np.arange(360)[:, None] - centres + 360) % 720 - 360)  # of bearings from centres
    mask_of_bearing = (half_degrees <= 2 * FITS_DEGREES) @ (1 << np.arange(SECTORS))  # 0 to 359 degrees
    masks = np.append(mask_of_bearing, [0, (1 << SECTORS) - 1])[near.bearing]  # of each pair
    # Without a heading: the nearest place of all headings.
    place = np.full(cell.size, NOWHERE)
    _set_first(place, of_cell, near.place, near.bearing == ANY_WAY)  # fills `place` by cell
    is_directed = np.bincount(of_cell, near.bearing != ANY_WAY, cell.size) > 0
    # With a heading: by a table, for cells with any one-way line. Those with equal lists of pairs (place, mask), each
    # packed into an integer, share a row, which the first of them fills.
    directed_cells = np.flatnonzero(is_directed)
    directed_pairs = np.flatnonzero(is_directed[of_cell])
    directed_number = (np.cumsum(is_directed) - 1)[of_cell[directed_pairs]]  # each such pair's index of its cell
    code = _codes(directed_number, near.place[directed_pairs] << SECTORS | masks[directed_pairs])
    _, first_index, table_row = np.unique(code, return_index=True, return_inverse=True)  # of `directed_cells`
    turn_row = np.full(cell.size, NOWHERE)  # each cell's row of `table`
    turn_row[is_directed] = table_row
    table = np.full((first_index.size, SECTORS), NOWHERE)
    row_of_first = np.full(cell.size, NOWHERE)  # the row that a cell fills: only the first cell of each row does
    row_of_first[directed_cells[first_index]] = np.arange(first_index.size)
    pairs = np.flatnonzero(row_of_first[of_cell] != NOWHERE)  # of those cells
    for sector in range(SECTORS):  # fills a column of the table: each row's nearest place that fits the sector
        _set_first(table[:, sector], row_of_first[of_cell[pairs]], near.place[pairs], masks[pairs] >> sector & 1 == 1)
    return CellPlaces(cell, place, Turns(turn_row, table))


def cells_by_place(places: CellPlaces, region_cell: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """Pairs places with region cells, counting fine cells.

    region_cell: of each fine cell, or NOWHERE. Returns place, region cell and number, int64 (pairs,) each. A fine cell
    with places by heading counts for each of them.
    """
    inside = region_cell != NOWHERE
    turn_row, by_heading = places.turns  # each fine cell's row of places, or NOWHERE; places, (rows, SECTORS)
    table = np.sort(by_heading, axis=1)
    table[:, 1:][table[:, 1:] == table[:, :-1]] = NOWHERE  # each place of a row once
    turning, plain = inside & (turn_row != NOWHERE), inside & (turn_row == NOWHERE)  # by heading, or not
    turning_cell, row, turning_count = pairs_of(region_cell[turning], turn_row[turning])  # distinct pairs, counted
    plain_cell, plain_place, plain_count = pairs_of(region_cell[plain], places.place[plain])
    place = np.concatenate([table[row].ravel(), plain_place])
    cell = np.concatenate([np.repeat(turning_cell, SECTORS), plain_cell])
    count = np.concatenate([np.repeat(turning_count, SECTORS), plain_count])
    is_place = place != NOWHERE
    return pairs_of(place[is_place], cell[is_place], times=count[is_place])


def fine_cells_of(pieces: Pieces) -> Int64s:
    """Counts each place's fine cells, those of any heading included; at least 1."""
    turns = Turns(pieces.heading_row, pieces.place[pieces.by_heading])
    places_by_cell = CellPlaces(pieces.fine, pieces.place[pieces.piece], turns)
    place, _, number = cells_by_place(places_by_cell, np.zeros(pieces.fine.size, np.int64))  # as if all in one cell
    cells = np.ones(len(pieces.places.names), np.int64)  # sizes scale expected weights, which stay above 0
    cells[place] = number
    return cells


def pairs_of(first: Int64s, second: Int64s, times: Int64s | None = None) -> tuple[Int64s, Int64s, Int64s]:
    """Counts the distinct pairs of two columns, in order; times: weights of rows."""
    # Both in one integer, from 0 on, as NOWHERE is -1.
    code, number = np.unique((first - NOWHERE) << 32 | (second - NOWHERE), return_inverse=True)
    count = np.bincount(number, times, code.size).astype(np.int64)
    return (code >> 32) + NOWHERE, (code & 0xFFFFFFFF) + NOWHERE, count


def _set_first(target: Int64s, entry: Int64s, value: Int64s, fits: NDArray[np.bool_]) -> None:
    """Sets target[i] to the first fitting value whose `entry` is i; entries ascend."""
    entry, value = entry[fits], value[fits]
    first = np.flatnonzero(np.diff(entry, prepend=NOWHERE))
    target[entry[first]] = value[first]


def _codes(cell: Int64s, value: Int64s) -> Int64s:
    """Numbers cells' lists of values, equal lists alike; a cell's entries follow one another.

    One position of the lists at a time: a cell's number so far and its next value make the next number.
    """
    label = np.unique(value, return_inverse=True)[1]
    first = np.flatnonzero(np.diff(cell, prepend=NOWHERE))
    length = np.diff(first, append=cell.size)
    code, next_code = np.zeros(first.size, np.int64), 1  # 0: of an empty list
    for position in range(int(length.max(initial=0))):
        rows = np.flatnonzero(length > position)
        longer = code[rows] * (label.size + 1) + label[first[rows] + position]  # (code, label) in one integer
        number = np.unique(longer, return_inverse=True)[1]
        code[rows] = next_code + number
        next_code += number.size
    return code


FINE_RES = 12  # H3 resolution of the cells that a file's places are made of: edges of 9 m
AT_ONCE = 4_000  # shapes: of more, what H3 finds for them would take much memory
_CORNERS, _WIDER = 3, 1.15
"""Segments of a quarter of an outline's circles, and its factor of width: so wide, even so few hold all that lies near
a line, as chords of 45 degrees at most reach cos(22.5 degrees) = 0.92 of the radius."""


Geometries = NDArray[np.object_]
Report = Callable[[int, int], None]  # called now and then with how many shapes are done, of how many


class Shapes(NamedTuple):
    """Lines and areas in metres, one entry each."""

    line: Geometries
    area: Geometries  # of a line: what lies within reach_m of it
    scale: Float64s  # float64 (shapes, 2): metres per degree of longitude and latitude
    reach_m: Float64s  # 0 for areas
    is_directed: NDArray[np.bool_]  # line driven in the order of its positions


def ignore(_done: int, _whole: int) -> None:
    """Ignores progress that nobody wants to see."""


def near_pairs(shapes: Shapes, report: Report = ignore) -> NearPairs:
    """Pairs fine cells with the shapes in whose areas their centres lie, nearest first."""
    import shapely

    outlines = zip(shapely.to_wkb(shapely.normalize(shapes.line)).tolist(), shapes.reach_m.tolist(), strict=True)
    first_row: dict[tuple[bytes, float], int] = {}  # by line and reach
    twin = np.array([first_row.setdefault(outline, row) for row, outline in enumerate(outlines)], np.int64)
    order = np.argsort(twin, kind="stable")  # equal shapes lie together, so that a part asks once for their cells
    chunks = []
    for first in range(0, order.size, AT_ONCE):
        rows = order[first : first + AT_ONCE]
        part = Shapes._make(column[rows] for column in shapes)
        cell, row, apart_m, bearing = _cells_of(part, twin[rows])
        chunks.append((cell, rows[row].astype(np.int32), apart_m, bearing))  # narrow until sorted: there are millions
        if order.size > AT_ONCE:
            report(first + rows.size, order.size)  # progress: shapes done, of how many
    cell, place, apart_m, bearing = (np.concatenate(columns) for columns in zip(*chunks, strict=True))
    order = np.lexsort((place, apart_m, cell))
    return NearPairs(cell[order], place[order].astype(np.int64), bearing[order].astype(np.int64))


def _cells_of(shapes: Shapes, twin: Int64s) -> tuple[Int64s, Int64s, Int64s, Int64s]:
    """Pairs fine cells with shapes around their centre: cell, row, distance (m), bearing."""
    import shapely

    cell, row = _candidates(shapes, twin)
    fine, number = np.unique(cell, return_inverse=True)
    centres = np.array([h3_int.cell_to_latlng(index) for index in fine.tolist()], np.float64).reshape(-1, 2)[:, ::-1]
    metres = centres[number] * shapes.scale[row]  # (pairs, 2): east and north
    # Candidates of areas (reach 0) have their centre inside; those of lines are from outlines wider than their reach.
    is_inside = (shapes.reach_m[row] == 0) | shapely.contains_xy(shapes.area[row], *metres.T)
    cell, row, metres = cell[is_inside], row[is_inside], metres[is_inside]
    apart_m, way = nearest(shapes.line, shapes.is_directed, row, metres)  # way: of the line there, east and north
    from_north = np.rint(np.degrees(np.arctan2(*way.T))) % 360
    bearing = np.select([~shapes.is_directed[row], ~way.any(axis=1)], [ANY_WAY, NO_WAY], from_north)
    return cell, row, np.rint(apart_m).astype(np.int16), bearing.astype(np.int16)  # narrow: there are millions of pairs


def nearest(
    shapes: Geometries, is_directed: NDArray[np.bool_], row: Int64s, metres: Float64s
) -> tuple[Float64s, Float64s]:
    """Measures points' distances from shapes, and lines' directions.

    The direction, east and north, leads from ALONG_M before the nearest position to as far behind it, less at ends and
    on short lines; 0 elsewhere. row, metres: each pair's shape and point.
    """
    import shapely

    points, shape, direction = shapely.points(metres), shapes[row], np.zeros((row.size, 2))  # of pairs
    line_pairs = np.flatnonzero(is_directed[row])
    lines = shape[line_pairs]
    at_m, length_m = shapely.line_locate_point(lines, points[line_pairs]), shapely.length(lines)
    step_m = np.minimum(ALONG_M, length_m / 4)  # a short line's direction is that of its middle half
    start, behind = (
        shapely.get_coordinates(shapely.line_interpolate_point(lines, np.clip(at_m + step, 0, length_m)))
        for step in (-step_m, step_m)
    )
    direction[line_pairs] = behind - start
    return shapely.distance(points, shape), direction


def _candidates(shapes: Shapes, twin: Int64s) -> tuple[Int64s, Int64s]:
    """Pairs fine cells in areas and around lines with shapes' rows.

    twin: of each shape, ascending; equal shapes take the cells of the first. Returns cells and rows, (pairs,).
    """
    import shapely

    is_first = np.diff(twin, prepend=-1) != 0
    first = np.flatnonzero(is_first)
    outline = shapes.area[first]
    is_line = shapes.reach_m[first] > 0
    lines = first[is_line]  # outlined wider than their reach: with few corners an outline would cut off cells within
    outline[is_line] = shapely.buffer(shapes.line[lines], _WIDER * shapes.reach_m[lines], quad_segs=_CORNERS)
    polygons, outline_of_polygon = shapely.get_parts(outline, return_index=True)
    metres, polygon_of = shapely.get_coordinates(polygons, return_index=True)
    degrees = shapely.set_coordinates(polygons, metres / shapes.scale[first][outline_of_polygon[polygon_of]])
    cells_of_polygon = [np.array(h3_int.geo_to_cells(polygon, FINE_RES), np.int64) for polygon in degrees]
    first_polygon = np.searchsorted(outline_of_polygon, np.arange(first.size + 1)).tolist()  # of each outline
    cells_of_outline = [np.concatenate(cells_of_polygon[start:end]) for start, end in pairwise(first_polygon)]
    cells_of_row = [cells_of_outline[number] for number in (np.cumsum(is_first) - 1).tolist()]
    return np.concatenate(cells_of_row), np.repeat(np.arange(twin.size), [cells.size for cells in cells_of_row])
