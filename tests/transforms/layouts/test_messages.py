"""A message's bytes become the same rows as the files of a scheduled job would; a poisoned one costs itself alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit import feed_layouts
from tests.kit.feed_layouts import siri_activity, siri_document
from tests.transforms.inputs import NOON_US, good_row, iudx_element, json_line, mapped, rows_and_refused
from transforms.layouts import FIXED, MessageLayout, layout, message_layout

ROWS = [good_row(i) for i in range(50)]
JSON = mapped("jsonl")


def read_files(way, payloads, tmp_path):
    batches = []
    for i, payload in enumerate(payloads):
        path = tmp_path / f"file{i}"
        path.write_bytes(payload)
        batches += list(way.read(str(path)))
    return batches


def payloads_of(name):
    if name == "jsonl":
        return JSON, [json_line(row) for row in ROWS]
    if name == "iudx":
        return FIXED["iudx"].layout, [iudx_element(row) for row in ROWS]
    if name == "siri-vm":
        return FIXED["siri-vm"].layout, [siri_document([siri_activity(row)]) for row in ROWS]
    return FIXED["gtfs-realtime"].layout, [feed_layouts.gtfs([row | {"time": NOON_US // 10**6}]) for row in ROWS]


WAYS = ["jsonl", "iudx", "gtfs-realtime", "siri-vm"]


@pytest.mark.parametrize("name", WAYS)
def test_messages_give_the_rows_that_files_of_them_give(name, tmp_path):
    way, payloads = payloads_of(name)
    batches, expected = list(way.from_messages(payloads)), read_files(way, payloads, tmp_path)
    rows, _ = rows_and_refused(batches)
    assert rows == rows_and_refused(expected)[0]
    assert len(rows) == 50
    assert batches[0].table.schema == expected[0].table.schema


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("poison", [b"", b"\xff\xfe", b"{", b"Obj\x01", b"\x00\x00\x00\x00\x07abc", b"\n", b"null\n{}"])
def test_a_poisoned_message_is_one_refused_row_and_its_neighbours_stay(name, poison):
    way, payloads = payloads_of(name)
    rows, refused = rows_and_refused(way.from_messages([*payloads[:5], poison, *payloads[5:]]))
    assert (len(rows), sum(refused.values())) == (50, 1)


@pytest.mark.parametrize("name", WAYS)
@given(place=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_a_damaged_byte_never_raises_nor_touches_a_neighbour(name, place, byte):
    way, (first, second, *_) = payloads_of(name)
    damaged = bytearray(first)
    damaged[place % len(first)] = byte
    alone, _ = rows_and_refused(way.from_messages([second]))
    assert rows_and_refused(way.from_messages([bytes(damaged), second]))[0][-len(alone) :] == alone


def test_a_gtfs_feed_cut_short_gives_none_of_its_rows():
    way, (payload, *_) = payloads_of("gtfs-realtime")
    assert rows_and_refused(way.from_messages([payload[:-1], payload]))[1] == {"malformed": 1}


def test_a_layout_of_tables_is_no_layout_of_messages():
    assert isinstance(JSON, MessageLayout)
    assert message_layout("jsonl", JSON) is JSON
    with pytest.raises(
        ValueError, match="one of gtfs-realtime, gtfs-trip-updates, iudx, mds, siri-vm, json, jsonl, got 'capmetro'"
    ):
        message_layout("capmetro", layout("capmetro", None, None, None))
