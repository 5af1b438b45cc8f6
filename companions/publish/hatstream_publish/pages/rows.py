"""Result files read back: the rows that sinks wrote, of any format, as one table."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.errors import InputError
from transforms.releases.periods.products import PRODUCTS
from transforms.sinks.readers import DAMAGE, READERS, TYPES, without_empty
from transforms.sinks.rows import SCHEMA

HATS = "hats"
"""What rows of slots are called, beside the names of coarser products."""
PLACE_DAY, STANDING = "place-day", "place-standing"
"""Products of places: on a day, and as they usually are, by all days until its own."""
LIVE_MECHANISM = "-live"
"""Ends the mechanism's name of values that were published while their day lasted."""

_KEY = ("slot_start", "cell", "statistic")
MOST = 1e9
"""No statistic of speeds is as far from 0."""


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
    return {name: each_once(without_empty(table.filter(pc.equal(of, name)))) for name in names}


def check_origin(rows: pa.Table, name: str, spec_id: str) -> None:
    """Raises InputError for rows of another specification: what is said of this one would not be theirs."""
    others = set(rows["spec_id"].unique().to_pylist()) - {spec_id}
    if others:
        raise InputError(f"the result files hold rows of {min(others)}, and {name} is {spec_id}")


def is_live(rows: pa.Table) -> pa.ChunkedArray:
    """Says of each row whether it was published while its day lasted."""
    return pc.ends_with(rows["mechanism"], LIVE_MECHANISM)


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
    if kind not in READERS:
        raise InputError(f"{path} is no result file: it must end in {', '.join(f'.{name}' for name in READERS)}")
    try:
        table = READERS[kind](path)
        table = _as_released(table) if "value_of" in table.column_names else table
        names = [name for name in TYPES if name in SCHEMA.names or name in table.column_names]
        rows = pa.table({name: table[name].cast(TYPES[name]) for name in names})
    except DAMAGE:
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
