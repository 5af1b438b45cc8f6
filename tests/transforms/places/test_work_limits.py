"""Regions and places from files that would take minutes or all memory are refused by what they ask for, at once."""

import numpy as np
import pytest

from tests.transforms.places import lines
from transforms.places import hexagons
from transforms.places.hexagons import cells_of_geojson
from transforms.places.shapes import shape_pieces

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
