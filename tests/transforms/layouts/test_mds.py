"""MDS telemetry: documents of providers, arrays of agencies, the same rows from files and messages."""

import json

import pytest

from tests.transforms.inputs import rows_and_refused
from transforms.layouts import FIXED, MessageLayout

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
