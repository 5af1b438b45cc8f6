"""What every published column means, in words: for the data dictionary, the package and the files themselves."""

import re
from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa

from hatstream.api import Specification, result_columns
from hatstream_publish.pages.words import STATUSES


class ColumnEntry(NamedTuple):
    """unit: empty where there is none, or where the column `unit` says it."""

    name: str
    meaning: str
    unit: str = ""


def columns_of(table: pa.Schema, spec: Specification) -> list[ColumnEntry]:
    """Describes the columns in the order of the table's schema. Raises KeyError for a column that nobody has
    described."""
    declared = {name: ColumnEntry(name, column.meaning, column.unit) for name, column in result_columns(spec).items()}
    entry_of = declared | {entry.name: entry for entry in _published(declared, max(spec.cells.resolution - 1, 0))}
    return [entry_of[name] for name in table.names]


def _published(declared: Mapping[str, ColumnEntry], coarser: int) -> list[ColumnEntry]:
    """Lists the columns that a published table has of its own, and those of which it says more."""
    listed = "; ".join(f"{status}: {meaning}" for status, meaning in STATUSES.items())
    ends = [
        ColumnEntry(f"own_{name}", f"Of own_value: {_lowered(declared[name].meaning)}", "column unit")
        for name in ("lower95", "upper95")
    ]
    about_own = [
        declared[name]._replace(meaning=re.sub(r"\bvalue\b", "own_value", declared[name].meaning))
        for name in ("noise_std", "bias_bound")
    ]
    return [
        ColumnEntry(
            "name", "What people call the place: its busiest stop, from the timetable; no part of what is measured"
        ),
        ColumnEntry(
            "value_of",
            "What the value is of: place; area (the coarser hexagon around it, in the column area); day (the place's "
            "whole day). Where only the area or the day is known, all its places or slots have the same value",
        ),
        ColumnEntry("area", f"The coarser H3 hexagon, of resolution {coarser}, where the value is of the area"),
        ColumnEntry("status", f"{declared['status'].meaning}. {listed}"),
        ColumnEntry(
            "own_value", "What is estimated of the place and slot by itself, however little is known", "column unit"
        ),
        *ends,
        *about_own,
        ColumnEntry("slot_start_at", "Instant at which the slot begins"),
        ColumnEntry("slot_end_at", "Instant at which the slot ends"),
        ColumnEntry("geometry", "Outline of the place, longitude and latitude (OGC:CRS84)", "degrees"),
    ]


def _lowered(text: str) -> str:
    return text[:1].lower() + text[1:]
