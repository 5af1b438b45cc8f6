"""Each row becomes an observation or is refused for the first reason that applies, whatever its speed."""

import io
import json
import pickle
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit import feed_layouts
from tests.kit.feed_layouts import siri_activity, siri_document
from tests.transforms.inputs import KMH, NOON, NOON_US, UPPER_STEPS, good_row, rules, run, table
from transforms.layouts import Units, layout
from transforms.layouts.base import FIELDS, RawBatch, with_heading
from transforms.observe import parse as module
from transforms.observe.parse import REASONS, parse
from transforms.observe.vehicle_ids import vehicle_hashes
from transforms.records import NO_HEADING
from transforms.sources.elements import _batches

GOOD = {"vehicle": "bus", "time": NOON, "lat": 30.25, "lon": -97.75, "speed": 36.0}
SECONDS = Units("s", Fraction(1))


def one(field, value, kind=None, by=None):
    """What happens to a good row with one field changed: its observation, or the reason."""
    column = pa.array([value], kind)
    batch = table([GOOD])
    batch = batch.set_column(batch.schema.get_field_index(field), field, column)
    observations, refused = parse(batch, by or rules())
    if refused:
        assert len(observations.value) == 0
        ((reason, count),) = refused.items()
        assert count == 1
        return reason
    return tuple(int(part[0]) for part in observations)


def speed_of(value, kind=None, units=KMH):
    return one("speed", value, kind, rules(units))[5]


def test_a_good_row_is_an_observation_in_integers():
    (hashed,) = vehicle_hashes(b"k" * 32, ["2023-11-15"], [b"bus"])
    assert one("vehicle", "bus") == (hashed, NOON_US, NOON_US, 302_500_000, -977_500_000, 3_600, NO_HEADING)


def test_the_reasons_are_public_and_fixed():
    assert REASONS == (
        "missing-vehicle", "bad-vehicle", "missing-time", "no-offset", "clock-change", "bad-time",
        "implausible-time", "outside-range", "outside-service", "missing-position", "bad-position", "latitude-range",
        "longitude-range", "zero-position", "outside-bbox", "missing-speed", "bad-speed", "missing-value",
        "bad-value", "missing-key", "unknown-key",
    )  # fmt: skip


GOLDEN = [
    ("vehicle", None, "missing-vehicle"), ("vehicle", "", "missing-vehicle"), ("vehicle", b"", "missing-vehicle"),
    ("vehicle", "NULL", "missing-vehicle"), ("vehicle", b" n/a", "missing-vehicle"),
    ("vehicle", " \u00a0\n", "missing-vehicle"), ("vehicle", True, "bad-vehicle"), ("vehicle", 1.5, "bad-vehicle"),
    ("vehicle", ["bus"], "bad-vehicle"), ("vehicle", b"\xff", "bad-vehicle"), ("vehicle", "x" * 257, "bad-vehicle"),
    ("vehicle", "é" * 129, "bad-vehicle"), ("time", None, "missing-time"), ("time", "", "missing-time"),
    ("time", "yesterday", "bad-time"), ("time", "2023-11-15T12:00:00", "no-offset"),
    ("time", 1_700_049_600, "bad-time"), ("time", True, "bad-time"),
    ("time", "1999-12-31T23:59:59.999999Z", "implausible-time"), ("time", "1970-01-01T00:00:00Z", "implausible-time"),
    ("time", "2100-01-01T00:00:00Z", "implausible-time"), ("time", "9999-12-31T00:00:00Z", "implausible-time"),
    ("time", "2000-01-01T00:00:00Z", "outside-range"), ("time", "2099-12-31T23:59:59.999999Z", "outside-range"),
    ("time", "2023-11-14T23:59:59.999999Z", "outside-range"), ("time", "2023-11-16T00:00:00Z", "outside-range"),
    ("lat", None, "missing-position"), ("lon", "", "missing-position"), ("lat", float("nan"), "bad-position"),
    ("lon", float("inf"), "bad-position"), ("lat", True, "bad-position"), ("lon", "west", "bad-position"),
    ("lat", "nan", "bad-position"), ("lat", 90.0000001, "latitude-range"), ("lat", -91, "latitude-range"),
    ("lat", 1e308, "latitude-range"), ("lat", "1e999", "latitude-range"), ("lon", 360.5, "longitude-range"),
    ("lon", -180.5, "longitude-range"), ("lon", -1e308, "longitude-range"), ("speed", None, "missing-speed"),
    ("speed", "", "missing-speed"), ("speed", float("nan"), "bad-speed"), ("speed", float("-inf"), "bad-speed"),
    ("speed", "fast", "bad-speed"), ("speed", "Infinity", "bad-speed"), ("speed", False, "bad-speed"),
    ("speed", [1.0], "bad-speed"),
]  # fmt: skip


@pytest.mark.parametrize(("field", "value", "reason"), GOLDEN)
def test_each_fault_has_its_reason(field, value, reason):
    assert one(field, value) == reason


def test_every_reason_is_in_a_test():
    elsewhere = {"outside-service", "zero-position", "outside-bbox", "clock-change", "missing-key", "unknown-key"}
    assert {reason for _, _, reason in GOLDEN} | elsewhere == set(REASONS) - {"missing-value", "bad-value"}


@pytest.mark.parametrize(("value", "reason"), [(None, "missing-value"), ("late", "bad-value")])
def test_a_value_other_than_a_speed_is_refused_as_one(value, reason):
    assert one("speed", value, by=replace(rules(), is_speed=False)) == reason


def test_hours_without_service_are_refused():
    by = rules(service=(6 * 60, 12 * 60))
    assert one("time", "2023-11-15T11:59:59Z", by=by)[2] == NOON_US - 3_600_000_000
    assert one("time", NOON, by=by) == "outside-service"


AUSTIN, FIJI = (-98.2, 30.0, -97.3, 30.7), (179.0, -19.0, -179.0, -17.0)  # west, south, east, north


@pytest.mark.parametrize(
    ("box", "lat", "lon", "inside"),
    [
        (AUSTIN, 30.0, -98.2, True), (AUSTIN, 30.7, -97.3, True), (AUSTIN, 30.35, -98.2000001, False),
        (AUSTIN, 29.9999999, -97.5, False), (AUSTIN, 30.7000001, -97.5, False),
        *[(FIJI, -18.0, lon, True) for lon in (179.0, 179.5, 180.0, -180.0, -179.0)],
        *[(FIJI, -18.0, lon, False) for lon in (178.9, -178.9, 0.1)],
    ],
)  # fmt: skip
def test_the_edges_of_a_box_are_inside_and_it_may_cross_the_antimeridian(box, lat, lon, inside):
    refused = parse(table([{**GOOD, "lat": lat, "lon": lon}]), rules(bbox=box))[1]
    assert refused == ({} if inside else {"outside-bbox": 1})


def test_the_poles_and_the_date_line_are_positions():
    assert one("lat", 90)[3] == 900_000_000
    assert one("lon", -180.0)[4] == -1_800_000_000


@pytest.mark.parametrize("lon", [262.25, "262.25", Decimal("262.25")])
def test_a_longitude_counted_from_0_to_360_is_of_the_same_place(lon):
    assert one("lon", lon) == one("lon", -97.75)
    assert one("lon", 360)[4] == 0
    assert one("lon", 180)[4] == 1_800_000_000


def test_the_first_fault_is_the_reason():
    faults = {"vehicle": "", "time": "x", "lat": None, "lon": 400.0, "speed": None}
    expected = ["missing-vehicle", "bad-time", "missing-position", "longitude-range", "missing-speed"]
    for reason, field in zip(expected, list(faults), strict=True):
        assert parse(table([{**GOOD, **faults}]), rules())[1] == {reason: 1}
        faults[field] = GOOD[field]
    assert parse(table([{**GOOD, **faults}]), rules())[1] == {}


# --- speeds: under public counts nothing that decides acceptance may look at one ----------------------------------


@pytest.mark.parametrize("kmh_per_unit", [Fraction(1), Fraction(18, 5), Fraction(1_609_344, 1_000_000)])
def test_a_finite_speed_is_clamped_and_never_refused(kmh_per_unit):
    units = Units("iso", kmh_per_unit)
    for speed in (0, 0.0, -0.0, -5.0, -1e308, -(2**63), "-1e999", 5e-324):
        assert speed_of(speed, units=units) == 0, speed
    for speed in (65.01, 400.0, "400", 2**63 - 1, 1e308, "1e999"):
        assert speed_of(speed, units=units) == UPPER_STEPS, speed


@pytest.mark.parametrize(("speed", "steps"), [(0.004, 0), (0.006, 1), (36.0, 3_600), (64.996, 6_500), (65.0, 6_500)])
def test_speeds_are_rounded_to_the_grid(speed, steps):
    assert speed_of(speed) == steps


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=20))
def test_no_finite_speed_changes_what_is_accepted(speeds):
    rows = [{**good_row(i), "speed": speed} for i, speed in enumerate(speeds)]
    calm = [{**good_row(i), "speed": 1.0} for i in range(len(speeds))]
    observed, refused = parse(table(rows) if rows else table([GOOD])[:0], rules())
    assert refused == {}
    assert all(0 <= step <= UPPER_STEPS for step in observed.value.tolist())
    if rows:
        for name in ("vehicle", "event_us", "lat_e7", "lon_e7"):
            np.testing.assert_array_equal(getattr(observed, name), getattr(parse(table(calm), rules())[0], name))


# --- vehicles -----------------------------------------------------------------------------------------------------


def test_a_dictionary_of_ids_is_read_like_the_ids():
    ids = ["a", None, "b", "", "a", "x" * 257]
    rows = [{**good_row(i), "vehicle": vehicle} for i, vehicle in enumerate(ids)]
    plain = table(rows)
    coded = plain.set_column(0, "vehicle", plain.column("vehicle").dictionary_encode())
    repeated = pa.DictionaryArray.from_arrays(
        pa.array([0, 1, 2, 3, 4, 5], pa.int8()), pa.array(["a", None, "b", "", "a", "x" * 257])
    )
    observed, refused = parse(plain, rules())
    assert refused == {"missing-vehicle": 2, "bad-vehicle": 1}
    for same in (coded, plain.set_column(0, "vehicle", repeated)):
        again, counts = parse(same, rules())
        assert counts == refused
        np.testing.assert_array_equal(again.vehicle, observed.vehicle)


def test_each_pair_of_period_and_vehicle_is_hashed_once(monkeypatch):
    asked = []
    monkeypatch.setattr(
        module,
        "vehicle_hashes",
        lambda _key, periods, ids: asked.extend(zip(periods, ids, strict=True)) or np.arange(len(ids)),
    )
    rows = [{**good_row(i), "time": f"2023-11-{15 + i % 2}T08:00:{i % 60:02d}Z"} for i in range(500)]
    parse(table([*rows, {**GOOD, "vehicle": "refused", "speed": None}]), rules(end="2023-11-17"))
    assert len(asked) == len(set(asked)) == 14
    assert ("2023-11-15", b"refused") not in asked


def test_the_hash_changes_with_the_period_and_not_with_the_row():
    days = [{**GOOD, "time": f"2023-11-{day}T08:00:00Z"} for day in (15, 16, 15)]
    first, second, third = parse(table(days), rules(end="2023-11-17"))[0].vehicle
    assert first == third != second


# --- whole batches ------------------------------------------------------------------------------------------------


def test_observations_keep_the_order_of_rows():
    rows = [good_row(i) if i % 3 else {**good_row(i), "speed": None} for i in range(300)]
    observed, refused = parse(table(rows), rules())
    assert refused == {"missing-speed": 100}
    expected, _ = parse(table([row for row in rows if row["speed"] is not None]), rules())
    for part, same in zip(observed, expected, strict=True):
        np.testing.assert_array_equal(part, same)


def columns_of_anything(rows):
    """A column of any one type, often near to what a good column holds."""
    kinds = [pa.bool_(), pa.int64(), pa.float64(), pa.string(), pa.binary()]
    values = [st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(), st.text(max_size=8), st.binary(max_size=8)]
    near = st.sampled_from([NOON, "30.25", "-97.75", "bus", "0", "1e999", "nan", "", "2023-02-30T00:00:00Z"])
    numbers = st.sampled_from([0.0, 30.25, -97.75, 91.0, NOON_US / 1e6, -0.0, 1e308])
    choices = [*zip(kinds, values, strict=True), (pa.string(), near), (pa.float64(), numbers)]
    return st.one_of([
        st.lists(st.none() | value, min_size=rows, max_size=rows).map(lambda items, kind=kind: pa.array(items, kind))
        for kind, value in choices
    ])  # fmt: skip


@given(
    st.integers(1, 6).flatmap(lambda rows: st.tuples(*[columns_of_anything(rows)] * 5)), st.sampled_from([KMH, SECONDS])
)
def test_rows_are_observations_or_refused_whatever_the_columns_hold(columns, units):
    batch = pa.RecordBatch.from_arrays(list(columns), ["vehicle", "time", "lat", "lon", "speed"])
    observed, refused = parse(batch, rules(units))
    assert batch.num_rows == len(observed.value) + sum(refused.values())
    alone = [parse(batch[i : i + 1], rules(units)) for i in range(batch.num_rows)]
    np.testing.assert_array_equal(observed.vehicle, np.concatenate([part.vehicle for part, _ in alone]))
    for reason in REASONS:
        assert refused.get(reason, 0) == sum(counts.get(reason, 0) for _, counts in alone)


def test_rules_travel_and_keep_their_key_to_themselves():
    by = rules()
    assert pickle.loads(pickle.dumps(by)) == by
    assert "kkkk" not in repr(by)


# --- A row's heading follows from its own value alone, in every layout and beside whatever others. --------------------


NAMES = with_heading(FIELDS)
NUMBERS = [(90, 90), (0.4, 0), (359.6, 0), (360, 0), (0, NO_HEADING), (-90, NO_HEADING), (360.1, NO_HEADING)]
NUMBERS += [(float("nan"), NO_HEADING), (float("inf"), NO_HEADING), (1e300, NO_HEADING), (None, NO_HEADING)]
TEXTS = [("90", 90), (" 90.2 ", 90), ("1e2", 100), ("0", NO_HEADING), ("", NO_HEADING), ("north", NO_HEADING)]
TEXTS += [("-1", NO_HEADING), ("999", NO_HEADING), ("nan", NO_HEADING), (None, NO_HEADING)]


def rows_of(said):
    return [good_row(i) | {"time": NOON.replace("00Z", f"{i:02d}Z"), "heading": value} for i, (value, _) in said]


def avro_of(rows):
    kinds = {"vehicle": "string", "time": "string", "heading": ["null", "double", "string"]}
    fields = [{"name": name, "type": kinds.get(name, "double")} for name in NAMES]
    sink = io.BytesIO()
    fastavro.writer(sink, {"type": "record", "name": "r", "fields": fields}, rows)
    return sink.getvalue()


def gtfs_of(rows):
    return feed_layouts.gtfs([row | {"time": NOON_US // 1_000_000 + number} for number, row in enumerate(rows)])


def mds_of(rows):
    telemetry = [
        {
            "device_id": row["vehicle"],
            "timestamp": NOON_US // 1_000 + number,
            "location": {"lat": row["lat"], "lng": row["lon"], "heading": row["heading"], "speed": row["speed"]},
        }
        for number, row in enumerate(rows)
    ]
    return json.dumps({"telemetry": telemetry}).encode()


def tides_of(rows):
    names = {"vehicle": "vehicle_id", "time": "event_timestamp", "lat": "latitude", "lon": "longitude"}
    return feed_layouts.csv([{names.get(name, name): value for name, value in row.items()} for row in rows])


FORMS = {
    "csv": (feed_layouts.csv, TEXTS),
    "jsonl": (
        feed_layouts.jsonl,
        [*NUMBERS[:7], (None, NO_HEADING), ("90", 90), ("x", NO_HEADING), (True, NO_HEADING), ([], NO_HEADING)],
    ),
    "json": (feed_layouts.array, [*NUMBERS[:7], (None, NO_HEADING), ({}, NO_HEADING), (10**400, NO_HEADING)]),
    "avro": (avro_of, [*NUMBERS, ("x", NO_HEADING)]),
    "parquet": (feed_layouts.parquet, NUMBERS),
    "gtfs-realtime": (gtfs_of, NUMBERS[:9] + NUMBERS[10:]),
    "siri-vm": (lambda rows: siri_document(map(siri_activity, rows)), TEXTS),
    "mds": (mds_of, [*NUMBERS[:7], (None, NO_HEADING)]),
    "tides": (tides_of, TEXTS),
}


@pytest.mark.parametrize("name", FORMS)
def test_headings_are_degrees_above_0_to_360_whatever_stands_beside_them(name, tmp_path):
    write, said = FORMS[name]
    columns = None if name in ("gtfs-realtime", "siri-vm", "mds", "tides") else {field: field for field in NAMES}
    source = layout(name, columns, None, None, headed=True)
    by = rules(source.units)
    rows = rows_of(enumerate(said))
    (tmp_path / "together").write_bytes(write(rows))
    observations, refused, _ = run(source, str(tmp_path / "together"), by)
    assert observations.heading.tolist() == [heading for _, heading in said]
    assert not refused, "a heading refuses no row"
    for row, (_, heading) in zip(rows, said, strict=True):
        (tmp_path / "alone").write_bytes(write([row]))
        assert run(source, str(tmp_path / "alone"), by)[0].heading.tolist() == [heading]


def test_elements_have_headings_of_any_types():
    said = [*NUMBERS, *TEXTS, (90, 90), (np.float32(45), 45), (True, NO_HEADING), (b"90", 90), ([], NO_HEADING)]
    batches = list(_batches(rows_of(enumerate(said)), NAMES, NAMES))
    headings = {}
    for batch in batches:
        assert isinstance(batch, RawBatch)
        seen, refused = parse(batch.table, rules(KMH))
        assert not refused
        headings |= dict(zip(((seen.event_us - NOON_US) // 1_000_000).tolist(), seen.heading.tolist(), strict=True))
    assert [headings[second] for second in range(len(said))] == [heading for _, heading in said]


def test_a_feed_that_is_not_asked_for_headings_has_none(tmp_path):
    (tmp_path / "a.csv").write_bytes(feed_layouts.csv(rows_of(enumerate(TEXTS))))
    source = layout("csv", {field: field for field in FIELDS}, None, None)
    observations, _, rows = run(source, str(tmp_path / "a.csv"), rules())
    assert observations.heading.tolist() == [NO_HEADING] * rows


@pytest.mark.parametrize(
    ("name", "columns", "headed", "message"),
    [
        ("capmetro", None, True, "layout 'capmetro' has no heading"),
        ("csv", {field: field for field in FIELDS}, True, "they need one"),
        ("csv", {name: name for name in NAMES}, False, "goes with places that have the property directed"),
    ],
)
def test_who_needs_headings_names_their_column_and_nobody_else_does(name, columns, headed, message):
    with pytest.raises(ValueError, match=message):
        layout(name, columns, None, None, headed=headed)
