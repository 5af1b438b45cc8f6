"""Result files read back: what transforms/sinks/files.py wrote, of any format, as a table."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from transforms.sinks.columns import EXTRAS, SCHEMA, TYPES

_KEY = ("slot_start", "cell", "statistic")
DAMAGE = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    EOFError,
    msgspec.MsgspecError,
    pa.ArrowException,
)
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

    with path.open("rb") as file:
        return _of_rows([row for row in fastavro.reader(file) if isinstance(row, dict)])


def _geojson(path: Path) -> pa.Table:
    features = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])["features"]
    return _of_rows([feature["properties"] for feature in features])


def _csv(path: Path) -> pa.Table:
    from pyarrow import csv

    lists = [name for name, kind in TYPES.items() if pa.types.is_list(kind)]
    types = {name: pa.string() if name in lists else kind for name, kind in TYPES.items()}
    options = csv.ConvertOptions(column_types=types, strings_can_be_null=True)
    table = csv.read_csv(path, convert_options=options)
    for name in set(lists) & set(table.column_names):
        decoded = [None if text is None else msgspec.json.decode(text) for text in table[name].to_pylist()]
        table = table.set_column(table.column_names.index(name), name, pa.array(decoded, TYPES[name]))
    return table


def _jsonl(path: Path) -> pa.Table:
    """Reads JSON lines, with types said beforehand: texts of times would become instants without their offset."""
    from pyarrow import json

    if not path.stat().st_size:
        return _of_rows([])
    options = json.ParseOptions(explicit_schema=pa.schema(TYPES), unexpected_field_behavior="ignore")
    table = json.read_json(path, parse_options=options)
    if all(table[name].null_count == table.num_rows > 0 for name in _KEY):
        raise ValueError("no result rows")
    return without_empty(table)


READERS: Mapping[str, Callable[[Path], pa.Table]] = {
    "parquet": lambda path: pq.read_table(path, partitioning=None),
    "csv": _csv,
    "jsonl": _jsonl,
    "avro": _avro,
    "geojson": _geojson,
}
"""Of each format; each raises one of DAMAGE."""
