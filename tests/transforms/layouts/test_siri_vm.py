"""SIRI-VM: rows as the standard has them, hostile XML refused before it costs anything, and a draft of its own."""

import gzip

import pytest

from hatstream_city.draft.draft import draft
from tests.kit.feed_layouts import siri_activity, siri_document
from tests.transforms.inputs import good_row, rows_and_refused, rules, run
from transforms.layouts import FIXED, UnreadableFile
from transforms.layouts.base import FIELDS
from transforms.layouts.decoder_process import read_apart

ROWS = [good_row(i) for i in range(40)]
SIRI = FIXED["siri-vm"].layout


def read(path):
    return rows_and_refused(read_apart(SIRI, str(path)))[0]


@pytest.mark.parametrize("prefix", ["", "siri:"])
def test_every_vehicle_is_a_row_in_metres_per_second(tmp_path, prefix):
    (tmp_path / "a.xml").write_bytes(siri_document([siri_activity(row, prefix=prefix) for row in ROWS], prefix=prefix))
    assert read(tmp_path / "a.xml") == [{name: str(row[name]) for name in FIELDS} for row in ROWS]
    observed, refused, rows = run(SIRI, str(tmp_path / "a.xml"), rules(SIRI.units))
    assert (rows, not refused) == (40, True)
    assert observed.value[1] == round(ROWS[1]["speed"] * 3.6 * 100)


def test_compressed_files_and_messages_give_the_same_rows(tmp_path):
    data = siri_document(map(siri_activity, ROWS))
    (tmp_path / "a.xml.gz").write_bytes(gzip.compress(data))
    (batch,) = SIRI.from_messages([data])
    assert read(tmp_path / "a.xml.gz") == batch.table.to_pylist()


def test_a_row_that_lacks_a_field_is_refused_alone_and_a_long_field_costs_its_row(tmp_path):
    rows = [*({**ROWS[0], name: None} for name in FIELDS), {**ROWS[0], "vehicle": "v" * 70_000}, ROWS[1]]
    (tmp_path / "a.xml").write_bytes(siri_document(map(siri_activity, rows)))
    observed, refused, number = run(SIRI, str(tmp_path / "a.xml"), rules(SIRI.units))
    assert (len(observed.value), number) == (1, 7)
    missing = {f"missing-{name}": 1 for name in ("vehicle", "time", "speed")}
    assert refused == missing | {"missing-position": 2, "too-long": 1}


BOMB = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">' + "".join(
    f'<!ENTITY {chr(98 + number)} "{f"&{chr(97 + number)};" * 10}">' for number in range(8)
)
HOSTILE = {
    "entities": siri_document([siri_activity({**ROWS[0], "vehicle": None}, extra="&i;")], head=BOMB + "]>"),
    "an outer entity": siri_document([], head='<!DOCTYPE x [<!ENTITY x SYSTEM "file:///etc/hostname">]>'),
    "a DTD": siri_document(map(siri_activity, ROWS[:1]), head='<!DOCTYPE x SYSTEM "http://127.0.0.1/x.dtd">'),
    "cut short": siri_document(map(siri_activity, ROWS))[:-9],
    "HTML": b"<html><body>502 Bad Gateway</body></html>",
    "an encoding that nobody knows": siri_document([], head='<?xml version="1.0" encoding="x"?>'),
    "no XML": b"<<<",
    "nothing": b"",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_documents_are_refused_and_open_nothing(tmp_path, name):
    (tmp_path / "a.xml").write_bytes(HOSTILE[name])
    with pytest.raises(UnreadableFile, match="not a SIRI-VM document") as told:
        read(tmp_path / "a.xml")
    assert ROWS[0]["vehicle"] not in str(told.value)
    poisoned, good = SIRI.from_messages([HOSTILE[name], siri_document(map(siri_activity, ROWS))])
    assert (poisoned.refused, good.rows) == ({"malformed": 1}, 40)


def test_a_feed_without_velocities_is_drafted_with_speeds_from_positions(tmp_path):
    near = [{**row, "lat": 50.4 + number / 1e4, "lon": -104.6, "speed": None} for number, row in enumerate(ROWS)]
    (tmp_path / "feed.xml").write_bytes(siri_document(map(siri_activity, near)))
    made = draft(tmp_path / "feed.xml", adds_and_removes=True)
    assert 'layout = "siri-vm"\nderived_speed' in made.toml
