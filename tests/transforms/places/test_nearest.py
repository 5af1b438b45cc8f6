"""Distances from lines and ways along them, asked for in arrays: shapely says the same of each pair, bit by bit."""

import numpy as np
import pytest
import shapely

from transforms.places.near import ALONG_M, nearest

OFFSET_M = np.array([-8_234_567.25, 4_526_091.5])
"""As far from the origin as a city's plane."""


def lines_of(seed, number=80):
    """Random walks, streets in right angles, ways out and back on themselves, and positions that come twice."""
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(number):
        positions, step_m = int(rng.choice([2, 3, 5, 12, 48, 49])), rng.choice([0.1, 4, 60])
        walk = np.cumsum(rng.normal(0, step_m, (positions, 2)), axis=0)
        square = np.cumsum(np.eye(2)[rng.integers(0, 2, positions)] * step_m, axis=0)
        there_and_back = np.concatenate([walk, walk[::-1]])
        kinds = [walk, square, there_and_back, np.repeat(walk, 2, axis=0), np.concatenate([walk, walk[:1]])]
        lines.append(shapely.LineString(kinds[rng.integers(5)] + OFFSET_M))
    return np.array(lines)


def pairs_of(lines, seed, points=40):
    """Points beside each line, and its own positions, where two segments are equally near."""
    rng = np.random.default_rng(seed)
    row = np.repeat(np.arange(lines.size), points)
    positions = shapely.get_coordinates(
        shapely.line_interpolate_point(lines[row], rng.random(row.size), normalized=True)
    )
    metres = positions + rng.normal(0, 15, positions.shape) * (rng.random(row.size) < 0.7)[:, None]
    own, of = shapely.get_coordinates(lines, return_index=True)
    return np.concatenate([row, of]), np.concatenate([metres, own])


def said_by_shapely(lines, row, metres):
    points, line = shapely.points(metres), lines[row]
    at_m, length_m = shapely.line_locate_point(line, points), shapely.length(line)
    step_m = np.minimum(ALONG_M, length_m / 4)
    before, behind = (
        shapely.get_coordinates(shapely.line_interpolate_point(line, np.clip(at_m + step, 0, length_m)))
        for step in (-step_m, step_m)
    )
    return shapely.distance(points, line), behind - before


@pytest.mark.parametrize("seed", range(5))
def test_distances_and_ways_are_those_of_shapely(seed):
    lines = lines_of(seed)
    row, metres = pairs_of(lines, seed)
    apart_m, way = nearest(lines, np.ones(lines.size, np.bool_), row, metres)
    expected_m, expected_way = said_by_shapely(lines, row, metres)
    np.testing.assert_array_equal(apart_m, expected_m)
    np.testing.assert_array_equal(way, expected_way)


def test_lines_of_several_parts_and_areas_have_distances_and_no_way():
    parts = shapely.MultiLineString([[(0, 0), (10, 0)], [(100, 0), (110, 0)]])
    shapes = np.array([parts, shapely.box(0, 0, 20, 20), shapely.LineString([(0, 0), (0, 9)])])
    row, metres = np.array([0, 1, 0, 2, 1]), np.array([(55.0, 0), (5, 5), (105, 3), (4, 9), (20, 50)])
    apart_m, way = nearest(shapes, np.array([False, False, True]), row, metres)
    assert apart_m.tolist() == [45, 0, 3, 4, 30]
    assert way.tolist() == [[0, 0], [0, 0], [0, 0], [0, 2.25], [0, 0]]
