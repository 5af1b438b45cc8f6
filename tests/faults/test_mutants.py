"""Thousands of damaged files and specifications: none ends the process, hangs it, or is an internal error."""

import io
import random

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests import city
from tests.transforms.inputs import FIELDS, NOON_US, good_row, mapped, rules
from transforms.layouts import UnreadableFile
from transforms.layouts.decoder_process import read_apart
from transforms.observe.parse import parse

ROWS = [good_row(i) for i in range(40)]
OPTIONS = (
    {},
    {"compression": "none", "use_dictionary": False},
    {"data_page_version": "2.0", "compression": "zstd"},
    {"row_group_size": 7, "compression": "gzip"},
    {
        "use_dictionary": False,
        "column_encoding": {"vehicle": "DELTA_LENGTH_BYTE_ARRAY", "speed": "BYTE_STREAM_SPLIT"},
        "compression": "snappy",
    },
)


def parquet_files():
    columns = {name: [row[name] for row in ROWS] for name in FIELDS}
    typed = pa.array([NOON_US + i for i in range(len(ROWS))]).cast(pa.timestamp("us", "UTC"))
    for table in (columns, columns | {"time": typed}):
        for options in OPTIONS:
            sink = io.BytesIO()
            pq.write_table(pa.table(table), sink, **options)
            yield sink.getvalue()


def avro_files():
    for kinds in ("string double double double double", "string string double double double"):
        types = dict(zip(FIELDS, kinds.split(), strict=True))
        nullable = {name: ["null", kind] for name, kind in types.items()}
        rows = [{**row, "time": row["time"] if types["time"] == "string" else 1.7e9} for row in ROWS]
        for fields in (types, nullable):
            schema = {"type": "record", "name": "r", "fields": [{"name": n, "type": k} for n, k in fields.items()]}
            for codec in ("null", "deflate"):
                sink = io.BytesIO()
                fastavro.writer(sink, schema, rows, codec=codec)
                yield sink.getvalue()


def damaged(random_, data):
    """A few bytes flipped, set, cut out, put in, or copied to another place."""
    changed = bytearray(data)
    for _ in range(random_.choice((1, 1, 2, 4, 16))):
        position, kind = random_.randrange(len(changed)), random_.randrange(6)
        if kind == 0:
            changed[position] ^= 1 << random_.randrange(8)
        elif kind == 1:
            changed[position] = random_.choice((0, 1, 0x7F, 0x80, 0xFF))
        elif kind == 2:
            changed[position] = random_.randrange(256)
        elif kind == 3:
            del changed[position : position + random_.randrange(1, 9)]
        elif kind == 4:
            changed[position:position] = random_.randbytes(random_.randrange(1, 9))
        else:
            source = random_.randrange(len(changed))
            changed[position : position + 8] = changed[source : source + 8]
        changed = changed or bytearray(b"x")
    return bytes(changed)


def mutants(files, number):
    originals = list(files)
    for seed in range(number):
        yield seed, damaged(random.Random(seed), originals[seed % len(originals)])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "files", "number"), [("parquet", parquet_files, 2_500), ("avro", avro_files, 500)])
def test_damaged_files_are_read_or_refused(name, files, number, tmp_path):
    layout, path = mapped(name), tmp_path / "mutant"
    read, unreadable = 0, []
    for _, data in mutants(files(), number):
        path.write_bytes(data)
        try:
            for batch in read_apart(layout, str(path)):
                observations, refused = parse(batch.table, rules(layout.units))
                read += len(observations.value) + sum(refused.values())
        except UnreadableFile as error:
            unreadable.append(error.path)
    assert set(unreadable) == {str(path)}
    assert read > number  # some of them are hardly damaged


@pytest.mark.slow
def test_damaged_specifications_are_loaded_or_refused_in_a_sentence(tmp_path, hatstream):
    for seed, data in mutants([city.SPEC.encode(), city.AUSTIN.encode()], 300):
        folder = tmp_path / str(seed)
        folder.mkdir()
        (folder / "spec.toml").write_bytes(data)
        code, _, err = hatstream(*city.init(folder))
        assert code in (0, 2), (seed, err)
        assert "internal error" not in err, seed
        assert code == 0 or len(err.splitlines()) <= 3, seed
