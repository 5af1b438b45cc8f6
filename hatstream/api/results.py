"""Result files read back for companions."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.errors import InputError
from pipelines.inputs import input_paths
from transforms.releases.periods.products import PRODUCTS
from transforms.sinks.published import DAMAGE, READERS, SCHEMA, TYPES, without_empty

HATS, LIVE_MECHANISM = "hats", "-live"
"""What rows of slots are called, beside the names of products; and how mechanisms of live values end."""
MOST = 1e9  # no statistic of speeds is as far from 0
_KEY_COLUMNS = ["slot_start", "cell", "statistic"]


def read_results(source: str | Sequence[str | Path | pa.Table]) -> dict[str, pa.Table]:
    """Reads result files or a published folder, by product.

    Args:
        source: A folder or a file pattern; or a sequence of files and tables to concatenate.

    Returns:
        A table for `hats` and each product present, with the columns of `result_columns` that files have. One row per
        place, slot and statistic; live rows only of days without a full release.

    Raises:
        InputError: A file holds no results, or two differ in a value of one place and slot.

    >>> read_results("examples/*.toml")
    Traceback (most recent call last):
    pipelines.errors.InputError: examples/hourly-means.toml is no result file: it must end in .parquet, ...
    """
    paths = input_paths(source) if isinstance(source, str) else source
    tables = [path if isinstance(path, pa.Table) else _read(Path(path)) for path in paths]
    table = pa.concat_tables(tables, promote_options="default")
    if "parent" in table.column_names:  # older files repeat a place's day, as its parent, in each slot
        table = table.filter(pc.fill_null(pc.not_equal(table["parent"], "day"), True))
    live, day = pc.ends_with(table["mechanism"], LIVE_MECHANISM), pc.utf8_slice_codeunits(table["slot_start"], 0, 10)
    full_days = day.filter(pc.invert(pc.or_(live, pc.equal(table["status"], "forecast"))))
    table = table.filter(pc.invert(pc.and_(live, pc.is_in(day, full_days))))
    if "product" not in table.column_names:
        return {HATS: _each_once(table)}
    product = pc.fill_null(table["product"], HATS)
    names = [name for name in (HATS, *PRODUCTS) if name in product.unique().to_pylist()]
    # `without_empty` leaves out columns that only other products fill.
    return {name: _each_once(without_empty(table.filter(pc.equal(product, name)))) for name in names}


def _each_once(table: pa.Table) -> pa.Table:
    """Deduplicates rows by HAT and statistic, final rows before live ones. Raises InputError."""
    final_first = table.append_column("live", pc.ends_with(table["mechanism"], LIVE_MECHANISM)).sort_by("live")
    # The first row of each key, by its number in `final_first`.
    keys = final_first.select(_KEY_COLUMNS).append_column("row", pa.array(range(final_first.num_rows)))
    grouped = keys.group_by(_KEY_COLUMNS).aggregate([("row", "min")])
    if grouped.num_rows == final_first.num_rows:
        return table
    final = final_first.filter(pc.invert(final_first["live"])).select([*_KEY_COLUMNS, "value"])
    values = final.group_by([*_KEY_COLUMNS, "value"]).aggregate([])
    if values.num_rows > values.group_by(_KEY_COLUMNS).aggregate([]).num_rows:  # a key has two final values
        raise InputError(
            "two result files give different values of the same place and slot: they are of different specifications, "
            "or estimates of different days (`hatstream estimate --whole` beside `release`); name the files of one"
        )
    return final_first.drop(["live"]).take(grouped["row_min"].sort())


def _read(path: Path) -> pa.Table:
    """Reads a result file, or a table of a published folder. Raises InputError."""
    kind = path.suffix.removeprefix(".")
    if kind not in READERS:
        raise InputError(f"{path} is no result file: it must end in {', '.join(f'.{name}' for name in READERS)}")
    try:
        table = READERS[kind](path)
        if "value_of" in table.column_names:  # a published folder's table, which may lack columns
            # There `value` may be that of a larger area, and `own_value` the place's: here each has its column.
            is_area = pc.not_equal(table["value_of"], "place")
            area = table["area"] if "area" in table.column_names else pa.nulls(table.num_rows, pa.string())
            columns = {name: table[name] for name in table.column_names if name not in ("value_of", "area")}
            columns["parent"] = pc.if_else(is_area, pc.coalesce(area, table["value_of"]), None)
            for name in ("value", "lower95", "upper95"):
                columns[f"parent_{name}"] = pc.if_else(is_area, table[name], None)
                columns[name] = columns.pop(f"own_{name}", table[name])
            missing = {name: pa.nulls(table.num_rows, TYPES[name]) for name in SCHEMA.names if name not in columns}
            table = pa.table(columns | missing)
        # A file without a column of SCHEMA is damaged: `table[name]` raises. Others are optional.
        names = [name for name in TYPES if name in SCHEMA.names or name in table.column_names]
        rows = pa.table({name: table[name].cast(TYPES[name]) for name in names})
    except DAMAGE:
        raise InputError(f"{path} is no result file of hatstream, or it is damaged") from None
    for name in rows.column_names:
        if pa.types.is_floating(TYPES[name]) and pc.any(pc.greater(pc.abs(rows[name]), MOST)).as_py():
            raise InputError(f"{path} is damaged: a number in {name} is infinite or beyond {MOST:,.0f}")
    return rows
