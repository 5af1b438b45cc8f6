"""Every registered layout: rows come out of files as out of messages, and damage costs a row."""

import json
import pickle
from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.kit import feed_layouts
from tests.kit.feed_layouts import siri_activity, siri_document
from tests.transforms import inputs
from tests.transforms.inputs import good_row, iudx_element, json_line, mapped, rows_and_refused, rules, run
from transforms.layouts import FIXED, MAPPED, MessageLayout, UnreadableFile, layout, message_layout
from transforms.layouts.base import FIELDS, LINES, with_heading

TIMES = {"s": 1_700_049_600, "ms": 1_700_049_600_000, "us": 1_700_049_600_000_000, "ns": 1_700_049_600 * 10**9}
WRITTEN = [
    (name, place)
    for name, own in FIXED.items()
    if own.form in ("csv", "json") and "lat" in own.layout.fields
    for place in own.records
]
"""Those whose files can be written from what they register, with the place of their objects."""
ALL = {name: own.layout for name, own in FIXED.items()} | {
    name: kind(inputs.KMH, FIELDS, FIELDS) for name, kind in MAPPED.items()
}
MESSAGES = [name for name, layout in ALL.items() if isinstance(layout, MessageLayout)]


def row(own, i):
    """A good row by the names of the layout's columns."""
    good = good_row(i)
    unit = own.layout.units.time_unit
    values = {**good, "time": good["time"] if unit == "iso" else TIMES[unit]}
    columns = {name: values[field] for field, name in zip(FIELDS, own.columns, strict=True)}
    return dict.fromkeys(own.known_by, "x") | columns


def nested(flat):
    """The JSON object with these values at dotted paths, in arrays where a part is a number."""
    tree = {}
    for path, value in flat.items():
        *parents, last = path.split(".")
        node = tree
        for part in parents:
            node = node.setdefault(part, {})
        node[last] = value
    return as_arrays(tree)


def as_arrays(tree):
    if not isinstance(tree, dict):
        return tree
    inner = {key: as_arrays(value) for key, value in tree.items()}
    return [inner[key] for key in sorted(inner)] if all(key.isdecimal() for key in inner) else inner


def document(own, place, rows):
    """The bytes of a file. rows: dicts, or text that is damage."""
    if own.form == "csv":
        names = sorted(rows[0])
        lines = [r if isinstance(r, str) else ",".join(str(r[name]) for name in names) for r in rows]
        return "\n".join([",".join(names), *lines, ""]).encode()
    texts = [r if isinstance(r, str) else json.dumps(nested(r)) for r in rows]
    if place is LINES:
        return "\n".join(texts).encode()
    array = f"[{','.join(texts)}]"
    for key in reversed(place.split(".") if place else []):
        array = f'{{"{key}": {array}}}'
    return array.encode()


def files_of(own, place, rows, folder):
    path = folder / "file"
    path.write_bytes(document(own, place, rows))
    return run(own.layout, str(path), rules(own.layout.units))


@pytest.mark.parametrize(("name", "place"), WRITTEN)
def test_the_registered_columns_are_those_that_are_read(name, place, tmp_path):
    own = FIXED[name]
    events, refused, rows = files_of(own, place, [row(own, i) for i in range(40)], tmp_path)
    assert (len(events.value), refused.total(), rows) == (40, 0, 40)
    assert sorted(set(events.lat_e7.tolist())) == [round((30 + i / 1000) * 1e7) for i in range(40)]


@pytest.mark.parametrize(("name", "place"), WRITTEN)
def test_a_damaged_row_costs_itself_alone(name, place, tmp_path):
    own = FIXED[name]
    damage = ['"', "x", "1"] if own.form == "csv" else ["5", "null", "{}"]
    damage += ["{", '{"vehicle":NaN}'] if place is LINES and own.form == "json" else []
    for text in damage:
        rows = [row(own, i) for i in range(4)]
        events, refused, _ = files_of(own, place, [*rows[:2], text, *rows[2:]], tmp_path)
        assert (len(events.value), refused.total()) == (4, 1), text


@pytest.mark.parametrize("name", ALL)
def test_a_layout_goes_to_another_process_and_says_its_fields(name):
    headed = layout(name, None, headed=True) if name in FIXED and FIXED[name].heading else None
    for own in filter(None, (ALL[name], headed)):
        assert pickle.loads(pickle.dumps(own)) == own
    assert headed is None or headed.fields == with_heading(FIELDS)


@pytest.mark.parametrize("name", ALL)
@given(data=st.binary(max_size=200))
@example(data=b"\x00\x00\x00\x00\x02\x80\x80\x80\x80\x80\x02")  # Avro: a key of 32 GB
def test_no_bytes_of_a_file_make_a_layout_raise_anything_but_unreadable(name, tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / f"{name} of any bytes"
    path.write_bytes(data)
    with suppress(UnreadableFile):
        assert all(batch.rows >= batch.table.num_rows for batch in ALL[name].read(str(path)))


@pytest.mark.parametrize("name", MESSAGES)
@given(payloads=st.lists(st.binary(max_size=60), max_size=4))
def test_no_bytes_of_a_message_make_a_layout_raise(name, payloads):
    for batch in ALL[name].from_messages(payloads):
        assert batch.table.num_rows <= batch.rows


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
    return FIXED["gtfs-realtime"].layout, [feed_layouts.gtfs([row | {"time": inputs.NOON_US // 10**6}]) for row in ROWS]


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
