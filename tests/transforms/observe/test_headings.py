"""A row's heading follows from its own value alone, in every layout and beside whatever others."""

import io
import json

import fastavro
import numpy as np
import pytest

from tests.kit import feed_layouts
from tests.kit.feed_layouts import siri_activity, siri_document
from tests.transforms.inputs import KMH, NOON, NOON_US, good_row, rules, run
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
