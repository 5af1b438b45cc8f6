"""Published tables as GeoParquet, and their columns' meaning."""

import io
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import shapely
import shapely.geometry

from hatstream.api import Specification, cut_at_antimeridian, result_columns
from hatstream_publish.pages.places import DrawnShape, NamedPlaces, box_of
from hatstream_publish.pages.rows import CITY, STATUSES, of_each


class ColumnEntry(NamedTuple):
    """Column of the data dictionary; unit may be empty."""

    name: str
    meaning: str
    unit: str = ""


def columns_of(table: pa.Schema, spec: Specification) -> list[ColumnEntry]:
    """Describes columns in order. Raises KeyError for unknown ones."""
    declared = {name: ColumnEntry(name, column.meaning, column.unit) for name, column in result_columns(spec).items()}
    entry_of = declared | {entry.name: entry for entry in _published(declared, max(spec.cells.resolution - 1, 0))}
    return [entry_of[name] for name in table.names]


def _published(declared: Mapping[str, ColumnEntry], coarser: int) -> list[ColumnEntry]:
    """Describes columns that only published tables have, or that mean more in them.

    declared: columns of result files. coarser: resolution of areas.
    """
    listed = "; ".join(f"{status}: {meaning}" for status, meaning in STATUSES.items())
    bounds = [(f"own_{name}", declared[name].meaning) for name in ("lower95", "upper95")]
    about_own = [declared[name] for name in ("noise_std", "bias_bound")]
    name = "What people call the place: its busiest stop, from the timetable; no part of what is measured"
    value_of = "What the value is of: place; area (the coarser hexagon around it, in the column area), where all "
    value_of += "places of it that are not known by themselves have the same value"
    own_value = "What is estimated of the place and slot by itself, however little is known"
    return [
        ColumnEntry("name", name),
        ColumnEntry("value_of", value_of),
        ColumnEntry("area", f"The coarser H3 hexagon, of resolution {coarser}, where the value is of the area"),
        ColumnEntry("status", f"{declared['status'].meaning}. {listed}"),
        ColumnEntry("own_value", own_value, "column unit"),
        *(ColumnEntry(end, f"Of own_value: {text[:1].lower()}{text[1:]}", "column unit") for end, text in bounds),
        # In published tables these are about the place's value, even where `value` is the area's.
        *(entry._replace(meaning=re.sub(r"\bvalue\b", "own_value", entry.meaning)) for entry in about_own),
        ColumnEntry("slot_start_at", "Instant at which the slot begins"),
        ColumnEntry("slot_end_at", "Instant at which the slot ends"),
        ColumnEntry("geometry", "Outline of the place, longitude and latitude (OGC:CRS84)", "degrees"),
    ]


def parquet_bytes(table: pa.Table, places: NamedPlaces, spec: Specification, facts: Mapping[str, Any]) -> bytes:
    """Writes GeoParquet with meanings of columns. Source: https://geoparquet.org/releases/v1.1.0/.

    facts: facts that metadata has under the key "hatstream".
    """
    shapes = {cell: places.place(cell).shape for cell in table["cell"].unique().to_pylist() if cell != CITY}
    for name in ("slot_start", "slot_end"):
        instants = of_each(table[name], datetime.fromisoformat).cast(pa.timestamp("us", spec.timetable.zone))
        table = table.append_column(f"{name}_at", instants)
    outlines = of_each(table["cell"], lambda cell: _wkb(shapes.get(cell))).cast(pa.binary())
    table = table.append_column("geometry", outlines)
    described = zip(table.schema, columns_of(table.schema, spec), strict=True)
    fields = [
        field.with_metadata({"description": column.meaning, **({"unit": column.unit} if column.unit else {})})
        for field, column in described
    ]
    documents = {"geo": _geo(shapes), "hatstream": facts}
    metadata = {key: msgspec.json.encode(value) for key, value in documents.items()}
    sink = io.BytesIO()
    pq.write_table(table.cast(pa.schema(fields, metadata)), sink, compression="zstd")
    return sink.getvalue()


def _geo(shapes: Mapping[str, DrawnShape | None]) -> dict[str, Any]:
    """Describes the column of outlines as GeoParquet's metadata."""
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
