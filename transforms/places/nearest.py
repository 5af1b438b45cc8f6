"""How far lines and areas lie from points, and which way lines run where they are nearest: for many pairs at once.

Of lines of few positions arrays tell it, in the steps of GEOS and in their order (Distance::pointToSegment,
LengthIndexOfPoint, LengthLocationMap): results are those of shapely bit by bit, where its machine code multiplies and
adds in two steps.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpops.types import Float64s, Int64s

Geometries = NDArray[np.object_]

FEW = 48
"""Positions of a line: of more GEOS takes less time."""
_LEAST = np.finfo(np.float64).tiny
"""In the place of nothing, which nothing is divided by."""


class Nearest(NamedTuple):
    """How far points are from shapes, pair by pair, float64 (pairs,), and which way lines run there, (pairs, 2).

    way: metres to the east and north; zeros where a line turns back, and of what has no direction.
    """

    apart_m: Float64s
    way: Float64s


class _Segments(NamedTuple):
    """Segments of lines, line by line, in order.

    first: int64 (lines + 1,), where each line's begin. x, y, end_x, end_y, length_m: float64 (segments,). start_m: how
    far from the line's first position each begins, along it.
    """

    first: Int64s
    x: Float64s
    y: Float64s
    end_x: Float64s
    end_y: Float64s
    length_m: Float64s
    start_m: Float64s


def nearest(
    shapes: Geometries,
    is_directed: NDArray[np.bool_],
    row: Int64s,
    metres: Float64s,
    along_m: float,
) -> Nearest:
    """Measures how far each pair's point is from its shape, and finds the way of a line there.

    shapes: lines and areas on planes of metres. is_directed: of each, whether its way is asked for: a LineString's.
    row, metres: of each pair its shape and its point.

    A line's way is that from `along_m` before the nearest position, the first of several, to as far behind it; less at
    its ends, and of a line that is short.
    """
    import shapely

    is_few = (shapely.get_dimensions(shapes) == 1) & (shapely.get_num_coordinates(shapes) <= FEW)
    few, many = np.flatnonzero(is_few[row]), np.flatnonzero(~is_few[row])
    apart_m, way = np.empty(row.size), np.zeros((row.size, 2))
    segments, number = _segments(shapes[is_few]), np.cumsum(is_few)[row[few]] - 1
    apart_m[few], at_m = _located(segments, number, *metres[few].T)
    ways = np.flatnonzero(is_directed[row[few]])
    way[few[ways]] = _way_of_few(segments, number[ways], at_m[ways], along_m)
    points, line = shapely.points(metres[many]), shapes[row[many]]
    apart_m[many] = shapely.distance(points, line)
    ways = np.flatnonzero(is_directed[row[many]])
    way[many[ways]] = _way_of_many(line[ways], points[ways], along_m)
    return Nearest(apart_m, way)


def _way_of_many(lines: Geometries, points: Geometries, along_m: float) -> Float64s:
    import shapely

    def position(at_m: Float64s) -> Float64s:
        coordinates: Float64s = shapely.get_coordinates(shapely.line_interpolate_point(lines, at_m))
        return coordinates

    return _way(shapely.line_locate_point(lines, points), shapely.length(lines), along_m, position)


def _way_of_few(segments: _Segments, row: Int64s, at_m: Float64s, along_m: float) -> Float64s:
    last = segments.first[1:] - 1
    length_m = (segments.start_m[last] + segments.length_m[last])[row]
    return _way(at_m, length_m, along_m, partial(_position, segments, row))


def _way(at_m: Float64s, length_m: Float64s, along_m: float, position: Callable[[Float64s], Float64s]) -> Float64s:
    """Finds which way each line runs around the position so far along it. position: where what is so far along lies."""
    step_m = np.minimum(along_m, length_m / 4)
    before, behind = (position(np.clip(at_m + step, 0, length_m)) for step in (-step_m, step_m))
    return behind - before


def _segments(lines: Geometries) -> _Segments:
    """Takes lines apart; between the parts of one there is no segment."""
    import shapely

    parts, line = shapely.get_parts(lines, return_index=True)
    positions, part = shapely.get_coordinates(parts, return_index=True)
    rows = np.flatnonzero(np.diff(part) == 0)
    (x, y), (end_x, end_y) = positions[rows].T.copy(), positions[rows + 1].T.copy()
    first = np.searchsorted(line[part[rows]], np.arange(lines.size + 1))
    length_m, start_m = _far(end_x - x, end_y - y), np.zeros(rows.size)
    number = np.diff(first)
    for step in range(1, int(number.max(initial=0))):
        segment = first[:-1][number > step] + step
        start_m[segment] = start_m[segment - 1] + length_m[segment - 1]
    return _Segments(first, x, y, end_x, end_y, length_m, start_m)


def _located(segments: _Segments, row: Int64s, x: Float64s, y: Float64s) -> tuple[Float64s, Float64s]:
    """Finds how far each point is from its line, and how far along it the nearest position is: the first of several."""
    first, number = segments.first[row], np.diff(segments.first)[row]
    least_m, at_m = np.full(row.size, np.inf), np.zeros(row.size)
    for step in range(int(number.max(initial=0))):
        pairs = np.flatnonzero(number > step)
        start_x, start_y, end_x, end_y, length_m, start_m = (column[first[pairs] + step] for column in segments[1:])
        dx, dy, to_x, to_y = end_x - start_x, end_y - start_y, x[pairs] - start_x, y[pairs] - start_y
        square = np.maximum(dx * dx + dy * dy, _LEAST)
        part = (to_x * dx + to_y * dy) / square
        apart_m = np.where(part <= 0, _far(to_x, to_y), np.abs((to_x * dy - to_y * dx) / square) * length_m)
        apart_m = np.where(part >= 1, _far(x[pairs] - end_x, y[pairs] - end_y), apart_m)
        nearer = apart_m < least_m[pairs]
        least_m[pairs[nearer]] = apart_m[nearer]
        at_m[pairs[nearer]] = (start_m + np.clip(part, 0, 1) * length_m)[nearer]
    return least_m, at_m


def _position(segments: _Segments, row: Int64s, at_m: Float64s) -> Float64s:
    """Finds where the position of each line lies that is so far along it, float64 (rows, 2)."""
    first, number = segments.first[row], np.diff(segments.first)[row]
    end_m = segments.start_m + segments.length_m
    passed = np.zeros(row.size, np.int64)
    for step in range(int(number.max(initial=0)) - 1):
        more = np.flatnonzero(number > step + 1)
        passed[more] += end_m[first[more] + step] <= at_m[more]
    x, y, end_x, end_y, length_m, start_m = (column[first + passed] for column in segments[1:])
    part = np.clip((at_m - start_m) / np.maximum(length_m, _LEAST), 0, 1)
    return np.stack([(end_x - x) * part + x, (end_y - y) * part + y], axis=1)


def _far(x: Float64s, y: Float64s) -> Float64s:
    far: Float64s = np.sqrt(x * x + y * y)
    return far
