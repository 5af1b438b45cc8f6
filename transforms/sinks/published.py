"""Published slots of a folder, and protection of values."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from transforms.sinks.columns import EXTRAS, SCHEMA, TYPES

SAME = 2e-6  # the most that equal values differ, as they are rounded to six digits after the point

DATES = "date=*"  # the folders that a dataset has, as a pattern

HATS, LIVE = "hats", "live"  # begin names of files

Values = dict[tuple[str, str, str], float | None]  # what was published, by cell, statistic and start
_KEY_COLUMNS = ("cell", "statistic", "slot_start")


class OtherValues(Exception):
    """A release's existing file with other or unreadable content."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} holds other values of the same release, or cannot be read, and is left as it is: a release is "
            "published once. Was it released with another ledger or key? Name those with --ledger and --key. Did an "
            "older version estimate it (column model), or has slot.trips changed? `hatstream estimate` writes all days "
            "anew, into another folder. "
            "A file that is damaged can be moved away"
        )


def published_slots(folder: Path, spec_id: str, *, is_live: bool = False) -> dict[int, Path]:
    """Maps slot starts, seconds since 1970, to published files."""
    slots = {}
    prefix = f"{LIVE if is_live else HATS}-{spec_id}-"
    for path in (*folder.glob(f"{prefix}*"), *folder.glob(f"{DATES}/{prefix}*")):
        try:
            start = datetime.strptime(path.name.removeprefix(prefix).partition(".")[0], "%Y%m%dT%H%M%S%z")
        except ValueError:
            continue
        slots[int(start.timestamp())] = path
    return slots


def published_specifications(folder: Path) -> set[str]:
    """Lists the spec_ids of a folder's files of slots."""
    names = (f"{folders}{prefix}-*" for folders in ("", f"{DATES}/") for prefix in (HATS, LIVE))
    return {path.name.split("-")[1] for name in names for path in folder.glob(name)}


def refuse_other_values(path: Path, columns: Mapping[str, Sequence[Any]]) -> None:
    """Raises OtherValues where an existing file's rows differ."""
    if not path.exists():
        return
    try:
        table = READERS[path.suffix[1:]](path)
        stored = _values(zip(*(table[name].to_pylist() for name in (*_KEY_COLUMNS, "value")), strict=True))
    except DAMAGE:
        raise OtherValues(path) from None
    values = _values(zip(*(columns[name] for name in (*_KEY_COLUMNS, "value")), strict=True))
    if stored.keys() != values.keys() or not all(_same(stored[key], values[key]) for key in values):
        raise OtherValues(path)


def _values(rows: Iterable[Iterable[Any]]) -> Values:
    return {(cell, name, start): None if value is None else float(value) for cell, name, start, value in rows}


def _same(stored: float | None, value: float | None) -> bool:
    """Compares values up to the rounding of files; None only equals None."""
    if stored is None or value is None:
        return stored is value
    return math.isclose(stored, value, rel_tol=0, abs_tol=SAME)


_PYTHON_ERRORS = (OSError, ValueError, LookupError, TypeError, AttributeError, EOFError)
DAMAGE = (*_PYTHON_ERRORS, msgspec.MsgspecError, pa.ArrowException)
"""What reading a damaged file, or one that is no result file, raises."""


def without_empty(table: pa.Table) -> pa.Table:
    """Leaves out the columns that other rows brought."""
    there = [name for name in table.column_names if name not in EXTRAS or table[name].null_count < table.num_rows]
    return table.select(there)


def _of_rows(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    names = rows[0].keys() if rows else TYPES.keys() & SCHEMA.names
    return pa.table({name: pa.array([row[name] for row in rows], TYPES.get(name)) for name in names if name in TYPES})


def _avro(path: Path) -> pa.Table:
    import fastavro

    with path.open("rb") as file:  # a foreign file's records may be of any type
        return _of_rows([row for row in fastavro.reader(file) if isinstance(row, dict)])


def _geojson(path: Path) -> pa.Table:
    features = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])["features"]
    return _of_rows([feature["properties"] for feature in features])


def _csv(path: Path) -> pa.Table:
    """Reads a published CSV file; lists are JSON texts in it."""
    from pyarrow import csv

    lists = [name for name, kind in TYPES.items() if pa.types.is_list(kind)]
    types = {name: pa.string() if name in lists else kind for name, kind in TYPES.items()}
    table = csv.read_csv(path, convert_options=csv.ConvertOptions(column_types=types, strings_can_be_null=True))
    for name in set(lists) & set(table.column_names):
        decoded = [None if text is None else msgspec.json.decode(text) for text in table[name].to_pylist()]
        table = table.set_column(table.column_names.index(name), name, pa.array(decoded, TYPES[name]))
    return table


def _jsonl(path: Path) -> pa.Table:
    """Reads JSON lines with fixed types, keeping instants' offsets."""
    from pyarrow import json

    if not path.stat().st_size:
        return _of_rows([])
    options = json.ParseOptions(explicit_schema=pa.schema(TYPES), unexpected_field_behavior="ignore")
    table = json.read_json(path, parse_options=options)
    if all(table[name].null_count == table.num_rows > 0 for name in _KEY_COLUMNS):
        raise ValueError("no result rows")
    return without_empty(table)


READERS: Mapping[str, Callable[[Path], pa.Table]] = {  # of each format; each raises one of DAMAGE
    "parquet": lambda path: pq.read_table(path, partitioning=None),
    "csv": _csv,
    "jsonl": _jsonl,
    "avro": _avro,
    "geojson": _geojson,
}
