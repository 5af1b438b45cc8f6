"""Damaged rows of each layout, and files made by hand that its writers would never write."""

import io
import pickle
import zlib

import fastavro
import pyarrow as pa
import pytest

from tests.transforms import inputs
from tests.transforms.inputs import FIELDS, good_row, iudx_element, mapped, rules, run, write_avro
from transforms.layouts import FIXED, UnreadableFile
from transforms.layouts.mapped.json import array_of

NAMES = ["csv", "jsonl", "iudx-lines", "iudx-array"]
WRITERS = {
    "csv": (mapped("csv"), inputs.csv_line, inputs.write_csv),
    "jsonl": (mapped("jsonl"), inputs.json_line, inputs.write_jsonl),
    "iudx-lines": (FIXED["iudx"].layout, iudx_element, inputs.write_jsonl),
    "iudx-array": (FIXED["iudx"].layout, iudx_element, inputs.write_array),
}


def read(name, folder, lines):
    """What becomes of these lines or elements in a file of one layout."""
    source, _, write = WRITERS[name]
    return run(source, write(folder / "input", lines), rules())


def row(i):
    """Good rows that can be told apart by their position."""
    return {**good_row(i), "lat": round(30 + i / 1e6, 6)}


def places(observations):
    return set(observations.lat_e7.tolist())


CSV_DAMAGE = {
    "malformed": [
        b'"bus,2023-11-15T12:00:00Z,30,-97,1', b'bus",2023-11-15T12:00:00Z,30,-97,1', b'b"u,"s,30,-97,1',
        b'bus","2023-11-15T12:00:00Z,30,-97,1', b'"bus"x,2023-11-15T12:00:00Z,30,-97,1',
        b'"bus""",2023-11-15T12:00:00Z,30,-97,"1""', b"bus,2023-11-15T12:00:00Z\r,30,-97,1",
        b"\rbus,2023-11-15T12:00:00Z,30,-97,1", b"bus,2023-11-15T12:00:00Z,30,-97",
        b"bus,2023-11-15T12:00:00Z,30,-97,1,", b"bus", b'"', b"   ",
    ],
    "too-long": [b"x" * 65_537, b'"' * 65_537, b"," * 3_000_000],
    "not-utf8": [b"b\xffus,2023-11-15T12:00:00Z,30,-97,1", b"bus,\xc3,30,-97,1"],
    "missing-vehicle": [b",,,,"],
    "bad-time": [b"bus,\x00,30,-97,1"],
}  # fmt: skip
JSON_DAMAGE = {
    "malformed": [
        b"{", b"}", b'{"vehicle":"bus"', b'"vehicle":"bus"}', b'{"vehicle":"bus}', b'{"vehicle":NaN}',
        b'{"x":Infinity}', b'{"x":-Infinity}', b'{"x":01}', b'{"x":"\t"}', b'{"x":"\\ud800"}',
        b'{"x":' + b"[" * 30_000 + b"]" * 30_000 + b"}", b"{}x", b"[1]", b"null", b"7", b'"text"', b"{'vehicle':1}",
        b"\x00",
    ],
    "too-long": [b'{"x":"' + b"x" * 65_600 + b'"}'],
    "not-utf8": [b'{"vehicle":"\xff"}', b'{"x":"\xc3"}'],
    "missing-vehicle": [b"{}", b'{"vehicle":null}', b'{"x":1e999}'],
    "bad-vehicle": [b'{"vehicle":true,"license_plate":true}', b'{"vehicle":[],"license_plate":{}}'],
}  # fmt: skip
LINES_DAMAGE = {"malformed": [b"{} {}", b"{}{}", b'{"x":{', b"x" * 1_000], "too-long": [b"x" * 3_000_000]}


def damage(name):
    """Damage that costs its row alone: in an array all that is JSON."""
    tables = {"csv": [CSV_DAMAGE], "iudx-array": [JSON_DAMAGE]}.get(name, [JSON_DAMAGE, LINES_DAMAGE])
    listed = [(reason, line) for part in tables for reason, lines in part.items() for line in lines]
    return [(reason, line) for reason, line in listed if name != "iudx-array" or array_of(b"[" + line + b"]")]


def unreadable(source, path):
    """The rule by which a file is refused, whose error names its path alone and travels."""
    with pytest.raises(UnreadableFile) as caught:
        list(source.read(str(path)))
    assert str(path) in str(caught.value)
    assert caught.value.__cause__ is None
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    return caught.value.rule


def columns_of(**changes):
    rows = [row(i) for i in range(100)]
    return {field: changes.get(field, pa.array([item[field] for item in rows])) for field in FIELDS}


def varint(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def write_long(value):
    return varint(value << 1)


def avro_file(schema, blocks, codec=b"deflate"):
    """A container file made by hand. blocks: pairs of a claimed number of rows and the bytes of a block."""
    sync = b"s" * 16
    out = io.BytesIO(b"")
    out.write(b"Obj\x01" + write_long(2))
    for name, value in ((b"avro.schema", schema), (b"avro.codec", codec)):
        out.write(write_long(len(name)) + name + write_long(len(value)) + value)
    out.write(write_long(0) + sync)
    for rows, data in blocks:
        out.write(write_long(rows) + write_long(len(data)) + data + sync)
    return out.getvalue()


def deflated(data):
    deflate = zlib.compressobj(9, wbits=-15)
    return deflate.compress(data) + deflate.flush()


def write_coded(path, rows, types, codec, times=1):
    """As `write_avro`, of a codec for which fastavro wants other libraries too; the rows so many times."""
    with open(write_avro(path, rows, types, "null"), "rb") as file:
        blocks = [(block.num_records, block.bytes_.getvalue()) for block in fastavro.block_reader(file)]
        file.seek(0)
        schema = fastavro.reader(file).metadata["avro.schema"].encode()
    path.write_bytes(
        avro_file(schema, [(rows * times, _COMPRESS[codec](data * times)) for rows, data in blocks], codec.encode())
    )
    return path


def snappied(data):
    return pa.compress(data, "snappy", asbytes=True) + zlib.crc32(data).to_bytes(4, "big")


_COMPRESS = {
    "null": bytes,
    "deflate": deflated,
    "snappy": snappied,
    "zstandard": lambda data: pa.compress(data, "zstd", asbytes=True),
}


def avro_schema(*fields):
    own = [f'{{"name":"{name}","type":["null","double","string"]}}' for name in FIELDS]
    return f'{{"type":"record","name":"r","fields":[{",".join([*own, *fields])}]}}'.encode()
