"""Which fine cells lie in public shapes, how far from their lines, and which way these run there."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

import h3
import h3.api.basic_int as h3_int
import numpy as np
from numpy.typing import NDArray

from dpops.types import Float64s, Int64s
from transforms.places.directions import ALONG_M, ANY_WAY, Near, bearings

FINE = 12
"""Resolution of the cells that a file's places are made of: edges of 9 m."""
AT_ONCE = 4_000
"""Shapes: of more, what H3 finds for them would take much memory."""
_CORNERS, _WIDER = 3, 1.15
"""Of a quarter of a circle; an outline of so few, whose chords span 45 degrees at most, is made so much wider to hold
all that lies near a line."""


Geometries = NDArray[np.object_]
Report = Callable[[int, int], None]
"""Called with how many shapes are done, and how many there are: now and then, where there are many."""


class Shapes(NamedTuple):
    """Lines and areas on planes of metres, an entry each.

    line: what distances are from. area: where fine cells belong to it: with what lies near a line. scale: float64
    (shapes, 2), metres of a degree of longitude and latitude on its plane. reach_m: how far from a line its area goes;
    0 of areas. is_directed: whether a line is of those alone who drive in the order of its positions.
    """

    line: Geometries
    area: Geometries
    scale: Float64s
    reach_m: Float64s
    is_directed: NDArray[np.bool_]

    def some(self, rows: Int64s) -> "Shapes":
        line, area, scale, reach_m, is_directed = self
        return Shapes(line[rows], area[rows], scale[rows], reach_m[rows], is_directed[rows])


def unheard(_done: int, _whole: int) -> None:
    """Ignores progress that nobody wants to see."""


def near(shapes: Shapes, report: Report = unheard) -> Near:
    """Finds the fine cells whose centres lie in each shape's area; those of several by distance, then in their order.

    Distances are in whole metres.
    """
    twin = _twins(shapes)
    order = np.argsort(twin, kind="stable")
    parts = []
    for first in range(0, order.size, AT_ONCE):
        rows = order[first : first + AT_ONCE]
        cell, row, apart_m, bearing = _cells_of(shapes.some(rows), twin[rows])
        parts.append((cell, rows[row].astype(np.int32), apart_m, bearing))
        if order.size > AT_ONCE:
            report(first + rows.size, order.size)
    cell, place, apart_m, bearing = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    order = np.lexsort((place, apart_m, cell))
    return Near(cell[order], place[order].astype(np.int64), bearing[order].astype(np.int64))


def _twins(shapes: Shapes) -> Int64s:
    """Finds for each shape the first that is the same line, even in reverse, with equal reach: itself, if none is."""
    import shapely

    texts = zip(shapely.to_wkb(shapely.normalize(shapes.line)).tolist(), shapes.reach_m.tolist(), strict=True)
    first: dict[tuple[bytes, float], int] = {}
    return np.array([first.setdefault(text, number) for number, text in enumerate(texts)], np.int64)


def _cells_of(shapes: Shapes, twin: Int64s) -> tuple[Int64s, Int64s, Int64s, Int64s]:
    """Finds fine cells, which of the shapes each is in, how far it is from its line, and which way that runs there."""
    import shapely

    cell, row = _candidates(shapes, twin)
    fine, number = np.unique(cell, return_inverse=True)
    centres = np.array([h3_int.cell_to_latlng(one) for one in fine.tolist()], np.float64).reshape(-1, 2)[:, ::-1]
    metres = centres[number] * shapes.scale[row]
    is_inside = (shapes.reach_m[row] == 0) | shapely.contains_xy(shapes.area[row], *metres.T)
    cell, row, metres = cell[is_inside], row[is_inside], metres[is_inside]
    apart_m, way = nearest(shapes.line, shapes.is_directed, row, metres)
    bearing = np.where(shapes.is_directed[row], bearings(way), ANY_WAY)
    return cell, row, np.rint(apart_m).astype(np.int16), bearing.astype(np.int16)


class Nearest(NamedTuple):
    """How far points are from shapes, pair by pair, float64 (pairs,), and which way lines run there, (pairs, 2).

    way: metres to the east and north; zeros where a line turns back, and of what has no direction.
    """

    apart_m: Float64s
    way: Float64s


def nearest(shapes: Geometries, is_directed: NDArray[np.bool_], row: Int64s, metres: Float64s) -> Nearest:
    """Measures how far each pair's point is from its shape, and finds the way of a line there.

    shapes: lines and areas on planes of metres. is_directed: of each, whether its way is asked for: a LineString's.
    row, metres: of each pair its shape and its point.

    A line's way is that from ALONG_M before the nearest position, the first of several, to as far behind it; less at
    its ends, and of a line that is short.
    """
    import shapely

    points, line, way = shapely.points(metres), shapes[row], np.zeros((row.size, 2))
    ways = np.flatnonzero(is_directed[row])
    lines = line[ways]
    at_m, length_m = shapely.line_locate_point(lines, points[ways]), shapely.length(lines)
    step_m = np.minimum(ALONG_M, length_m / 4)
    before, behind = (
        shapely.get_coordinates(shapely.line_interpolate_point(lines, np.clip(at_m + step, 0, length_m)))
        for step in (-step_m, step_m)
    )
    way[ways] = behind - before
    return Nearest(shapely.distance(points, line), way)


def _candidates(shapes: Shapes, twin: Int64s) -> tuple[Int64s, Int64s]:
    """Pairs fine cells with shapes: of areas those inside, by H3; of a line more than lie near it. Twins share them.

    twin: of each shape; equal ones lie together.
    """
    import shapely

    is_first = np.diff(twin, prepend=-1) != 0
    first = np.flatnonzero(is_first)
    outline = shapes.area[first]
    is_line = shapes.reach_m[first] > 0
    lines = first[is_line]
    outline[is_line] = shapely.buffer(shapes.line[lines], _WIDER * shapes.reach_m[lines], quad_segs=_CORNERS)
    parts, part_of = shapely.get_parts(outline, return_index=True)
    cells_of_parts = [
        np.array(h3_int.h3shape_to_cells(polygon, FINE), np.int64)
        for polygon in _polygons(parts, shapes.scale[first][part_of])
    ]
    size = np.array([cells.size for cells in cells_of_parts])
    part_first = np.append(0, np.cumsum(size))[np.searchsorted(part_of, np.arange(first.size + 1))]
    group = np.cumsum(is_first) - 1
    cells = np.concatenate(cells_of_parts)
    return (
        np.concatenate([cells[part_first[number] : part_first[number + 1]] for number in group.tolist()]),
        np.repeat(np.arange(twin.size), np.diff(part_first)[group]),
    )


def _polygons(metres: Geometries, scale: Float64s) -> Iterator[h3.LatLngPoly]:
    """Yields polygons as H3 has them. scale: of each."""
    import shapely

    rings, of = shapely.get_rings(metres, return_index=True)
    positions, ring_of = shapely.get_coordinates(rings, return_index=True)
    degrees = (positions / scale[of[ring_of]])[:, ::-1].tolist()
    ring_first = np.searchsorted(ring_of, np.arange(rings.size + 1))
    for first, end in pairwise(np.searchsorted(of, np.arange(metres.size + 1)).tolist()):
        yield h3.LatLngPoly(*(degrees[ring_first[ring] : ring_first[ring + 1]] for ring in range(first, end)))
