"""Columns of the result table; published files of them, and protection of their values.

Files of slots are named `hats-` (`live-`: of live slots), then spec_id, `-` and the slot's local start. EXTRAS are the
columns that only some files have, TYPES all columns' Arrow types. A `key` is a row's cell, statistic and start.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

_TYPE_BY_WORD = {"text": pa.string(), "number": pa.float64(), "whole": pa.int64(), "list": pa.list_(pa.float64())}
ALWAYS, NULLABLE, SOME, STATISTIC = "always", "nullable", "some", "statistic"
"""Filled in every row; in every file, empty where a row has nothing; in files of some rows; of some statistics."""
_MEANING_BY_ENDING = {"_lower95": "Lower end of the 95 % interval. ", "_upper95": "Upper end of it. "}


class ResultColumn(NamedTuple):
    """Declaration of a result column."""

    name: str
    kind: pa.DataType
    presence: str  # ALWAYS, NULLABLE, SOME or STATISTIC
    meaning: str  # may contain {value}, {interval}, {learned}, {resolution}
    unit: str = ""  # empty for none


_COLUMN_TABLE = """\
spec_id | text | always |  | Identity of the specification: a hash of everything that decides a release
slot_start | text | always | ISO 8601 | Local time at which the slot begins, with its offset from UTC
slot_end | text | always | ISO 8601 | Local time at which the slot ends, with its offset from UTC
cell | text | always |  | The place: an H3 hexagon of resolution {resolution}, or the id of another place in \
places.geojson
statistic | text | always |  | What is measured
value | number | nullable | column unit | {value}
unit | text | always |  | Unit of value, lower95 and upper95
lower95 | number | nullable | column unit | Lower {interval}
upper95 | number | nullable | column unit | Upper {interval}
noise_std | number | nullable | column unit | Standard deviation of the noise of value, or of what is not known of it
bias_bound | number | nullable | column unit | The most that clipping and rounding may shift value
mechanism | text | always |  | The algorithm that released it (docs/mechanisms.md, docs/released.md of hatstream)
epsilon | number | nullable |  | What this value alone cost a vehicle in it; what one vehicle spends adds up over its \
values
epsilon_slot | number | always |  | The most that a vehicle spent on all values of the slot
status | text | always |  | How well the value is known
parent | text | some |  | Where the value is not known: the parent cell, which is
product | text | some |  | Which coarser product the row is of
place | text | some |  | Of products of places: the place, as in cell
distribution_status | text | some |  | How well p15, p50 and p85 are known, as status has it of the value
leans_on_day | number | some | 1 | Of live values: how far they rest on the day itself, 0 to 1
parent_value | number | some | column unit | The value of what parent names
parent_lower95 | number | some | column unit | Of parent_value: lower {interval}
parent_upper95 | number | some | column unit | Of parent_value: upper {interval}
traffic_lower95 | number | some | km/h | Of the mean that very many vehicles would have had: lower {learned}
traffic_upper95 | number | some | km/h | Of the mean that very many vehicles would have had: upper {learned}
vehicles_status | text | some |  | How well vehicles_about is known, as status has it of the value
vehicles_about+ | number | some | 1 | Vehicles that were there, about: what released weights say, a guess beside value
p15+ | number | some | km/h | Speed that 15 % of the reports do not exceed
p50+ | number | some | km/h | Speed that half of the reports do not exceed
p85+ | number | some | km/h | Speed that 85 % of the reports do not exceed
days | whole | some | 1 | Of products of places: the released days that the row rests on, its own counted
vehicles_at_least | whole | some | 1 | Of products of places: 4 where it is proved that at least four vehicles were \
there on these days, with 95 % for all places and days together; else empty
model | whole | some |  | Version of the model that estimated the value: of equal entries another one may estimate \
another value
mean+ | number | statistic | km/h | Mean speed of the distribution
variance+ | number | statistic | (km/h)^2 | Variance of the speeds of the distribution
cdf | list | statistic | 1 | Shares of reports at or below public speeds, the bins' upper ends
vehicles | whole | statistic | 1 | Vehicles that reported; public under this account
reports | whole | statistic | 1 | Reports; public under this account
"""
"""Name (with a plus: and its ends of 95 %), type, presence, unit and meaning; in the order of files."""


def _columns(declared: str) -> Iterator[ResultColumn]:
    """Reads the table of columns, a line each; a plus adds its interval's ends."""
    for line in declared.splitlines():
        name, kind, presence, unit, meaning = (field.strip() for field in line.split("|"))
        yield ResultColumn(name.rstrip("+"), _TYPE_BY_WORD[kind], presence, meaning, unit)
        for end, prefix in _MEANING_BY_ENDING.items() if name.endswith("+") else ():
            yield ResultColumn(f"{name[:-1]}{end}", _TYPE_BY_WORD[kind], presence, prefix + meaning, unit)


COLUMNS = tuple(_columns(_COLUMN_TABLE))
_COMMON = [column for column in COLUMNS if column.presence in (ALWAYS, NULLABLE)]
SCHEMA = pa.schema([pa.field(column.name, column.kind, nullable=column.presence == NULLABLE) for column in _COMMON])
"""Columns that every file has; `schema_of` adds those of statistics with several outputs."""

OPTIONAL = {column.name: column.kind for column in COLUMNS if column.presence == SOME}
EXTRAS = {column.name: column.kind for column in COLUMNS if column.presence in (SOME, STATISTIC)}
"""Columns that only some rows have, without the instants (slot_start_at), which repeat texts."""
TYPES = {column.name: column.kind for column in COLUMNS}

DATES = "date=*"  # the folders that a dataset has, as a pattern

HATS, LIVE = "hats", "live"  # begin names of files

_KEY_COLUMNS = ("cell", "statistic", "slot_start")


class OtherValues(Exception):
    """A release's existing file with other or unreadable content."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} holds other values of the same release, or cannot be read, and is left as it is: a release is "
            "published once. Was it released with another ledger or key? Name those with --ledger and --key. Did an "
            "older version estimate it (column model), or has slot.trips changed? `hatstream estimate` writes all days "
            "anew, into another folder. A file that is damaged can be moved away"
        )


def published_slots(folder: Path, spec_id: str, *, is_live: bool = False) -> dict[int, Path]:
    """Maps slot starts, seconds since 1970, to published files."""
    slots = {}
    prefix = f"{LIVE if is_live else HATS}-{spec_id}-"
    for path in (*folder.glob(f"{prefix}*"), *folder.glob(f"{DATES}/{prefix}*")):
        with suppress(ValueError):  # another file whose name begins so
            start = datetime.strptime(path.name.removeprefix(prefix).partition(".")[0], "%Y%m%dT%H%M%S%z")
            slots[int(start.timestamp())] = path
    return slots


def published_specifications(folder: Path) -> set[str]:
    """Lists the spec_ids of a folder's files of slots."""
    patterns = (f"{folders}{prefix}-*" for folders in ("", f"{DATES}/") for prefix in (HATS, LIVE))
    return {path.name.split("-")[1] for pattern in patterns for path in folder.glob(pattern)}


def refuse_other_values(path: Path, columns: Mapping[str, Sequence[Any]]) -> None:
    """Raises OtherValues where an existing file has other rows or values than `columns`."""
    if not path.exists():
        return
    try:
        stored = _values(READERS[path.suffix[1:]](path).select([*_KEY_COLUMNS, "value"]).to_pydict())
    except DAMAGE:  # exceptions of files that cannot be read
        raise OtherValues(path) from None
    values = _values(columns)
    if stored.keys() != values.keys() or not np.allclose(
        [stored[key] for key in values], [*values.values()], rtol=0, atol=2e-6, equal_nan=True
    ):  # atol: equal values, rounded to six digits after the point, may differ in the last one
        raise OtherValues(path)


def _values(columns: Mapping[str, Sequence[Any]]) -> dict[tuple[str, str, str], float]:
    """Maps cell, statistic and start to what was published; nan for no value."""
    rows = zip(*(columns[name] for name in (*_KEY_COLUMNS, "value")), strict=True)
    return {(cell, name, start): math.nan if value is None else float(value) for cell, name, start, value in rows}


_PYTHON_ERRORS = (OSError, ValueError, LookupError, TypeError, AttributeError, EOFError)
DAMAGE = (*_PYTHON_ERRORS, msgspec.MsgspecError, pa.ArrowException)
"""What reading a damaged file, or one that is no result file, raises."""


def without_empty(table: pa.Table) -> pa.Table:
    """Leaves out extra columns that have only nulls."""
    names = [name for name in table.column_names if name not in EXTRAS or table[name].null_count < table.num_rows]
    return table.select(names)


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
    """Reads a published CSV file, whose lists are JSON."""
    from pyarrow import csv

    lists = [name for name, kind in TYPES.items() if pa.types.is_list(kind)]
    types = {name: pa.string() if name in lists else kind for name, kind in TYPES.items()}
    table = csv.read_csv(path, convert_options=csv.ConvertOptions(column_types=types, strings_can_be_null=True))
    for name in set(lists) & set(table.column_names):
        decoded = [None if text is None else msgspec.json.decode(text) for text in table[name].to_pylist()]
        table = table.set_column(table.column_names.index(name), name, pa.array(decoded, TYPES[name]))
    return table


def _jsonl(path: Path) -> pa.Table:
    """Reads JSON lines of fixed types; instants keep offsets. Raises ValueError for other lines."""
    from pyarrow import json

    if not path.stat().st_size:
        return _of_rows([])
    options = json.ParseOptions(explicit_schema=pa.schema(TYPES), unexpected_field_behavior="ignore")
    table = json.read_json(path, parse_options=options)
    if all(table[name].null_count == table.num_rows > 0 for name in _KEY_COLUMNS):
        raise ValueError("no result rows")
    return without_empty(table)  # leaves out extra columns that have only nulls


READERS: Mapping[str, Callable[[Path], pa.Table]] = {  # of each format; each raises one of DAMAGE
    "parquet": lambda path: pq.read_table(path, partitioning=None),
    "csv": _csv,
    "jsonl": _jsonl,
    "avro": _avro,
    "geojson": _geojson,
}
