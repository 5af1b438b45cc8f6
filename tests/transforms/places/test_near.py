"""Fine cells near lines: found for many lines at once they are those that H3 finds for each by itself."""

import h3
import h3.api.basic_int as h3_int
import numpy as np
import pytest
import shapely
import shapely.geometry

from tests.transforms.places.lines import LAT, LON
from transforms.places import near as near_shapes
from transforms.places.hexagons import KM_PER_DEGREE
from transforms.places.near import FINE_RES, Shapes, near_pairs, nearest

CENTRES = {
    "Austin": (LAT, LON),
    "Oslo": (59.9, 10.7),
    "a pentagon": h3_int.cell_to_latlng(h3_int.get_pentagons(7)[5]),
    "an edge of the icosahedron": (41.54, 10.9),
}


def drawn(centre, lines=60, seed=1):
    """Lines that bend, cross themselves or are mere points apart, every second again in reverse."""
    rng = np.random.default_rng(seed)
    scale = 1_000 * KM_PER_DEGREE * np.array([np.cos(np.radians(centre[0])), 1.0])
    ways = []
    for number in range(lines):
        positions = int(rng.choice([2, 3, 8, 40]))
        steps = rng.normal(0, rng.choice([3, 30, 200]) / np.sqrt(positions), (positions, 2))
        metres = np.array(centre[::-1]) * scale + rng.uniform(-300, 300, 2) + np.cumsum(steps, axis=0)
        ways += [metres, metres[::-1]] if number % 2 else [metres]
    line = np.array([shapely.LineString(metres) for metres in ways])
    reach_m = np.repeat(rng.choice([1.0, 5.0, 25.0, 25.0, 90.0], lines), 1 + np.arange(lines) % 2)
    area = shapely.buffer(line, reach_m, quad_segs=16)
    return Shapes(line, area, np.tile(scale, (line.size, 1)), reach_m, np.ones(line.size, np.bool_))


def of_each(shapes):
    """What H3 says of each by itself, with whole metres."""
    near_cells = {}
    for number, (line, area, scale) in enumerate(zip(shapes.line, shapes.area, shapes.scale, strict=True)):
        degrees = shapely.transform(area, lambda metres, scale=scale: metres / scale)
        for cell in h3_int.h3shape_to_cells(h3.geo_to_h3shape(shapely.geometry.mapping(degrees)), FINE_RES):
            lat, lon = h3_int.cell_to_latlng(cell)
            apart_m = shapely.distance(shapely.Point(np.array([lon, lat]) * scale), line)
            near_cells.setdefault(cell, []).append((round(apart_m), number))
    return {cell: [number for _, number in sorted(pairs)] for cell, pairs in near_cells.items()}


@pytest.mark.few(2)
@pytest.mark.parametrize("where", CENTRES)
def test_each_cell_has_the_lines_that_it_is_near_the_nearest_first(where, monkeypatch):
    monkeypatch.setattr(near_shapes, "AT_ONCE", 37)
    shapes = drawn(CENTRES[where])
    pairs = near_pairs(shapes)
    of_cell = {}
    for cell, place in zip(pairs.cell.tolist(), pairs.place.tolist(), strict=True):
        of_cell.setdefault(cell, []).append(place)
    assert of_cell == of_each(shapes)
    assert (np.diff(pairs.cell) >= 0).all()


def test_lines_in_reverse_are_looked_for_once(monkeypatch):
    asked = []
    monkeypatch.setattr(near_shapes.h3_int, "h3shape_to_cells", lambda *_: asked.append(1) or [])
    near_shapes._candidates(shapes := drawn(CENTRES["Oslo"], lines=10), near_shapes._twins(shapes))
    assert (len(asked), shapes.line.size) == (10, 15)


def test_lines_of_several_parts_and_areas_have_distances_and_no_way():
    parts = shapely.MultiLineString([[(0, 0), (10, 0)], [(100, 0), (110, 0)]])
    shapes = np.array([parts, shapely.box(0, 0, 20, 20), shapely.LineString([(0, 0), (0, 9)])])
    row, metres = np.array([0, 1, 0, 2, 1]), np.array([(55.0, 0), (5, 5), (105, 3), (4, 9), (20, 50)])
    apart_m, way = nearest(shapes, np.array([False, False, True]), row, metres)
    assert apart_m.tolist() == [45, 0, 3, 4, 30]
    assert way.tolist() == [[0, 0], [0, 0], [0, 0], [0, 2.25], [0, 0]]
