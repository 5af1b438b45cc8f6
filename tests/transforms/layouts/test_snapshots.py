"""JSON documents: every object of an array is a row, by a specification's path and by MDS's."""

import json

import pytest

from tests.transforms.inputs import FIELDS, good_row, rows_and_refused, rules, run
from transforms.layouts import FIXED, MessageLayout, layout
from transforms.layouts.decoder_process import read_apart

ROWS = [good_row(i) for i in range(9)]
PLACES = {"entity": ("entity",), "data.vehicles": ("data", "vehicles"), "result": ("result",)}


def snapshots(records="entity", prefix=""):
    return layout("json", {field: prefix + field for field in FIELDS}, None, None, records=records)


def document(rows, place=("entity",)):
    inner = rows
    for key in reversed(place):
        inner = {"before": [[{"x": 1}], None], key: inner, "after": {"entity": "no array"}}
    return json.dumps(inner).encode()


def found_in(path, data, source=None):
    path.write_bytes(data)
    observations, refused, _ = run(source or snapshots(), str(path), rules())
    return len(observations.value), dict(refused)


@pytest.mark.parametrize("records", PLACES)
def test_all_objects_of_the_array_are_rows_wherever_it_lies(records, tmp_path):
    data = document(ROWS, PLACES[records])
    assert found_in(tmp_path / "a", data, snapshots(records)) == (len(ROWS), {})
    assert sum(batch.rows for batch in read_apart(snapshots(records), str(tmp_path / "a"))) == len(ROWS)


def test_a_file_may_hold_one_document_printed_in_any_way_one_a_line_or_an_array_of_them(tmp_path):
    pretty = json.dumps(json.loads(document(ROWS)), indent=2).encode()
    assert found_in(tmp_path / "a", b"\xef\xbb\xbf" + pretty) == (len(ROWS), {})
    lines = b"\n".join([document(ROWS[:4]), b"", document(ROWS[4:])])
    assert found_in(tmp_path / "a", lines) == (len(ROWS), {})
    assert found_in(tmp_path / "a", b"[" + document(ROWS[:4]) + b"," + document(ROWS[4:]) + b"]") == (len(ROWS), {})


def test_a_record_that_is_none_or_not_what_it_should_be_costs_itself_alone(tmp_path):
    strange = [7, None, "x", {}, {**ROWS[0], "vehicle": []}, {**ROWS[1], "pad": "x" * 70_000}]
    assert found_in(tmp_path / "a", document([ROWS[0], *strange, ROWS[1]])) == (
        2,
        {"malformed": 3, "missing-vehicle": 1, "bad-vehicle": 1, "too-long": 1},
    )


def test_no_speed_decides_what_becomes_of_a_document(tmp_path):
    for speed in ("0", "-1", "1e999", "1" * 400, "0.1e-999"):
        data = document([{**ROWS[0], "speed": "HERE"}, ROWS[1]]).replace(b'"HERE"', speed.encode())
        assert found_in(tmp_path / "a", data) == (2, {})


def test_a_message_is_a_document_and_a_bad_one_is_one_refused_row():
    batches = list(snapshots().from_messages([document(ROWS), b"{", b"", document(ROWS[:2])]))
    assert sum(batch.table.num_rows for batch in batches) == len(ROWS) + 2
    assert [batch.refused for batch in batches if batch.refused] == [{"malformed": 1}] * 2


@pytest.mark.parametrize("name", ["json", "jsonl"])
def test_an_index_into_an_array_of_objects_is_refused_and_says_what_to_write(name):
    columns = {field: f"entity.0.vehicle.{field}" for field in FIELDS}
    with pytest.raises(ValueError, match="would lose all others: say records = 'entity' with layout 'json'"):
        layout(name, columns, None, None)
    pairs = {field: field for field in FIELDS} | {"lat": "coordinates.1", "lon": "coordinates.0"}
    assert layout(name, pairs, None, None)


MDS = FIXED["mds"].layout
PROVIDER = "2411d395-04f2-47c9-ab66-d09e9e3c3251"


def objects(count=5):
    """What a standard tells of a scooter, and what a city asks for beside it."""
    return [
        {
            "provider_id": PROVIDER,
            "device_id": f"d{number % 2}",
            "telemetry_id": f"t{number}",
            "timestamp": 1_770_000_000_000 + 20_000 * number,
            "trip_ids": None,
            "location": {"lat": 30.2 + number / 1000, "lng": -97.7, "speed": 3.5, "heading": 90.0},
        }
        for number in range(count)
    ]


BODIES = {
    "an agency's array": lambda rows: rows,
    "a provider's document": lambda rows: {"version": "2.0.0", "last_updated": 1, "ttl": 60, "telemetry": rows},
    "a document around data": lambda rows: {"version": "2.0.0", "data": {"telemetry": rows}, "links": {"next": None}},
    "a document of both": lambda rows: {"data": {"telemetry": rows[2:]}, "telemetry": rows[:2]},
}


@pytest.mark.parametrize("body", BODIES)
def test_every_body_gives_the_same_rows_from_a_file_and_from_a_message(body, tmp_path):
    data = json.dumps(BODIES[body](objects()), indent=1).encode()
    (tmp_path / "in.json").write_bytes(data)
    rows, refused = rows_and_refused(MDS.read(str(tmp_path / "in.json")))
    assert [row["vehicle"] for row in rows] == ["d0", "d1", "d0", "d1", "d0"]
    assert refused == {}
    assert rows_and_refused(MDS.from_messages([data])) == (rows, {})
    assert isinstance(MDS, MessageLayout)


def test_no_row_at_one_place_takes_those_at_the_other(tmp_path):
    bus, *others = objects(3)
    for document in ({"data": {"telemetry": others}}, {"data": {"telemetry": others}, "telemetry": [bus]}):
        data = json.dumps(document).encode()
        (tmp_path / "in.json").write_bytes(data)
        rows, _ = rows_and_refused(MDS.read(str(tmp_path / "in.json")))
        assert [row["time"] for row in rows][-2:] == [other["timestamp"] for other in others]
        assert len(rows) == 2 + ("telemetry" in document)
        assert rows_and_refused(MDS.from_messages([data])) == (rows, {})


def test_pages_one_a_line_are_read_all(tmp_path):
    pages = [BODIES["a provider's document"](objects(2)), BODIES["a provider's document"]([])]
    (tmp_path / "in.json").write_text("\n".join(map(json.dumps, [*pages, *pages])))
    assert len(rows_and_refused(MDS.read(str(tmp_path / "in.json")))[0]) == 4


def test_a_damaged_object_costs_itself_alone_and_a_damaged_message_one_row(tmp_path):
    strange = [7, None, {}, {**objects(1)[0], "device_id": []}]
    for body in BODIES.values():
        (tmp_path / "in.json").write_text(json.dumps(body([*strange, *objects(2)])))
        assert rows_and_refused(MDS.read(str(tmp_path / "in.json")))[1] == {"malformed": 2, "bad-vehicle": 1}
    damaged = [b"{", b"", b"[1,", json.dumps(objects(3)).encode()]
    rows, refused = rows_and_refused(MDS.from_messages(damaged))
    assert (len(rows), refused) == (3, {"malformed": 3})


def test_a_vehicle_without_a_speed_keeps_its_row(tmp_path):
    quiet = objects(2)
    del quiet[0]["location"]["speed"]
    quiet[1]["location"]["speed"] = None
    (tmp_path / "in.json").write_text(json.dumps(quiet))
    rows, refused = rows_and_refused(MDS.read(str(tmp_path / "in.json")))
    assert [row["speed"] for row in rows] == [None, None]
    assert refused == {}
