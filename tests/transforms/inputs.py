"""Inputs for the tests of layouts and of the parser: rules, good rows and ways to write them down."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dpops.types import Grid
from transforms.layouts import Layout, Units, layout
from transforms.layouts.base import FIELDS, RawBatch
from transforms.observe.parse import Rules, parse
from transforms.records import Observations
from transforms.time.calendar import Calendar, Timetable, calendar

DATA = Path(__file__).parents[3] / "shared" / "data"
UPPER_STEPS = 6_500
NOON = "2023-11-15T12:00:00Z"
NOON_US = 1_700_049_600_000_000
KMH = Units("iso", Fraction(1))
AVRO_TYPES: dict[str, Any] = {
    "vehicle": "string",
    "time": "string",
    "lat": "double",
    "lon": "double",
    "speed": "double",
}

Row = dict[str, Any]


@cache
def slots(start: str = "2023-11-15", end: str = "2023-11-16", service: tuple[int, int] = (0, 1440)) -> Calendar:
    first, last = (datetime.fromisoformat(day).replace(tzinfo=UTC) for day in (start, end))
    return calendar(Timetable("UTC", "vehicle-day", 60, (service,)), first, last)


def rules(units: Units = KMH, bbox: tuple[float, float, float, float] | None = None, **dates: Any) -> Rules:
    grid = Grid(step=Fraction(1, 100), upper_steps=UPPER_STEPS)
    return Rules(grid, units, bbox, slots(**dates), b"k" * 32)


def good_row(i: int = 0) -> Row:
    return {
        "vehicle": f"bus{i % 7}",
        "time": f"2023-11-15T{i % 24:02d}:00:{i % 60:02d}+00:00",
        "lat": 30.0 + (i % 1000) / 1000,
        "lon": -97.5,
        "speed": (i % 130) / 2,
    }


def table(rows: Sequence[Row]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({name: [row.get(name) for row in rows] for name in FIELDS})


def mapped(name: str, time_unit: str | None = None, speed_unit: str | None = None, **columns: str) -> Layout:
    return layout(name, {field: columns.get(field, field) for field in FIELDS}, time_unit, speed_unit)


def write_csv(path: Path, lines: Iterable[bytes]) -> str:
    path.write_bytes(b"\n".join([",".join(FIELDS).encode(), *lines]) + b"\n")
    return str(path)


def csv_line(row: Mapping[str, Any]) -> bytes:
    return ",".join("" if row.get(name) is None else str(row[name]) for name in FIELDS).encode()


def write_jsonl(path: Path, lines: Iterable[bytes]) -> str:
    path.write_bytes(b"\n".join(lines) + b"\n")
    return str(path)


def json_line(row: Mapping[str, Any]) -> bytes:
    return json.dumps(row).encode()


def iudx_element(row: Mapping[str, Any]) -> bytes:
    place = {"type": "Point", "coordinates": [row.get("lon"), row.get("lat")]}
    names = {"license_plate": "vehicle", "observationDateTime": "time", "speed": "speed"}
    return json.dumps({**{key: row.get(name) for key, name in names.items()}, "location": place}).encode()


def write_array(path: Path, elements: Iterable[bytes], between: bytes = b",") -> str:
    path.write_bytes(b"[" + between.join(elements) + b"]")
    return str(path)


def write_parquet(path: Path, columns: Mapping[str, Any], **options: Any) -> str:
    pq.write_table(pa.table(dict(columns)), path, **options)
    return str(path)


def write_avro(path: Path, rows: Iterable[Row], types: Mapping[str, Any] = AVRO_TYPES, codec: str = "deflate") -> str:
    schema = {"type": "record", "name": "r", "fields": [{"name": name, "type": kind} for name, kind in types.items()]}
    with path.open("wb") as file:
        fastavro.writer(file, schema, rows, codec=codec)
    return str(path)


def rows_and_refused(batches: Iterable[RawBatch]) -> tuple[list[Row], dict[str, int]]:
    """All rows of batches, and the refused ones by reason."""
    rows, refused = [], Counter[str]()
    for batch in batches:
        assert batch.rows == batch.table.num_rows + sum(batch.refused.values())
        rows += batch.table.to_pylist()
        refused.update(batch.refused)
    return rows, dict(refused)


def run(source: Layout, path: str, by: Rules) -> tuple[Observations, Counter[str], int]:
    """All observations of a file, the refused rows by reason and the number of rows."""
    parts, refused, rows = [], Counter[str](), 0
    for batch in source.read(path):
        assert batch.rows == batch.table.num_rows + sum(batch.refused.values())
        observations, counts = parse(batch.table, by)
        assert batch.table.num_rows == len(observations.value) + sum(counts.values())
        parts.append(observations)
        refused.update(batch.refused)
        refused.update(counts)
        rows += batch.rows
    empty = np.empty(0, np.int64)
    merged = [np.concatenate([empty, *(part[i] for part in parts)]) for i in range(len(Observations._fields))]
    assert rows == len(merged[0]) + refused.total()
    return Observations(*merged), refused, rows


def fates(batches: Iterable[RawBatch], units: Units) -> Counter[Any]:
    """How many rows became an observation with these integers, or were refused for this reason."""
    counted = Counter[Any]()
    for batch in batches:
        observations, refused = parse(batch.table, rules(units))
        counted.update(zip(*(column.tolist() for column in observations), strict=True))
        counted.update(batch.refused)
        counted.update(refused)
    return counted
