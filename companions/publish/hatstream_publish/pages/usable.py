"""Selects publishable values, labels their subject, and writes CSV."""

import io
from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from hatstream_publish.pages.pack import is_beside
from hatstream_publish.pages.places import NamedPlaces

USABLE = ("ok", "parent")
"""Statuses of values that are published unless all are asked for."""
_OWN = ("value", "lower95", "upper95")
_ORDER = (
    *("slot_start", "slot_end", "cell", "name", "statistic", *_OWN),
    *("unit", "value_of", "area", "status", "mechanism", "spec_id"),
)
_NOT_SHOWN = ("parent", "parent_value", "parent_lower95", "parent_upper95", "epsilon_slot")


def published(rows: pa.Table, places: NamedPlaces, *, everything: bool) -> pa.Table:
    """Selects the rows to publish, by slot and place.

    everything: unusable values too, with each place's own.
    """
    if not everything:
        rows = rows.filter(pc.and_(pc.is_in(rows["status"], pa.array(USABLE)), pc.is_valid(rows["value"])))
    if not rows.num_rows:
        return pa.table({})
    keys = [(name, "ascending") for name in ("instant", "cell", "statistic")]
    instants = rows.append_column("instant", of_each(rows["slot_start"], datetime.fromisoformat))
    rows = rows.take(pc.sort_indices(instants, keys))
    is_parent = pa.array(is_beside(rows))
    columns = {name: rows[name] for name in rows.column_names if name not in _NOT_SHOWN}
    if everything:
        columns |= {f"own_{name}": rows[name] for name in _OWN}
    else:
        columns = {name: column for name, column in columns.items() if name not in ("noise_std", "bias_bound")}
    if "parent_value" in rows.column_names:
        columns |= {name: pc.if_else(is_parent, rows[f"parent_{name}"], rows[name]) for name in _OWN}
    columns["value_of"] = pc.if_else(is_parent, "area", "place")
    parents = rows["parent"] if "parent" in rows.column_names else pa.nulls(rows.num_rows, pa.string())
    columns["area"] = pc.if_else(is_parent, parents, None)
    columns["name"] = of_each(rows["cell"], lambda cell: places.named[cell].name if cell in places.named else "")
    others = (name for name, column in columns.items() if name not in _ORDER and column.null_count < len(column))
    return pa.table({name: columns[name] for name in (*_ORDER, *others)})


def of_each(column: pa.ChunkedArray, value: Callable[[str], Any]) -> Any:
    """Maps a column's distinct texts through a function."""
    coded = column.combine_chunks().dictionary_encode()
    coded = coded.combine_chunks() if isinstance(coded, pa.ChunkedArray) else coded
    return pa.array([value(text) for text in coded.dictionary.to_pylist()]).take(coded.indices)


def csv_bytes(table: pa.Table) -> bytes:
    """Writes a table as CSV, with lists as JSON."""
    sink = io.BytesIO()
    for index, field in enumerate(table.schema):
        if pa.types.is_list(field.type):
            texts = [
                None if value is None else msgspec.json.encode(value).decode()
                for value in table.column(index).to_pylist()
            ]
            table = table.set_column(index, field.name, pa.array(texts, pa.string()))
    pyarrow.csv.write_csv(table, sink, pyarrow.csv.WriteOptions(quoting_style="needed"))
    return sink.getvalue()
