"""What a timetable says, and what is left out and told of one with faults that agencies make."""

import csv
import json
import os
import struct
import tomllib
import zipfile
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import h3
import numpy as np
import pytest
from google.transit import gtfs_realtime_pb2

from companions.city.tests.feeds import FEED, write
from hatstream_city.timetable.gtfs import read_gtfs
from hatstream_city.timetable.town import read_town
from hatstream_lab.demo.timetable import write_timetable
from hatstream_lab.made_up_fleet import MadeUpFleet
from pipelines.errors import InputError
from pipelines.specification import load
from transforms.places.hexagons import cells_of_geojson

SHAPES = "shape_id,shape_pt_lat,shape_pt_lon,shape_pt_sequence\nS,50.5,-104.6,1\nS,{},2\nS,50.4,-104.6,3\n"
IMPOSSIBLE = "with one that cannot be, as near (0, 0) or a world away from all stops"
TRIPS = FEED["trips"].replace("block_id", "shape_id").replace("B1", "S").replace("B2", "S")


def town(folder, **tables):
    return read_town(write(folder / "feed.zip", {**FEED, **tables}), 7)


def test_vehicles_hours_and_days_are_those_of_the_day_with_the_most_trips(tmp_path):
    service = town(tmp_path).service
    assert (service.vehicles, service.blocks, service.hours) == (2, 2, ((6, 9),))
    assert (service.first.isoformat(), service.last.isoformat()) == ("2026-05-11", "2026-05-15")
    assert service.weekdays == ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")


def test_two_duties_one_after_the_other_are_one_vehicle_s(tmp_path):
    later = FEED["stop_times"].replace("T3,2,B,06:50", "T3,2,B,09:50").replace("T3,1,A,06:30", "T3,1,A,09:05")
    assert (town(tmp_path, stop_times=later).service.vehicles, town(tmp_path).service.vehicles) == (1, 2)
    at_once = later.replace("T3,1,A,09:05", "T3,1,A,08:45")  # less than half an hour to the other route
    assert town(tmp_path, stop_times=at_once).service.vehicles == 2
    one_route = FEED["trips"].replace("R10", "R1")
    assert town(tmp_path, stop_times=at_once, trips=one_route).service.vehicles == 1


def test_vehicles_stay_on_their_routes_where_they_can(tmp_path):
    """Each half hour a trip of half an hour on either route: two vehicles, each at its own stops."""
    ways = {"R1": ("A", "B"), "R10": ("B", "C")}
    trips = [(route, minute) for minute in range(360, 600, 30) for route in ways]
    rows, times = "trip_id,route_id,service_id\n", "trip_id,stop_sequence,stop_id,arrival_time,departure_time\n"
    for number, (route, minute) in enumerate(trips):
        rows += f"T{number},{route},week\n"
        for place, (stop, minute_of_stop) in enumerate(zip(ways[route], (minute, minute + 25), strict=True)):
            time = f"{minute_of_stop // 60:02d}:{minute_of_stop % 60:02d}:00"
            times += f"T{number},{place},{stop},{time},{time}\n"
    service = town(tmp_path, trips=rows, stop_times=times).service
    assert (service.vehicles, service.profile["cells"]) == (2, 2)


def test_a_vehicle_touches_the_cells_and_hours_of_its_stops(tmp_path):
    """Of two vehicles: one at three stops in three hours, one at two in one hour; the middle of 5 and 2 HATs is 3.5."""
    profile = town(tmp_path).service.profile
    assert profile["cells"] == 2  # of 3 and 2 cells, 2.5, to one digit
    assert (profile["hours"], profile["parts"]) == (2, 2)


def test_exceptions_take_days_away_and_add_others(tmp_path):
    dates = "service_id,date,exception_type\n" + "".join(f"week,202605{day},2\n" for day in range(11, 16))
    service = town(tmp_path, calendar_dates=dates + "week,20260516,1\n").service
    assert (service.day.isoformat(), service.weekdays) == ("2026-05-16", ("Saturday",))
    with pytest.raises(InputError, match="no trip on any day"):
        town(tmp_path, calendar_dates=dates)


def test_trips_by_frequency_run_once_for_each_departure(tmp_path):
    every = "trip_id,start_time,end_time,headway_secs\nT1,06:00:00,08:00:00,600\n"
    service = town(tmp_path, frequencies=every).service
    assert service.blocks == 12 + 2
    assert service.vehicles >= 7  # an hour's trip each ten minutes


def test_hours_after_midnight_are_the_clock_s_and_what_is_left_out_is_said(tmp_path):
    starts = [(number, f"{hour}:00:00") for number, hour in enumerate((5, 6, 25))]
    lines = [f"N{number},{stop},A,{time},{time}\n" for number, time in starts for stop in (1, 2)]
    trips = "trip_id,route_id,service_id\n" + "".join(f"N{number},R1,week\n" for number in range(3))
    service = town(tmp_path, trips=trips, stop_times=FEED["stop_times"].splitlines()[0] + "\n" + "".join(lines)).service
    assert (service.hours, service.outside) == (((1, 2), (5, 7)), 0.0)


def test_the_region_is_the_cells_of_lines_and_stops_and_its_file_gives_exactly_these(tmp_path):
    timetable = town(tmp_path)
    for lat in (50.5, 50.475, 50.45, 50.4):  # stops, and the way between them
        assert h3.latlng_to_cell(lat, -104.6, 7) in timetable.cells
    document = json.loads(timetable.files("town")["town-region.geojson"])
    assert {h3.int_to_str(cell) for cell in cells_of_geojson(document, 7)} == timetable.cells


def test_places_are_called_by_their_busiest_stop_and_the_routes_that_pass(tmp_path):
    named = {
        feature["properties"]["place"]: (feature["properties"]["name"], feature["properties"]["note"])
        for feature in json.loads(town(tmp_path).files("t")["t-places.geojson"])["features"]
    }
    assert named[h3.latlng_to_cell(50.45, -104.6, 7)] == ("Market", "routes 1, 10")
    between = h3.latlng_to_cell(50.425, -104.6, 7)
    assert named[between][0].startswith("near ")
    assert named[between][1] == "route 1"


def test_the_ground_has_a_line_for_each_route_with_its_colour(tmp_path):
    lines = json.loads(town(tmp_path).files("t")["t-ground.geojson"])["features"]
    drawn = [(line["properties"]["name"], line["properties"]["colour"]) for line in lines]
    assert drawn == [("1", "ff0000"), ("10", "")]


def test_feeds_as_agencies_write_them_are_read(tmp_path):
    stops = FEED["stops"].replace("stop_id,stop_name", '\ufeffstop_id , "stop_name"').replace("Market", '"Market, old"')
    tables = {**FEED, "stops": stops + "D,Nowhere,,\nE,short\n", "frequencies": "trip_id\n"}
    path = write(tmp_path / "feed.zip", tables, folder="gtfs/")
    feed = read_gtfs(path)
    assert feed.tables["frequencies"].num_rows == 0
    assert feed.tables["stops"]["stop_name"].to_pylist()[1] == "Market, old"
    assert feed.skipped == 1
    assert np.isnan(feed.stop_positions[0]).tolist() == [False, False, False, True]
    assert feed.stop_times.s.tolist() == [21600, 23400, 25200, 25800, 30600, 23400, 24600]
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path)
    assert read_town(tmp_path / "gtfs", 7).cells == read_town(path, 7).cells


@pytest.mark.parametrize(
    ("tables", "sentence"),
    [
        ({"stops": None}, "no stops.txt"),
        ({"stop_times": "trip_id\n"}, "stop_times.txt has no row"),
        ({"stop_times": "trip_id,stop_id\nT1,A\n"}, "no stop"),
        ({"stop_times": "trip_id,stop_id\nT1,A,\n"}, "has no row with as many columns as its header"),
        ({"old/stops": FEED["stops"]}, "holds more than one stops.txt: unpack it, and name the folder of one feed"),
        ({"stops": FEED["stops"].replace("50.", "150.")}, "no stop that is served has a position"),
        ({"agency": "\x00\xff"}, "agency.txt"),
        ({"routes": FEED["routes"].encode() + b"R9,\xd8,\n"}, "routes.txt cannot be read .* in UTF-8"),
        ({"agency": FEED["agency"].replace("Regina", "Nowhere")}, "agency_timezone must be a name like"),
        ({"agency": FEED["agency"].replace("America/Regina", "localtime")}, "agency_timezone must be a name like"),
        ({"agency": FEED["agency"].replace("America/Regina", "")}, "agency.txt has no agency_timezone"),
        ({name: text.replace(",", ";") for name, text in FEED.items()}, "agency.txt has no agency_timezone, .* commas"),
        (
            {"frequencies": "trip_id,start_time,end_time,headway_secs\n" + "T1,0:00:00,96:00:00,1\n" * 20},
            "headway_secs",
        ),
    ],
)
def test_what_is_no_timetable_is_refused_in_a_sentence(tmp_path, tables, sentence):
    texts = {name: text for name, text in {**FEED, **tables}.items() if text is not None}
    with pytest.raises(InputError, match=sentence):
        read_town(write(tmp_path / "feed.zip", texts), 7)


def test_a_specification_is_drafted_from_a_timetable_alone(tmp_path, hatstream):
    write(tmp_path / "feed.zip")
    target = tmp_path / "town.toml"
    code, _, err = hatstream("spec", "new", "--gtfs", tmp_path / "feed.zip", "--output", target)
    assert (code, "2 vehicles for the 2 duties" in err) == (0, True)
    spec = load(target)
    assert (spec.timetable.zone, spec.timetable.service) == ("America/Regina", ((360, 540),))
    assert len(spec.cells.region or ()) == len(read_town(tmp_path / "feed.zip", 7).cells)
    assert spec.levels is not None
    assert spec.levels.fleet.vehicles == 2
    for again in ("town.toml", "other.toml"):
        (tmp_path / "other-places.geojson").write_text("mine")
        code, _, err = hatstream("spec", "new", "--gtfs", tmp_path / "feed.zip", "--output", tmp_path / again)
        assert (code, "is there already" in err) == (1, True)
    assert (tmp_path / "other-places.geojson").read_text() == "mine"
    assert not (tmp_path / "other.toml").exists()


@pytest.mark.parametrize("options", [[], ["--gtfs", "feed.zip"]])
def test_a_draft_needs_a_source_and_a_timetable_s_files_a_place(tmp_path, hatstream, options, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "feed.zip")
    assert hatstream("spec", "new", *options)[0] == 1


def test_rows_that_are_left_out_are_told(tmp_path, hatstream):
    write(tmp_path / "feed.zip", {**FEED, "stop_times": FEED["stop_times"] + "T3,3,C,06:55:00,06:55:00,\n"})
    arguments = ("spec", "new", "--gtfs", tmp_path / "feed.zip", "--output", tmp_path / "town.toml")
    code, _, err = hatstream(*arguments)
    assert code == 0, err
    assert "1 row of the timetable has more or fewer columns than its header, and is left out" in err


def test_a_sample_that_leaves_the_timetable_is_told(tmp_path, hatstream):
    write(tmp_path / "feed.zip", {**FEED, "agency": FEED["agency"].replace("America/Regina", "America/Toronto")})
    moments = [(hour, bus, lat) for hour in range(6, 9) for bus in range(4) for lat in (50.45, 51.0)]
    rows = "".join(f"B{bus},2026-05-13T0{hour}:00:0{bus}-06:00,{lat},-104.6,{20 + bus}\n" for hour, bus, lat in moments)
    (tmp_path / "feed.csv").write_text("bus,time,lat,lon,speed_kmh\n" + rows)
    files = ["--gtfs", tmp_path / "feed.zip", "--sample", tmp_path / "feed.csv", "--output", tmp_path / "town.toml"]
    code, _, err = hatstream("spec", "new", *files)
    assert code == 0
    assert "1 of the sample's 2 cells are not in the timetable's region" in err
    assert "the timetable says America/Toronto" in err
    assert "made from the sample" not in err


def test_the_made_up_town_has_a_timetable_that_its_fleet_keeps_to(tmp_path):
    fleet = MadeUpFleet(vehicles=30, routes=4)
    write_timetable(fleet, tmp_path / "town.zip")
    written = (tmp_path / "town.zip").read_bytes()
    write_timetable(fleet, tmp_path / "again.zip")
    assert written == (tmp_path / "again.zip").read_bytes()
    timetable = read_town(tmp_path / "town.zip", 7)
    assert (timetable.zone, timetable.service.blocks, len(timetable.service.weekdays)) == (fleet.zone, 30, 7)
    assert 15 <= timetable.service.vehicles <= 30


@pytest.mark.parametrize("position", ["0,0", "0.4,-0.3", "1,1", "50.45,104.6", "-50.45,-104.6", "-104.6,50.45", "x,"])
def test_a_position_that_cannot_be_makes_no_region_and_is_told(tmp_path, position):
    expected = town(tmp_path).cells - {h3.latlng_to_cell(50.45, -104.6, 7)}
    stop = town(tmp_path, stops=FEED["stops"].replace("50.45,-104.60", position))
    assert expected <= stop.cells <= town(tmp_path).cells
    assert stop.left_out == [
        f"Left out: 1 of 3 stops that are served, without a position or {IMPOSSIBLE}. The first is stop_id 'B'."
    ]
    shape = town(tmp_path, trips=TRIPS, shapes=SHAPES.format(position))
    assert expected <= shape.cells <= town(tmp_path).cells
    assert shape.left_out == [f"Left out: 1 of 3 points of shapes, without a position or {IMPOSSIBLE}."]


@pytest.mark.parametrize("lon", [179.98, -0.02, 0.5])
def test_stops_on_both_sides_of_a_meridian_are_near_each_other(tmp_path, lon):
    stops = ["stop_id,stop_name,stop_lat,stop_lon\n"]
    stops += [f"{stop},{stop},-17,{(lon + 0.02 * number + 180) % 360 - 180:.2f}\n" for number, stop in enumerate("ABC")]
    assert town(tmp_path, stops="".join(stops)).left_out == []


def test_another_encoding_is_refused_in_one_sentence(tmp_path, hatstream):
    stops = FEED["stops"].encode() + "E,Fürstätt\n".encode("latin-1")  # and too short
    feed = write(tmp_path / "feed.zip", {**FEED, "stops": stops})
    code, _, err = hatstream("spec", "new", "--gtfs", feed, "--output", tmp_path / "town.toml")
    assert (code, err.count("\n")) == (4, 1), err
    assert "stops.txt cannot be read as GTFS has it, a zip or folder of CSV files in UTF-8" in err


def packed(path, method, *, flags=0, named=None, damaged=False):
    """A feed's zip; of each member the flags, the method that its headers name, or its bytes are changed."""
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, text in FEED.items():
            archive.writestr(f"{name}.txt", text)
    content = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        start = content.find(signature)
        while start >= 0:
            struct.pack_into("<H", content, start + offset, flags)
            struct.pack_into("<H", content, start + offset + 2, method if named is None else named)
            if damaged and offset == 6:
                body = start + 30 + sum(struct.unpack_from("<HH", content, start + 26))
                content[body : body + 8] = b"\xff" * 8
            start = content.find(signature, start + 4)
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    "damage",
    [
        {"method": zipfile.ZIP_DEFLATED, "damaged": True},
        {"method": zipfile.ZIP_BZIP2, "damaged": True},
        {"method": zipfile.ZIP_LZMA, "damaged": True},
        {"method": zipfile.ZIP_DEFLATED, "flags": 1},
        {"method": zipfile.ZIP_DEFLATED, "named": 97},
    ],
    ids=["deflate", "bzip2", "lzma", "encrypted", "unknown-method"],
)
def test_a_damaged_zip_is_refused_with_its_name(tmp_path, damage):
    with pytest.raises(InputError, match=r"feed\.zip: agency\.txt cannot be read as GTFS has it"):
        read_town(packed(tmp_path / "feed.zip", **damage), 7)


def test_a_pipe_in_the_place_of_a_feed_or_a_table_is_refused(tmp_path):
    os.mkfifo(tmp_path / "feed.zip")
    with pytest.raises(InputError, match=r"feed\.zip is not a regular file"):
        read_town(tmp_path / "feed.zip", 7)
    folder = tmp_path / "feed"
    folder.mkdir()
    for name, text in FEED.items():
        (folder / f"{name}.txt").write_text(text)
    (folder / "stops.txt").unlink()
    os.mkfifo(folder / "stops.txt")
    with pytest.raises(InputError, match=r"stops\.txt is not a regular file"):
        read_town(folder, 7)


# --- delays by route: from a timetable and TripUpdates to a drafted specification and released rows ------------------


TOWN = MadeUpFleet(vehicles=160, routes=4)
LATE_MIN = {"R0": -1.0, "R1": 1.0, "R2": 4.0, "R3": 7.0}


def updates(at, buses):
    """A feed of one moment: each bus's delay is its route's, some seconds more or less."""
    feed = gtfs_realtime_pb2.FeedMessage()
    feed.header.gtfs_realtime_version, feed.header.timestamp = "2.0", int(at.timestamp())
    for bus in range(buses):
        update = feed.entity.add(id=str(bus)).trip_update
        update.vehicle.id, update.trip.route_id = f"bus{bus}", f"R{bus % 4}"
        stop = update.stop_time_update.add(stop_id="S")
        stop.arrival.delay = int(60 * LATE_MIN[f"R{bus % 4}"]) + bus % 7 - 3
    return feed.SerializeToString()


@pytest.fixture
def drafted(tmp_path, hatstream):
    write_timetable(TOWN, tmp_path / "town.zip")
    code, _, err = hatstream(
        "spec", "new", "--gtfs", tmp_path / "town.zip", "--value", "delay", "--output", tmp_path / "delays.toml"
    )
    assert code == 0, err
    return tmp_path / "delays.toml"


def test_public_lists_come_from_the_timetable(drafted):
    spec = load(drafted)
    assert (spec.value.name, spec.value.unit, spec.input.name) == ("delay", "min", "gtfs-trip-updates")
    assert (float(spec.value.lower), float(spec.value.grid.upper)) == (-5.0, 15.0)
    assert spec.keys.names == tuple(LATE_MIN)
    names = {path.name for path in drafted.parent.glob("delays*")}
    assert names == {
        "delays.toml",
        "delays-routes.txt",
        "delays-stops.txt",
        "delays-trips.txt",
        "delays-stop-pairs.txt",
    }
    by_stop = drafted.read_text().replace("route_id", "stop_id").replace("delays-routes", "delays-stops")
    drafted.with_name("by-stop.toml").write_text(by_stop)
    assert len(load(drafted.with_name("by-stop.toml")).keys) > len(spec.keys)
    paired = by_stop.replace("delays-stops", "delays-stop-pairs").replace(
        '"stop_id"', '"stop_id"\nwithin = "next_stop_id"', 1
    )
    drafted.with_name("pairs.toml").write_text(paired)
    stops = load(drafted.with_name("by-stop.toml")).keys.names
    pairs = [name.split("|") for name in load(drafted.with_name("pairs.toml")).keys.names]
    assert all(first in stops and second in stops for first, second in pairs)
    assert len(stops) / 2 < len(pairs) < 4 * len(stops)


def test_the_profile_is_of_keys_and_by_the_timetable(drafted):
    lines = [line for line in drafted.read_text().splitlines() if "profile = {" in line]
    route, stop, trip = (tomllib.loads(line[line.index("profile") :])["profile"] for line in lines)
    assert (route["hats"], route["cells"]) == (route["hours"], 1)  # its buses stay on their route
    assert route["hours"] == stop["hours"] == trip["hours"] >= 10
    assert stop["hats"] > trip["hats"] > route["hats"]
    assert 1 < trip["parents"] <= trip["cells"]
    assert load(drafted).fleet.profile.hats == route["hats"]


@pytest.mark.slow
def test_a_day_of_trip_updates_gives_rows_by_route(drafted, hatstream):
    drafted.write_text(drafted.read_text().replace("epsilon = 2.64", "epsilon = 60"))  # little noise, for near values
    folder, zone, spec = drafted.parent, ZoneInfo(TOWN.zone), load(drafted)
    first, last = spec.timetable.service[0]
    for minute in range(first, last, 30):
        at = datetime.combine(TOWN.day, datetime.min.time(), zone) + timedelta(minutes=minute)
        (folder / f"{minute:04d}.pb").write_bytes(updates(at, 160))
    assert hatstream("init", "--spec", drafted, "--ledger", folder / "town.sqlite")[0] == 0
    code, _, err = hatstream(
        "release", "--spec", drafted, "--input", folder / "*.pb", "--from", TOWN.day, "--to", TOWN.day,
        "--output", folder / "out", "--formats", "csv", "--ledger", folder / "town.sqlite",
    )  # fmt: skip
    assert code == 0, err
    rows = [row for path in folder.glob("out/**/days-*.csv") for row in csv.DictReader(path.read_text().splitlines())]
    known = {row["cell"]: float(row["value"]) for row in rows if row["value"]}
    assert {row["unit"] for row in rows} == {"min"}
    assert known.keys() == LATE_MIN.keys()
    assert all(abs(value - LATE_MIN[route]) < 1 for route, value in known.items()), known


@pytest.mark.parametrize("options", [["--sample", "town.zip"], ["--streets"], []])
def test_delays_need_a_timetable_alone(tmp_path, hatstream, options):
    write(tmp_path / "town.zip")
    options = [str(tmp_path / option) if option == "town.zip" else option for option in options]
    timetable = ["--gtfs", tmp_path / "town.zip"] if options else ["--sample", tmp_path / "town.zip"]
    code, _, err = hatstream("spec", "new", *timetable, *options, "--value", "delay", "--output", tmp_path / "d.toml")
    assert (code, "--value delay needs --gtfs" in err, "name layout and columns of your feed" in err) == (1, True, True)
