"""Every registered layout, and feeds as agencies have them: rows come out of files, and damage costs a row."""

import gzip
import json
import pickle
import shutil
import zipfile
from contextlib import nullcontext, suppress

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.kit import feed_layouts
from tests.kit.feed_layouts import siri_activity, siri_document
from tests.transforms import inputs
from tests.transforms.inputs import csv_line, good_row, iudx_element, json_line, mapped, rows_and_refused, rules, run
from transforms.layouts import FIXED, MAPPED, MessageLayout, UnreadableFile, layout, message_layout, open_file
from transforms.layouts.base import FIELDS, LINES, with_heading
from transforms.layouts.decoder_process import read_apart
from transforms.layouts.open_file import files_in

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


# --- Feeds as agencies have them: delimiters, no header, JSON in any print, compressed, in UTF-16, a file a vehicle. --


BY_NAME = {field: field for field in FIELDS}


def read(source, path):
    """Vehicles of all rows as text, and how many rows were refused for each reason."""
    rows, refused = rows_and_refused(read_apart(source, str(path)))
    return [id_.decode() if isinstance(id_ := row["vehicle"], bytes) else id_ for row in rows], refused


def vehicles():
    return [row["vehicle"] for row in ROWS]


def csv_text(delimiter=",", header=True):
    lines = [",".join(FIELDS).encode()] if header else []
    return b"\n".join([*lines, *map(csv_line, ROWS)]).replace(b",", delimiter.encode()) + b"\n"


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("header", [True, False])
def test_csv_with_any_delimiter_with_a_header_or_without(tmp_path, delimiter, header):
    (tmp_path / "feed.csv").write_bytes(csv_text(delimiter, header))
    columns = BY_NAME if header else {field: str(place) for place, field in enumerate(FIELDS, 1)}
    source = layout("csv", columns, None, None, delimiter=delimiter, header=header)
    assert read(source, tmp_path / "feed.csv") == (vehicles(), {})


@pytest.mark.parametrize("indent", [None, 2])
def test_a_json_array_printed_in_any_way_is_read_as_lines_are(tmp_path, indent):
    (tmp_path / "feed.json").write_text(json.dumps(ROWS, indent=indent))
    assert read(layout("json", BY_NAME, None, None), tmp_path / "feed.json") == (vehicles(), {})
    (tmp_path / "feed.json").write_text("\n".join(map(json.dumps, ROWS)))
    assert read(layout("json", BY_NAME, None, None), tmp_path / "feed.json") == (vehicles(), {})


def test_numbers_of_json_may_be_texts_each_told_by_itself(tmp_path):
    values = [30.5, "30.5", " 30.5", "-97.25", "3e1", "", None, "north", True, [30.5], "nan"]
    lines = [json.dumps({**ROWS[0], "lat": value}) for value in values]
    (tmp_path / "feed.jsonl").write_text("\n".join(lines))
    found = layout("jsonl", BY_NAME, None, None)
    batches = read_apart(found, str(tmp_path / "feed.jsonl"))
    told = found.units.numbers(pa.concat_arrays([batch.table["lat"] for batch in batches]))
    assert told.values[:5].tolist() == [30.5, 30.5, 30.5, -97.25, 30.0]
    assert told.missing.tolist() == [False] * 5 + [True, True] + [False] * 4
    assert told.valid.tolist() == [True] * 5 + [False] * 6


@pytest.mark.parametrize("others", [[], [30.5], ["30.5", None]])
def test_how_a_decimal_comma_is_read_is_decided_by_no_other_row(others, tmp_path):
    lines = [json.dumps({**ROWS[0], "lat": value}) for value in ["30,5", *others]]
    (tmp_path / "feed.jsonl").write_text("\n".join(lines))
    for mark, valid in ((",", True), (".", False)):
        found = layout("jsonl", BY_NAME, decimal=mark)
        batches = read_apart(found, str(tmp_path / "feed.jsonl"))
        lat = pa.concat_arrays([batch.table["lat"] for batch in batches])
        assert found.units.numbers(lat).valid[0] == valid


def compressed(path, data):
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(data))
    elif path.suffix == ".zst":
        path.write_bytes(pa.Codec("zstd").compress(data, asbytes=True))
    else:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("feed", data)


@pytest.mark.parametrize("suffix", [".gz", ".zst", ".zip"])
@pytest.mark.parametrize("kind", ["csv", "jsonl", "json"])
def test_a_compressed_file_is_read_as_it_is_without(tmp_path, kind, suffix):
    lines = "\n".join(map(json.dumps, ROWS)).encode()
    data = {"csv": csv_text(), "jsonl": lines, "json": json.dumps(ROWS).encode()}[kind]
    compressed(tmp_path / f"feed.{kind}{suffix}", data)
    assert read(layout(kind, BY_NAME, None, None), tmp_path / f"feed.{kind}{suffix}") == (vehicles(), {})


@pytest.mark.parametrize("suffix", [".gz", ".zst", ".zip"])
def test_a_compressed_file_that_is_cut_short_is_refused_by_its_name(tmp_path, suffix):
    path = tmp_path / f"feed.csv{suffix}"
    compressed(path, csv_text() * 40)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(UnreadableFile, match=r"feed\.csv"):
        read(layout("csv", BY_NAME, None, None), path)


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_an_archive_of_too_many_entries_is_refused_folders_counted_too(tmp_path, kind, monkeypatch):
    folder, path = tmp_path / "days", tmp_path / f"feed.csv.{kind}"
    (folder / "first").mkdir(parents=True)
    for number in range(4):
        (folder / f"{number}.csv").write_bytes(csv_text())
    shutil.make_archive(str(tmp_path / "feed.csv"), kind, folder)
    assert len(files_in(str(path))) == 4
    monkeypatch.setattr(open_file, "MEMBERS", 5)  # the tar has two folders, the root and "first"
    open_file._read.cache_clear()
    with pytest.raises(UnreadableFile, match="1 to 5 files, folders included") if kind == "tar" else nullcontext():
        assert len(files_in(str(path))) == 4


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("capmetro", {"delimiter": ";"}, "delimiter: layout 'capmetro' has its own"),
        ("csv", {"delimiter": "x"}, "delimiter: must be one of"),
        ("jsonl", {"delimiter": ";"}, "delimiter: goes with layout 'csv' only"),
        ("csv", {"time_zone": "Austin"}, "time_zone: must be a name like"),
        ("csv", {"time_unit": "s", "time_zone": "UTC"}, "goes with time_unit 'iso'"),
    ],
)
def test_options_that_do_not_fit_are_refused(name, options, message):
    columns = None if name == "capmetro" else BY_NAME
    with pytest.raises(ValueError, match=message):
        layout(name, columns, **options)


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
@pytest.mark.parametrize("kind", feed_layouts.TEXTS)
def test_utf16_is_refused_as_a_file(kind, encoding, ending, tmp_path):
    path = tmp_path / f"a{ending}"
    text = feed_layouts.WRITERS[kind][1]([good_row(i) for i in range(3)]).decode()
    data = (text if encoding == "utf-16" else "\ufeff" + text).encode(encoding)
    path.write_bytes(gzip.compress(data) if ending else data)
    with pytest.raises(UnreadableFile, match="the text is UTF-16: save it as UTF-8"):
        list(mapped(kind).read(str(path)))


@pytest.mark.parametrize("size", [0, 1])
@pytest.mark.parametrize("kind", ["jsonl", "json"])
def test_a_file_that_is_too_short_for_any_mark_is_read(kind, size, tmp_path):
    (tmp_path / "a").write_bytes(b"\xff"[:size])
    assert sum(batch.table.num_rows for batch in mapped(kind).read(str(tmp_path / "a"))) == 0


@pytest.mark.parametrize("name", ["csv", "jsonl", "parquet", "avro"])
def test_a_file_of_one_vehicle_may_name_it(name, tmp_path):
    """The rows are those of a file with a column of that vehicle."""
    rows = [row | {"vehicle": "366"} for row in map(good_row, range(300))]
    paths = [tmp_path / folder / f"366.{name}" for folder in ("one", "other")]
    for path in paths:
        path.parent.mkdir()
        path.write_bytes(feed_layouts.WRITERS[name][1](rows))
    expected, _, count = run(layout(name, BY_NAME, None, None), str(paths[0]), rules())
    named = layout(name, BY_NAME | {"vehicle": "{file}"}, None, None)
    for path in paths:
        observed, _, read = run(named, str(path), rules())
        assert read == count
        assert observed.vehicle.tolist() == expected.vehicle.tolist()
        assert observed.lat_e7.tolist() == expected.lat_e7.tolist()
    with pytest.raises(ValueError, match="layout: messages must be one of"):
        message_layout(name, named)
