"""Input that expands, repeats or nests stays small in memory, or is refused."""

import io
from pathlib import Path

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.faults.processes import captured
from tests.transforms.inputs import (
    FIELDS,
    mapped,
    parse,
    rules,
    run,
    write_avro,
    write_parquet,
)
from tests.transforms.layouts.hostile_files import (
    WRITERS,
    avro_file,
    avro_schema,
    columns_of,
    deflated,
    row,
    unreadable,
    varint,
    write_coded,
)
from transforms.layouts import FIXED, UnreadableFile, avro_blocks
from transforms.layouts.avro_blocks import AvroBlock, write_long
from transforms.layouts.avro_work import SchemaSize, Work, own_rows, shape
from transforms.layouts.base import Share
from transforms.layouts.mapped import avro, parquet
from transforms.layouts.own import gtfs_realtime

TOO_FAR = "expands too far for the few vehicles and times in it"


def test_a_parquet_file_that_expands_is_refused(tmp_path):
    columns = columns_of(vehicle=pa.array(["x" * 1_500_000 + str(i) for i in range(100)]))
    path = tmp_path / "a"
    write_parquet(path, columns, compression="zstd", use_dictionary=False, write_statistics=False)
    assert path.stat().st_size < 500_000
    assert "expands to more than" in unreadable(mapped("parquet"), path)


def test_a_parquet_file_of_rows_without_bytes_is_refused(tmp_path):
    path = tmp_path / "a"
    constant = {field: pa.repeat(pa.scalar(1, pa.int64()), 2_000_000) for field in FIELDS}
    write_parquet(path, constant, compression="zstd")
    assert path.stat().st_size < 100_000
    assert unreadable(mapped("parquet"), path) == "expands to more than 4 rows per byte of vehicles, times and places"


def test_a_parquet_encoding_that_repeats_prefixes_is_refused(tmp_path):
    text = pa.array(["x" * 100_000] * 100)
    encoding = {"vehicle": "DELTA_BYTE_ARRAY"}
    path = write_parquet(tmp_path / "a", columns_of(vehicle=text), use_dictionary=False, column_encoding=encoding)
    assert "DELTA_BYTE_ARRAY" in unreadable(mapped("parquet"), path)


def test_of_a_parquet_file_each_share_looks_at_the_pages_that_it_reads(tmp_path, monkeypatch):
    path, seen, look = tmp_path / "a", [], parquet.pages
    write_parquet(path, {field: pa.array([row(0)[field]] * 90) for field in FIELDS}, row_group_size=10)
    monkeypatch.setattr(parquet, "pages", lambda file, *span: seen.append(span) or look(file, *span))
    layout = mapped("parquet")
    assert sum(batch.rows for batch in layout.read(str(path))) == 90
    whole, seen[:] = sorted(seen), []
    assert sum(batch.rows for number in range(4) for batch in layout.read_share(str(path), Share(number, 4))) == 90
    assert sorted(seen) == whole


def test_a_long_value_repeated_by_a_dictionary_is_held_once(tmp_path):
    long = pa.DictionaryArray.from_arrays(pa.array([0] * 20_000, pa.int32()), pa.array(["x" * 500_000]))
    columns = {field: pa.array([row(0)[field]] * 20_000) for field in FIELDS if field != "vehicle"}
    path = write_parquet(tmp_path / "a", {**columns, "vehicle": long})
    assert run(mapped("parquet"), path, rules())[1] == {"bad-vehicle": 20_000}
    assert peak_mb("mapped('parquet')", path) < 512


def test_a_parquet_footer_cannot_hide_what_the_pages_hold(tmp_path):
    path = tmp_path / "a"
    write_parquet(path, columns_of(vehicle=pa.array(["x" * 2_000_000] * 100)), compression="zstd", use_dictionary=False)
    whole = path.read_bytes()
    size = pq.ParquetFile(path).metadata.row_group(0).column(0).total_uncompressed_size
    encoded = varint(size * 2)
    assert encoded in whole
    path.write_bytes(whole.replace(encoded, varint(2_000).ljust(len(encoded), b"\x00")[: len(encoded)]))
    assert unreadable(mapped("parquet"), path)


def rows_or_rule(path):
    """How many rows a Parquet file gives, or why it is not read."""
    try:
        return sum(batch.rows for batch in mapped("parquet").read(str(path)))
    except UnreadableFile as error:
        return error.rule


def speeds_of_one_vehicle(rows, other_rows):
    """Speeds that are alike, and the same where one vehicle's are not."""
    alike = np.full(rows, 20.0)
    varied = alike.copy()
    varied[:other_rows] = np.random.default_rng(1).uniform(0, 60, other_rows)
    return alike, varied


@pytest.mark.parametrize(("places", "is_read"), [(10_000, False), (50_000, True)])
def test_how_well_speeds_are_compressed_decides_nothing(places, is_read, tmp_path):
    rows, path = 1_200_000, tmp_path / "a"
    lat = np.full(rows, 30.0)
    lat[-places:] += np.random.default_rng(2).uniform(0, 1, places)
    outcomes, sizes = [], []
    for speed in speeds_of_one_vehicle(rows, 40_000):
        columns = {
            "vehicle": np.arange(rows) // 3_000,
            "time": np.full(rows, 7),
            "lat": lat,
            "lon": lat,
            "speed": speed,
        }
        write_parquet(path, {name: pa.array(values) for name, values in columns.items()}, compression="zstd")
        outcomes.append(rows_or_rule(path))
        sizes.append(path.stat().st_size)
    assert outcomes[0] == outcomes[1]
    assert (outcomes[0] == rows) == is_read
    if not is_read:
        assert sizes[0] < rows / 4 < sizes[1]


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


def test_a_row_group_of_too_many_speeds_is_refused_whatever_they_are(monkeypatch, tmp_path):
    monkeypatch.setattr(parquet, "SPEED_BYTES", 8 * 99)
    for speed in (np.zeros(100), np.arange(100.0)):
        path = write_parquet(tmp_path / "a", columns_of(speed=pa.array(speed)))
        assert unreadable(mapped("parquet"), path) == "a row group of more than 99 rows: write smaller ones"
    assert rows_or_rule(write_parquet(tmp_path / "a", columns_of(), row_group_size=99)) == 100


def test_pages_of_more_speeds_than_rows_are_refused(tmp_path):
    rows, path = 1_000_003, tmp_path / "a"
    columns = dict.fromkeys(FIELDS, pa.repeat(pa.scalar(1.5), rows))
    write_parquet(path, columns, compression="zstd", use_dictionary=["vehicle", "time", "lat", "lon"])
    whole = path.read_bytes()
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    claimed = varint(100 * 2).replace(b"\x01", b"\x81\x00")
    path.write_bytes(whole[:footer] + whole[footer:].replace(varint(rows * 2), claimed))
    assert pq.ParquetFile(path).metadata.num_rows == 100
    assert unreadable(mapped("parquet"), path) == "pages of speeds expand to more than their rows"


def test_an_avro_block_that_expands_is_refused(tmp_path):
    (tmp_path / "a").write_bytes(avro_file(avro_schema(), [(1, deflated(bytes(65 << 20)))]))
    assert (tmp_path / "a").stat().st_size < 500_000
    assert unreadable(mapped("avro"), tmp_path / "a") == "a block expands to more than 64 MiB"


def test_how_well_a_full_avro_block_is_compressed_decides_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr(avro_blocks, "BLOCK_BYTES", 1_000)
    fields = ",".join(f'{{"name":"{name}","type":"double"}}' for name in FIELDS)
    random_bits = np.frombuffer(np.random.default_rng(4).bytes(1_000)).reshape(25, 5)
    alike = np.column_stack([random_bits[:, :4], np.zeros(25)])
    sizes = []
    for values in (alike, random_bits):
        block = deflated(values.tobytes())
        file = avro_file(f'{{"type":"record","name":"r","fields":[{fields}]}}'.encode(), [(25, block)])
        (tmp_path / "a").write_bytes(file)
        assert sum(batch.rows for batch in mapped("avro").read(str(tmp_path / "a"))) == 25
        sizes.append(len(block))
    assert sizes[0] < 1_000 < sizes[1]


@pytest.mark.slow  # 6 s
def test_an_avro_block_of_many_small_rows_streams_in_bounded_memory(tmp_path):
    rows = 400_000
    row = np.zeros(rows, [("vehicle", "u1"), ("is_double", "u1"), ("time", "<f8"), ("others", "u1", 3)])
    row["is_double"], row["time"] = 2, np.arange(rows)
    (tmp_path / "a").write_bytes(avro_file(avro_schema(), [(rows, deflated(row.tobytes()))]))
    assert peak_mb("mapped('avro')", tmp_path / "a") < 512


def test_an_avro_block_cannot_claim_more_rows_than_bytes(tmp_path):
    (tmp_path / "a").write_bytes(avro_file(b'{"type":"record","name":"r","fields":[]}', [(10**12, b"")], b"null"))
    assert unreadable(mapped("avro"), tmp_path / "a") == "column 'vehicle' is missing"
    (tmp_path / "a").write_bytes(avro_file(avro_schema(), [(10**12, bytes(1_000))], b"null"))
    assert unreadable(mapped("avro"), tmp_path / "a") == "a block claims more records than it has bytes"


def test_an_avro_array_of_values_without_size_is_refused(tmp_path):
    endless = '{"name":"x","type":{"type":"array","items":{"type":"record","name":"e","fields":[]}}}'
    (tmp_path / "a").write_bytes(avro_file(avro_schema(endless), []))
    assert unreadable(mapped("avro"), tmp_path / "a") == "has arrays of values without size"


NULLABLE = 250
WIDE = {f"can{number}": ["null", "double"] for number in range(NULLABLE)}
TYPES = {"vehicle": "string", "time": "long", "lat": "double", "lon": "double", "speed": "double", **WIDE}


def wide_rows(rows, minutes):
    """Rows of 255 fields, most of them null, of 10 vehicles in so many minutes."""
    own = {"lat": 30.0, "lon": -97.0, **dict.fromkeys(WIDE)}
    return [{"vehicle": f"bus{i % 10}", "time": i // 10 % minutes, "speed": i / rows, **own} for i in range(rows)]


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "zstandard"])
def test_an_avro_file_of_many_empty_fields_is_read_and_one_that_repeats_its_rows_is_not(codec, tmp_path):
    honest, repeated = tmp_path / "honest", tmp_path / "repeated"
    rows = 5_000
    write_coded(honest, wide_rows(rows, rows), TYPES, codec)
    assert sum(batch.rows for batch in mapped("avro", "s").read(str(honest))) == rows
    write_coded(repeated, wide_rows(rows, 1), TYPES, codec)
    assert unreadable(mapped("avro", "s"), repeated) == TOO_FAR


def test_a_row_of_telemetry_is_tens_of_times_below_the_limit_of_work():
    work = Work("", SchemaSize(values=94, for_a_byte=1))
    rows = [("bus", minute) for minute in range(2_000)] * 40
    work.begin([AvroBlock(len(rows), bytes(300 * len(rows)))])
    work.add(rows)
    with pytest.raises(UnreadableFile):
        work.add(rows * 4)


def test_a_gigabyte_of_repeated_rows_is_refused_before_a_hundredth_of_it_is_decoded(monkeypatch, tmp_path):
    per_block, seen = 4_000, []
    texts = '{"name":"t","type":"string"}'
    block = deflated((bytes(5) + write_long(250) + b"x" * 250) * per_block)
    (tmp_path / "a").write_bytes(avro_file(avro_schema(texts), [(per_block, block)] * 1_000))
    monkeypatch.setattr(
        avro, "read_blocks", lambda *given: (seen.append(b) or b for b in avro_blocks.read_blocks(*given))
    )
    assert unreadable(mapped("avro"), tmp_path / "a") == TOO_FAR
    assert len(seen) < 10


@pytest.mark.parametrize("is_nan", [False, True])
def test_an_avro_row_is_worth_its_vehicle_and_time_and_nothing_else(is_nan):
    value = float("nan") if is_nan else 7
    rows = [("bus", float("nan") if is_nan else value, lat, speed) for lat in range(3) for speed in range(3)]
    assert own_rows(rows) == (0 if is_nan else 1)
    assert own_rows([("bus", 1), ("bus", 2), ("car", 1), ("bus", 1)]) == 3


def test_values_that_take_no_bytes_are_counted_for_each_row_item_and_record_in_itself():
    inner = {"type": "record", "name": "e", "fields": [{"name": f"n{i}", "type": "null"} for i in range(50)]}
    item = {"type": "record", "name": "i", "fields": [{"name": "x", "type": "int"}, {"name": "e", "type": inner}]}
    fields = [{"name": "a", "type": {"type": "array", "items": item}}, {"name": "u", "type": ["null", "e"]}]
    assert size_of({"type": "record", "name": "r", "fields": fields}) == SchemaSize(values=1 + 1 + 52, for_a_byte=53)
    fields = [{"name": "next", "type": ["null", "r"]}, {"name": "e", "type": inner}]
    assert size_of({"type": "record", "name": "r", "fields": fields}) == SchemaSize(values=1 + 2 + 51, for_a_byte=54)


def size_of(schema):
    return shape("", fastavro.parse_schema(schema))


@pytest.mark.parametrize("codec", ["deflate", "snappy", "zstandard"])
def test_a_compressed_avro_block_is_damaged_or_expands_within_its_limit(codec, monkeypatch, tmp_path):
    path = write_coded(tmp_path / "a", wide_rows(50, 50), TYPES, codec)
    whole = path.read_bytes()
    sync = whole[-16:]
    offset = whole.index(sync) + 16 + 30
    path.write_bytes(whole[:offset] + bytes(byte ^ 0xFF for byte in whole[offset : offset + 20]) + whole[offset + 20 :])
    assert unreadable(mapped("avro", "s"), path) == "not an Avro file that can be decoded"
    path.write_bytes(whole)
    monkeypatch.setattr(avro_blocks, "BLOCK_BYTES", 1_000)
    assert "a block expands to more than" in unreadable(mapped("avro", "s"), path)


def test_a_feed_of_more_than_a_million_entities_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(gtfs_realtime, "FEED_FIELDS", 100)
    for entities, rule in ((100, None), (101, "a feed message of more than 100 entities")):
        (tmp_path / "a").write_bytes(b"\n\x05\n\x032.0" + b'\x12\x02"\x00' * entities)
        if rule is None:
            assert sum(batch.rows for batch in FIXED["gtfs-realtime"].layout.read(str(tmp_path / "a"))) == entities
        else:
            assert unreadable(FIXED["gtfs-realtime"].layout, tmp_path / "a") == rule
    ((batch,),) = [list(FIXED["gtfs-realtime"].layout.from_messages([(tmp_path / "a").read_bytes()]))]
    assert batch.refused == {"too-long": 1}


@pytest.mark.parametrize("column", ["vehicle", "time"])
def test_texts_as_parquet_writes_them_by_length_are_read(column, tmp_path):
    columns, encoding = columns_of(), {column: "DELTA_LENGTH_BYTE_ARRAY"}
    path = write_parquet(tmp_path / "a", columns, use_dictionary=False, column_encoding=encoding, row_group_size=30)
    read = pa.Table.from_batches([batch.table for batch in mapped("parquet").read(path)])
    assert read.column(column).to_pylist() == columns[column].to_pylist()


def test_other_avro_codecs_are_refused_by_name(tmp_path):
    path = write_avro(tmp_path / "a", [{"x": 1}], {"x": "long"}, "bzip2")
    assert unreadable(mapped("avro"), path) == "codec bzip2: only null, deflate, snappy, zstandard are read"
    (tmp_path / "a").write_bytes(avro_file(avro_schema(), [], b"canary"))
    assert "canary" not in unreadable(mapped("avro"), tmp_path / "a")


def test_a_long_array_is_refused_with_advice(tmp_path):
    with (tmp_path / "a").open("wb") as file:
        file.write(b"[")
        file.truncate((256 << 20) + 1)
    assert unreadable(FIXED["iudx"].layout, tmp_path / "a") == "a JSON array of more than 256 MiB: use JSON lines"


def test_a_long_feed_is_refused(tmp_path):
    with (tmp_path / "a").open("wb") as file:
        file.truncate((64 << 20) + 1)
    assert unreadable(FIXED["gtfs-realtime"].layout, tmp_path / "a") == "a feed message of more than 64 MiB"


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


@pytest.mark.parametrize("name", ["jsonl", pytest.param("csv", marks=pytest.mark.slow)])
def test_a_line_of_one_gigabyte_is_passed_over(name, tmp_path):
    source, encode, write = WRITERS[name]
    path = write(tmp_path / "a", [encode(row(0))])
    with (tmp_path / "a").open("r+b") as file:
        file.seek(0, 2)
        file.truncate(file.tell() + (1 << 30))
        file.seek(0, 2)
        file.write(b"\n" + encode(row(1)))
    observed, refused, _ = run(source, path, rules())
    assert (len(observed.value), refused) == (2, {"too-long": 1})
    if name == "csv":
        assert peak_mb("mapped('csv')", path) < 512


@pytest.mark.parametrize(
    ("source", "content"),
    [
        pytest.param("mapped('jsonl')", b"{}\n" * 1_000_000, marks=pytest.mark.slow),
        pytest.param("mapped('jsonl')", b"1\n" * 1_100_000, marks=pytest.mark.slow),
        pytest.param("mapped('jsonl')", (b'{"vehicle":[' + b"[]," * 20_000 + b"0]}\n") * 150, marks=pytest.mark.slow),
        ("mapped('csv')", b"vehicle,time,lat,lon,speed\n" + b",,,,\n" * 1_000_000),
        pytest.param("mapped('csv')", b"vehicle,time,lat,lon,speed\n" + b'"\n' * 1_500_000, marks=pytest.mark.slow),
        pytest.param("FIXED['iudx'].layout", b"[" + b"0," * 1_100_000 + b"0]", marks=pytest.mark.slow),
        pytest.param("FIXED['iudx'].layout", b"[" + b"{}," * 1_000_000 + b"0]", marks=pytest.mark.slow),
        ("FIXED['iudx'].layout", b'["' + b"x" * 100_000_000 + b'"]'),
        ("FIXED['gtfs-realtime'].layout", b"\n\x05\n\x032.0" + b'\x12\x02"\x00' * 500_000),
    ],
    ids=lambda value: value[:32].decode() if isinstance(value, bytes) else value,
)
def test_many_tiny_or_nested_values_stay_small_in_memory(source, content, tmp_path):
    (tmp_path / "a").write_bytes(content)
    assert peak_mb(source, tmp_path / "a") < 512


def test_fastavro_agrees_that_the_handmade_file_is_one():
    data = avro_file(avro_schema(), [(1, deflated(bytes(5)))])
    assert list(fastavro.reader(io.BytesIO(data))) == [dict.fromkeys(FIELDS)]
