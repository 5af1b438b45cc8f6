"""Segments of a timetable: from stop to stop along the lines of its trips, one for each direction or for both."""

import zipfile

import h3
import numpy as np
import pytest

from companions.city.tests.feeds import FEED, write
from hatstream_city.draft.feed import find_heading
from hatstream_city.timetable import gtfs, segments
from hatstream_city.timetable.gtfs import read_gtfs
from hatstream_city.timetable.town import SEGMENTS, read_town
from pipelines.errors import InputError
from pipelines.specification import load
from transforms.places import shapes

STOPS = {"A": 0.0, "B": 0.01, "C": 0.02, "D": 0.03}
"""Along a street to the north, degrees from its southern end."""
SOUTH, LON = 50.40, -104.60


def stops(**extra):
    places = STOPS | extra
    lines = "".join(f"{name},Stop {name},{SOUTH + offset:.4f},{LON}\n" for name, offset in places.items())
    return "stop_id,stop_name,stop_lat,stop_lon\n" + lines


def shape(*positions, name="S"):
    rows = "".join(
        f"{name},{number},{SOUTH + lat:.5f},{LON + lon:.5f}\n" for number, (lat, lon) in enumerate(positions)
    )
    return "shape_id,shape_pt_sequence,shape_pt_lat,shape_pt_lon\n" + rows


def trips(**stops_of):
    """Trips by name, each of these stops a minute after another, along the shape S."""
    times = [
        f"{trip},{number},{stop},06:{number:02d}:00,06:{number:02d}:00\n"
        for trip, order in stops_of.items()
        for number, stop in enumerate(order)
    ]
    return {
        "trips": "trip_id,route_id,service_id,shape_id\n" + "".join(f"{trip},R1,week,S\n" for trip in stops_of),
        "stop_times": "trip_id,stop_sequence,stop_id,arrival_time,departure_time\n" + "".join(times),
    }


def features_of(tmp_path, *, directed=True, **tables):
    path = write(tmp_path / "feed.zip", {**FEED, "stops": stops(), **tables})
    return read_town(path, 7, directed=directed).documents[SEGMENTS]["features"]


def visits_of(tmp_path, *, directed=True, **tables):
    path = write(tmp_path / "feed.zip", {**FEED, "stops": stops(), "shapes": THERE_AND_BACK, **tables})
    return read_town(path, 7, directed=directed).visits


def names_of(features):
    return {feature["properties"]["name"] for feature in features}


def latitudes(feature):
    return [round(lat - SOUTH, 3) for _, lat in feature["geometry"]["coordinates"]]


THERE_AND_BACK = shape((0, 0), (0.03, 0), (0.03, 0.0001), (0, 0.0001))


def test_a_line_there_and_back_gives_each_direction_its_own_segments(tmp_path):
    features = features_of(tmp_path, shapes=THERE_AND_BACK, **trips(T1="ABCDCBA"))
    pairs = {f"Stop {a} to Stop {b}" for a, b in ("AB", "BC", "CD", "DC", "CB", "BA")}
    assert names_of(features) == pairs
    by_name = {feature["properties"]["name"]: feature for feature in features}
    assert latitudes(by_name["Stop B to Stop C"]) == [0.01, 0.02]
    assert latitudes(by_name["Stop C to Stop B"]) == [0.02, 0.01]
    assert {feature["properties"]["directed"] for feature in features} == {True}


@pytest.mark.parametrize("way", [1, -1], ids=["to the east", "to the west"])
def test_a_line_across_the_antimeridian_has_segments_on_both_sides(tmp_path, way):
    offsets = {"A": 0.015, "B": 0.005, "C": -0.005, "D": -0.015}
    east = {name: way * (180 - off if off > 0 else -180 - off) for name, off in offsets.items()}
    stop_rows = "".join(f"{name},Stop {name},{SOUTH},{lon}\n" for name, lon in east.items())
    line = "".join(f"S,{number},{SOUTH},{lon}\n" for number, lon in enumerate(east.values()))
    tables = {
        "stops": "stop_id,stop_name,stop_lat,stop_lon\n" + stop_rows,
        "shapes": "shape_id,shape_pt_sequence,shape_pt_lat,shape_pt_lon\n" + line,
    }
    path = write(tmp_path / "feed.zip", {**FEED, **tables, **trips(T1="ABCD", T2="ABCD")})
    town = read_town(path, 7, directed=True)
    features = town.documents[SEGMENTS]["features"]
    names = {"Stop B to Stop C", "Stop B to Stop C (2)"}
    assert names_of(features) == {"Stop A to Stop B", "Stop C to Stop D"} | names, "cut in two"
    assert list(town.visits.values()) == pytest.approx([2] * 4, abs=0.2), "each has all trips"
    lons = [lon for feature in features for lon, _ in feature["geometry"]["coordinates"]]
    both = [(east["B"], way * 180), (-way * 180, east["C"])]
    assert sorted(lons) == pytest.approx(sorted([*east.values(), *both[0], *both[1]]), abs=1e-5)
    parts = [feature["geometry"]["coordinates"] for feature in features if feature["properties"]["name"] in names]
    ways = sorted((round(lon, 5), round(next_lon, 5)) for (lon, _), (next_lon, _) in parts)
    assert ways == sorted((round(lon, 5), round(next_lon, 5)) for lon, next_lon in both), "in the order of driving"
    assert {round(abs(h3.cell_to_latlng(cell)[1])) for cell in town.cells} == {180}, "no cell on the way around"


def test_trips_that_pass_stops_run_along_the_segments_of_those_that_halt(tmp_path):
    express = features_of(tmp_path, shapes=THERE_AND_BACK, **trips(T1="ABCD", T2="AD", T3="AD"))
    assert names_of(express) == {"Stop A to Stop B", "Stop B to Stop C", "Stop C to Stop D"}
    halting = features_of(tmp_path, shapes=THERE_AND_BACK, **trips(T2="AD"))
    assert names_of(halting) == {"Stop A to Stop D"}


def test_a_segment_is_visited_by_all_trips_that_pass_it(tmp_path):
    there_and_back = trips(T1="ABCD", T2="AD", T3="AC", T4="DCBA", T5="DCBA")
    visits = visits_of(tmp_path, **there_and_back)
    there = {"Stop A to Stop B": 3, "Stop B to Stop C": 3, "Stop C to Stop D": 2}
    back = {"Stop D to Stop C": 2, "Stop C to Stop B": 2, "Stop B to Stop A": 2}
    assert visits == pytest.approx(there | back, rel=0.1)
    both = visits_of(tmp_path, directed=False, **there_and_back)
    assert sum(both.values()) == pytest.approx(sum(visits.values()), rel=0.1)
    assert len(both) == 3


def test_a_segment_follows_its_line_around_corners(tmp_path):
    corner = shape((0, 0), (0, 0.01), (0.01, 0.01), (0.01, 0), (0.03, 0))
    (first, *_) = features_of(tmp_path, shapes=corner, **trips(T1="AB"))
    assert len(first["geometry"]["coordinates"]) == 4
    bare = features_of(tmp_path, **trips(T1="AB"))
    assert len(bare[0]["geometry"]["coordinates"]) == 2, "trips without a line go from stop to stop"


@pytest.mark.parametrize(
    ("places", "line"),
    [
        pytest.param({}, shape((0, 0.01), (0.03, 0.01)), id="700 m off their line"),
        pytest.param({"B": 0.0002, "C": 0.0003, "D": 0.0004}, THERE_AND_BACK, id="20 m from each other"),
    ],
)
def test_stops_without_a_way_between_them_make_no_segment(tmp_path, places, line):
    with pytest.raises(InputError, match="no two stops that are 50 m apart along a line"):
        features_of(tmp_path, stops=stops(**places), shapes=line, **trips(T1="ABCD"))


def test_a_stop_that_a_line_passes_twice_is_where_its_neighbours_say():
    out, back = np.linspace(0, 100, 11), np.linspace(100, 0, 11)
    steps = np.column_stack([np.concatenate([out, back]), np.repeat([0.0, 5.0], 11)])
    wanted = np.array([[20.0, 4.0], [90, 4], [100, 4], [20, 1]])  # all but the third nearer to the other way
    assert segments._nearest_steps(steps, wanted).tolist() == [2, 9, 11, 19]


def test_segments_that_ask_for_too_much_as_places_are_refused_in_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(shapes, "MOST_ROOM_IN_ALL", 1)
    with pytest.raises(InputError, match=r"can be no places: .*; leave --streets out"):
        features_of(tmp_path, shapes=THERE_AND_BACK, **trips(T1="ABCD"))


def test_a_table_that_expands_beyond_measure_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(gtfs, "SMALL_BYTES", 10_000)
    with zipfile.ZipFile(tmp_path / "feed.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in {**FEED, "shapes": THERE_AND_BACK + "\n" * 1_000_000}.items():
            archive.writestr(f"{name}.txt", text)
    with pytest.raises(InputError, match="shapes"):
        read_gtfs(tmp_path / "feed.zip")


HEADED = "bus,ts,lat,lon,bearing,speed_kmh\n" + "".join(
    f"bus{row % 5},2026-05-12T06:{row // 5:02d}:{row % 5:02d}Z,{SOUTH + row / 5_000:.5f},{LON},{heading},30\n"
    for row, heading in enumerate([12, 180, "", 359, 90] * 20)
)


def test_a_drafted_specification_has_directed_segments_where_the_sample_has_headings(tmp_path, hatstream):
    write(tmp_path / "feed.zip", {**FEED, "stops": stops(), "shapes": THERE_AND_BACK, **trips(T1="ABCDCBA")})
    (tmp_path / "feed.csv").write_text(HEADED)
    arguments = ["spec", "new", "--gtfs", tmp_path / "feed.zip", "--streets", "--output"]
    code, _, err = hatstream(*arguments, tmp_path / "town.toml", "--sample", tmp_path / "feed.csv")
    assert (code, "6 segments from stop to stop, each of one direction, by bearing" in err) == (0, True), err
    spec = load(tmp_path / "town.toml")
    assert spec.input.headed
    assert len(spec.places.pieces.places.names) == 6
    assert [product.name for product in spec.products] == ["days", "place-standing", "place-slot"]
    assert spec.places.pieces.places.visits == (1,) * 6
    code, _, err = hatstream(*arguments, tmp_path / "other.toml")
    assert (code, "for want of headings" in err, load(tmp_path / "other.toml").input.headed) == (0, True, False)


def test_streets_are_for_timetables_and_secret_counts(tmp_path, hatstream):
    (tmp_path / "feed.csv").write_text(HEADED)
    sample = ["spec", "new", "--streets", "--sample", tmp_path / "feed.csv", "--output", tmp_path / "a.toml"]
    code, _, err = hatstream(*sample)
    assert (code, "--streets needs --gtfs" in err) == (1, True)


@pytest.mark.parametrize(
    ("columns", "heading"),
    [
        ({"bearing": [12.5, 359, None]}, "bearing"),
        ({"location.heading": ["12", "", "90"]}, "location.heading"),
        ({"direction_id": [0, 1, 1]}, None),
        ({"direction": ["N", "S", "N"]}, None),
        ({"heading": [0, 0, 90]}, None),
        ({"course": [720, 90, 90]}, None),
    ],
)
def test_a_heading_is_found_by_its_name_and_its_values(columns, heading):
    assert find_heading(columns) == heading
