"""JSON documents with all vehicles in an array: every one of them is read, and an index into the array is refused."""

import json

import pytest

from tests.transforms.inputs import FIELDS, good_row, rules, run
from transforms.layouts import layout
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
    observations, refused, rows = run(source or snapshots(), str(path), rules())
    assert rows == len(observations.value) + refused.total()
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
