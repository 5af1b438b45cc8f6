"""Feeds as agencies have them: delimiters, no header, JSON in any print, compressed, in UTF-16, a file a vehicle."""

import gzip
import json
import shutil
import zipfile
from contextlib import nullcontext

import pyarrow as pa
import pytest

from tests.kit import feed_layouts
from tests.transforms.inputs import csv_line, good_row, mapped, rows_and_refused, rules, run
from transforms.layouts import UnreadableFile, layout, message_layout, open_file
from transforms.layouts.base import FIELDS
from transforms.layouts.decoder_process import read_apart
from transforms.layouts.open_file import files_in

ROWS = [good_row(i) for i in range(50)]
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
