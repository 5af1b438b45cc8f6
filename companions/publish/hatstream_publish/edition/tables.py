"""Tables of a published folder as GeoParquet."""

import io
import struct
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from hatstream.api import Specification
from hatstream_publish.edition.dictionary import ColumnEntry, columns_of
from hatstream_publish.pages.antimeridian import box_of
from hatstream_publish.pages.places import DrawnShape, NamedPlaces
from hatstream_publish.pages.rows import CITY
from hatstream_publish.pages.usable import of_each


def parquet_bytes(table: pa.Table, places: NamedPlaces, spec: Specification, about: Mapping[str, Any]) -> bytes:
    """Writes GeoParquet 1.1 with the columns' meanings in the schema; what the package says is under the key hatstream.

    about: JSON. Source: https://geoparquet.org/releases/v1.1.0/
    """
    shapes = {cell: places.place(cell).shape for cell in table["cell"].unique().to_pylist() if cell != CITY}
    for name in ("slot_start", "slot_end"):
        instants = of_each(table[name], datetime.fromisoformat).cast(pa.timestamp("us", spec.timetable.zone))
        table = table.append_column(f"{name}_at", instants)
    table = table.append_column(
        "geometry", of_each(table["cell"], lambda cell: _wkb(shapes.get(cell))).cast(pa.binary())
    )
    described = zip(table.schema, columns_of(table.schema, spec), strict=True)
    fields = [field.with_metadata(_words(column)) for field, column in described]
    whole = {"geo": _geo(shapes), "hatstream": about}
    metadata = {key: msgspec.json.encode(value) for key, value in whole.items()}
    sink = io.BytesIO()
    pq.write_table(table.cast(pa.schema(fields, metadata)), sink, compression="zstd")
    return sink.getvalue()


def _words(column: ColumnEntry) -> dict[str, str]:
    return {"description": column.meaning, **({"unit": column.unit} if column.unit else {})}


def _geo(shapes: Mapping[str, DrawnShape | None]) -> dict[str, Any]:
    drawn = [shape for shape in shapes.values() if shape]
    kinds = sorted({str(shape.geometry["type"]) for shape in drawn})
    column = {"encoding": "WKB", "geometry_types": kinds, "bbox": list(box_of(drawn))}
    return {"version": "1.1.0", "primary_column": "geometry", "columns": {"geometry": column}}


# --- well-known binary --------------------------------------------------------------------------------------------

_WKB = {"Point": 1, "LineString": 2, "Polygon": 3, "MultiPoint": 4, "MultiLineString": 5, "MultiPolygon": 6}


def _wkb(shape: DrawnShape | None) -> bytes | None:
    return None if shape is None else wkb(shape.geometry["type"], shape.geometry["coordinates"])


def wkb(kind: str, coordinates: Any) -> bytes:
    """Writes GeoJSON's lines and polygons as ISO WKB, little-endian. Source: OGC 06-103r4, section 8."""
    head = struct.pack("<BI", 1, _WKB[kind])
    if kind == "LineString":
        return head + _positions(coordinates)
    if kind == "Polygon":
        return head + struct.pack("<I", len(coordinates)) + b"".join(map(_positions, coordinates))
    parts = [wkb(kind.removeprefix("Multi"), part) for part in coordinates]
    return head + struct.pack("<I", len(parts)) + b"".join(parts)


def _positions(positions: Sequence[Sequence[float]]) -> bytes:
    flat = [float(number) for position in positions for number in position[:2]]
    return struct.pack(f"<I{len(flat)}d", len(positions), *flat)
