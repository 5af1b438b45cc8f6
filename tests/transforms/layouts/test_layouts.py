"""Every layout hands over the rows of its files, in its declared units, and says why it cannot read one."""

import pickle
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from operator import or_

import numpy as np
import pyarrow as pa
import pytest
from google.transit import gtfs_realtime_pb2

from tests.kit import feed_layouts
from tests.transforms import inputs
from tests.transforms.inputs import DATA, NOON_US, good_row, mapped, rules, run, write_avro, write_jsonl, write_parquet
from tests.transforms.layouts.hostile_files import unreadable
from transforms.layouts import FIXED, MAPPED, Units, layout
from transforms.layouts.base import FIELDS
from transforms.value import PER_UNIT

ROWS = [good_row(i) for i in range(300)]
MAP = {field: field for field in FIELDS}
DOUBLE = ["null", "double"]
AVRO_TYPES = {"vehicle": "string", "time": "string", "lat": DOUBLE, "lon": DOUBLE, "speed": DOUBLE}
WIDE = {"start": "2016-01-01", "end": "2027-01-01"}


@pytest.fixture(scope="module")
def data():
    if not DATA.is_dir():
        pytest.skip("the folder of real telemetry is absent")
    return DATA


# --- choosing a layout --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "units"),
    [
        ("capmetro", Units("iso", Fraction(18, 5))),
        ("iudx", Units("iso", Fraction(1))),
        ("gtfs-realtime", Units("s", Fraction(18, 5))),
        ("siri-vm", Units("iso", Fraction(18, 5))),
        ("tides", Units("iso", Fraction(18, 5))),
        ("mds", Units("ms", Fraction(18, 5))),
    ],
)
def test_fixed_layouts_have_their_own_units(name, units):
    assert layout(name, None, None, None).units == units
    assert layout(name, None, units.time_unit, "mph").units == replace(units, value_per_unit=PER_UNIT["mph"])
    with pytest.raises(ValueError, match="has its own columns"):
        layout(name, MAP, None, None)


@pytest.mark.parametrize("name", sorted(MAPPED))
def test_mapped_layouts_declare_units_and_travel(name):
    assert layout(name, MAP, None, None).units == Units("iso", Fraction(1))
    chosen = layout(name, MAP, "ms", "mph")
    assert chosen.units == Units("ms", Fraction(1_609_344, 1_000_000))
    assert pickle.loads(pickle.dumps(chosen)) == chosen
    assert hash(chosen) == hash(layout(name, MAP, "ms", "mph"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("tsv", MAP, None, None), ["layout", "one of", "tsv"]),
        (("csv", None, None, None), ["columns", "exactly", "none"]),
        (("csv", {"vehicle": "v"}, None, None), ["columns", "exactly", "vehicle"]),
        (("csv", {**MAP, "heading": "h"}, None, None), ["columns", "exactly", "heading"]),
        (("csv", {**MAP, "lat": ""}, None, None), ["columns.lat", "must name", "''"]),
        (("csv", MAP, "h", None), ["time_unit", "one of", "'h'"]),
        (("csv", MAP, None, "feet/s"), ["speed_unit", "one of", "'feet/s'"]),
    ],
)
def test_a_wrong_choice_names_field_rule_and_value(arguments, words):
    with pytest.raises(ValueError, match=".*".join(words)):
        layout(*arguments)


# --- real telemetry -----------------------------------------------------------------------------------------------


def test_the_surat_array_is_read_whole(data):
    observed, refused, rows = run(FIXED["iudx"].layout, str(data / "surat" / "suratITMS.json"), rules(**WIDE))
    assert (rows, refused) == (5_000, Counter())
    assert len(set(observed.vehicle.tolist())) == 208
    assert observed.lon_e7.min() > 720_000_000 > observed.lat_e7.max() > 200_000_000
    assert observed.event_us.min() >= 1_641_012_000_000_000  # 2022-01-01T10:10+05:30


# --- the same rows in every layout --------------------------------------------------------------------------------


def written(name, folder, rows=ROWS):
    """The rows in one layout: the layout and the file."""
    path = folder / "feed"
    if name in feed_layouts.MAPPED:
        path.write_bytes(feed_layouts.WRITERS[name][1](rows))
        return mapped(name), str(path)
    if name == "iudx-array":
        return FIXED["iudx"].layout, inputs.write_array(path, map(inputs.iudx_element, rows), b" ,\n ")
    if name == "iudx-lines":
        return FIXED["iudx"].layout, write_jsonl(path, map(inputs.iudx_element, rows))
    times = pa.array([row["time"] for row in rows]).cast(pa.timestamp("us", "UTC"))
    if name == "parquet-typed":
        columns = {field: pa.array([row[field] for row in rows]) for field in FIELDS}
        return mapped("parquet", "s"), write_parquet(path, {**columns, "time": times.cast(pa.timestamp("ms", "UTC"))})
    if name == "avro-decimal":
        places = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 9}
        speeds = {"type": "fixed", "name": "d", "size": 12, "logicalType": "decimal", "precision": 28, "scale": 20}
        types = {**AVRO_TYPES, "lat": places, "lon": ["null", places], "speed": [speeds, "null"]}
        numbers = [{field: round(Decimal(row[field]), 9) for field in ("lat", "lon", "speed")} for row in rows]
        return mapped("avro"), write_avro(path, map(or_, rows, numbers), types)
    micros = {"type": "long", "logicalType": "timestamp-micros"}
    typed = [{**row, "time": time} for row, time in zip(rows, times.to_pylist(), strict=True)]
    return mapped("avro"), write_avro(path, typed, {**AVRO_TYPES, "time": micros}, "null")


KINDS = [*feed_layouts.MAPPED, "iudx-array", "iudx-lines", "parquet-typed", "avro-typed", "avro-decimal"]


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    return run(*written("csv", tmp_path_factory.mktemp("expected")), rules())


@pytest.mark.parametrize("name", KINDS)
def test_the_same_rows_give_the_same_observations_in_every_layout(name, tmp_path, expected):
    source, path = written(name, tmp_path)
    observed, refused, rows = run(source, path, rules(source.units))
    assert (rows, refused) == (300, Counter())
    for part, same in zip(observed, expected[0], strict=True):
        np.testing.assert_array_equal(part, same)


def test_json_paths_lead_into_objects_and_arrays(tmp_path):
    source = mapped("jsonl", "ms", "m/s", vehicle="bus.id", lat="place.at.1", lon="place.at.0", speed="v", time="t")
    lines = [
        b'{"bus":{"id":7},"place":{"at":[-97.5,30.5]},"t":1700049600000,"v":10}',
        b'{"bus":{"id":"7"},"place":{"at":[-97.5]},"t":"1700049600000","v":10}',
        b'{"bus":{"id":"7"},"place":{"at":"[]"},"t":1700049600000,"v":10}',
        b'{"bus":7,"place":{"at":[-97.5,30.5]},"t":1700049600000,"v":10}',
        b'{"place":{"at":[-97.5,30.5]},"t":1700049600000,"v":10}',
        b'{"bus":{"id":"7"},"place":null,"t":1700049600000,"v":10}',
    ]
    path = write_jsonl(tmp_path / "a.jsonl", lines)
    observed, refused, _ = run(source, path, rules(source.units))
    assert [part.tolist() for part in observed[1:6]] == [[NOON_US], [NOON_US], [305_000_000], [-975_000_000], [3_600]]
    assert refused == {"missing-position": 2, "bad-position": 1, "bad-vehicle": 1, "missing-vehicle": 1}


# --- CSV and JSON lines -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"", b"\n\n", b" ", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("source", [mapped("jsonl"), FIXED["iudx"].layout])
def test_an_empty_json_file_gives_nothing(tmp_path, source, content):
    (tmp_path / "a").write_bytes(content)
    assert run(source, str(tmp_path / "a"), rules())[1:] == (Counter(), 0)


@pytest.mark.few(2)
@pytest.mark.parametrize("kind", ["csv", "iudx-array", "jsonl"])
def test_files_longer_than_a_chunk_lose_nothing(tmp_path, kind):
    rows = [good_row(i) for i in range(45_000)]
    source, path = written(kind, tmp_path, rows)
    assert len(list(source.read(path))) > 1
    observed, refused, count = run(source, path, rules())
    assert (count, refused) == (45_000, Counter())
    assert observed.value.tolist() == [round(row["speed"] * 100) for row in rows]


# --- files that cannot be read ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["csv", "parquet", "avro"])
def test_a_missing_column_is_named(tmp_path, name):
    assert unreadable(mapped(name, speed="velocity"), written(name, tmp_path)[1]) == "column 'velocity' is missing"


def test_blanks_around_the_names_of_a_csv_header_are_none_of_theirs(tmp_path):
    path = tmp_path / "f.csv"
    path.write_text("  " + " , ".join(FIELDS) + "\r\n" + ",".join("abcde") + "\n")
    for source in (mapped("csv"), mapped("csv", speed=" speed")):
        assert [batch.table.num_rows for batch in source.read(str(path))] == [1]


@pytest.mark.parametrize("source", [mapped("parquet"), mapped("avro"), FIXED["gtfs-realtime"].layout])
@pytest.mark.parametrize("content", [b"", b"secret", b"PAR1secretPAR1", b"Obj\x01secret", b"\x12\x06secret"])
def test_a_file_of_another_kind_is_unreadable(tmp_path, source, content):
    (tmp_path / "a").write_bytes(content)
    assert "secret" not in unreadable(source, tmp_path / "a")


def test_nested_columns_are_unreadable(tmp_path):
    columns = {field: pa.array([row[field] for row in ROWS]) for field in FIELDS}
    columns["lat"] = pa.array([[1.0]] * 300)
    assert unreadable(mapped("parquet"), write_parquet(tmp_path / "a", columns)) == "column 'lat' is nested"
    types = {**AVRO_TYPES, "lat": {"type": "array", "items": "double"}}
    path = write_avro(tmp_path / "b", [{**ROWS[0], "lat": [1.0]}], types)
    assert unreadable(mapped("avro"), path) == "column 'lat' is nested"


# --- one column each ----------------------------------------------------------------------------------------------


def test_avro_rows_of_mixed_types_are_judged_one_by_one(tmp_path):
    mixed = ["null", "boolean", "double", "string"]
    types = dict.fromkeys(FIELDS, mixed) | {"vehicle": ["null", "long", "string", "boolean"], "time": "string"}
    rows = [
        {**ROWS[0], "vehicle": 7}, {**ROWS[0], "vehicle": True}, {**ROWS[0], "vehicle": None},
        {**ROWS[0], "lat": "30"}, {**ROWS[0], "lat": None}, {**ROWS[0], "speed": True},
        {**ROWS[0], "speed": float("nan")},
    ]  # fmt: skip
    observed, refused, _ = run(mapped("avro"), write_avro(tmp_path / "a", rows, types), rules())
    assert observed.lat_e7.tolist() == [round(ROWS[0]["lat"] * 1e7), 300_000_000]
    assert refused == {"bad-vehicle": 1, "missing-vehicle": 1, "missing-position": 1, "bad-speed": 2}


def test_an_avro_time_beyond_the_calendar_costs_its_row_alone(tmp_path):
    types = {**AVRO_TYPES, "time": {"type": "long", "logicalType": "timestamp-millis"}}
    rows = [{**ROWS[0], "time": us} for us in (2**62, NOON_US // 1_000, -(2**62))]
    observed, refused, _ = run(mapped("avro"), write_avro(tmp_path / "a", rows, types), rules())
    assert observed.event_us.tolist() == [NOON_US]
    assert refused == {"implausible-time": 2}


def feed_of(*changes):
    report = {"vehicle": "bus", "time": NOON_US // 10**6, "lat": 30.0, "lon": -97.0, "speed": 10.0}
    feed = gtfs_realtime_pb2.FeedMessage.FromString(feed_layouts.gtfs([report] * len(changes)))
    for entity, change in zip(feed.entity, changes, strict=True):
        change(entity)
    return feed


def test_absent_gtfs_fields_are_missing_and_default_values_are_not(tmp_path):
    feed = feed_of(
        lambda _: None,
        lambda entity: setattr(entity.vehicle.position, "speed", 0.0),
        lambda entity: entity.vehicle.position.ClearField("speed"),
        lambda entity: entity.vehicle.ClearField("position"),
        lambda entity: entity.vehicle.ClearField("timestamp"),
        lambda entity: entity.vehicle.ClearField("vehicle"),
        lambda entity: entity.ClearField("vehicle"),
        lambda entity: setattr(entity.vehicle, "timestamp", 2**64 - 1),
        lambda entity: setattr(entity.vehicle.vehicle, "label", "x" * 70_000),
        lambda entity: setattr(entity.vehicle.vehicle, "id", "REPLACE"),
    )
    path = tmp_path / "a.pb"
    path.write_bytes(feed.SerializePartialToString().replace(b"REPLACE", b"REPL\xffCE"))
    source = FIXED["gtfs-realtime"].layout
    observed, refused, rows = run(source, str(path), rules(source.units))
    assert (rows, observed.value.tolist()) == (9, [3_600, 0])
    assert refused == {
        "missing-speed": 1, "missing-position": 1, "missing-time": 1, "missing-vehicle": 1,
        "implausible-time": 1, "too-long": 1, "not-utf8": 1,
    }  # fmt: skip
