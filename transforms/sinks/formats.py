"""Rows as the bytes of a file of each output format; the same rows give the same bytes."""

import csv
import hashlib
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import fastavro
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

Row = dict[str, Any]

_AVRO_TYPES = {pa.string(): "string", pa.float64(): "double", pa.int64(): "long"}


def _parquet(rows: Sequence[Row], _name: str, schema: pa.Schema, _record: str) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), sink)
    return sink.getvalue()


def _avro(rows: Sequence[Row], name: str, schema: pa.Schema, record: str) -> bytes:
    plain = [(field.name, _AVRO_TYPES[field.type], field.nullable) for field in schema]
    fields = [{"name": key, "type": ["null", kind] if nullable else kind} for key, kind, nullable in plain]
    parsed = fastavro.parse_schema({"type": "record", "name": record, "fields": fields})
    sink = io.BytesIO()
    # The sync marker is random by default; the same release must give the same bytes.
    fastavro.writer(sink, parsed, rows, codec="deflate", sync_marker=hashlib.sha256(name.encode()).digest()[:16])
    return sink.getvalue()


def _csv(rows: Sequence[Row], _name: str, schema: pa.Schema, _record: str) -> bytes:
    sink = io.StringIO(newline="")
    writer = csv.DictWriter(sink, schema.names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return sink.getvalue().encode()


def _jsonl(rows: Sequence[Row], _name: str, _schema: pa.Schema, _record: str) -> bytes:
    return b"".join(json_of(row) + b"\n" for row in rows)


def json_of(row: Row) -> bytes:
    """A row as one JSON object, its keys in the order of the schema."""
    return msgspec.json.encode(row)


FORMATS: Mapping[str, Callable[[Sequence[Row], str, pa.Schema, str], bytes]] = {
    "parquet": _parquet,
    "avro": _avro,
    "csv": _csv,
    "jsonl": _jsonl,
}
"""By name: (rows, the file's name, schema, what Avro calls a record) -> bytes."""
