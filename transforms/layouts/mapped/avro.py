"""Avro container files, decoded by fastavro within bounds.

A `kind` is an Avro schema: a name, a dict, or a list for a union. A `target` is what `_arrow_type` makes of it. `walk`
follows a path's steps into each value, and `typed_batch` makes Arrow arrays of what are none yet.
"""

import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from io import BytesIO
from itertools import islice, repeat
from operator import itemgetter
from typing import Any, BinaryIO

import fastavro
import pyarrow as pa
from fastavro.read import BLOCK_READERS

from transforms.layouts.base import MappedLayout, Path, RawBatch, UnreadableFile, are_times, steps_of
from transforms.layouts.columns import LARGEST_FLOAT
from transforms.layouts.open_file import unpacked
from transforms.layouts.records import typed_batch, walk

BLOCK_BYTES, FILE_ROWS = 64 << 20, 1 << 26  # most of a block, expanded; most rows of a file, which may take no bytes
FREE_NULLS, NULLS_PER_BYTE = 1 << 24, 8
"""Values of fields that are null by their type, which take no bytes: so many, or so many for each byte of the file."""
DECODE_ROWS = 65_536

_PLAIN_TYPES = {"null", "boolean", "int", "long", "float", "double", "string", "bytes"}
_UNIT_BY_LOGICAL_TYPE = {"timestamp-millis": "ms", "timestamp-micros": "us", "timestamp-nanos": "ns"}
_MIXED_UNION = "mixed"  # in the place of an Arrow type: texts and values of other types
_LARGEST = int(LARGEST_FLOAT)
_LOCAL_TIMES = {f"local-{name}": pa.timestamp(unit) for name, unit in _UNIT_BY_LOGICAL_TYPE.items()}
_ARROW_TIMES = {name: pa.timestamp(unit, "UTC") for name, unit in _UNIT_BY_LOGICAL_TYPE.items()} | _LOCAL_TIMES


class AvroTable(MappedLayout):
    """Fields of Avro records, by name or dotted path."""

    def read(self, path: str) -> Iterator[RawBatch]:
        """Yields the batches of a file, block by block. Raises UnreadableFile."""
        data = unpacked(path)  # None: the file is not compressed, and is read as it is
        with open(path, "rb") if data is None else BytesIO(data) as file:
            try:
                yield from _batches(path, file, self)
            except UnreadableFile:
                raise
            except _TooBig:
                raise UnreadableFile(path, f"a block expands to more than {BLOCK_BYTES >> 20} MiB") from None
            except Exception:  # noqa: BLE001 - fastavro raises of everything; a damaged length asks for much memory
                raise UnreadableFile(path, "not an Avro file that can be decoded") from None


LAYOUTS = {"avro": AvroTable}


class _TooBig(Exception):
    """A block expands to more than BLOCK_BYTES."""


def _from_snappy(data: bytes) -> bytes:
    """Expands a Snappy block of Avro, verifying its checksum. Raises ValueError, _TooBig."""
    signed: Any = fastavro.schemaless_reader(BytesIO(data), "long")  # Avro's varint reader serves for Snappy's header
    size = (signed << 1) ^ (signed >> 63)  # Snappy's length is a varint without sign: this undoes Avro's zigzag
    if size > BLOCK_BYTES:
        raise _TooBig
    expanded: bytes = pa.decompress(data[:-4], size, "snappy", asbytes=True)
    if zlib.crc32(expanded).to_bytes(4, "big") != data[-4:]:
        raise ValueError
    return expanded


_EXPAND_BY_CODEC: dict[str, Callable[[bytes], bytes]] = {
    "null": bytes,
    "deflate": lambda data: zlib.decompressobj(-15).decompress(data, BLOCK_BYTES + 1),  # -15: without zlib's header
    "snappy": _from_snappy,
    # Of Arrow's stream, read() would leak.
    "zstandard": lambda data: pa.input_stream(memoryview(data), "zstd").read_buffer(BLOCK_BYTES + 1).to_pybytes(),
}  # decompressors by codec; a block that expands too far is cut after BLOCK_BYTES + 1, enough to refuse it


def _read_block(expand: Callable[[bytes], bytes], file: BinaryIO) -> BytesIO:
    """Reads a compressed block for fastavro. Raises _TooBig above BLOCK_BYTES."""
    block: Any = fastavro.schemaless_reader(file, "bytes")
    data = expand(block)
    if len(data) > BLOCK_BYTES:
        raise _TooBig
    return BytesIO(data)


BLOCK_READERS.update({codec: partial(_read_block, expand) for codec, expand in _EXPAND_BY_CODEC.items()})
"""fastavro's own readers expand without bound, and need further libraries for two of these codecs."""


def _batches(path: str, file: BinaryIO, table: AvroTable) -> Iterator[RawBatch]:
    """Yields an open file's rows of `table`'s columns, in bounded batches. Raises UnreadableFile."""
    header = fastavro.reader(file, "null")  # read as "null", a bad default in its schema raises nothing
    if header.codec not in _EXPAND_BY_CODEC:
        codec = header.codec if header.codec in BLOCK_READERS else "that is unknown"
        raise UnreadableFile(path, f"codec {codec}: only {', '.join(_EXPAND_BY_CODEC)} are read")
    column_steps = tuple(map(steps_of, table.columns))
    schema: Any = header.writer_schema
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise UnreadableFile(path, "not an Avro file of records")
    kinds = [_type_at(path, schema, steps) for steps in column_steps]  # each column's schema
    targets = tuple(
        _arrow_type(path, column, kind, are_times(name, table.fields), table.units.zone)
        for name, column, kind in zip(table.fields, table.columns, kinds, strict=True)
    )
    _strip(schema)  # in place, of logical types: an invalid datetime would stop the file
    tops = {steps[0] for steps in column_steps}  # names of the record's fields that are needed
    fields = [{"name": field["name"], "type": field["type"]} for field in schema["fields"] if field["name"] in tops]
    unions = [_branches(kind) for kind in kinds]
    names_of = [{branch.get("type") if isinstance(branch, dict) else branch for branch in union} for union in unions]
    is_mixed = any({"string", "bytes"} <= names for names in names_of)
    has_bytes = is_mixed or any(isinstance(target, int) for target in targets)  # int: of a decimal, which is bytes
    # fastavro would turn texts and bytes of one union into one another, and raise for all rows where it cannot
    reader_schema = None if is_mixed else {"type": "record", "name": schema["name"], "fields": fields}
    file_bytes = file.seek(0, os.SEEK_END)
    file.seek(0)
    reader = fastavro.reader(file, reader_schema, handle_unicode_errors="surrogateescape")
    _strip(reader.writer_schema)  # likewise: this reader has read the header anew
    top_values_of: Callable[[Any], Any] = itemgetter(*(steps[0] for steps in column_steps))
    row_count, row_nulls = 0, _fields_of_nothing(reader.writer_schema)  # row_nulls: a row's fields of type null
    # A field of type null takes no byte in the file, but memory: so many are decoded at most, by the file's size.
    most_nulls = max(FREE_NULLS, NULLS_PER_BYTE * file_bytes)
    batch_rows = min(DECODE_ROWS, 1 + most_nulls // max(row_nulls, 1))
    while rows := list(map(top_values_of, islice(reader, batch_rows))):
        row_count += len(rows)
        if row_count > FILE_ROWS:
            raise UnreadableFile(path, f"more than {FILE_ROWS:,} rows: write several files")
        if row_count * row_nulls > most_nulls:
            raise UnreadableFile(path, f"{row_nulls:,} fields hold nothing in any row: leave them out of the schema")
        columns = list(map(walk, zip(*rows, strict=True), (steps[1:] for steps in column_steps)))
        if has_bytes:
            pairs = zip(columns, targets, strict=True)
            columns = [list(map(_decoded, values, repeat(target))) for values, target in pairs]
        yield _batch(columns, table.fields, targets)


def _type_at(path: str, kind: Any, steps: Path) -> Any:
    """Returns the schema at a path of steps below schema `kind`. Raises UnreadableFile."""
    for step in steps:  # into the record or array, which may be in a union
        branches = [branch for branch in _branches(kind) if isinstance(branch, dict)]
        branches = [branch["type"] if isinstance(branch["type"], dict) else branch for branch in branches]
        record = next((branch for branch in branches if branch["type"] == "record"), {"fields": ()})
        inner = [field["type"] for field in record["fields"] if field["name"] == step]
        inner += [branch["items"] for branch in branches if branch["type"] == "array" and step.isdecimal()]
        if not inner:
            raise UnreadableFile(path, f"column {'.'.join(steps)!r} is missing")
        kind = inner[0]
    return kind


def _arrow_type(path: str, column: str, kind: Any, is_time: bool, zone: str | None) -> Any:
    """Maps a schema to an Arrow type, _MIXED_UNION, decimal's divisor or None. Raises UnreadableFile."""
    match [branch for branch in _branches(kind) if branch != "null"]:
        case [{"type": "bytes" | "fixed", "logicalType": "decimal"} as decimal] if decimal.get("scale", 0) >= 0:
            return 10 ** decimal.get("scale", 0)  # `_decoded` divides its unscaled integer by this
    plain, logical = set(), set()  # names of the union's plain types, and of their logical types
    for branch in _branches(kind):
        name = branch.get("type") if isinstance(branch, dict) else branch
        if not isinstance(name, str) or name not in _PLAIN_TYPES:
            raise UnreadableFile(path, f"column {column!r} is nested")
        plain.add(name)
        if isinstance(branch, dict) and "logicalType" in branch:
            logical.add(str(branch["logicalType"]))
    plain.discard("null")
    if logical & _LOCAL_TIMES.keys() and zone is None:
        raise UnreadableFile(path, f"column {column!r} has no time zone: name it as input.time_zone")
    if is_time and plain == {"long"} and len(logical) == 1 and logical <= _ARROW_TIMES.keys():
        return _ARROW_TIMES[logical.pop()]
    if logical - {"uuid"}:  # a uuid is read as its text; others, such as a date, would be read as a bare number
        raise UnreadableFile(path, f"column {column!r} has a logical type that does not fit")
    if len(plain) > 1 and "string" in plain:
        return _MIXED_UNION  # texts and values of other types
    return {"string": pa.string(), "bytes": pa.binary()}.get(plain.pop()) if len(plain) == 1 else None  # numbers: None


def _branches(kind: Any) -> list[Any]:  # of a union, which is a list in Avro's schemas
    return kind if isinstance(kind, list) else [kind]


def _fields_of_nothing(kind: Any) -> int:
    """Counts fields of type null, nested too: no byte each, but memory."""
    if isinstance(kind, list):
        return sum(map(_fields_of_nothing, kind))
    if not isinstance(kind, dict):
        return 0
    fields = [field["type"] for field in kind.get("fields", ())]
    inner = fields if fields else [kind.get("items"), kind.get("type")]
    return sum(field in ("null", ["null"]) for field in fields) + sum(map(_fields_of_nothing, inner))


def _strip(schema: Any) -> None:
    """Strips logical types in place, as invalid datetimes would stop files."""
    if isinstance(schema, dict):
        schema.pop("logicalType", None)
    for inner_schema in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        _strip(inner_schema)


def _batch(columns: Sequence[Any], fields: tuple[str, ...], targets: tuple[Any, ...], not_utf8: int = 0) -> RawBatch:
    """Makes a batch of decoded values by column, after `not_utf8` refused rows."""
    try:
        arrays = {name: _array(values, target) for name, values, target in zip(fields, columns, targets, strict=True)}
    except UnicodeEncodeError:  # lone surrogates stand for bytes that were not UTF-8
        bad_rows = {row for values in columns for row, value in enumerate(values) if not _is_encodable(value)}
        encodable = [[value for row, value in enumerate(values) if row not in bad_rows] for values in columns]
        return _batch(encodable, fields, targets, len(bad_rows))
    return typed_batch(arrays, {"not-utf8": not_utf8})


def _decoded(value: Any, target: Any) -> Any:
    """Decodes bytes: decimals as numbers, texts with invalid bytes as lone surrogates."""
    if not isinstance(value, bytes):
        return value
    if not isinstance(target, int):  # an int is a decimal's divisor
        return value.decode(errors="surrogateescape")
    unscaled = int.from_bytes(value, signed=True)
    if unscaled % target == 0:  # a whole number may be an id, which needs all of its digits
        return unscaled // target
    return max(-_LARGEST, min(unscaled, _LARGEST)) / target


def _is_encodable(value: Any) -> bool:
    return not isinstance(value, str) or not any("\udc80" <= letter <= "\udcff" for letter in value)


def _array(values: Any, target: Any) -> Any:
    """Builds an Arrow array where `target` is its type. Raises UnicodeEncodeError for surrogates."""
    if target is _MIXED_UNION:
        "".join(value for value in values if isinstance(value, str)).encode()  # raises, as pa.array does for texts
    if not isinstance(target, pa.DataType):  # `typed_batch` converts them
        return values
    # Logical types were stripped: times are plain integers, which Arrow views as timestamps without conversion.
    return pa.array(values, pa.int64()).view(target) if pa.types.is_timestamp(target) else pa.array(values, target)
