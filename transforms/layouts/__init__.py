"""The layouts of input files: those with units of their own, and those described by a column map and its units."""

from collections.abc import Callable, Mapping
from typing import get_args

from transforms.layouts.avro import AvroTable
from transforms.layouts.base import FIELDS, KMH_PER_UNIT, Layout, MessageLayout, Units, UnreadableFile
from transforms.layouts.capmetro import CAPMETRO
from transforms.layouts.csv_table import CsvTable
from transforms.layouts.gtfs_realtime import GtfsRealtime
from transforms.layouts.iudx import Iudx
from transforms.layouts.jsonl import JsonLines
from transforms.layouts.parquet import ParquetTable
from transforms.observe.columns import TimeUnit

__all__ = [
    "FIXED",
    "MAPPED",
    "Layout",
    "MessageLayout",
    "Units",
    "UnreadableFile",
    "layout",
    "message_layout",
    "report_layout",
]

FIXED: Mapping[str, Layout] = {"capmetro": CAPMETRO, "iudx": Iudx(), "gtfs-realtime": GtfsRealtime()}
MAPPED: Mapping[str, Callable[[Units, tuple[str, ...], tuple[str, ...]], Layout]] = {
    "csv": CsvTable,
    "jsonl": JsonLines,
    "parquet": ParquetTable,
    "avro": AvroTable,
}
_TIME_UNITS: Mapping[str, TimeUnit] = {unit: unit for unit in get_args(TimeUnit)}


def layout(name: str, columns: Mapping[str, str] | None, time_unit: str | None, speed_unit: str | None) -> Layout:
    """The layout of that name. Raises ValueError naming the field, the rule and the value.

    columns: which column of the input holds each of vehicle, time, lat, lon, speed; units: `iso` and `km/h` unless
    given. A fixed layout takes none of the three.
    """
    if name in FIXED:
        for field, value in (("columns", columns), ("time_unit", time_unit), ("speed_unit", speed_unit)):
            if value is not None:
                raise ValueError(f"{field}: layout {name!r} has its own units and columns, got {value!r}")
        return FIXED[name]
    if name not in MAPPED:
        raise ValueError(f"layout: must be one of {', '.join([*FIXED, *MAPPED])}, got {name!r}")
    return MAPPED[name](_units(time_unit or "iso", speed_unit or "km/h"), _column_names(name, columns, FIELDS), FIELDS)


def report_layout(
    name: str, columns: Mapping[str, str] | None, time_unit: str | None, fields: tuple[str, ...]
) -> Layout:
    """The mapped layout of that name for rows of other fields. Raises ValueError as `layout` does."""
    if name not in MAPPED:
        raise ValueError(f"layout: must be one of {', '.join(MAPPED)}, got {name!r}")
    return MAPPED[name](_units(time_unit or "iso", "km/h"), _column_names(name, columns, fields), fields)


def message_layout(name: str, layout: Layout) -> MessageLayout:
    """The layout as one of messages. Raises ValueError naming the field, the rule and the value."""
    if isinstance(layout, MessageLayout):
        return layout
    able = [known for known, kind in {**FIXED, **MAPPED}.items() if hasattr(kind, "from_messages")]
    raise ValueError(f"layout: messages must be one of {', '.join(able)}, got {name!r}")


def _units(time_unit: str, speed_unit: str) -> Units:
    if time_unit not in _TIME_UNITS:
        raise ValueError(f"time_unit: must be one of {', '.join(_TIME_UNITS)}, got {time_unit!r}")
    if speed_unit not in KMH_PER_UNIT:
        raise ValueError(f"speed_unit: must be one of {', '.join(KMH_PER_UNIT)}, got {speed_unit!r}")
    return Units(_TIME_UNITS[time_unit], KMH_PER_UNIT[speed_unit])


def _column_names(name: str, columns: Mapping[str, str] | None, fields: tuple[str, ...]) -> tuple[str, ...]:
    if columns is None or set(columns) != set(fields):
        given = "none" if columns is None else ", ".join(sorted(columns)) or "none"
        raise ValueError(f"columns: layout {name!r} needs exactly {', '.join(fields)}, got {given}")
    for field in fields:
        if not columns[field]:
            raise ValueError(f"columns.{field}: must name a column of the input, got {columns[field]!r}")
        if list(columns.values()).count(columns[field]) > 1:
            raise ValueError(f"columns.{field}: needs a column of its own, {columns[field]!r} is given twice")
    return tuple(columns[field] for field in fields)
