"""Reads result files as rows, selects those to publish, and writes CSV.

A row is of a slot and a place; the column "cell" has the place's id, an H3 cell or not. Tables are by product: "hats"
has rows of slots, "days" of whole days, those of places begin with "place-". A row of status "parent" shows the value
of the coarser cell, its area. `with_trips` leaves out hours of a place without a trip by the timetable.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from hatstream.api import InputError
from hatstream.api import read_results as read_files
from hatstream_publish.pages.places import NamedPlaces

if TYPE_CHECKING:
    from hatstream.api import Specification

STATUSES: Mapping[str, str] = {
    "ok": "Known well enough to use, within its interval.",
    "parent": "Not known by itself; the value of the area around it is.",
    "forecast": "Expected from earlier days: nothing of this day is released yet.",
    "unreliable": "Too few vehicles are likely to have been there for the value to be used, or its interval believed.",
    "constant": "Too little is known: the value is a public constant and says nothing of what was driven.",
    "held-back": "Held back: of the whole city too little is known on this day, so that values would mislead.",
    "no-data": "Nobody reported there, or nobody is left of those who did.",
}
ADVICE: Mapping[str, str] = {  # what to do where no value is published, by status
    "held-back": (
        "What helps: more days on the same account (each teaches about the others: `hatstream estimate --whole`), "
        "a fleet that is declared right ([fleet] vehicles), larger hexagons, or a larger total; `hatstream plan` says "
        "what to expect."
    ),
    "no-data": "Look at another slot, or check with `hatstream release --check-input` what the input holds.",
    "constant": "What helps: larger hexagons, longer slots, or a larger epsilon; `hatstream plan` says what to expect.",
}
HATS = "hats"  # what rows of slots are called, beside the names of coarser products
DAYS = "days"  # what rows of whole days are called: one for each place and day
CITY = "city"  # stands where a row of the whole region would name a cell
PLACE_DAY, STANDING = "place-day", "place-standing"
"""Products of places: on a day, and as they usually are, by all days until its own."""
LIVE_MECHANISM = "-live"  # ends the mechanism's name of values that were published while their day lasted


def read_results(pattern: str | Sequence[str | Path | pa.Table]) -> dict[str, pa.Table]:
    """Reads rows by product. Raises InputError without any."""
    tables = read_files(pattern)
    if not any(table.num_rows for table in tables.values()):
        raise InputError("the result files hold no row: there is nothing to show")
    return tables


def table_of(results: Mapping[str, pa.Table], name: str) -> pa.Table:
    """Takes a product's rows, or a table without rows."""
    return results[name] if name in results else next(iter(results.values())).slice(0, 0)


def with_trips(rows: pa.Table, spec: Specification | None) -> pa.Table:
    """Leaves out rows of hours without a trip, if the specification has a timetable."""
    if spec is None or spec.trips is None:
        return rows
    slots = rows.group_by(["slot_start", "slot_end"]).aggregate([])  # each slot once
    edges = zip(slots["slot_start"].to_pylist(), slots["slot_end"].to_pylist(), strict=True)
    keys_with_trip = [f"{start} {cell}" for start, end in edges for cell in spec.trips.cells_in(start, end)]
    key = pc.binary_join_element_wise(rows["slot_start"], rows["cell"], " ")
    return rows.filter(pc.is_in(key, pa.array(keys_with_trip, pa.string())))


def with_days(tables: Mapping[str, pa.Table], spec: Specification | None) -> pa.Table:
    """Returns rows of slots; where a place lacks one, its day's stands in.

    Days without any slot keep their rows. The column "product" is DAYS for rows of days.
    """
    if DAYS not in tables:
        return with_trips(tables[HATS], spec)
    hats, days = table_of(tables, HATS), tables[DAYS]
    days = days.append_column("date", pc.utf8_slice_codeunits(days["slot_start"], 0, 10))  # as in 2026-05-13T06:00
    slots = hats.group_by(["slot_start", "slot_end"]).aggregate([])
    slots = slots.append_column("date", pc.utf8_slice_codeunits(slots["slot_start"], 0, 10))
    # Rows of days, once for each slot of the day, but for places that have a row in the slot.
    stand_ins = days.drop_columns(["slot_start", "slot_end"]).join(slots, "date", join_type="inner")
    stand_ins = stand_ins.join(hats.select(["slot_start", "cell"]), ["slot_start", "cell"], join_type="left anti")
    hats, stand_ins = with_trips(hats, spec), with_trips(stand_ins, spec)
    without_slots = days.filter(pc.invert(pc.is_in(days["date"], slots["date"])))
    # Columns of both; those that only slots have are null in rows of days.
    names = [*(name for name in hats.column_names if name in days.column_names and name != "product"), "product"]
    parts = [hats.drop_columns(["product"] if "product" in hats.column_names else [])]
    parts += [part.select(names) for part in (stand_ins, without_slots)]
    return pa.concat_tables(parts, promote_options="default")


def read_rows(
    pattern: str | Sequence[str | Path | pa.Table], spec: Specification | None = None
) -> tuple[pa.Table, pa.Table | None]:
    """Reads rows to draw; with rows of place-day also those of place-standing. Raises InputError.

    Else rows are those of slots and days, or of one product of places, and the second table is None.
    """
    tables = read_results(pattern)
    if set(tables) == {PLACE_DAY, STANDING}:
        return tables[PLACE_DAY], tables[STANDING]
    name, *others = tables
    if not others and name.startswith("place-"):
        return tables[name], None
    if not {HATS, DAYS} & set(tables):
        advice = "take 'hats-*' and 'days-*', or one product of places, such as 'place-slot-*'"
        raise InputError(f"the files hold coarser products ({', '.join(tables)}): {advice}")
    return with_days(tables, spec), None


def check_origin(rows: pa.Table, name: str, spec_id: str) -> None:
    """Raises InputError for rows of another specification."""
    others = set(rows["spec_id"].unique().to_pylist()) - {spec_id}
    if others:
        raise InputError(f"the result files hold rows of {min(others)}, and {name} is {spec_id}")


def shows_parent(rows: pa.Table) -> NDArray[np.bool_]:
    """Marks rows that show only a coarser value."""
    if "parent_value" not in rows.column_names:
        return np.zeros(rows.num_rows, np.bool_)
    return np.asarray(pc.and_(pc.equal(rows["status"], "parent"), pc.is_valid(rows["parent_value"])).to_numpy())


USABLE = ("ok", "parent")  # statuses of values that are published unless all are asked for
_VALUE_COLUMNS = ("value", "lower95", "upper95")
_COLUMN_ORDER = (
    *("slot_start", "slot_end", "cell", "name", "statistic", *_VALUE_COLUMNS),
    *("unit", "value_of", "area", "status", "mechanism", "spec_id"),
)
_HIDDEN_COLUMNS = ("parent", "parent_value", "parent_lower95", "parent_upper95", "epsilon_slot")


def published(rows: pa.Table, places: NamedPlaces, *, everything: bool) -> pa.Table:
    """Selects rows to publish and their columns, sorted by slot and place.

    everything: unusable values too. The value of a row "parent" is the area's; own_value has the place's then.
    """
    if not everything:
        rows = rows.filter(pc.and_(pc.is_in(rows["status"], pa.array(USABLE)), pc.is_valid(rows["value"])))
    if not rows.num_rows:
        return pa.table({})
    keys = [(name, "ascending") for name in ("instant", "cell", "statistic")]
    instants = rows.append_column("instant", of_each(rows["slot_start"], datetime.fromisoformat))
    rows = rows.take(pc.sort_indices(instants, keys))
    is_parent = pa.array(shows_parent(rows))
    columns = {name: rows[name] for name in rows.column_names if name not in _HIDDEN_COLUMNS}
    if everything:
        columns |= {f"own_{name}": rows[name] for name in _VALUE_COLUMNS}
    else:  # these two are of the place's own value, which is not published
        columns = {name: column for name, column in columns.items() if name not in ("noise_std", "bias_bound")}
    if "parent_value" in rows.column_names:
        columns |= {name: pc.if_else(is_parent, rows[f"parent_{name}"], rows[name]) for name in _VALUE_COLUMNS}
    columns["value_of"] = pc.if_else(is_parent, "area", "place")
    parents = rows["parent"] if "parent" in rows.column_names else pa.nulls(rows.num_rows, pa.string())
    columns["area"] = pc.if_else(is_parent, parents, None)
    columns["name"] = of_each(rows["cell"], lambda cell: places.named[cell].name if cell in places.named else "")
    # Columns without a place in the order come last, but for empty ones.
    others = (name for name, column in columns.items() if name not in _COLUMN_ORDER and column.null_count < len(column))
    return pa.table({name: columns[name] for name in (*_COLUMN_ORDER, *others)})


def of_each(column: pa.ChunkedArray, value: Callable[[str], Any]) -> Any:
    """Applies a function to a column's texts, once to each distinct one, (rows,)."""
    coded = column.combine_chunks().dictionary_encode()
    return pa.array([value(text) for text in coded.dictionary.to_pylist()]).take(coded.indices)


def csv_bytes(table: pa.Table) -> bytes:
    """Writes a table as CSV, with lists as JSON."""
    sink = io.BytesIO()
    for index, field in enumerate(table.schema):
        if pa.types.is_list(field.type):
            lists = table.column(index).to_pylist()
            texts = [None if items is None else msgspec.json.encode(items).decode() for items in lists]
            table = table.set_column(index, field.name, pa.array(texts, pa.string()))
    pyarrow.csv.write_csv(table, sink, pyarrow.csv.WriteOptions(quoting_style="needed"))
    return sink.getvalue()
