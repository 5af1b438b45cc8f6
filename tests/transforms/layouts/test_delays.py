"""Delays, dwell times and occupancies by public keys, as bus people have them: GTFS-realtime, TIDES and tables."""

import json
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction

import msgspec
import pyarrow as pa
import pytest
from google.transit import gtfs_realtime_pb2

from dpops.types import Grid
from pipelines.specification.tables import PlacesTable, read_keys
from tests.kit import feed_layouts
from tests.kit.feed_layouts import siri_document
from tests.transforms.inputs import NOON, NOON_US, rules, run, write_parquet
from transforms.layouts import FIXED, MAPPED, layout
from transforms.layouts.base import with_keys
from transforms.observe.parse import parse
from transforms.places.ground import Keys

NOON_S = NOON_US // 1_000_000
ROUTES = Keys.of(["1", "2", "10"])
STOP = {"key": "stop_id"}


def by(source, keys=ROUTES, lower=-5, upper=60):
    """Rules for minutes between bounds, on a grid of hundredths."""
    grid = Grid(step=Fraction(1, 100), upper_steps=100 * (upper - lower))
    return replace(rules(source.units), grid=grid, lower=Fraction(lower), keys=keys, is_speed=False)


def minutes(source, path, **rules_of):
    """Values of accepted rows, their keys, and the refused rows by reason."""
    of = by(source, **rules_of)
    observed, refused, _ = run(source, str(path), of)
    values = (observed.value / 100 + float(of.lower)).tolist()
    return values, [of.keys.names[key] for key in observed.lon_e7.tolist()], refused


def updates(*trips, header_s=NOON_S):
    """A feed. Of each trip: vehicle, route, time, stops as (id, delay, predicted time), None where nothing is said."""
    feed = gtfs_realtime_pb2.FeedMessage()
    feed.header.gtfs_realtime_version, feed.header.timestamp = "2.0", header_s
    for number, (vehicle, route, time_s, stops) in enumerate(trips):
        update = feed.entity.add(id=str(number)).trip_update
        update.trip.trip_id = f"t{number}"
        if vehicle is not None:
            update.vehicle.id = vehicle
        if route is not None:
            update.trip.route_id = route
        if time_s is not None:
            update.timestamp = time_s
        for stop_id, delay_s, predicted_s in stops:
            stop = update.stop_time_update.add(stop_id=stop_id)
            event = stop.departure if stop_id == "terminal" else stop.arrival
            if delay_s is not None:
                event.delay = delay_s
            if predicted_s is not None:
                event.time = predicted_s
    return feed.SerializeToString()


def of_updates(fields=1, unit="min", **columns):
    named = {"key": "route_id", "speed": "delay"} | columns
    return layout("gtfs-trip-updates", named, fields=with_keys(fields), unit=unit)


# --- GTFS-realtime ------------------------------------------------------------------------------------------------


def test_a_trip_gives_the_delay_of_its_next_stop_in_minutes(tmp_path):
    ahead = NOON_S + 60
    path = tmp_path / "feed.pb"
    path.write_bytes(
        updates(
            ("a", "1", NOON_S, [("s1", 600, NOON_S - 300), ("s2", 90, ahead), ("s3", 300, ahead + 60)]),
            ("b", "2", NOON_S, [("s1", None, ahead), ("terminal", -120, None), ("s3", 0, None)]),
            ("c", "10", NOON_S, [("s1", 60, NOON_S - 300), ("s2", 120, NOON_S - 200)]),
        )
    )
    assert minutes(of_updates(), path) == ([1.5, -2.0, 2.0], ["1", "2", "10"], Counter())
    stops = Keys.of(["s1", "s2", "s3", "terminal"])
    assert minutes(of_updates(key="stop_id"), path, keys=stops)[1] == ["s2", "terminal", "s2"]


def test_a_row_has_the_time_of_its_update_or_of_the_feed(tmp_path):
    path = tmp_path / "feed.pb"
    stops = [("s1", 60, NOON_S + 999)]
    path.write_bytes(updates(("a", "1", NOON_S - 30, stops), ("b", "1", None, stops), header_s=NOON_S))
    observed, _, _ = run(of_updates(), str(path), by(of_updates()))
    assert observed.event_us.tolist() == [NOON_US - 30_000_000, NOON_US]


def test_updates_without_vehicle_delay_or_public_route_are_refused_by_reason(tmp_path):
    data = updates(
        (None, "1", NOON_S, [("s1", 60, None)]),
        ("a", "1", NOON_S, []),
        ("a", None, NOON_S, [("s1", 60, None)]),
        ("a", "99", NOON_S, [("s1", 60, None)]),
    )
    (tmp_path / "feed.pb").write_bytes(data)
    source = of_updates()
    reasons = {"missing-vehicle": 1, "missing-value": 1, "missing-key": 1, "unknown-key": 1}
    assert minutes(source, tmp_path / "feed.pb")[2] == reasons
    batches = list(source.from_messages([data, b"damage", data]))
    assert [(batch.rows, batch.refused) for batch in batches] == [(9, {"malformed": 1})]


def test_positions_and_updates_of_one_feed_are_read_apart(tmp_path):
    feed = gtfs_realtime_pb2.FeedMessage.FromString(updates(("a", "1", NOON_S, [("s1", 60, None)])))
    report = feed.entity.add(id="p").vehicle
    report.vehicle.id, report.timestamp, report.trip.route_id, report.position.speed = "b", NOON_S, "2", 5.0
    report.occupancy_status, report.occupancy_percentage = report.FEW_SEATS_AVAILABLE, 70
    report.position.latitude = report.position.longitude = 30.0
    report = feed.entity.add(id="q").vehicle
    report.position.latitude = report.position.longitude = 30.0
    report.vehicle.id, report.timestamp, report.trip.route_id = "c", NOON_S, "2"
    report.occupancy_status = report.NO_DATA_AVAILABLE
    (tmp_path / "feed.pb").write_bytes(feed.SerializeToString())
    assert minutes(of_updates(), tmp_path / "feed.pb")[:2] == ([1.0], ["1"])

    def of_positions(unit, **columns):
        source = layout("gtfs-realtime", {"key": "route_id"} | columns, fields=with_keys(1), unit=unit)
        values, keys, refused = minutes(source, tmp_path / "feed.pb", lower=0, upper=100)
        assert (keys, refused) == (["2"], {"missing-value": 1})
        return values

    assert of_positions(None) == [18.0]  # its own speeds, in km/h
    assert of_positions("%", speed="occupancy_percentage") == [70.0]
    assert of_positions("of 5", speed="occupancy_status") == [2.0]


def test_directions_are_keys_within_routes(tmp_path):
    feed = gtfs_realtime_pb2.FeedMessage.FromString(updates(("a", "1", NOON_S, [("s1", 60, None)])))
    feed.entity[0].trip_update.trip.direction_id = 1
    (tmp_path / "feed.pb").write_bytes(feed.SerializeToString())
    source = of_updates(2, key_within="direction_id")
    assert minutes(source, tmp_path / "feed.pb", keys=Keys.of(["1", "2"], ["0", "1"]))[1] == ["1|1"]


def test_pairs_of_a_stop_and_the_next_one_are_keys_of_a_list(tmp_path):
    ahead = NOON_S + 60
    stops = [("s|1", 90, ahead), ("s2", 60, ahead), ("Ä 03", 0, None)]
    (tmp_path / "feed.pb").write_bytes(
        updates(*(("ab"[at], "1", NOON_S, stops[at:]) for at in (0, 1)), ("c", "1", None, stops[2:]))
    )
    source = of_updates(2, key="stop_id", key_within="next_stop_id")
    asked = PlacesTable(column="stop_id", keys="pairs.txt", within="next_stop_id")
    keys = read_keys(asked, {"pairs.txt": "s1|s2\ns2|Ä 03\n"}.__getitem__)
    assert minutes(source, tmp_path / "feed.pb", keys=keys) == (
        [1.0],
        ["s2|Ä 03"],
        {"missing-key": 1, "unknown-key": 1},
    )
    with pytest.raises(ValueError, match=r"are pairs, a.b, or name keys_within: 's2'"):
        read_keys(msgspec.structs.replace(asked, keys=["s1|s2", "s2"]), str)


# --- SIRI ---------------------------------------------------------------------------------------------------------


def of_siri(*journeys, **columns):
    """Values, keys and refusals of journeys, which are the inner XML of each."""
    activities = (
        f"<VehicleActivity><RecordedAtTime>{NOON}</RecordedAtTime><MonitoredVehicleJourney>{inner}"
        f"<VehicleRef>{number}</VehicleRef></MonitoredVehicleJourney></VehicleActivity>"
        for number, inner in enumerate(journeys)
    )
    named = {"key": "LineRef", "speed": "delay"} | columns
    source = layout("siri-vm", named, fields=with_keys(len(named) - 1), unit="min")
    names = ["007", "AG:12 é"] if len(named) == 2 else ["s0|s1", "s1|s2"]
    (batch,) = source.from_messages([siri_document(activities)])
    of = by(source, keys=Keys.of(names))
    observed, refused = parse(batch.table, of)
    values = [
        (number / 100 - 5, of.keys.names[key]) for number, key in zip(observed.value, observed.lon_e7, strict=True)
    ]
    return values, refused


@pytest.mark.parametrize(
    ("delay", "expected"),
    [
        ("PT2M", 2.0), (" -PT30S ", -0.5), ("PT-1M-30S", -1.5), ("P0Y0M0DT0H1M30.0S", 1.5), ("PT0S", 0.0),
        ("P9999Y", 60.0), (f"-PT{'9' * 400}H", -5.0), ("", "missing-value"), ("PT", "bad-value"),
        ("120", "bad-value"), ("PT2M<b>PT9M</b>", 2.0),
    ],
)  # fmt: skip
def test_siri_delays_are_durations(delay, expected):
    line = f"<LineRef>007</LineRef><Delay>{delay}</Delay>"
    values = ([], {expected: 1}) if isinstance(expected, str) else ([(expected, "007")], {})
    assert of_siri(line) == values


def test_a_siri_journey_without_line_delay_or_public_line_is_refused_by_reason():
    late, line = "<Delay>PT1M</Delay>", "<LineRef>AG:12 é</LineRef>"
    values, refused = of_siri(late + line, late, line, f"{late}<LineRef>7</LineRef>", f"<Call>{late}{line}</Call>")
    assert values == [(1.0, "AG:12 é")]
    assert refused == {"missing-key": 2, "missing-value": 1, "unknown-key": 1}


def test_siri_dwell_times_and_pairs_of_stops_are_those_of_calls():
    def stop(name, times=""):
        return f"<StopPointRef>{name}</StopPointRef>{times}"

    times = "<ActualArrivalTime>2023-11-15T11:59:00Z</ActualArrivalTime>"
    times += "<ActualDepartureTime>2023-11-15T12:00:30+00:00</ActualDepartureTime>"
    calls = [f"<PreviousCall>{stop(name)}</PreviousCall>" for name in ("s9", "s0")]
    journey = f"<PreviousCalls>{''.join(calls)}</PreviousCalls><MonitoredCall>{stop('s1', times)}</MonitoredCall>"
    dwell = {"speed": ["ActualDepartureTime", "ActualArrivalTime"]}
    pairs = {"key": "PreviousStopPointRef", "key_within": "StopPointRef"}
    assert of_siri(journey, **pairs, **dwell) == ([(1.5, "s0|s1")], {})


# --- tables -------------------------------------------------------------------------------------------------------


def test_tides_deviations_are_seconds_and_dwell_times_too(tmp_path):
    (tmp_path / "locations.csv").write_text(
        "location_ping_id,vehicle_id,event_timestamp,stop_id,latitude,longitude,speed,schedule_deviation\n"
        f"p1,a,{NOON},1,,,,-90\np2,b,{NOON},2,,,,\n"
    )
    source = layout("tides", STOP | {"speed": "schedule_deviation"}, fields=with_keys(1), unit="min")
    assert minutes(source, tmp_path / "locations.csv") == ([-1.5], ["1"], {"missing-value": 1})
    (tmp_path / "visits.csv").write_text(
        "vehicle_id,stop_id,schedule_arrival_time,actual_arrival_time,dwell,departure_load\n"
        f"a,1,2023-11-15T11:58:30Z,{NOON},30,12\nb,2,2023-11-15T12:01:00Z,{NOON},,\n"
    )
    expected = {"dwell": ([0.5], "min"), "departure_load": ([12.0], "people")}
    for column, (values, unit) in expected.items():
        source = layout("tides-stop-visits", STOP | {"speed": column}, fields=with_keys(1), unit=unit)
        assert minutes(source, tmp_path / "visits.csv") == (values, ["1"], {"missing-value": 1})
    late = {"speed": ["actual_arrival_time", "schedule_arrival_time"]}
    source = layout("tides-stop-visits", STOP | late, fields=with_keys(1), unit="min")
    assert minutes(source, tmp_path / "visits.csv")[:2] == ([1.5, -1.0], ["1", "2"])


TABLES = sorted(MAPPED)


@pytest.mark.parametrize("name", TABLES)
def test_a_column_of_seconds_or_two_of_times_are_a_delay_in_any_table(name, tmp_path):
    times = ((NOON, 90, "2023-11-15T11:58:30Z"), ("2023-11-15T12:10:00Z", -60, "2023-11-15T12:11:00Z"))
    rows = [
        {"bus": f"b{number}", "at": at, "route": "10", "late_s": late_s, "planned": planned}
        for number, (at, late_s, planned) in enumerate(times)
    ]
    suffix, writer = feed_layouts.WRITERS[name]
    (tmp_path / f"table.{suffix}").write_bytes(writer(rows))
    for columns, unit in (({"speed": "late_s"}, "s"), ({"speed": ["at", "planned"]}, None)):
        named = {"vehicle": "bus", "time": "at", "key": "route"} | columns
        source = layout(name, named, None, unit, fields=with_keys(1), unit="min")
        assert minutes(source, tmp_path / f"table.{suffix}") == ([1.5, -1.0], ["10", "10"], Counter())


def test_times_of_any_form_and_those_that_are_none_make_no_delay(tmp_path):
    at = datetime(2023, 11, 15, 12, tzinfo=UTC)
    columns = {"vehicle": "bus", "time": "at", "key": "route", "speed": ["at", "planned"]}
    planned = pa.array([at, None], pa.timestamp("ms", "UTC"))
    rows = {"bus": ["a", "b"], "at": [at] * 2, "route": ["1"] * 2, "planned": planned}
    source = layout("parquet", columns, fields=with_keys(1), unit="min")
    assert minutes(source, write_parquet(tmp_path / "t.parquet", rows))[::2] == ([0.0], {"missing-value": 1})
    lines = [{"bus": "a", "at": NOON, "route": 1, "planned": text} for text in ("soon", 5, None, [], NOON)]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    source = layout("jsonl", columns, fields=with_keys(1), unit="min")
    assert minutes(source, tmp_path / "t.jsonl")[::2] == ([0.0], {"bad-value": 3, "missing-value": 1})


# --- wrong choices ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "columns", "unit", "words"),
    [
        ("gtfs-trip-updates", {"key": "route", "speed": "delay"}, "min", "places.column.*must be of route_id.*'route'"),
        ("gtfs-trip-updates", {"key": "route_id", "speed": "late"}, "min", "value.name.*must be of delay, got 'late'"),
        ("gtfs-trip-updates", {"key": "route_id", "speed": "delay"}, "km", "'delay' is in s: value.unit must be s"),
        ("siri-vm", {"key": "LineRef", "speed": "Occupancy"}, "min", "value.name.*must be of delay, ActualArrivalTime"),
        ("tides", {"key": "stop_id", "speed": "speed"}, "m/s", "is a speed: write .speed."),
        ("tides", {"key": "stop_id", "vehicle": "id"}, "min", "columns.*has its own columns"),
        ("capmetro", {"key": "route_id", "speed": "v"}, None, "has its own columns"),
        (
            "csv",
            {"vehicle": "v", "time": "t", "key": "k", "speed": ["a", "b"]},
            None,
            "is in s: value.unit must be s, min, h, got km/h",
        ),
    ],
)
def test_a_wrong_column_or_unit_is_refused_by_its_rule(name, columns, unit, words):
    with pytest.raises(ValueError, match=words):
        layout(name, columns, fields=with_keys(1), unit=unit)


def test_a_unit_of_the_input_is_one_of_time_for_a_value_of_time():
    named = {"vehicle": "bus", "time": "at", "key": "route", "speed": "late"}
    assert layout("csv", named, None, "h", fields=with_keys(1), unit="min").units.value_per_unit == 60
    with pytest.raises(ValueError, match="value_unit: must be one of s, min, h, got 'm/s'"):
        layout("csv", named, None, "m/s", fields=with_keys(1), unit="min")
    with pytest.raises(ValueError, match="value_unit: must be one of people, got 's'"):
        layout("csv", named, None, "s", fields=with_keys(1), unit="people")


@pytest.mark.parametrize("name", [name for name in FIXED if "lat" not in FIXED[name].layout.fields])
def test_layouts_without_positions_need_a_key(name):
    with pytest.raises(ValueError, match=r"has no positions: name a key of its rows as places.column"):
        layout(name, None)
