"""What positions are counted under: cells, or pieces of them that lie in public places."""

import pickle

import h3
import h3.api.basic_int as h3_int
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.transforms.places.lines import LAT, LON, REGION, collection, feature, fine_at, line, square
from transforms.places.ground import NOWHERE, Hexagons, ancestors, hexagon_pieces
from transforms.places.shapes import shape_pieces


def place_at(pieces, lat, lon):
    (key,) = pieces.keys(fine_at(pieces, (lat, lon)))
    return None if key == NOWHERE or pieces.place[key] == NOWHERE else pieces.places.names[pieces.place[key]]


@given(st.floats(-89, 89), st.floats(-180, 180), st.integers(0, 15), st.integers(0, 15))
def test_an_ancestor_is_the_one_that_h3_names(lat, lon, one, other):
    cell = h3_int.latlng_to_cell(lat, lon, max(one, other))
    assert ancestors(np.array([cell]), min(one, other)).tolist() == [h3_int.cell_to_parent(cell, min(one, other))]


def test_cells_of_the_region_are_counted_under_their_own_index_and_others_nowhere():
    cells = np.array([REGION[3], h3_int.latlng_to_cell(0, 0, 7)])
    assert Hexagons(7, REGION).keys(cells).tolist() == [REGION[3], NOWHERE]
    assert Hexagons(7, None).keys(cells).tolist() == cells.tolist()


@pytest.mark.parametrize("resolution", [8, 9, 10])
def test_every_finer_cell_of_a_region_is_a_place_within_its_ancestor(resolution):
    pieces = hexagon_pieces(REGION, resolution)
    rng = np.random.default_rng(3)
    positions = [*zip(LAT + rng.uniform(-0.03, 0.03, 500), LON + rng.uniform(-0.03, 0.03, 500), strict=True)]
    fine = fine_at(pieces, *positions)
    keys = pieces.keys(fine)
    inside = np.isin(ancestors(fine, 7), REGION)
    assert 0 < inside.sum() < 500
    assert (keys[~inside] == NOWHERE).all()
    names = [pieces.places.names[place] for place in pieces.place[keys[inside]]]
    assert names == [h3.int_to_str(int(cell)) for cell in fine[inside]]
    assert [REGION[cell] for cell in pieces.cell[keys[inside]]] == ancestors(fine[inside], 7).tolist()
    assert [REGION[cell] for cell in pieces.places.cell] == [
        h3_int.cell_to_parent(h3_int.str_to_int(name), 7) for name in pieces.places.names
    ]


def test_a_report_near_a_line_belongs_to_its_street_and_others_to_the_rest_of_their_cell():
    street = line("Street", (LAT, LON), (LAT, LON + 0.01))
    pieces = shape_pieces(collection(street), REGION)
    assert place_at(pieces, LAT + 0.00005, LON + 0.005) == "Street"
    assert place_at(pieces, LAT + 0.0005, LON + 0.005) is None
    (key,) = pieces.keys(fine_at(pieces, (LAT + 0.0005, LON + 0.005)))
    assert REGION[pieces.cell[key]] == h3_int.cell_to_parent(int(fine_at(pieces, (LAT + 0.0005, LON + 0.005))[0]), 7)


def test_where_buffers_overlap_a_report_belongs_to_the_nearest_line_alone():
    near, far = line("A", (LAT, LON), (LAT, LON + 0.01)), line("B", (LAT + 0.0004, LON), (LAT + 0.0004, LON + 0.01))
    for order in ((near, far), (far, near)):
        pieces = shape_pieces(collection(*order), REGION, buffer_m=60)
        assert place_at(pieces, LAT + 0.0001, LON + 0.005) == "A"
        assert place_at(pieces, LAT + 0.0003, LON + 0.005) == "B"


def test_a_street_through_several_cells_is_one_place_of_the_cell_that_holds_most():
    west, east = h3_int.cell_to_latlng(REGION[0]), h3_int.cell_to_latlng(REGION[1])
    middle = [west[i] + 0.7 * (east[i] - west[i]) for i in (0, 1)]
    pieces = shape_pieces(collection(line("Road", west, middle)), REGION)
    assert set(pieces.cell[pieces.place == 0].tolist()) == {0, 1}
    assert pieces.places.cell.tolist() == [0]


def nested(depth):
    return [nested(depth - 1)] if depth else 0.0


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "FeatureCollection"),
        (collection(feature("A", {"type": "Polygon", "coordinates": nested(900)})), "coordinates must be numbers"),
        (collection(), "at least one"),
        (collection(line("", (LAT, LON), (LAT, LON + 0.01))), "feature 1 needs a property name"),
        (collection(line("A", (0, 0), (0, 1)), line("A", (0, 0), (0, 1))), "features 1 and 2 are both named 'A'"),
        (collection(feature("A", {"type": "Point", "coordinates": [0, 0]})), "it is 'Point'"),
        (collection(feature("A", {"type": "LineString", "coordinates": [[LON]]})), "feature 1 has a geometry"),
        (
            collection(feature("A", {"type": "LineString", "coordinates": [["18.9", "69.6"], ["18.9", "69.7"]]})),
            "feature 1 has a geometry that cannot be read: coordinates must be numbers",
        ),
        (collection(line("A", (95, 0), (96, 0))), "feature 1 needs longitudes and latitudes"),
        (collection(line("A", (0, 0), (0, 0.001))), "place 'A' has no part in the region"),
        (collection(line("A", (LAT, LON), (LAT, LON + 0.01), buffer_m=0)), "buffer_m must be 1 to 1000"),
        (collection(square("A", 0, 0, 40)), "square kilometres"),
    ],
)
def test_a_file_that_names_no_places_is_refused_with_the_feature_and_the_rule(document, message):
    with pytest.raises(ValueError, match=message):
        shape_pieces(document, REGION)


def test_places_are_finer_than_the_region():
    for resolution in (6, 7, 16):
        with pytest.raises(ValueError, match="finer than the region's resolution 7"):
            hexagon_pieces(REGION, resolution)


def test_pieces_travel_to_other_processes_as_they_are():
    pieces = shape_pieces(collection(line("Street", (LAT, LON), (LAT, LON + 0.01))), REGION)
    copy = pickle.loads(pickle.dumps(pieces))
    fine = fine_at(pieces, (LAT, LON + 0.004), (LAT + 0.002, LON), (0, 0))
    assert copy.keys(fine).tolist() == pieces.keys(fine).tolist()
