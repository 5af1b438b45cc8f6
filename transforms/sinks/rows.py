"""Rows of the result table, from estimates alone, and their files.

A file is of one slot, and written atomically. A statistic's first output is its value; further ones, its extras, have
columns of their own. `shape` says which optional columns and rows a file has.
"""

import csv
import hashlib
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import compress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dpops import statistics
from dpops.statistics import Output
from dpops.types import Float64s, fraction
from transforms.atomic_files import write_whole
from transforms.errors import StepError, reason_of, recorded_but
from transforms.failpoints import failpoint
from transforms.places.hexagons import hexagon_of
from transforms.public import Fact
from transforms.records import ABOUT_COLUMNS, TRAFFIC_COLUMNS, SlotEstimates
from transforms.sinks.published import HATS, LIVE, OPTIONAL, SCHEMA, OtherValues, refuse_other_values
from transforms.time.trips import Trips

UNKNOWN = {"unreliable", "held-back"}  # statuses of HATs without a row by default, as not even their area is known

_TIMES = {"slot_start_at": "slot_start", "slot_end_at": "slot_end"}  # instants, and the texts that they are made of

Row = dict[str, Any]
Columns = Mapping[str, Sequence[Fact]]
"""Rows in columns, equally long, in the order of their schema; None where a row has nothing."""


@dataclass(frozen=True)
class Shape:
    """Optional columns and layout of files; none by default."""

    zone: str | None = None  # of slot_start_at and slot_end_at
    counts: bool = False  # public vehicles and reports
    by_date: bool = False  # folders date=2026-05-13
    traffic: bool = False  # TRAFFIC_COLUMNS
    about: bool = False  # ABOUT_COLUMNS
    value_means: str = ""  # description of `value` in Parquet
    unknown: bool = False  # rows of unknown HATs too
    trips: Trips | None = None  # rows only of HATs with a trip


PLAIN = Shape()


def schema_of(names: Sequence[str], shape: Shape = PLAIN, optional: Sequence[str] = ()) -> pa.Schema:
    """Lists a file's columns; names: of its statistics; optional: of its further columns."""
    extras = [
        pa.field(name, pa.list_(pa.float64()) if output.is_list else pa.float64())
        for output in statistics.extras_of(names)
        for name in ((output.name,) if output.is_list else _names(output))  # of a value and its bounds
    ]
    instant = pa.timestamp("us", shape.zone or "UTC")
    times = [pa.field(name, instant, nullable=False) for name in _TIMES] if shape.zone else []
    counts = [pa.field(name, pa.int64()) for name in ("vehicles", "reports")] if shape.counts else []
    fields = [*SCHEMA, *extras, *times, *counts, *(pa.field(name, OPTIONAL[name]) for name in optional)]
    if not shape.value_means:
        return pa.schema(fields)
    metadata = {"description": shape.value_means}
    return pa.schema([field.with_metadata(metadata) if field.name == "value" else field for field in fields])


def _names(output: Output) -> tuple[str, str, str]:
    """Names the columns of a value and of its 95 % interval."""
    return output.name, f"{output.name}_lower95", f"{output.name}_upper95"


def rows_of(slot: SlotEstimates, shape: Shape = PLAIN) -> list[Row]:
    """Makes the rows of a slot by cell, statistic."""
    return rows_in(columns_of(slot, shape))


def rows_in(columns: Columns) -> list[Row]:
    """Converts columns to rows."""
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def columns_in(rows: Sequence[Mapping[str, Fact]], schema: pa.Schema) -> Columns:
    """Converts rows to columns, in schema order."""
    return {name: [row[name] for row in rows] for name in schema.names}


def columns_of(slot: SlotEstimates, shape: Shape = PLAIN) -> Columns:
    """Builds a slot's columns: a row per cell and statistic that `shape` shows."""
    hats, size = slot.hats, len(slot.hats.cell)
    spans = hats.spans or [(slot.slot_start, slot.slot_end)] * size  # rows of products have spans of their own
    times = {"slot_start": [start for start, _ in spans], "slot_end": [end for _, end in spans]}
    value, lower, upper = hats.estimates.number(0)  # of the first output
    kinds = [statistics.named(name) for name in dict.fromkeys(hats.statistic)]
    masks = {kind.name: np.array([name == kind.name for name in hats.statistic], np.bool_) for kind in kinds}
    extras: dict[str, Sequence[Fact]] = {}
    for output in statistics.extras_of(slot.statistics):
        # The rows of each statistic with this output, and its index there.
        mask_indices = [(masks[kind.name], kind.index_of(output)) for kind in kinds if output in kind.extras]
        if output.is_list:
            shares: list[list[float] | None] = [None] * size
            for mask, index in mask_indices:
                lists = hats.estimates.lists
                for row in np.flatnonzero(mask).tolist() if lists else ():  # without lists no HAT has data
                    numbers = lists[index][row]
                    shares[row] = None if numbers is None else [round(share, 6) for share in numbers]
            extras[output.name] = shares
        else:
            value_and_bounds = np.full((3, size), np.nan)
            for mask, index in mask_indices:
                value_and_bounds[:, mask] = hats.estimates.number(index)[:, mask]
            extras |= zip(_names(output), map(rounded, value_and_bounds), strict=True)  # a column each
    columns: dict[str, Sequence[Fact]] = {
        "spec_id": [slot.spec_id] * size,
        **times,
        "cell": hats.cell,
        "statistic": hats.statistic,
        "value": rounded(value),
        "unit": _of_each(hats.statistic, lambda name: statistics.named(name).unit.format(slot.unit)),
        "lower95": rounded(lower),
        "upper95": rounded(upper),
        "noise_std": rounded(hats.estimates.noise_std),
        "bias_bound": rounded(hats.estimates.bias_bound),
        "mechanism": hats.mechanism,
        "epsilon": _or_none(hats.estimates.epsilon),
        "epsilon_slot": _of_each(hats.epsilon_slot, lambda spent: float(fraction(spent))),
        "status": hats.estimates.status,
        **extras,
    }
    if shape.zone:  # files have times as instants too
        columns |= {name: _of_each(times[text_column], datetime.fromisoformat) for name, text_column in _TIMES.items()}
    if shape.counts:
        columns |= {"vehicles": hats.vehicles, "reports": hats.reports}
    columns |= {name: hats.optional[name] for name in shown_names(hats.optional, shape)}
    hidden = frozenset[str]() if shape.unknown or slot.is_live else UNKNOWN  # statuses whose rows are left out
    if slot.product or (shape.trips is None and hidden.isdisjoint(hats.estimates.status)):
        return columns  # trips and unknown values are of HATs, not of products
    served = frozenset(hats.cell) if shape.trips is None else shape.trips.cells_in(slot.slot_start, slot.slot_end)
    rows = zip(hats.cell, hats.estimates.status, strict=True)
    is_shown = [cell in served and status not in hidden for cell, status in rows]
    return {name: [*compress(column, is_shown)] for name, column in columns.items()}


def shown_names(optional: Iterable[str], shape: Shape) -> tuple[str, ...]:
    """Selects optional columns that `shape` shows."""
    hidden = (*(() if shape.traffic else TRAFFIC_COLUMNS), *(() if shape.about else ABOUT_COLUMNS))
    return tuple(name for name in optional if name not in hidden)


def _of_each(column: Sequence[str], value: Callable[[str], Any]) -> list[Any]:
    """Maps a column through a function, called once for each distinct text."""
    value_of = {text: value(text) for text in dict.fromkeys(column)}
    return [value_of[text] for text in column]


def rounded(values: Float64s) -> list[float | None]:
    """Rounds like `round(value, 6)`, with None for nan.

    A product with 10**6 below 2**40 errs by less than 2**-13, so only near a half could the integer differ; divided by
    10**6 it is the float nearest to the same decimal number as `round`'s.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # an overflow is not sure, and is rounded singly
        scaled = values * 1e6
        numbers = np.rint(scaled) / 1e6
        is_sure = (np.abs(scaled) < 2.0**40) & (np.abs(scaled - np.floor(scaled) - 0.5) > 2.0**-12)  # false for nan
    for row in np.flatnonzero(~is_sure & ~np.isnan(values)).tolist():
        numbers[row] = round(float(values[row]), 6)
    return _or_none(numbers)


def _or_none(values: Float64s) -> list[float | None]:
    """Lists the values, None for nan."""
    numbers: list[float | None] = values.tolist()
    for row in np.flatnonzero(np.isnan(values)).tolist():
        numbers[row] = None
    return numbers


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
    return b"".join(msgspec.json.encode(row) + b"\n" for row in rows_in(columns))


def _geojson(
    columns: Columns, _schema: pa.Schema, _name: str, geometries: Mapping[str, Mapping[str, Any]] = {}
) -> bytes:
    """Encodes rows as GeoJSON features; geometries: of cells other than H3's, by name."""
    features = [
        {"type": "Feature", "geometry": geometries.get(row["cell"]) or hexagon_of(row["cell"]), "properties": row}
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
    written = []
    failpoint("before-publish")
    for kind in formats:
        path = folder / file_of(slot.spec_id, slot.slot_start, kind, shape, prefix)
        path.parent.mkdir(exist_ok=True)
        encode = partial(_geojson, geometries=slot.hats.geometries) if kind == "geojson" else FORMATS[kind]
        write_whole(path, encode(columns, schema, path.stem), check=partial(refuse_other_values, path, columns))
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
