"""H3 cells: remembered squares give those of H3; regions and places that ask for too much are refused at once."""

import h3
import numpy as np
import pytest

from tests.transforms.places import lines
from transforms.places import hexagons
from transforms.places.hexagons import cells_at, cells_by_h3, cells_of_geojson
from transforms.places.shapes import shape_pieces

KM_PER_DEGREE = 111.2
PENTAGONS = [h3.cell_to_latlng(cell) for cell in sorted(h3.get_pentagons(0))]
PLACES = [(30.27, -97.74), (21.17, 72.83), (0.0, 0.0), (69.99, 10.0)]
FAR_PLACES = [(71.0, 25.0), (89.9, 0.0), (-89.999, 50.0), (5.0, 179.9999)]


def around(place, resolution, rng, cells=3.0, rows=4_000):
    """Positions in some cells around a place, on the grid, in clusters that fill squares."""
    width = cells * h3.average_hexagon_edge_length(resolution, unit="km") / KM_PER_DEGREE
    lat = place[0] + rng.uniform(-width, width, rows)
    lon = place[1] + rng.uniform(-width, width, rows) / max(np.cos(np.radians(place[0])), 0.05)
    lat, lon = np.clip(lat, -90, 90), (lon + 180) % 360 - 180
    return np.rint(lat * 1e7).astype(np.int64), np.rint(lon * 1e7).astype(np.int64)


def edge_points(rng, number):
    """Places on the edges of the icosahedron: between its vertices, which are where the pentagons are."""
    lat, lon = np.radians(PENTAGONS).T
    vectors = np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=1)
    near = [(i, j) for i in range(12) for j in range(i) if vectors[i] @ vectors[j] > 0.4]
    points = []
    for i, j in (near[k] for k in rng.integers(0, len(near), number)):
        share = rng.uniform()
        x, y, z = vectors[i] * share + vectors[j] * (1 - share)
        points.append((np.degrees(np.arctan2(z, np.hypot(x, y))), np.degrees(np.arctan2(y, x))))
    return points


@pytest.fixture(autouse=True)
def _forgetful(monkeypatch):
    monkeypatch.setattr(hexagons, "OFTEN", 1)  # so that every square is learnt
    hexagons._tables.cache_clear()
    yield
    hexagons._tables.cache_clear()


@pytest.mark.few(1)
@pytest.mark.parametrize("half", [0, 1])
def test_the_cells_are_those_of_h3_at_pentagons_poles_and_the_antimeridian(half):
    rng = np.random.default_rng(1)
    for turn, place in enumerate([*PENTAGONS[:6], *PLACES, *FAR_PLACES]):
        for resolution in (0, 3, 7, 9) if turn % 2 == half else (5, 8, 12, 15):
            lat, lon = around(place, resolution, rng, rows=600)
            cells = cells_at(lat, lon, resolution)
            assert np.array_equal(cells, cells_by_h3(lat, lon, resolution)), (place, resolution)


def test_the_cells_are_those_of_h3_along_the_edges_of_the_icosahedron():
    rng = np.random.default_rng(2)
    for place in edge_points(rng, 60):
        resolution = int(rng.integers(1, 12))
        lat, lon = around(place, resolution, rng, cells=1.5, rows=1_000)
        cells = cells_at(lat, lon, resolution)
        assert np.array_equal(cells, cells_by_h3(lat, lon, resolution)), (place, resolution)


def test_without_a_margin_some_cells_would_be_wrong(monkeypatch):
    """The test above can fail: squares of the size of cells, judged by one corner alone."""

    def cells_of_corners(table, squares):
        lat, lon = ((part << table.bits) - hexagons._SHIFT_E7 for part in (squares >> 32, squares & 0xFFFFFFFF))
        return cells_by_h3(lat, lon, 7)

    monkeypatch.setattr(hexagons, "SQUARES_AN_EDGE", (1, 12, 48))
    monkeypatch.setattr(hexagons, "_cell_around", cells_of_corners)
    lat, lon = around(PLACES[0], 7, np.random.default_rng(3))
    assert not np.array_equal(cells_at(lat, lon, 7), cells_by_h3(lat, lon, 7))


def test_squares_are_learnt_over_many_batches_of_few_positions_each(monkeypatch):
    monkeypatch.setattr(hexagons, "OFTEN", 3)
    lat, lon = around(PLACES[0], 7, np.random.default_rng(6), cells=2.0, rows=60_000)
    asked = []
    monkeypatch.setattr(
        hexagons, "cells_by_h3", lambda lat, lon, res: asked.append(lat.size) or cells_by_h3(lat, lon, res)
    )
    for part in np.array_split(np.arange(lat.size), 200):  # a square has less than one position in a batch
        cells = cells_at(lat[part], lon[part], 7)
        assert np.array_equal(cells, cells_by_h3(lat[part], lon[part], 7))
    last = sum(asked)
    cells_at(lat, lon, 7)
    assert sum(asked) - last < 0.25 * lat.size


REGION = cells_of_geojson({"type": "Polygon", "coordinates": [[[14.4, 46], [14.6, 46], [14.6, 46.1], [14.4, 46]]]}, 7)
DRAWS = np.random.default_rng(1)


def circle(positions, radius):
    angle = np.linspace(0, 2 * np.pi, positions)
    return np.stack([14.5 + radius * np.cos(angle), 46.05 + radius * np.sin(angle)], axis=1).round(7).tolist()


def collection(*geometries):
    return lines.collection(*(lines.feature(str(number), geometry) for number, geometry in enumerate(geometries)))


def line(positions):
    return {"type": "LineString", "coordinates": positions.tolist()}


def polygon(*rings):
    return {"type": "Polygon", "coordinates": list(rings)}


@pytest.mark.parametrize("positions", [2_000, 30_000])
def test_a_tangled_line_is_no_place(positions):
    tangle = DRAWS.uniform([14.48, 46.04], [14.52, 46.06], (positions, 2))
    with pytest.raises(ValueError, match="feature 2 has a line that is too tangled or too detailed"):
        shape_pieces(collection(line(np.array([[14.5, 46.05], [14.51, 46.05]])), line(tangle)), REGION)


def test_areas_of_too_many_positions_are_no_places():
    with pytest.raises(ValueError, match="too detailed for so large an area"):
        shape_pieces(collection(polygon(circle(20_000, 0.3))), REGION)


def test_a_region_is_limited_as_a_whole():
    """Each of these areas alone would be one."""
    part = polygon(circle(5, 3.0))
    assert hexagons.MOST_CELLS // 4 < len(cells_of_geojson(part, 7)) * 7**2 < hexagons.MOST_CELLS
    nested = {"type": "GeometryCollection", "geometries": [part, collection(part, part, part)]}
    with pytest.raises(ValueError, match="at most 5,000,000"):
        cells_of_geojson(nested, 9)


def test_a_region_of_the_whole_earth_is_refused_at_any_resolution():
    """H3 takes one of 360 degrees for the way across the antimeridian, and looked for its cells in 850 MB."""
    halves = [[[[w, -90], [w + 180, -90], [w + 180, 90], [w, 90], [w, -90]]] for w in (-180, 0)]
    with pytest.raises(ValueError, match="square kilometres; at most 20,000,000"):
        cells_of_geojson({"type": "MultiPolygon", "coordinates": halves}, 3)
    around = [[-180, -90], [180, -90], [180, 90], [-180, 90], [-180, -90]]
    with pytest.raises(ValueError, match="from pole to pole"):
        cells_of_geojson({"type": "Polygon", "coordinates": [around]}, 3)


def test_what_reaches_far_beyond_a_city_is_refused_before_h3_takes_gigabytes_for_it():
    """H3 takes room by the square of a polygon's length: a position of no latitude and longitude took all memory."""
    far = line(np.array([[14.5, 46.05], [0.0, 0.0]]))
    with pytest.raises(ValueError, match="feature 2 reaches too far: is a position wrong"):
        shape_pieces(collection(line(np.array([[14.5, 46.05], [14.51, 46.05]])), far), REGION)
    long = [line(np.array([[14.5, 46.05], [14.5, 46.05 + degrees]])) for degrees in np.linspace(0.9, 1, 40)]
    with pytest.raises(ValueError, match="places reach too far in all"):
        shape_pieces(collection(*long), REGION)
    with pytest.raises(ValueError, match="the area is long and narrow beyond measure"):
        cells_of_geojson(polygon([[14, 46], [60, 46], [60, 46.0005], [14, 46]]), 12)
