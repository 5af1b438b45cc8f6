"""Avro object container files: every block is measured first, then fastavro decodes the needed fields."""

import io
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from typing import Any

import fastavro
import pyarrow as pa
from fastavro.schema import SchemaParseException, UnknownType

from transforms.layouts.avro_blocks import AvroBlock, Header, container, read_blocks, read_header
from transforms.layouts.avro_work import SchemaSize, Work, shape
from transforms.layouts.base import MappedLayout, RawBatch, UnreadableFile, without_zone
from transforms.layouts.records import typed_batch

DECODE_BYTES = 2 << 20
DECODE_ROWS = 65_536

_PLAIN = {"null", "boolean", "int", "long", "float", "double", "string", "bytes"}
_UNITS = {"timestamp-millis": "ms", "timestamp-micros": "us", "timestamp-nanos": "ns"}
_MIXED = "mixed"
_LOCAL = {f"local-{name}": pa.timestamp(unit) for name, unit in _UNITS.items()}
_ARROW_TIMES = {name: pa.timestamp(unit, "UTC") for name, unit in _UNITS.items()} | _LOCAL
_DAMAGE = (
    ValueError,  # with Truncated, JSON and Unicode errors
    zlib.error,
    struct.error,
    EOFError,
    LookupError,
    TypeError,
    AttributeError,
    OverflowError,
    RecursionError,
    SchemaParseException,
    UnknownType,
)


class AvroTable(MappedLayout):
    """Fields of records, by their names."""

    def read(self, path: str) -> Iterator[RawBatch]:
        with open(path, "rb") as file:
            try:
                header = read_header(path, file)
                plan = _plan(path, header, self)
                work = Work(path, plan.shape)
                for blocks in _gathered(read_blocks(path, file, header)):
                    yield from _decode(plan, blocks, work)
            except _DAMAGE:
                raise UnreadableFile(path, "not an Avro file that can be decoded") from None


LAYOUT = AvroTable


@dataclass(frozen=True)
class _Plan:
    """header, wanted: the file's schema and the needed part of it, both without logical types.

    wanted: None where a union holds both texts and bytes, which fastavro would turn into one another, and raise for
    all rows where it cannot. types: for each of the fields the Arrow type that its values all have; None where they are
    numbers, _MIXED where each value has its own, texts among them.
    """

    header: Header
    wanted: Any
    columns: tuple[str, ...]
    fields: tuple[str, ...]
    types: tuple[Any, ...]
    shape: SchemaSize


def _plan(path: str, header: Header, table: AvroTable) -> _Plan:
    if not isinstance(header.schema, dict) or header.schema.get("type") != "record":
        raise UnreadableFile(path, "not an Avro file of records")
    columns, names, zone = table.columns, table.fields, table.units.zone
    fields = {field["name"]: field["type"] for field in header.schema["fields"]}
    for column in columns:
        if column not in fields:
            raise UnreadableFile(path, f"column {column!r} is missing")
    pairs = zip(names, columns, strict=True)
    types = tuple(_arrow_type(path, column, fields[column], name == "time", zone) for name, column in pairs)
    stripped = _stripped(header.schema)
    size = shape(path, fastavro.parse_schema(stripped))
    needed = [field for field in stripped["fields"] if field["name"] in columns]
    wanted = None if any(_is_text_or_bytes(field["type"]) for field in needed) else {**stripped, "fields": needed}
    return _Plan(header._replace(schema=stripped), wanted, columns, names, types, size)


def _arrow_type(path: str, column: str, kind: Any, is_time: bool, zone: str | None) -> Any:
    """Finds the one type of a field of plain values, null aside; see `_Plan.types`. zone: of times that say none."""
    plain, logical = set(), set()
    for branch in _branches(kind):
        name = branch.get("type") if isinstance(branch, dict) else branch
        if not isinstance(name, str) or name not in _PLAIN:
            raise UnreadableFile(path, f"column {column!r} is nested")
        plain.add(name)
        if isinstance(branch, dict) and "logicalType" in branch:
            logical.add(str(branch["logicalType"]))
    plain.discard("null")
    if logical & _LOCAL.keys() and zone is None:
        raise UnreadableFile(path, without_zone(column))
    if is_time and plain == {"long"} and len(logical) == 1 and logical <= _ARROW_TIMES.keys():
        return _ARROW_TIMES[logical.pop()]
    if logical - {"uuid"}:
        raise UnreadableFile(path, f"column {column!r} has a logical type that does not fit")
    if len(plain) > 1 and "string" in plain:
        return _MIXED
    return {"string": pa.string(), "bytes": pa.binary()}.get(plain.pop()) if len(plain) == 1 else None


def _is_text_or_bytes(kind: Any) -> bool:
    """Says whether it is one of text or bytes: of a column that is not nested, without logical types."""
    names = {branch.get("type") if isinstance(branch, dict) else branch for branch in _branches(kind)}
    return {"string", "bytes"} <= names


def _branches(kind: Any) -> list[Any]:
    return kind if isinstance(kind, list) else [kind]


def _stripped(schema: Any) -> Any:
    """Strips logical types, so that one value outside the years of a datetime cannot stop a file."""
    if isinstance(schema, list):
        return [_stripped(part) for part in schema]
    if isinstance(schema, dict):
        return {name: _stripped(part) for name, part in schema.items() if name not in ("logicalType", "default")}
    return schema


def _gathered(blocks: Iterator[AvroBlock]) -> Iterator[list[AvroBlock]]:
    """Gathers small blocks, so that the schema is not read again for each."""
    held: list[AvroBlock] = []
    size = 0
    for block in blocks:
        held.append(block)
        size += len(block.data)
        if size >= DECODE_BYTES:
            yield held
            held, size = [], 0
    if held:
        yield held


def _decode(plan: _Plan, blocks: list[AvroBlock], work: Work) -> Iterator[RawBatch]:
    work.begin(blocks)
    reader = fastavro.reader(
        io.BytesIO(container(plan.header, blocks)), plan.wanted, handle_unicode_errors="surrogateescape"
    )
    needed: Callable[[Any], Any] = itemgetter(*plan.columns)
    while rows := list(map(needed, islice(reader, DECODE_ROWS))):
        work.add(rows)
        yield _batch(rows if plan.wanted else [tuple(map(_as_text, row)) for row in rows], plan)


def _batch(rows: list[tuple[Any, ...]], plan: _Plan) -> RawBatch:
    try:
        return _typed(rows, plan.fields, plan.types, {})
    except UnicodeEncodeError:  # lone surrogates stand for bytes that were not UTF-8
        kept = [row for row in rows if all(map(_is_encodable, row))]
        return _typed(kept, plan.fields, plan.types, {"not-utf8": len(rows) - len(kept)})


def _as_text(value: Any) -> Any:
    """Decodes bytes as a text, those that are not UTF-8 as lone surrogates."""
    return value.decode(errors="surrogateescape") if isinstance(value, bytes) else value


def _is_encodable(value: Any) -> bool:
    return not isinstance(value, str) or not any("\udc80" <= letter <= "\udcff" for letter in value)


def _typed(
    rows: list[tuple[Any, ...]], fields: tuple[str, ...], types: tuple[Any, ...], refused: Mapping[str, int]
) -> RawBatch:
    columns = zip(*rows, strict=True) if rows else ((),) * len(fields)
    arrays = {name: _array(values, kind) for name, values, kind in zip(fields, columns, types, strict=True)}
    return typed_batch(arrays, refused)


def _array(values: Any, kind: Any) -> Any:
    """Raises UnicodeEncodeError for a text that is not UTF-8, whatever else its column holds."""
    if kind is _MIXED:
        "".join(value for value in values if isinstance(value, str)).encode()
    if kind in (None, _MIXED):
        return values
    return pa.array(values, pa.int64()).view(kind) if pa.types.is_timestamp(kind) else pa.array(values, kind)
