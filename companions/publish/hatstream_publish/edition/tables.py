"""Tables of a published folder as GeoParquet."""

import io
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import shapely
import shapely.geometry

from hatstream.api import Specification, cut_at_antimeridian
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
    kinds = sorted({str(cut_at_antimeridian(shape.geometry)["type"]) for shape in drawn})
    column = {"encoding": "WKB", "geometry_types": kinds, "bbox": list(box_of(drawn))}
    return {"version": "1.1.0", "primary_column": "geometry", "columns": {"geometry": column}}


def _wkb(shape: DrawnShape | None) -> bytes | None:
    """Writes a shape as ISO WKB, little-endian, without heights. Source: OGC 06-103r4, section 8."""
    if shape is None:
        return None
    flat = shapely.force_2d(shapely.geometry.shape(cut_at_antimeridian(shape.geometry)))
    binary: bytes = shapely.to_wkb(flat, byte_order=1, flavor="iso")
    return binary
