"""Files of released rows, one a slot, written atomically."""

import csv
import hashlib
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from transforms.atomic_files import write_whole
from transforms.errors import StepError, reason_of, recorded_but
from transforms.failpoints import failpoint
from transforms.places.hexagons import hexagon_of
from transforms.records import SlotEstimates
from transforms.sinks.published import HATS, LIVE, OtherValues, refuse_other_values
from transforms.sinks.rows import PLAIN, Columns, Shape, columns_of, json_of, rows_in, schema_of, shown_names


def _parquet(columns: Columns, schema: pa.Schema, _name: str) -> bytes:
    sink = io.BytesIO()
    arrays = [_array(columns[field.name], field.type) for field in schema]
    pq.write_table(pa.Table.from_arrays(arrays, schema=schema), sink)
    return sink.getvalue()


def _array(column: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Builds an Arrow array, fast where all rows have one text."""
    if pa.types.is_string(kind) and column and column[0] is not None and column.count(column[0]) == len(column):
        return pa.repeat(pa.scalar(column[0], kind), len(column))
    return pa.array(column, kind)


_AVRO_LIST = {"type": "array", "items": "double"}
_AVRO_BY_TYPE = {pa.string(): "string", pa.float64(): "double", pa.int64(): "long", pa.list_(pa.float64()): _AVRO_LIST}
_AVRO_INSTANT = {"type": "long", "logicalType": "timestamp-micros"}  # without a zone


def _avro(columns: Columns, schema: pa.Schema, name: str) -> bytes:
    """Encodes a result as an Avro file; equal rows give equal bytes."""
    import fastavro

    kinds = [_AVRO_INSTANT if pa.types.is_timestamp(field.type) else _AVRO_BY_TYPE[field.type] for field in schema]
    pairs = zip(schema, kinds, strict=True)
    fields = [{"name": field.name, "type": ["null", kind] if field.nullable else kind} for field, kind in pairs]
    parsed = fastavro.parse_schema({"type": "record", "name": "HatStatistic", "fields": fields})
    sink = io.BytesIO()
    marker = hashlib.sha256(name.encode()).digest()[:16]  # random by default; the same release must give the same bytes
    fastavro.writer(sink, parsed, rows_in(columns), codec="deflate", sync_marker=marker)
    return sink.getvalue()


def _csv(columns: Columns, schema: pa.Schema, _name: str) -> bytes:
    """Writes columns as CSV."""
    sink = io.StringIO(newline="")
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow(schema.names)
    writer.writerows(zip(*(_cells(columns[field.name], field.type) for field in schema), strict=True))
    return sink.getvalue().encode()


def _cells(column: Sequence[Any], kind: pa.DataType) -> Iterable[Any]:
    """Converts a column for CSV: lists to JSON, times to ISO 8601."""
    if pa.types.is_list(kind):
        return (None if numbers is None else msgspec.json.encode(numbers).decode() for numbers in column)
    return (time.isoformat() for time in column) if pa.types.is_timestamp(kind) else column


def _jsonl(columns: Columns, _schema: pa.Schema, _name: str) -> bytes:
    return b"".join(json_of(row) + b"\n" for row in rows_in(columns))


def _geojson(
    columns: Columns, _schema: pa.Schema, _name: str, geometries: Mapping[str, Mapping[str, Any]] | None = None
) -> bytes:
    """Encodes rows as GeoJSON features; geometries: of cells other than H3's, by name."""
    shapes = geometries or {}
    features = [
        {"type": "Feature", "geometry": shapes.get(row["cell"]) or hexagon_of(row["cell"]), "properties": row}
        for row in rows_in(columns)
    ]
    return msgspec.json.encode({"type": "FeatureCollection", "features": features}) + b"\n"


Encoder = Callable[[Columns, pa.Schema, str], bytes]  # called with columns, their schema, and the file's name
FORMATS: Mapping[str, Encoder] = {"parquet": _parquet, "avro": _avro, "csv": _csv, "jsonl": _jsonl, "geojson": _geojson}


def file_of(spec_id: str, slot_start: str, kind: str, shape: Shape = PLAIN, prefix: str = HATS) -> Path:
    """Names a slot's or product's relative file."""
    folder = Path(f"date={slot_start[:10]}") if shape.by_date else Path()
    return folder / f"{file_stem(spec_id, slot_start, prefix)}.{kind}"


def file_stem(spec_id: str, slot_start: str, prefix: str = HATS) -> str:
    """Names a file portably, by specification and local start."""
    return f"{prefix}-{spec_id}-{datetime.fromisoformat(slot_start).strftime('%Y%m%dT%H%M%S%z')}"


def publish_slot(slot: SlotEstimates, folder: Path, formats: Sequence[str], shape: Shape = PLAIN) -> list[Path]:
    """Writes a slot's file per format, atomically; raises OtherValues over a differing one."""
    columns, schema = columns_of(slot, shape), schema_of(slot.statistics, shape, shown_names(slot.hats.optional, shape))
    prefix = slot.product or (LIVE if slot.is_live else HATS)
    stem = file_stem(slot.spec_id, slot.slot_start, prefix)
    written = []
    failpoint("before-publish")
    for kind in formats:
        path = folder / file_of(slot.spec_id, slot.slot_start, kind, shape, prefix)
        path.parent.mkdir(exist_ok=True)
        encode = partial(_geojson, geometries=slot.hats.geometries) if kind == "geojson" else FORMATS[kind]
        write_whole(path, encode(columns, schema, stem), check=partial(refuse_other_values, path, columns))
        written.append(path)
    failpoint("after-publish")
    return written


def publish_recorded(slot: SlotEstimates, folder: Path, formats: Sequence[str], shape: Shape = PLAIN) -> None:
    """Publishes recorded slots like `publish_slot`. Raises StepError."""
    try:
        publish_slot(slot, folder, formats, shape)
    except OtherValues as error:
        raise StepError(str(error)) from None
    except OSError as error:
        raise recorded_but(f"{error.filename or folder}: {reason_of(error)}") from None
