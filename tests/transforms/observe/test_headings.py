"""A row's heading follows from its own value alone, in every layout and beside whatever others."""

import csv
import json

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from google.transit import gtfs_realtime_pb2

from tests.transforms.inputs import KMH, NOON, NOON_US, good_row, rules, run
from tests.transforms.layouts.siri_documents import activity, document
from transforms.layouts import layout
from transforms.layouts.base import FIELDS, RawBatch, with_heading
from transforms.observe.parse import parse
from transforms.records import NO_HEADING
from transforms.sources.elements import _batches

NAMES = with_heading(FIELDS)
NUMBERS = [(90, 90), (0.4, 0), (359.6, 0), (360, 0), (0, NO_HEADING), (-90, NO_HEADING), (360.1, NO_HEADING)]
NUMBERS += [(float("nan"), NO_HEADING), (float("inf"), NO_HEADING), (1e300, NO_HEADING), (None, NO_HEADING)]
TEXTS = [("90", 90), (" 90.2 ", 90), ("1e2", 100), ("0", NO_HEADING), ("", NO_HEADING), ("north", NO_HEADING)]
TEXTS += [("-1", NO_HEADING), ("999", NO_HEADING), ("nan", NO_HEADING), (None, NO_HEADING)]


def rows_of(said):
    return [good_row(i) | {"time": NOON.replace("00Z", f"{i:02d}Z"), "heading": value} for i, (value, _) in said]


def to_csv(path, rows):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, NAMES)
        writer.writeheader()
        writer.writerows(rows)


def to_jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def to_json(path, rows):
    path.write_text(json.dumps(rows))


def to_avro(path, rows):
    kinds = {"vehicle": "string", "time": "string", "heading": ["null", "double", "string"]}
    fields = [{"name": name, "type": kinds.get(name, "double")} for name in NAMES]
    with path.open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "r", "fields": fields}, rows)


def to_parquet(path, rows):
    schema = pa.schema([(name, KINDS.get(name, pa.float64())) for name in NAMES])
    pq.write_table(pa.Table.from_pylist(rows, schema), path)


def to_gtfs(path, rows):
    message = gtfs_realtime_pb2.FeedMessage()
    message.header.gtfs_realtime_version = "2.0"
    for number, row in enumerate(rows):
        entity = message.entity.add(id=str(number))
        entity.vehicle.vehicle.id, entity.vehicle.timestamp = row["vehicle"], NOON_US // 1_000_000 + number
        position = entity.vehicle.position
        position.latitude, position.longitude, position.speed = row["lat"], row["lon"], row["speed"]
        if row["heading"] is not None:
            position.bearing = row["heading"]
    path.write_bytes(message.SerializeToString())


def to_siri(path, rows):
    path.write_bytes(document([activity(row) for row in rows]))


def to_mds(path, rows):
    telemetry = [
        {
            "device_id": row["vehicle"],
            "timestamp": NOON_US // 1_000 + number,
            "location": {"lat": row["lat"], "lng": row["lon"], "heading": row["heading"], "speed": row["speed"]},
        }
        for number, row in enumerate(rows)
    ]
    path.write_text(json.dumps({"telemetry": telemetry}))


def to_tides(path, rows):
    to_csv(path, rows)
    _, _, rest = path.read_text().partition("\n")
    path.write_text("vehicle_id,event_timestamp,latitude,longitude,heading,speed\n" + rest)


KINDS = {"vehicle": pa.string(), "time": pa.string()}
FORMS = {
    "csv": (to_csv, TEXTS),
    "jsonl": (
        to_jsonl,
        [*NUMBERS[:7], (None, NO_HEADING), ("90", 90), ("x", NO_HEADING), (True, NO_HEADING), ([], NO_HEADING)],
    ),
    "json": (to_json, [*NUMBERS[:7], (None, NO_HEADING), ({}, NO_HEADING), (10**400, NO_HEADING)]),
    "avro": (to_avro, [*NUMBERS, ("x", NO_HEADING)]),
    "parquet": (to_parquet, NUMBERS),
    "gtfs-realtime": (to_gtfs, NUMBERS[:9] + NUMBERS[10:]),
    "siri-vm": (to_siri, TEXTS),
    "mds": (to_mds, [*NUMBERS[:7], (None, NO_HEADING)]),
    "tides": (to_tides, TEXTS),
}


@pytest.mark.parametrize("name", FORMS)
def test_headings_are_degrees_above_0_to_360_whatever_stands_beside_them(name, tmp_path):
    write, said = FORMS[name]
    columns = None if name in ("gtfs-realtime", "siri-vm", "mds", "tides") else {field: field for field in NAMES}
    source = layout(name, columns, None, None, headed=True)
    by = rules(source.units)
    rows = rows_of(enumerate(said))
    write(tmp_path / "together", rows)
    observations, refused, _ = run(source, str(tmp_path / "together"), by)
    assert observations.heading.tolist() == [heading for _, heading in said]
    assert not refused, "a heading refuses no row"
    for row, (_, heading) in zip(rows, said, strict=True):
        write(tmp_path / "alone", [row])
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
    to_csv(tmp_path / "a.csv", rows_of(enumerate(TEXTS)))
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
