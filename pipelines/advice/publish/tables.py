"""Result rows as a portal shows them: the values that may be used, each with what it is of; CSV and GeoParquet."""

import io
import struct
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from pipelines.advice.pages.pack import DAY
from pipelines.advice.pages.places import Places, Shape
from pipelines.advice.publish.dictionary import Column, columns_of
from pipelines.specification import Specification

USABLE = ("ok", "parent")
"""Statuses of values that are published unless all are asked for."""
_OWN = ("value", "lower95", "upper95")
_ORDER = (
    *("slot_start", "slot_end", "cell", "name", "statistic", *_OWN),
    *("unit", "value_of", "area", "status", "mechanism", "spec_id"),
)
_NOT_SHOWN = ("parent", "parent_value", "parent_lower95", "parent_upper95", "epsilon_slot")


def published(rows: pa.Table, places: Places, *, everything: bool) -> pa.Table:
    """Columns without geometry, by slot and place. everything: values that are not to be used as well, and what each
    place's own value is. Where nothing is left the table has no column."""
    if not everything:
        rows = rows.filter(pc.and_(pc.is_in(rows["status"], pa.array(USABLE)), pc.is_valid(rows["value"])))
    if not rows.num_rows:
        return pa.table({})
    keys = [(name, "ascending") for name in ("instant", "cell", "statistic")]
    rows = rows.take(pc.sort_indices(_with_instants(rows), keys))
    beside = _is_beside(rows)
    columns = {name: rows[name] for name in rows.column_names if name not in _NOT_SHOWN}
    if everything:
        columns |= {f"own_{name}": rows[name] for name in _OWN}
    else:
        columns = {name: column for name, column in columns.items() if name not in ("noise_std", "bias_bound")}
    if "parent_value" in rows.column_names:
        columns |= {name: pc.if_else(beside, rows[f"parent_{name}"], rows[name]) for name in _OWN}
    area = pc.fill_null(rows["parent"], "") if "parent" in rows.column_names else pa.array([""] * rows.num_rows)
    is_day = pc.equal(area, DAY)
    columns["value_of"] = pc.if_else(beside, pc.if_else(is_day, DAY, "area"), "place")
    columns["area"] = pc.if_else(pc.and_(beside, pc.invert(is_day)), area, None)
    columns["name"] = _of_each(rows["cell"], lambda cell: places.named[cell].name if cell in places.named else "")
    names = [*_ORDER, *(name for name in columns if name not in _ORDER)]
    return pa.table({name: columns[name] for name in names if name in _ORDER or _says_something(columns[name])})


def _says_something(column: Any) -> bool:
    return not len(column) or column.null_count < len(column)


def _is_beside(rows: pa.Table) -> Any:
    """Of which rows only something coarser is known."""
    if "parent_value" not in rows.column_names:
        return pa.array([False] * rows.num_rows)
    return pc.and_(pc.equal(rows["status"], "parent"), pc.is_valid(rows["parent_value"]))


def _with_instants(rows: pa.Table) -> pa.Table:
    return rows.append_column("instant", _of_each(rows["slot_start"], datetime.fromisoformat))


def _of_each(column: pa.ChunkedArray, value: Any) -> Any:
    """A column of what follows from few texts."""
    coded = column.combine_chunks().dictionary_encode()
    coded = coded.combine_chunks() if isinstance(coded, pa.ChunkedArray) else coded
    return pa.array([value(text) for text in coded.dictionary.to_pylist()]).take(coded.indices)


def csv_bytes(table: pa.Table) -> bytes:
    """Lists are one text of JSON each."""
    sink = io.BytesIO()
    for at, field in enumerate(table.schema):
        if pa.types.is_list(field.type):
            texts = [
                None if each is None else msgspec.json.encode(each).decode() for each in table.column(at).to_pylist()
            ]
            table = table.set_column(at, field.name, pa.array(texts, pa.string()))
    pyarrow.csv.write_csv(table, sink, pyarrow.csv.WriteOptions(quoting_style="needed"))
    return sink.getvalue()


def parquet_bytes(table: pa.Table, places: Places, spec: Specification, about: Mapping[str, Any]) -> bytes:
    """GeoParquet 1.1 with the columns' meanings in the schema, and what the package says under the key hatstream.

    about: JSON. Source: https://geoparquet.org/releases/v1.1.0/
    """
    shapes = {cell: places.place(cell).shape for cell in table["cell"].unique().to_pylist() if _is_somewhere(cell)}
    for name in ("slot_start", "slot_end"):
        instants = _of_each(table[name], datetime.fromisoformat).cast(pa.timestamp("us", spec.timetable.zone))
        table = table.append_column(f"{name}_at", instants)
    table = table.append_column(
        "geometry", _of_each(table["cell"], lambda cell: _wkb(shapes.get(cell))).cast(pa.binary())
    )
    described = zip(table.schema, columns_of(table, spec), strict=True)
    fields = [field.with_metadata(_words(column)) for field, column in described]
    whole = {"geo": _geo(shapes), "hatstream": about}
    metadata = {key: msgspec.json.encode(value) for key, value in whole.items()}
    sink = io.BytesIO()
    pq.write_table(table.cast(pa.schema(fields, metadata)), sink, compression="zstd")
    return sink.getvalue()


def _is_somewhere(cell: str) -> bool:
    return cell != "city"


def _words(column: Column) -> dict[str, str]:
    return {"description": column.meaning, **({"unit": column.unit} if column.unit else {})}


def _geo(shapes: Mapping[str, Shape | None]) -> dict[str, Any]:
    positions = [position for shape in shapes.values() if shape for part in shape.parts for position in part]
    lons, lats = zip(*positions, strict=True) if positions else ((0.0,), (0.0,))
    kinds = sorted({str(shape.geometry["type"]) for shape in shapes.values() if shape})
    bbox = [min(lons), min(lats), max(lons), max(lats)]
    column = {"encoding": "WKB", "geometry_types": kinds, "bbox": bbox}
    return {"version": "1.1.0", "primary_column": "geometry", "columns": {"geometry": column}}


# --- well-known binary --------------------------------------------------------------------------------------------

_WKB = {"Point": 1, "LineString": 2, "Polygon": 3, "MultiPoint": 4, "MultiLineString": 5, "MultiPolygon": 6}


def _wkb(shape: Shape | None) -> bytes | None:
    return None if shape is None else wkb(shape.geometry["type"], shape.geometry["coordinates"])


def wkb(kind: str, coordinates: Any) -> bytes:
    """GeoJSON's lines and polygons as ISO WKB, little-endian. Source: OGC 06-103r4, section 8."""
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
