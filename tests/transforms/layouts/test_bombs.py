"""Input that expands, repeats or nests stays small in memory, or is refused."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.faults.processes import captured
from tests.transforms.inputs import FIELDS, mapped, parse, rules, run, write_parquet
from tests.transforms.layouts import hostile_files
from tests.transforms.layouts.hostile_files import WRITERS, avro_file, avro_schema, deflated, row, unreadable
from transforms.layouts import FIXED, UnreadableFile
from transforms.layouts.decoder_process import read_apart
from transforms.layouts.mapped import avro, parquet
from transforms.layouts.own import gtfs_realtime


def test_a_parquet_row_group_that_expands_is_refused(monkeypatch, tmp_path):
    columns = hostile_files.columns_of(vehicle=pa.array(["x" * 150_000 + str(i) for i in range(100)]))
    path = write_parquet(tmp_path / "a", columns, compression="zstd", use_dictionary=False, write_statistics=False)
    assert (tmp_path / "a").stat().st_size < 50_000
    assert rows_or_rule(path) == 100
    monkeypatch.setattr(parquet, "GROUP_BYTES", 14 << 20)
    assert rows_or_rule(path) == "a row group expands to more than 14 MiB: write smaller ones"


def test_a_parquet_file_of_too_many_rows_is_refused_whatever_they_take(monkeypatch, tmp_path):
    path = tmp_path / "a"
    constant = {field: pa.repeat(pa.scalar(1, pa.int64()), 2_000) for field in FIELDS}
    write_parquet(path, constant, compression="zstd", row_group_size=500)
    monkeypatch.setattr(parquet, "FILE_ROWS", 2_000)
    assert rows_or_rule(path) == 2_000
    monkeypatch.setattr(parquet, "FILE_ROWS", 1_999)
    assert rows_or_rule(path) == "more than 1,999 rows: write several files"


@pytest.mark.parametrize("text_bytes", [100, pytest.param(30_000, marks=pytest.mark.slow)])
def test_a_parquet_encoding_that_repeats_prefixes_is_read_or_ends_at_a_limit(text_bytes, tmp_path):
    """Each of the texts but the first takes no bytes in the file, and all of them in memory."""
    columns = {field: pa.repeat(row(0)[field], 50_000) for field in FIELDS} | {
        "vehicle": pa.repeat("x" * text_bytes, 50_000)
    }
    encoding = {"vehicle": "DELTA_BYTE_ARRAY"}
    path = write_parquet(tmp_path / "a", columns, use_dictionary=False, column_encoding=encoding)
    if text_bytes == 100:
        assert sum(batch.rows for batch in read_apart(mapped("parquet"), path)) == 50_000
        return
    with pytest.raises(UnreadableFile):
        list(read_apart(mapped("parquet"), path))


def test_a_long_value_repeated_by_a_dictionary_is_held_once(tmp_path):
    long = pa.DictionaryArray.from_arrays(pa.array([0] * 20_000, pa.int32()), pa.array(["x" * 500_000]))
    columns = {field: pa.array([row(0)[field]] * 20_000) for field in FIELDS if field != "vehicle"}
    path = write_parquet(tmp_path / "a", {**columns, "vehicle": long})
    assert run(mapped("parquet"), path, rules())[1] == {"bad-vehicle": 20_000}
    assert peak_mb("mapped('parquet')", path) < 512


def rows_or_rule(path, source=None):
    """How many rows a file (None: of Parquet) gives, or why it is not read."""
    try:
        return sum(batch.rows for batch in (source or mapped("parquet")).read(str(path)))
    except UnreadableFile as error:
        return error.rule


def speeds_of_one_vehicle(rows, other_rows):
    """Speeds that are alike, and the same where one vehicle's are not."""
    alike = np.full(rows, 20.0)
    varied = alike.copy()
    varied[:other_rows] = np.random.default_rng(1).uniform(0, 60, other_rows)
    return alike, varied


@pytest.mark.parametrize("is_read", [True, False])
def test_how_well_speeds_are_compressed_decides_nothing(is_read, monkeypatch, tmp_path):
    rows, path = 100_000, tmp_path / "a"
    monkeypatch.setattr(parquet, "GROUP_BYTES", 100_000 if is_read else 100)
    outcomes, sizes = [], []
    for speed in speeds_of_one_vehicle(rows, 40_000):
        columns = {"vehicle": np.arange(rows) // 3_000, **dict.fromkeys(("time", "lat", "lon"), np.full(rows, 7))}
        write_parquet(path, {name: pa.array(values) for name, values in {**columns, "speed": speed}.items()})
        outcomes.append(rows_or_rule(path))
        sizes.append(path.stat().st_size)
    assert outcomes[0] == outcomes[1]
    assert (outcomes[0] == rows) == is_read
    assert sizes[1] > 10 * sizes[0]


@pytest.mark.slow  # 4 s
def test_how_long_a_page_of_speeds_is_decides_nothing(tmp_path):
    rows, path = 4_500_000, tmp_path / "a"
    vehicles = pa.array(np.random.default_rng(3).integers(0, 200, rows), pa.int32())
    columns = {"vehicle": vehicles, **dict.fromkeys(("time", "lat", "lon"), pa.repeat(pa.scalar(7), rows))}
    one_page = {"row_group_size": rows, "data_page_size": 1 << 30, "max_rows_per_page": rows, "compression": "zstd"}
    for speed in speeds_of_one_vehicle(rows, rows // 3):
        write_parquet(path, {**columns, "speed": pa.array(speed)}, **one_page, dictionary_pagesize_limit=1 << 30)
        assert rows_or_rule(path) == rows
    write_parquet(path, {**columns, "speed": pa.array(speed)}, **one_page, use_dictionary=[*columns])
    assert rows_or_rule(path) == rows


def test_an_avro_block_that_expands_is_refused(tmp_path):
    (tmp_path / "a").write_bytes(avro_file(avro_schema(), [(1, deflated(bytes(65 << 20)))]))
    assert (tmp_path / "a").stat().st_size < 500_000
    assert rows_or_rule(tmp_path / "a", mapped("avro")) == "a block expands to more than 64 MiB"


def test_how_well_a_full_avro_block_is_compressed_decides_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr(avro, "BLOCK_BYTES", 1_000)
    fields = ",".join(f'{{"name":"{name}","type":"double"}}' for name in FIELDS)
    random_bits = np.frombuffer(np.random.default_rng(4).bytes(1_000)).reshape(25, 5)
    alike = np.column_stack([random_bits[:, :4], np.zeros(25)])
    sizes = []
    for values in (alike, random_bits):
        block = deflated(values.tobytes())
        file = avro_file(f'{{"type":"record","name":"r","fields":[{fields}]}}'.encode(), [(25, block)])
        (tmp_path / "a").write_bytes(file)
        assert rows_or_rule(tmp_path / "a", mapped("avro")) == 25
        sizes.append(len(block))
    assert sizes[0] < 1_000 < sizes[1]


@pytest.mark.slow  # 6 s
def test_an_avro_block_of_many_small_rows_streams_in_bounded_memory(tmp_path):
    rows = 400_000
    row = np.zeros(rows, [("vehicle", "u1"), ("is_double", "u1"), ("time", "<f8"), ("others", "u1", 3)])
    row["is_double"], row["time"] = 2, np.arange(rows)
    (tmp_path / "a").write_bytes(avro_file(avro_schema(), [(rows, deflated(row.tobytes()))]))
    assert peak_mb("mapped('avro')", tmp_path / "a") < 512


@pytest.mark.parametrize("kind", ['"null"', '["null","double","string"]'])
def test_an_avro_file_of_too_many_rows_is_refused_whatever_they_take(kind, monkeypatch, tmp_path):
    monkeypatch.setattr(avro, "FILE_ROWS", 2_000)
    own = ",".join(f'{{"name":"{name}","type":{kind}}}' for name in FIELDS)
    data = b"" if kind == '"null"' else bytes(5 * 3_000)
    for rows, rule in ((2_000, None), (10**12 if not data else 3_000, "more than 2,000 rows: write several files")):
        file = avro_file(f'{{"type":"record","name":"r","fields":[{own}]}}'.encode(), [(rows, deflated(data))])
        (tmp_path / "a").write_bytes(file)
        assert rows_or_rule(tmp_path / "a", mapped("avro")) == (rule or rows)


NULLABLE = 250
WIDE = {f"can{number}": ["null", "double"] for number in range(NULLABLE)}
TYPES = {"vehicle": "string", "time": "long", "lat": "double", "lon": "double", "speed": "double", **WIDE}


def wide_rows(rows, minutes):
    """Rows of 255 fields, most of them null, of 10 vehicles in so many minutes."""
    own = {"lat": 30.0, "lon": -97.0, **dict.fromkeys(WIDE)}
    return [{"vehicle": f"bus{i % 10}", "time": i // 10 % minutes, "speed": i / rows, **own} for i in range(rows)]


@pytest.mark.parametrize("codec", ["deflate", "snappy", "zstandard"])
def test_a_compressed_avro_block_is_damaged_or_expands_within_its_limit(codec, monkeypatch, tmp_path):
    path = hostile_files.write_coded(tmp_path / "a", wide_rows(50, 50), TYPES, codec)
    whole = path.read_bytes()
    sync = whole[-16:]
    offset = whole.index(sync) + 16 + 30
    path.write_bytes(whole[:offset] + bytes(byte ^ 0xFF for byte in whole[offset : offset + 20]) + whole[offset + 20 :])
    assert unreadable(mapped("avro", "s"), path) == "not an Avro file that can be decoded"
    path.write_bytes(whole)
    monkeypatch.setattr(avro, "BLOCK_BYTES", 1_000)
    assert "a block expands to more than" in unreadable(mapped("avro", "s"), path)


def test_a_feed_of_more_than_a_million_entities_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(gtfs_realtime, "FEED_FIELDS", 100)
    for entities, rule in ((100, None), (101, "a feed message of more than 100 entities")):
        (tmp_path / "a").write_bytes(b"\n\x05\n\x032.0" + b'\x12\x02"\x00' * entities)
        assert rows_or_rule(tmp_path / "a", FIXED["gtfs-realtime"].layout) == (rule or entities)
    ((batch,),) = [list(FIXED["gtfs-realtime"].layout.from_messages([(tmp_path / "a").read_bytes()]))]
    assert batch.refused == {"too-long": 1}


def peak_mb(source, path):
    """Most memory of a fresh process that reads and parses a file with the layout that `source` names."""
    done = captured(read_all, source, str(path))
    assert (done.code, done.err) == (0, b"")
    return int(done.out) // 1024


def read_all(source, path):
    layout = eval(source)
    for batch in layout.read(path):
        parse(batch.table, rules(layout.units))
    print(next(line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line))


@pytest.mark.parametrize(
    ("name", "size"),
    [("jsonl", 1 << 27), *(pytest.param(n, 1 << 30, marks=pytest.mark.slow) for n in ("jsonl", "csv"))],
)
def test_a_line_of_up_to_one_gigabyte_is_passed_over(name, size, tmp_path):
    source, encode, write = WRITERS[name]
    path = write(tmp_path / "a", [encode(row(0))])
    with (tmp_path / "a").open("r+b") as file:
        file.seek(0, 2)
        file.truncate(file.tell() + size)
        file.seek(0, 2)
        file.write(b"\n" + encode(row(1)))
    observed, refused, _ = run(source, path, rules())
    assert (len(observed.value), refused) == (2, {"too-long": 1})
    if name == "csv":
        assert peak_mb("mapped('csv')", path) < 512


HEAD = b"vehicle,time,lat,lon,speed\n"


@pytest.mark.parametrize(
    ("source", "head", "part", "times", "tail"),
    [
        pytest.param("mapped('jsonl')", b"", b"{}\n", 1_000_000, b"", marks=pytest.mark.slow),
        pytest.param("mapped('jsonl')", b"", b"1\n", 1_100_000, b"", marks=pytest.mark.slow),
        pytest.param(
            "mapped('jsonl')", b"", b'{"vehicle":[' + b"[]," * 20_000 + b"0]}\n", 150, b"", marks=pytest.mark.slow
        ),
        ("mapped('csv')", HEAD, b",,,,\n", 1_000_000, b""),
        pytest.param("mapped('csv')", HEAD, b'"\n', 1_500_000, b"", marks=pytest.mark.slow),
        pytest.param("FIXED['iudx'].layout", b"[", b"0,", 1_100_000, b"0]", marks=pytest.mark.slow),
        pytest.param("FIXED['iudx'].layout", b"[", b"{},", 1_000_000, b"0]", marks=pytest.mark.slow),
        ("FIXED['iudx'].layout", b'["', b"x", 100_000_000, b'"]'),
        ("FIXED['gtfs-realtime'].layout", b"\n\x05\n\x032.0", b'\x12\x02"\x00', 500_000, b""),
    ],
    ids=lambda value: value[:12].decode() if isinstance(value, bytes) else value,
)
def test_many_tiny_or_nested_values_stay_small_in_memory(source, head, part, times, tail, tmp_path):
    (tmp_path / "a").write_bytes(head + part * times + tail)
    assert peak_mb(source, tmp_path / "a") < 512
