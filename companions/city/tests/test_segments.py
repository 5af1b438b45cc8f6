"""Of a timetable: segments from stop to stop along the lines of its trips, and the hours of each cell with a trip."""

import csv
import zipfile
from collections import defaultdict

import h3
import numpy as np
import pytest

from companions.city.tests.feeds import FEED, WEEKDAYS, write
from hatstream_city.draft.feed import find_heading
from hatstream_city.timetable import gtfs, segments, service
from hatstream_city.timetable.gtfs import read_gtfs
from hatstream_city.timetable.town import SEGMENTS, read_town
from pipelines.errors import InputError
from pipelines.specification import load
from transforms.places import shapes
from transforms.time.trips import read_trips

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


def town_of(tmp_path, *, directed=True, **tables):
    return read_town(write(tmp_path / "feed.zip", {**FEED, "stops": stops(), **tables}), 7, directed=directed)


def features_of(tmp_path, **tables):
    return town_of(tmp_path, **tables).documents[SEGMENTS]["features"]


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
    town = town_of(tmp_path, **tables, **trips(T1="ABCD", T2="ABCD"))
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
    there_and_back = {"shapes": THERE_AND_BACK, **trips(T1="ABCD", T2="AD", T3="AC", T4="DCBA", T5="DCBA")}
    visits = town_of(tmp_path, **there_and_back).visits
    there = {"Stop A to Stop B": 3, "Stop B to Stop C": 3, "Stop C to Stop D": 2}
    back = {"Stop D to Stop C": 2, "Stop C to Stop B": 2, "Stop B to Stop A": 2}
    assert visits == pytest.approx(there | back, rel=0.1)
    both = town_of(tmp_path, directed=False, **there_and_back).visits
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


runs_per_date = service._runs_per_date
HEAD = "trip_id,stop_sequence,stop_id,arrival_time,departure_time\n"
NORTH, MARKET, DEPOT = (h3.latlng_to_cell(lat, -104.6, 7) for lat in (50.5, 50.45, 50.4))
ALL_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def content(folder, **tables):
    return read_town(write(folder / "feed.zip", {**FEED, **tables}), 7).files("t")["t-hours.csv"].decode()


def hours(folder, **tables):
    """Hours by cell and weekday of the written file."""
    hours_of = defaultdict(list)
    for row in csv.DictReader(content(folder, **tables).splitlines()):
        for day in row["weekdays"].split():
            hours_of[row["cell"], day] += map(int, row["hours"].split())
    return hours_of


def trip(number, *stops):
    return "".join(f"{number},{place},{stop},{time}:00,{time}:00\n" for place, (stop, time) in enumerate(stops))


def town(folder, read=hours, **tables):
    """Buses from 05:00 to 00:40 on all days, with none at night; and on workdays, at 7 and 17, to the depot."""
    daily = [trip(f"D{h}", ("A", f"{h:02d}:10"), ("B", f"{h:02d}:40")) for h in range(5, 25)]
    peak = [trip(f"P{h}", ("B", f"{h:02d}:20"), ("C", f"{h:02d}:50")) for h in (7, 17)]
    services = {"D": ("R1", "daily"), "P": ("R10", "work")}
    names = [f"D{h}" for h in range(5, 25)] + ["P7", "P17"]
    rows = "".join(f"{name},{','.join(services[name[0]])}\n" for name in names)
    calendar = "daily,1,1,1,1,1,1,1,20260511,20260524\nwork,1,1,1,1,1,0,0,20260511,20260524\n"
    written = {
        "trips": f"trip_id,route_id,service_id\n{rows}",
        "stop_times": HEAD + "".join(daily + peak),
        "calendar": f"service_id,{WEEKDAYS},start_date,end_date\n{calendar}",
    }
    return read(folder, **{**written, **tables})


def check(hours_of) -> None:
    assert hours_of[NORTH, "mon"] == hours_of[NORTH, "sun"] == [0, *range(5, 24)]  # 24:10 is the next day's 00:10
    assert hours_of[DEPOT, "wed"] == [7, 17]
    assert (DEPOT, "sat") not in hours_of
    assert (DEPOT, "sun") not in hours_of


def test_a_gap_at_night_and_a_line_at_peak_hours_have_no_other_hours(tmp_path):
    check(town(tmp_path))


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("_HOUR_S", 1_800),
        ("_runs_per_date", lambda calendar: np.roll(runs_per_date(calendar), 1, axis=1)),
        ("departures_of", lambda _feed: {0: [range(1)]}),
    ],
    ids=["half hours", "the next weekday", "departures"],
)
def test_hours_of_another_hour_or_weekday_are_caught(name, wrong, tmp_path, monkeypatch):
    monkeypatch.setattr(service, name, wrong)
    with pytest.raises(AssertionError):
        check(town(tmp_path))


def test_trips_beyond_midnight_are_the_next_calendar_days(tmp_path):
    late = HEAD + trip("T1", ("A", "23:30"), ("C", "26:30"))
    hours_of = hours(tmp_path, trips="trip_id,route_id,service_id\nT1,R1,week\n", stop_times=late)
    assert hours_of[NORTH, "mon"] == [23]
    assert hours_of[MARKET, "tue"] == hours_of[MARKET, "sat"] == [0, 1]  # passed in the middle of the way, about 01:00
    assert (MARKET, "mon") not in hours_of
    assert hours_of[DEPOT, "sat"] == [2]
    assert (DEPOT, "sun") not in hours_of


def test_a_cell_between_stops_has_the_hours_in_which_it_is_passed(tmp_path):
    slow = HEAD + trip("T1", ("A", "06:00"), ("C", "10:00"))
    hours_of = hours(tmp_path, trips="trip_id,route_id,service_id\nT1,R1,week\n", stop_times=slow)
    passed = {cell: hours_of[cell, "mon"] for cell, day in hours_of if day == "mon"}
    assert passed[NORTH] == [6]
    assert passed[DEPOT][-1] == 10
    assert set(passed[MARKET]) <= {7, 8}
    assert len(passed) > 3
    assert set().union(*passed.values()) == {6, 7, 8, 9, 10}


def test_each_departure_of_a_frequency_counts_and_the_trips_own_times_do_not(tmp_path):
    every = "trip_id,start_time,end_time,headway_secs\nP7,09:00:00,13:00:00,7200\nP7,24:00:00,24:30:00,600\n"
    hours_of = town(tmp_path, frequencies=every)
    assert hours_of[DEPOT, "tue"] == [0, 9, 11, 17]
    assert hours_of[DEPOT, "mon"] == [9, 11, 17]
    assert hours_of[DEPOT, "sat"] == [0]


def test_a_trip_of_one_date_counts_for_its_weekday_and_a_holiday_takes_none(tmp_path):
    dates = "service_id,date,exception_type\nwork,20260516,1\nwork,20260511,2\n"  # a Saturday; a Monday of two
    hours_of = town(tmp_path, calendar_dates=dates)
    assert [day for day in ALL_DAYS if hours_of[DEPOT, day] == [7, 17]] == ["mon", "tue", "wed", "thu", "fri", "sat"]
    both = dates + "work,20260518,2\n"
    assert (DEPOT, "mon") not in town(tmp_path, calendar_dates=both)


def test_trips_are_averaged_over_the_dates_of_a_weekday(tmp_path):
    holiday = "service_id,date,exception_type\nwork,20260511,2\n"  # one of two Mondays
    listed = read_trips(town(tmp_path, content, calendar_dates=holiday), 7)
    trips = {cell: numbers.reshape(7, 24) for cell, numbers in zip(listed.cells, listed.numbers, strict=True)}
    assert trips[DEPOT][:, 7].tolist() == [0.5, 1, 1, 1, 1, 0, 0]
    assert trips[MARKET][:, 7].tolist() == [1.5, 2, 2, 2, 2, 1, 1]
    assert listed.of_habits([NORTH, "8742d9d6bffffff", DEPOT])[:, [7, 31]].tolist() == [[1, 1], [0, 0], [0.9, 0]]
