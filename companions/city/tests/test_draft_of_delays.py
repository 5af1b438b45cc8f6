"""Delays by route: from a timetable and TripUpdates to a drafted specification and released rows."""

import csv
import tomllib
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from google.transit import gtfs_realtime_pb2

from companions.city.tests.feeds import write
from hatstream_lab.demo.timetable import write_timetable
from hatstream_lab.made_up_fleet import MadeUpFleet
from pipelines.specification import load

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
