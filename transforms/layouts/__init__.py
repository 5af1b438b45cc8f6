"""Input layouts, fixed or described by column maps."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any, Generic, TypeVar, cast, get_args
from zoneinfo import ZoneInfo, available_timezones

from transforms.errors import did_you_mean
from transforms.layouts import base, mapped, own
from transforms.layouts.base import Layout, MessageLayout, Units, UnreadableFile
from transforms.layouts.columns import DecimalMark, TimeUnit
from transforms.layouts.open_file import FILE, ByFile
from transforms.layouts.time_format import TimeFormat
from transforms.value import NAME, UNIT, per_unit

__all__ = ["FIXED", "MAPPED", "Layout", "MessageLayout", "Units", "UnreadableFile", "layout", "message_layout"]

T = TypeVar("T")
Column = str | Sequence[str]  # the name of a column, or those of several that hold a field together


class _Registered(Mapping[str, T], Generic[T]):
    """Registry of a folder's layouts by name, imported lazily."""

    def __init__(self, folder: ModuleType) -> None:
        self._folder = folder.__name__
        self._names = [info.name.replace("_", "-") for info in iter_modules(folder.__path__)]

    def __getitem__(self, name: str) -> T:
        if name not in self._names:
            raise KeyError(name)
        layout: T = import_module(f"{self._folder}.{name.replace('-', '_')}").LAYOUT
        return layout

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


FIXED: Mapping[str, base.OwnLayout] = _Registered(own)
MAPPED: Mapping[str, type[base.MappedLayout]] = _Registered(mapped)
_ABOUT_HEADINGS = (
    ": a heading goes with places that have the property directed, and they need one, or input.derived_heading"
)
_KEYS = {NAME: "value.name", **dict(zip(base.with_keys(2)[2:4], ("places.column", "places.within"), strict=True))}
_TIME_UNITS: Mapping[str, TimeUnit] = {unit: unit for unit in get_args(TimeUnit)}


def layout(
    name: str,
    columns: Mapping[str, Column] | None,
    time_unit: str | None = None,
    speed_unit: str | None = None,
    *,
    time_zone: str | None = None,
    time_format: str | None = None,
    decimal: str | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
    records: str | None = None,
    with_value: bool = True,
    headed: bool = False,
    fields: tuple[str, ...] | None = None,
    vehicle: Column | None = None,
    time: str | None = None,
    unit: str | None = None,
) -> Layout:
    """Creates the named layout, with units to read it.

    Args:
        columns: Column of each field, or for vehicle `{file}`; several are an id's parts, date and clock, or degrees.
            Of a fixed layout, those of keys and value.
        fields: For rows other than positions: first an id, last a number. headed: Positions have headings.
        unit: Unit of a value other than speeds; speed_unit is its input's.

    Raises:
        ValueError: Names the argument, rule and value.

    >>> import pyarrow as pa
    >>> fields = {"user": "id", "report": "value"}
    >>> layout("csv", fields, fields=("user", "report")).units.numbers(pa.array(["1.5", "x"])).valid.tolist()
    [True, False]
    """
    options = dict[str, object](delimiter=delimiter, header=header, records=records)
    speed_unit = speed_unit or _unit_of(name, (columns or {}).get(NAME), unit)
    are_reports = fields is None or fields[:2] == base.FIELDS[:2]
    if name in FIXED and are_reports:
        is_choice = columns and set(columns) <= {*_KEYS} - ({NAME} if unit is None else set())  # others are refused
        refused = {"columns": None if is_choice else columns, "time_format": time_format, "decimal": decimal}
        chosen = {**(columns if columns and is_choice else {}), "vehicle": vehicle, "time": time}
        fixed = _with_choices(name, headed, fields, chosen, refused | options)
        return cast(Layout, replace(fixed, units=_units(time_unit, speed_unit, time_zone, None, unit, fixed.units)))
    names = [*(FIXED if are_reports else ()), *MAPPED]
    if name not in names:
        raise ValueError(f"layout: must be one of {', '.join(names)}, got {name!r}{did_you_mean(name, names)}")
    for option, value in {"vehicle": vehicle, "time": time}.items():
        if value is not None:
            raise ValueError(f"{option}: goes with a layout with columns of its own, here write columns.{option}")
    if speed_unit is not None and not with_value:
        raise ValueError(f"speed_unit: goes with a column of speeds, got {speed_unit!r}")
    kind, kind_options = MAPPED[name], _own_options(name, options)
    units = replace(_units(time_unit, speed_unit, time_zone, time_format, unit), decimal=_mark(decimal or "."))
    of_reports = (base.with_heading(base.FIELDS) if headed else base.FIELDS)[: None if with_value else -1]
    names_of, row_fields = _flat_columns(name, columns, of_reports if fields is None else fields)
    is_by_file = fields is None and names_of[0] == FILE
    mapped_layout = kind(units, names_of[is_by_file:], row_fields[is_by_file:], **kind_options)
    mapped_layout.check()
    return ByFile(mapped_layout) if is_by_file else mapped_layout


def _mark(decimal: str) -> DecimalMark:
    if decimal not in (marks := get_args(DecimalMark)):
        raise ValueError(f"decimal: must be {' or '.join(map(repr, marks))}, got {decimal[:20]!r}")
    return cast(DecimalMark, decimal)


def _own_options(name: str, options: Mapping[str, object]) -> dict[str, Any]:
    """Picks a mapped layout's options. Raises ValueError for others."""
    values = {option: value for option, value in options.items() if value is not None}
    for option, value in values.items():
        if option not in MAPPED[name].OPTIONS:
            owner = next(layout for layout in MAPPED if option in MAPPED[layout].OPTIONS)
            raise ValueError(f"{option}: goes with layout {owner!r} only, got {value!r}")
    return values


def _unit_of(name: str, column: Column | None, unit: str | None) -> str | None:
    """Returns a value column's unit, None for speeds."""
    if column is None or (unit is None and isinstance(column, str)):
        return None
    units_of, own_unit = FIXED[name].units_of if name in FIXED else {}, unit or UNIT
    column_unit = units_of.get(column, own_unit) if isinstance(column, str) else "s"
    if column_unit not in per_unit(own_unit):
        rule = f"value.unit must be {', '.join(per_unit(column_unit))}, got {own_unit}"
        raise ValueError(f"{column!r} is in {column_unit}: {rule}")
    return column_unit


def _with_choices(
    name: str,
    headed: bool,
    fields: tuple[str, ...] | None,
    values: Mapping[str, Column | None],
    closed: Mapping[str, object],
) -> Any:
    """Selects a fixed layout's optional columns, refusing `closed` options."""
    for field, option in closed.items():
        if option is not None:
            raise ValueError(f"{field}: layout {name!r} has its own columns, got {option!r}")
    fixed = FIXED[name]
    layout: Any = fixed.layout
    if headed and fixed.heading is None:
        raise ValueError(
            f"layout {name!r} has no heading, which places with the property directed need: or input.derived_heading"
        )
    columns: dict[str, Column] = dict(zip(layout.fields, layout.columns, strict=True))
    columns |= {base.HEADING: fixed.heading} if fixed.heading else {}
    if fields is None and not fixed.has_positions:
        raise ValueError(f"layout {name!r} has no positions: name a key of its rows as places.column")
    fields = fields or (base.with_heading(layout.fields) if headed else layout.fields)
    is_table = isinstance(layout, base.MappedLayout)
    for option, value in values.items():
        choices = fixed.choices.get(option, ())
        names = () if value is None else _listed(value)
        if option == NAME and value == columns[NAME] and value not in fixed.units_of:
            raise ValueError(f"columns: {value!r} of layout {name!r} is a speed: write [speed] in place of [value]")
        for chosen in () if is_table and option in _KEYS else names:
            if chosen not in choices:
                rule = f"must be of {', '.join(choices)}" if choices else "has no other one"
                raise ValueError(f"{_KEYS.get(option, option)}: with layout {name!r} {rule}, got {chosen[:60]!r}")
        if names:
            columns[option] = names[0] if len(names) == 1 else names
    named, parted = _flat_columns(name, {it: columns[it] for it in fields if it in columns}, fields)
    return replace(layout, columns=named, fields=parted) if named != layout.columns else layout


def message_layout(name: str, layout: Layout) -> MessageLayout:
    """Checks that a layout reads messages. Raises ValueError."""
    if isinstance(layout, MessageLayout):
        return layout
    layouts = {own_name: FIXED[own_name].layout for own_name in FIXED} | {**MAPPED}
    able = [other_name for other_name, kind in layouts.items() if hasattr(kind, "from_messages")]
    raise ValueError(f"layout: messages must be one of {', '.join(able)}, got {name!r}")


def _units(
    given_time_unit: str | None,
    given_speed_unit: str | None,
    time_zone: str | None,
    time_format: str | None,
    unit: str | None,
    default_units: Units | None = None,
) -> Units:
    """Creates units from options, by default the layout's."""
    per_speed_unit, of_value = per_unit(unit or UNIT), "speed_unit" if unit is None else "value_unit"
    time_unit = given_time_unit or ("iso" if default_units is None else default_units.time_unit)
    speed_unit = given_speed_unit or unit or UNIT
    for field, name, names in (("time_unit", time_unit, _TIME_UNITS), (of_value, speed_unit, per_speed_unit)):
        if name not in names:
            rule = f"must be one of {', '.join(names)}, got {name!r}{did_you_mean(name, names)}"
            raise ValueError(f"{field}: {rule}")
    if time_zone is not None:
        if time_unit not in ("iso", "excel"):
            raise ValueError(f"time_zone: goes with time_unit 'iso' or 'excel', got {time_unit!r}")
        try:
            ZoneInfo(time_zone)
        except (KeyError, ValueError, OSError):
            hint = did_you_mean(time_zone, available_timezones())
            raise ValueError(f"time_zone: must be a name like America/Chicago, got {time_zone[:60]!r}{hint}") from None
    if time_format is not None and given_time_unit is not None:
        raise ValueError(f"time_unit: goes without time_format, got {given_time_unit!r}")
    form = None if time_format is None else TimeFormat.of(time_format)
    if default_units is not None:
        factor = default_units.value_per_unit if given_speed_unit is None else per_speed_unit[speed_unit]
        return replace(default_units, time_unit=_TIME_UNITS[time_unit], value_per_unit=factor, zone=time_zone)
    return Units(_TIME_UNITS[time_unit], per_speed_unit[speed_unit], time_zone, form)


def _listed(column: Column) -> tuple[str, ...]:
    return (column,) if isinstance(column, str) else tuple(column)


def _flat_columns(
    name: str, columns: Mapping[str, Column] | None, fields: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Checks and flattens fields' columns, numbering a field's further ones; see `LISTED`.

    >>> _flat_columns("csv", {"vehicle": ("oper", "veh"), "time": "tst"}, ("vehicle", "time"))
    (('oper', 'veh', 'tst'), ('vehicle', 'vehicle.1', 'time'))
    """
    if columns is None or set(columns) != set(fields):
        column_text = ", ".join(sorted(columns or ())) or "none"
        why = "" if (base.HEADING in fields) == (base.HEADING in (columns or ())) else _ABOUT_HEADINGS
        raise ValueError(f"columns: layout {name!r} needs exactly {', '.join(fields)}, got {column_text}{why}")
    is_span = len(_listed(columns.get(NAME, ""))) > 1  # a row's time may also begin or end its value
    every = [column for field in fields if field != NAME or not is_span for column in _listed(columns[field])]
    for field in fields:
        listed = _listed(columns[field])
        if not listed or not all(listed):
            raise ValueError(f"columns.{field}: must name a column of the input, got {columns[field]!r}")
        if len(listed) > 1 and (field not in (*base.LISTED, NAME) or len(listed) > (2 if field != "vehicle" else 4)):
            raise ValueError(f"columns.{field}: takes fewer columns than these {len(listed)}")
        for column in listed:
            if every.count(column) > 1:
                raise ValueError(f"columns.{field}: needs a column of its own, {column!r} is given twice")
        if len(listed) > 1 and FILE in listed:
            raise ValueError(f"columns.{field}: {FILE!r} stands alone")
    flat = {
        f"{field}.{number}" if number else field: column
        for field in fields
        for number, column in enumerate(_listed(columns[field]))
    }
    return tuple(flat.values()), tuple(flat)
