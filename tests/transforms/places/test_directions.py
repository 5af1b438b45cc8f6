"""What positions are counted under: cells, pieces of them in public places, and near lines those of a direction."""

import pickle

import h3
import h3.api.basic_int as h3_int
import numpy as np
import pytest
import shapely
import shapely.geometry
from hypothesis import given
from hypothesis import strategies as st

from tests.transforms.places.lines import LAT, LON, REGION, collection, feature, fine_at, line, square
from transforms.places import near as near_shapes
from transforms.places.ground import NOWHERE, SECTORS, Hexagons, ancestors, hexagon_pieces
from transforms.places.hexagons import KM_PER_DEGREE
from transforms.places.near import FINE_RES, FITS_DEGREES, Shapes, fine_cells_of, near_pairs, nearest
from transforms.places.shapes import shape_pieces
from transforms.records import NO_HEADING


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


RING = [[LON, LAT], [LON + 0.01, LAT], [LON, LAT + 0.01], [LON, LAT]]
WITH_EMPTY = feature("A", {"type": "MultiPolygon", "coordinates": [[RING], [[]]]})


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
        (collection(WITH_EMPTY), "feature 1 has an empty part"),
        (collection(None), "feature 1 needs a property name"),
        (collection(line("A", (LAT, LON), (LAT, LON + 0.01)) | {"properties": ["A"]}), "needs a property name"),
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


# --- Near lines: fine cells, and of lines of one direction those that a report's heading fits. ------------------------


WEST, EAST, NORTH = (LAT, LON), (LAT, LON + 0.01), (LAT + 0.005, LON + 0.005)
BOTH_WAYS = collection(line("out", WEST, EAST, directed=True), line("back", EAST, WEST, directed=True))
ON_IT = (LAT, LON + 0.004)


def place_of(pieces, heading, position=ON_IT):
    (key,) = pieces.keys(fine_at(pieces, position), np.array([heading]))
    return None if key == NOWHERE or pieces.place[key] == NOWHERE else pieces.places.names[pieces.place[key]]


@pytest.mark.parametrize(("heading", "name"), [(90, "out"), (50, "out"), (140, "out"), (270, "back"), (300, "back")])
def test_two_directions_of_one_street_are_two_places(heading, name):
    assert place_of(shape_pieces(BOTH_WAYS, REGION), heading) == name


@pytest.mark.parametrize("heading", [0, 180, NO_HEADING])
def test_a_report_across_a_street_or_without_a_heading_is_of_neither_direction_but_of_its_cell(heading):
    pieces = shape_pieces(BOTH_WAYS, REGION)
    (key,) = pieces.keys(fine_at(pieces, ON_IT), np.array([heading]))
    assert pieces.place[key] == NOWHERE
    assert key < len(REGION), "the rest of a cell"


def test_a_place_of_all_headings_takes_what_fits_no_direction():
    square_around = square("square", LAT - 0.003, LON + 0.003, 0.006)
    pieces = shape_pieces(collection(*BOTH_WAYS["features"], square_around), REGION)
    assert [place_of(pieces, heading, (LAT + 0.001, LON + 0.004)) for heading in (90, 0, NO_HEADING)] == ["square"] * 3
    near = shape_pieces(collection(*BOTH_WAYS["features"], line("track", WEST, EAST)), REGION)
    assert [place_of(near, heading) for heading in (90, 270, 0, NO_HEADING)] == ["out", "back", "track", "track"]


def test_at_a_crossing_each_heading_leads_to_its_own_street():
    south, north = (LAT - 0.005, LON + 0.004), (LAT + 0.005, LON + 0.004)
    crossing = line("up", south, north, directed=True), line("down", north, south, directed=True)
    pieces = shape_pieces(collection(*BOTH_WAYS["features"], *crossing), REGION)
    assert [place_of(pieces, heading) for heading in (1, 90, 180, 270)] == ["up", "out", "down", "back"]


@given(st.integers(0, 359), st.integers(0, 359))
def test_a_heading_fits_a_line_within_sixty_degrees_of_its_sector(bearing, heading):
    turn = np.radians(bearing)
    end = LAT + 0.008 * np.cos(turn), LON + 0.008 * np.sin(turn) / np.cos(np.radians(LAT))
    pieces = shape_pieces(collection(line("ray", (LAT, LON), end, directed=True)), REGION)
    middle = (LAT + end[0]) / 2, (LON + end[1]) / 2
    apart = abs((heading - bearing + 180) % 360 - 180)
    slack = 180 / SECTORS + 2
    if not FITS_DEGREES - slack <= apart <= FITS_DEGREES + slack:
        assert (place_of(pieces, heading, middle) == "ray") == (apart < FITS_DEGREES)


def test_a_place_is_as_large_as_its_fine_cells_whichever_way_it_leads():
    longer = line("longer", (LAT + 0.003, LON), (LAT + 0.003, LON + 0.01))
    short = line("short", (LAT + 0.004, LON), (LAT + 0.004, LON + 0.002))
    pieces = shape_pieces(collection(*BOTH_WAYS["features"], longer, short), REGION)
    out, back, long_one, short_one = fine_cells_of(pieces).tolist()
    alone = shape_pieces(collection(longer), REGION)
    assert out == back == pytest.approx(long_one, rel=0.05)
    assert long_one == alone.fine.size == fine_cells_of(alone)[0]
    assert long_one > 3 * short_one


def test_a_report_has_the_same_place_beside_whatever_others_in_whatever_order():
    pieces = pickle.loads(pickle.dumps(shape_pieces(BOTH_WAYS, REGION)))
    rng = np.random.default_rng(5)
    positions = [(LAT + rng.uniform(-3e-4, 3e-4), LON + rng.uniform(-0.001, 0.011)) for _ in range(300)]
    fine, heading = fine_at(pieces, *positions), rng.integers(-1, 360, 300)
    together = pieces.keys(fine, heading)
    order = rng.permutation(300)
    assert pieces.keys(fine[order], heading[order]).tolist() == together[order].tolist()
    alone = [pieces.keys(fine[number : number + 1], heading[number : number + 1])[0] for number in range(300)]
    assert alone == together.tolist()
    assert set(together.tolist()) - set(range(len(REGION))), "some are at places"


def test_what_a_map_left_empty_is_as_if_it_was_not_there():
    shape = line("A", WEST, EAST)["geometry"]
    plain, empty = (
        shape_pieces(collection(feature("A", shape, **said)), REGION)
        for said in ({}, {"directed": None, "buffer_m": None})
    )
    assert not empty.is_directed
    assert empty.fine.tolist() == plain.fine.tolist()


@pytest.mark.parametrize(
    ("said", "geometry", "message"),
    [
        ("yes", None, "feature 1: directed must be true or false"),
        (1, None, "directed must be true or false"),
        (True, {"type": "MultiLineString", "coordinates": [[[LON, LAT], [LON + 0.01, LAT]]]}, "it is 'MultiLine"),
        (True, square("A", LAT, LON, 0.004)["geometry"], "it is 'Polygon'"),
    ],
)
def test_only_a_single_line_has_a_direction(said, geometry, message):
    shape = geometry or line("A", WEST, EAST)["geometry"]
    with pytest.raises(ValueError, match=message):
        shape_pieces(collection(feature("A", shape, directed=said)), REGION)


@pytest.mark.parametrize("is_directed", [True, False])
def test_a_line_across_the_antimeridian_would_run_the_other_way_and_is_refused(is_directed):
    with pytest.raises(ValueError, match="cut a line at the antimeridian"):
        shape_pieces(collection(line("A", (50, 179.995), (50, -179.995), directed=is_directed)), REGION)


@pytest.mark.parametrize(
    "positions",
    [
        pytest.param([WEST, EAST, WEST], id="out and back on itself"),
        pytest.param([WEST, EAST, NORTH, (LAT - 0.002, LON + 0.004)], id="crosses itself"),
        pytest.param([(LAT, LON + 1e-8 * number) for number in range(2)], id="a millimetre"),
        pytest.param([WEST, EAST, NORTH, WEST], id="a ring"),
        pytest.param([(LAT, LON), (LAT + 1e-4, LON), (LAT + 1e-4, LON + 1e-4), (LAT, LON)], id="a small ring"),
    ],
)
def test_strange_lines_are_places_in_some_direction(positions):
    pieces = shape_pieces(collection(line("A", *positions, directed=True)), REGION)
    fine = np.repeat(pieces.fine, SECTORS)
    keys = pieces.keys(fine, np.tile(np.arange(SECTORS) * 22, pieces.fine.size))
    assert "A" in {pieces.places.names[place] for place in pieces.place[keys] if place != NOWHERE}


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
    for number, (way, area, scale) in enumerate(zip(shapes.line, shapes.area, shapes.scale, strict=True)):
        degrees = shapely.transform(area, lambda metres, scale=scale: metres / scale)
        for cell in h3_int.h3shape_to_cells(h3.geo_to_h3shape(shapely.geometry.mapping(degrees)), FINE_RES):
            lat, lon = h3_int.cell_to_latlng(cell)
            apart_m = shapely.distance(shapely.Point(np.array([lon, lat]) * scale), way)
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
    monkeypatch.setattr(near_shapes.h3_int, "geo_to_cells", lambda *_: asked.append(1) or [])
    assert near_pairs(shapes := drawn(CENTRES["Oslo"], lines=10)).cell.size == 0
    assert (len(asked), shapes.line.size) == (10, 15)


def test_lines_of_several_parts_and_areas_have_distances_and_no_way():
    parts = shapely.MultiLineString([[(0, 0), (10, 0)], [(100, 0), (110, 0)]])
    shapes = np.array([parts, shapely.box(0, 0, 20, 20), shapely.LineString([(0, 0), (0, 9)])])
    row, metres = np.array([0, 1, 0, 2, 1]), np.array([(55.0, 0), (5, 5), (105, 3), (4, 9), (20, 50)])
    apart_m, way = nearest(shapes, np.array([False, False, True]), row, metres)
    assert apart_m.tolist() == [45, 0, 3, 4, 30]
    assert way.tolist() == [[0, 0], [0, 0], [0, 0], [0, 2.25], [0, 0]]
