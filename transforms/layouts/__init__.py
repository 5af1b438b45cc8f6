"""The layouts of input files: those with units of their own, and those described by a column map and its units."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Generic, TypeVar, cast, get_args
from zoneinfo import ZoneInfo, available_timezones

from transforms.errors import did_you_mean
from transforms.layouts import mapped, own
from transforms.layouts.base import (
    FIELDS,
    HEADING,
    Layout,
    MessageLayout,
    OwnLayout,
    Units,
    UnreadableFile,
    with_heading,
)
from transforms.layouts.by_file import FILE, ByFile
from transforms.layouts.columns import DecimalMark, TimeUnit
from transforms.layouts.time_format import TimeFormat
from transforms.value import PER_UNIT, UNIT

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

T = TypeVar("T")


class _Registered(Mapping[str, T], Generic[T]):
    """What each file of a folder registers as LAYOUT, by the file's name; it is imported when it is asked for."""

    def __init__(self, folder: ModuleType) -> None:
        self._folder = folder.__name__
        self._names = [info.name.replace("_", "-") for info in iter_modules(folder.__path__)]

    def __getitem__(self, name: str) -> T:
        if name not in self._names:
            raise KeyError(name)
        layout: T = import_module(f"{self._folder}.{name.replace('-', '_')}").LAYOUT
        return layout

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


FIXED: Mapping[str, OwnLayout] = _Registered(own)
MAPPED: Mapping[str, Callable[[Units, tuple[str, ...], tuple[str, ...]], Layout]] = _Registered(mapped)
_ABOUT_HEADINGS = (
    ": a heading goes with places that have the property directed, and they need one, or input.derived_heading"
)
_TIME_UNITS: Mapping[str, TimeUnit] = {unit: unit for unit in get_args(TimeUnit)}


def layout(
    name: str,
    columns: Mapping[str, str] | None,
    time_unit: str | None,
    speed_unit: str | None,
    *,
    time_zone: str | None = None,
    time_format: str | None = None,
    decimal: str | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
    records: str | None = None,
    with_speed: bool = True,
    headed: bool = False,
) -> Layout:
    """The layout of that name. Raises ValueError naming the field, the rule and the value.

    columns: which column of the input holds each of vehicle, time, lat, lon, speed, or for vehicle `{file}`; units:
    `iso` and `km/h` unless given. time_zone: of times without an offset. time_format: of texts that are no ISO 8601, in
    place of a time_unit. delimiter, header, decimal: of CSV. records: of JSON, the path of the array around the
    objects. with_speed, headed: whether rows have a speed, and a heading. Fixed layouts take none but headed.
    """
    fields = _fields(with_speed=with_speed, headed=headed)
    of_times = dict[str, object](time_unit=time_unit, time_zone=time_zone, time_format=time_format)
    of_csv = dict[str, object](delimiter=delimiter, header=header, decimal=decimal)
    if name in FIXED:
        given = {"columns": columns, "speed_unit": speed_unit, "records": records}
        return _fixed(name, headed, given | of_times | of_csv)
    _check_mapped(name, speed_unit, with_speed, {"csv": of_csv, "json": {"records": records}})
    units = _with_format(_units(time_unit or "iso", speed_unit or UNIT, time_zone), time_format, time_unit)
    names = _column_names(name, columns, fields)
    if names[0] == FILE:
        return ByFile(_mapped(name, units, names[1:], fields[1:], records, delimiter, header, decimal))
    return _mapped(name, units, names, fields, records, delimiter, header, decimal)


def _fields(*, with_speed: bool, headed: bool) -> tuple[str, ...]:
    fields = FIELDS if with_speed else FIELDS[:-1]
    return with_heading(fields) if headed else fields


def _fixed(name: str, headed: bool, given: Mapping[str, object]) -> Layout:
    _refuse_given(given, f"layout {name!r} has its own units and columns")
    layout = FIXED[name].headed if headed else FIXED[name].layout
    if layout is None:
        raise ValueError(
            f"layout {name!r} has no heading, which places with the property directed need: or input.derived_heading"
        )
    return layout


def _mapped(
    name: str,
    units: Units,
    names: tuple[str, ...],
    fields: tuple[str, ...],
    records: str | None,
    delimiter: str | None,
    header: bool | None,
    decimal: str | None,
) -> Layout:
    if name == "csv":
        return _csv_table(replace(units, decimal=_decimal(decimal)), names, fields, delimiter, header)
    _refuse_indexed_objects(name, dict(zip(fields, names, strict=True)))
    return MAPPED[name](units, names, fields) if records is None else _snapshots(units, names, fields, records)


def _check_mapped(
    name: str, speed_unit: str | None, with_speed: bool, of_one: Mapping[str, Mapping[str, object]]
) -> None:
    if name not in MAPPED:
        names = [*FIXED, *MAPPED]
        raise ValueError(f"layout: must be one of {', '.join(names)}, got {name!r}{did_you_mean(name, names)}")
    if speed_unit is not None and not with_speed:
        raise ValueError(f"speed_unit: goes with a column of speeds, got {speed_unit!r}")
    _refuse_misplaced(name, of_one)


def report_layout(
    name: str, columns: Mapping[str, str] | None, time_unit: str | None, fields: tuple[str, ...]
) -> Layout:
    """The mapped layout of that name for rows of other fields. Raises ValueError as `layout` does."""
    if name not in MAPPED:
        raise ValueError(f"layout: must be one of {', '.join(MAPPED)}, got {name!r}")
    units = _units(time_unit or "iso", UNIT, None)
    return MAPPED[name](units, _column_names(name, columns, fields), fields)


def message_layout(name: str, layout: Layout) -> MessageLayout:
    """The layout as one of messages. Raises ValueError naming the field, the rule and the value."""
    if isinstance(layout, MessageLayout):
        return layout
    layouts = {own_name: FIXED[own_name].layout for own_name in FIXED} | {**MAPPED}
    able = [other for other, kind in layouts.items() if hasattr(kind, "from_messages")]
    raise ValueError(f"layout: messages must be one of {', '.join(able)}, got {name!r}")


def _csv_table(
    units: Units, names: tuple[str, ...], fields: tuple[str, ...], delimiter: str | None, header: bool | None
) -> Layout:
    from transforms.layouts.mapped.csv import DELIMITERS, CsvTable

    if delimiter is not None and delimiter not in DELIMITERS:
        raise ValueError(f"delimiter: must be one of {', '.join(map(repr, DELIMITERS))}, got {delimiter[:20]!r}")
    return CsvTable(units, names, fields, delimiter or ",", header is not False)


def _with_format(units: Units, time_format: str | None, time_unit: str | None) -> Units:
    if time_format is None:
        return units
    if time_unit is not None:
        raise ValueError(f"time_unit: goes without time_format, got {time_unit!r}")
    return replace(units, time_format=TimeFormat.of(time_format))


def _decimal(decimal: str | None) -> DecimalMark:
    mark_given = next((mark for mark in get_args(DecimalMark) if mark == (decimal or ".")), None)
    if mark_given is None:
        raise ValueError(f"decimal: must be {' or '.join(map(repr, get_args(DecimalMark)))}, got {str(decimal)[:20]!r}")
    return cast(DecimalMark, mark_given)


def _snapshots(units: Units, names: tuple[str, ...], fields: tuple[str, ...], records: str) -> Layout:
    from transforms.layouts.mapped.json import JsonRecords

    if not all(records.split(".")):
        raise ValueError(f"records: must be a path of keys such as data.vehicles, got {records[:60]!r}")
    return JsonRecords(units, names, fields, records)


def _refuse_indexed_objects(layout_name: str, columns: Mapping[str, str]) -> None:
    """Refuses a JSON array of objects, of which one would be read, and the others lost silently. Raises ValueError."""
    for field, name in columns.items() if layout_name in ("json", "jsonl") else ():
        *before, _last = parts = name.split(".")
        index = next((place for place, part in enumerate(before) if part.isdecimal()), None)
        if index is not None:
            array = ".".join(parts[:index])
            raise ValueError(
                f"columns.{field}: {name[:60]!r} takes one object of an array, and would lose all others: "
                f"say records = {array[:60]!r} with layout 'json', and name columns from there"
            )


def _refuse_misplaced(name: str, options: Mapping[str, Mapping[str, object]]) -> None:
    """options: by the only layout that takes them. Raises ValueError."""
    for layout_name, given in options.items():
        if name != layout_name:
            _refuse_given(given, f"goes with layout {layout_name!r} only")


def _refuse_given(options: Mapping[str, object], why: str) -> None:
    """Raises ValueError for the first option that has a value."""
    for field, value in options.items():
        if value is not None:
            raise ValueError(f"{field}: {why}, got {value!r}")


def _units(time_unit: str, speed_unit: str, time_zone: str | None) -> Units:
    if time_unit not in _TIME_UNITS:
        said = f"{', '.join(_TIME_UNITS)}, got {time_unit!r}{did_you_mean(time_unit, _TIME_UNITS)}"
        raise ValueError(f"time_unit: must be one of {said}")
    if speed_unit not in PER_UNIT:
        said = f"{', '.join(PER_UNIT)}, got {speed_unit!r}{did_you_mean(speed_unit, PER_UNIT)}"
        raise ValueError(f"speed_unit: must be one of {said}")
    if time_zone is not None:
        if time_unit != "iso":
            raise ValueError(f"time_zone: goes with time_unit 'iso', got {time_unit!r}")
        try:
            ZoneInfo(time_zone)
        except (KeyError, ValueError, OSError):
            hint = did_you_mean(time_zone, available_timezones())
            raise ValueError(f"time_zone: must be a name like America/Chicago, got {time_zone[:60]!r}{hint}") from None
    return Units(_TIME_UNITS[time_unit], PER_UNIT[speed_unit], time_zone)


def _column_names(name: str, columns: Mapping[str, str] | None, fields: tuple[str, ...]) -> tuple[str, ...]:
    if columns is None or set(columns) != set(fields):
        given = "none" if columns is None else ", ".join(sorted(columns)) or "none"
        why = "" if (HEADING in fields) == (HEADING in (columns or ())) else _ABOUT_HEADINGS
        raise ValueError(f"columns: layout {name!r} needs exactly {', '.join(fields)}, got {given}{why}")
    for field in fields:
        if not columns[field]:
            raise ValueError(f"columns.{field}: must name a column of the input, got {columns[field]!r}")
        if list(columns.values()).count(columns[field]) > 1:
            raise ValueError(f"columns.{field}: needs a column of its own, {columns[field]!r} is given twice")
    return tuple(columns[field] for field in fields)
