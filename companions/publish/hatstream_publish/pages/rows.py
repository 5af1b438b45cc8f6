"""Result files read back: the rows that sinks wrote, of any format, as one table."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from dpops import statistics
from pipelines.errors import InputError
from transforms.releases.periods.products import PRODUCTS
from transforms.sinks.published import READERS
from transforms.sinks.rows import NOTES, SCHEMA

HATS = "hats"
"""What rows of slots are called, beside the names of coarser products."""
PLACE_DAY, STANDING = "place-day", "place-standing"
"""Products of places: on a day, and as they usually are, by all days until its own."""
LIVE_MECHANISM = "-live"
"""Ends the mechanism's name of values that were published while their day lasted."""

_KEY = ("slot_start", "cell", "statistic")
_OUTPUTS = [output for statistic in statistics.registered().values() for output in statistic.extras]
_EXTRAS: dict[str, pa.DataType] = {
    **NOTES,
    **{f"{output.name}{end}": pa.float64() for output in _OUTPUTS for end in ("", "_lower95", "_upper95")},
    **{output.name: pa.list_(pa.float64()) for output in _OUTPUTS if output.is_list},
    "vehicles": pa.int64(),
    "reports": pa.int64(),
}
"""Columns that only some rows have. Instants (slot_start_at) are left out: they say what the texts say."""
MOST = 1e9
"""No statistic of speeds is as far from 0."""
TYPES: Mapping[str, pa.DataType] = {field.name: field.type for field in SCHEMA} | _EXTRAS


def read_rows(paths: Sequence[str]) -> pa.Table:
    """Reads the rows of slots: the columns of SCHEMA, and further ones where a file has them. Raises InputError.

    Live values are left out where their day's own are there. Of places: the rows of one product of theirs, alone.
    """
    return _rows_of(read_results(paths))


def _rows_of(tables: Mapping[str, pa.Table]) -> pa.Table:
    if len(tables) == 1 and next(iter(tables)).startswith("place-"):
        return next(iter(tables.values()))
    if HATS not in tables:
        coarser = ", ".join(tables)
        others = "take 'hats-*', or one product of places, such as 'place-slot-*'"
        raise InputError(f"the files hold coarser products ({coarser}): {others}")
    return tables[HATS]


def read_days_of_places(paths: Sequence[str]) -> tuple[pa.Table, pa.Table | None]:
    """Reads rows as `read_rows`; where they are days of places, these places' standing values too if there are any.

    Raises InputError.
    """
    tables = read_results(paths)
    if set(tables) == {PLACE_DAY, STANDING}:
        return tables[PLACE_DAY], tables[STANDING]
    return _rows_of(tables), None


def read_results(paths: Sequence[str]) -> dict[str, pa.Table]:
    """Reads the rows of all files, by product, HATs first.

    Raises InputError where a file is no result file, where two give different values of the same HAT, or for no row.
    """
    table = pa.concat_tables([read_one(Path(path)) for path in paths], promote_options="default")
    if table.num_rows == 0:
        raise InputError("the result files hold no row: there is nothing to show")
    if "product" not in table.column_names:
        return {HATS: each_once(table)}
    of = pc.fill_null(table["product"], HATS)
    there = set(of.unique().to_pylist())
    names = [name for name in (HATS, *PRODUCTS) if name in there]
    return {name: each_once(_without_empty(table.filter(pc.equal(of, name)))) for name in names}


def check_origin(rows: pa.Table, name: str, spec_id: str) -> None:
    """Raises InputError for rows of another specification: what is said of this one would not be theirs."""
    others = set(rows["spec_id"].unique().to_pylist()) - {spec_id}
    if others:
        raise InputError(f"the result files hold rows of {min(others)}, and {name} is {spec_id}")


def is_live(rows: pa.Table) -> pa.ChunkedArray:
    """Says of each row whether it was published while its day lasted."""
    return pc.ends_with(rows["mechanism"], LIVE_MECHANISM)


def _without_empty(table: pa.Table) -> pa.Table:
    """Leaves out the columns that another product's rows brought."""
    there = [name for name in table.column_names if name not in _EXTRAS or table[name].null_count < table.num_rows]
    return table.select(there)


def each_once(table: pa.Table) -> pa.Table:
    """Keeps one row a HAT and statistic: not the live one where there is another. Raises InputError for
    contradictions."""
    first = table.append_column("live", is_live(table)).sort_by([("live", "ascending")]).drop(["live"])
    keys = first.select(list(_KEY)).append_column("at", pa.array(range(first.num_rows)))
    grouped = keys.group_by(list(_KEY)).aggregate([("at", "min"), ("at", "count")])
    if grouped.num_rows == first.num_rows:
        return table
    _refuse_different(first)
    return first.take(grouped["at_min"].sort())


def _refuse_different(rows: pa.Table) -> None:
    """Refuses contradictions: of rows that are no live ones two may be of one HAT only if they say the same."""
    settled = rows.filter(pc.invert(is_live(rows)))
    said = settled.select([*_KEY, "value"]).group_by([*_KEY, "value"]).aggregate([])
    if said.num_rows > said.group_by(list(_KEY)).aggregate([]).num_rows:
        raise InputError(
            "two result files give different values of the same place and slot: they are of different specifications, "
            "or estimates of different days (`hatstream estimate --whole` beside `release`); name the files of one"
        )


def read_one(path: Path) -> pa.Table:
    """Reads a result file, or a table of a published folder. Raises InputError."""
    kind = path.suffix.removeprefix(".")
    if kind not in _READERS:
        raise InputError(f"{path} is no result file: it must end in {', '.join(f'.{name}' for name in _READERS)}")
    try:
        table = _READERS[kind](path)
        table = _as_released(table) if "value_of" in table.column_names else table
        names = [name for name in TYPES if name in SCHEMA.names or name in table.column_names]
        rows = pa.table({name: table[name].cast(TYPES[name]) for name in names})
    except (pa.ArrowException, KeyError, ValueError, TypeError, AttributeError, msgspec.MsgspecError):
        raise InputError(f"{path} is no result file of hatstream, or it is damaged") from None
    for name in rows.column_names:
        if pa.types.is_floating(TYPES[name]) and pc.any(pc.greater(pc.abs(rows[name]), MOST)).as_py():
            raise InputError(f"{path} is damaged: a number in {name} is infinite or beyond {MOST:,.0f}")
    return rows


def _as_released(table: pa.Table) -> pa.Table:
    """Puts rows of a published folder into the columns of result files, but for what was not published."""
    is_beside = pc.not_equal(table["value_of"], "place")
    area = table["area"] if "area" in table.column_names else pa.nulls(table.num_rows, pa.string())
    columns = {name: table[name] for name in table.column_names if name not in ("value_of", "area")}
    columns["parent"] = pc.if_else(is_beside, pc.coalesce(area, table["value_of"]), None)
    for name in ("value", "lower95", "upper95"):
        columns[f"parent_{name}"] = pc.if_else(is_beside, table[name], None)
        columns[name] = columns.pop(f"own_{name}", table[name])
    missing = {name: pa.nulls(table.num_rows, TYPES[name]) for name in SCHEMA.names if name not in columns}
    return pa.table(columns | missing)


def _of_rows(rows: Sequence[Any]) -> pa.Table:
    names = rows[0].keys() if rows else SCHEMA.names
    return pa.table({name: pa.array([row[name] for row in rows], TYPES.get(name)) for name in names if name in TYPES})


def _csv(path: Path) -> pa.Table:
    lists = [name for name, kind in TYPES.items() if pa.types.is_list(kind)]
    types = {name: pa.string() if name in lists else kind for name, kind in TYPES.items()}
    options = pyarrow.csv.ConvertOptions(column_types=types, strings_can_be_null=True)
    table = pyarrow.csv.read_csv(path, convert_options=options)
    for name in set(lists) & set(table.column_names):
        decoded = [None if text is None else msgspec.json.decode(text) for text in table[name].to_pylist()]
        table = table.set_column(table.column_names.index(name), name, pa.array(decoded, TYPES[name]))
    return table


def _jsonl(path: Path) -> pa.Table:
    """Reads JSON lines, with types said beforehand: texts of times would become instants without their offset."""
    options = pyarrow.json.ParseOptions(explicit_schema=pa.schema(TYPES), unexpected_field_behavior="ignore")
    table = pyarrow.json.read_json(path, parse_options=options)
    if all(table[name].null_count == table.num_rows > 0 for name in _KEY):
        raise ValueError("no result rows")
    return _without_empty(table)


_READERS: Mapping[str, Callable[[Path], pa.Table]] = {
    "parquet": lambda path: pq.read_table(path, partitioning=None),
    "csv": _csv,
    "jsonl": _jsonl,
    "avro": lambda path: _of_rows(READERS["avro"](path)),
    "geojson": lambda path: _of_rows(READERS["geojson"](path)),
}
