"""Input layouts, fixed or described by column maps.

A field is what a row needs (`base.FIELDS`), a column what a file calls it; field SPEED holds the value, of any kind.
Fixed layouts have columns and units of their own, mapped ones those of a specification. `per_unit` lists units that can
be converted to one, as multiples of it. `_OPTIONS`: by field, the option that chooses its column in a fixed layout.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from importlib import import_module
from typing import Any, Generic, TypeVar, cast, get_args
from zoneinfo import ZoneInfo, available_timezones

from transforms.errors import did_you_mean
from transforms.layouts import base
from transforms.layouts.base import Layout, MessageLayout, Units, UnreadableFile
from transforms.layouts.columns import DecimalMark, TimeUnit
from transforms.layouts.open_file import FILE, ByFile
from transforms.layouts.time_format import TimeFormat
from transforms.value import SPEED, UNIT, per_unit

__all__ = ["FIXED", "MAPPED", "Layout", "MessageLayout", "Units", "UnreadableFile", "layout", "message_layout"]

T = TypeVar("T")
Column = str | Sequence[str]  # the name of a column, or those of several that hold a field together


class _Registered(Mapping[str, T], Generic[T]):
    """Layouts by name, whose modules are imported on lookup: decoders load slowly."""

    def __init__(self, names_of: Mapping[str, Sequence[str]]) -> None:
        """Registers the names of each module's LAYOUTS."""
        self._modules = dict(sorted((name, module) for module, names in names_of.items() for name in names))

    def __getitem__(self, name: str) -> T:
        layout: T = import_module(f"transforms.layouts.{self._modules[name]}").LAYOUTS[name]
        return layout

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)


FIXED: Mapping[str, base.OwnLayout] = _Registered(
    {
        "own.gtfs_realtime": ("gtfs-realtime", "gtfs-trip-updates"),
        "own.siri_vm": ("siri-vm",),
        "own.tables": ("capmetro", "iudx", "mds", "tides", "tides-stop-visits"),
    }
)
MAPPED: Mapping[str, type[base.MappedLayout]] = _Registered(
    {"mapped.avro": ["avro"], "mapped.csv": ["csv"], "mapped.json": ["json", "jsonl"], "mapped.parquet": ["parquet"]}
)
_ABOUT_HEADINGS = (
    ": a heading goes with places that have the property directed, and they need one, or input.derived_heading"
)
_OPTIONS = {SPEED: "value.name", **dict(zip(base.KEY_FIELDS, ("places.column", "places.within"), strict=True))}
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
    """Creates the named layout, with units to read it. Raises ValueError.

    Args:
        columns: Column of each field, or for vehicle `{file}`; several are an id's parts, date and clock, or degrees.
            Of a fixed layout, those of the fields in `_OPTIONS` alone: keys in place of positions, and the value.
        speed_unit: Unit of the input's values, of whatever kind; unit: the specification's, None for speeds.
        vehicle, time: Columns in place of a fixed layout's own.
        fields: Of rows other than positions: first an id, last a number. headed, with_value: Rows have heading, value.

    >>> import pyarrow as pa
    >>> fields = {"user": "id", "report": "value"}
    >>> layout("csv", fields, fields=("user", "report")).units.numbers(pa.array(["1.5", "x"])).valid.tolist()
    [True, False]
    """
    options = dict[str, object](delimiter=delimiter, header=header, records=records)  # of CSV, or of JSON, alone
    speed_unit = speed_unit or _unit_of(name, (columns or {}).get(SPEED), unit)
    are_reports = fields is None or fields[:2] == base.FIELDS[:2]  # rows begin with vehicle and time
    if name in FIXED and are_reports:
        # `_OPTIONS` are keys and the value, which has a column to choose only if it is no speed.
        can_choose = columns and set(columns) <= {*_OPTIONS} - ({SPEED} if unit is None else set())
        refused = {"columns": None if can_choose else columns, "time_format": time_format, "decimal": decimal}
        chosen = {**(columns if columns and can_choose else {}), "vehicle": vehicle, "time": time}
        fixed = _with_choices(name, headed, fields, chosen, refused | options)
        units = _units(time_unit, speed_unit, time_zone, time_format, decimal, unit, fixed.units)
        return cast(Layout, replace(fixed, units=units))
    names = [*(FIXED if are_reports else ()), *MAPPED]
    if name not in names:
        raise ValueError(f"layout: must be one of {', '.join(names)}, got {name!r}{did_you_mean(name, names)}")
    for option, value in {"vehicle": vehicle, "time": time}.items():
        if value is not None:
            raise ValueError(f"{option}: goes with a layout with columns of its own, here write columns.{option}")
    if speed_unit is not None and not with_value:
        raise ValueError(f"speed_unit: goes with a column of speeds, got {speed_unit!r}")
    kind, kind_options = MAPPED[name], _own_options(name, options)
    units = _units(time_unit, speed_unit, time_zone, time_format, decimal, unit, defaults=Units("iso", Fraction(1)))
    defaults = (base.with_heading(base.FIELDS) if headed else base.FIELDS)[: None if with_value else -1]  # value last
    column_names, row_fields = _flat_columns(name, columns, defaults if fields is None else fields)
    skipped = int(fields is None and column_names[0] == FILE)  # 1: the vehicle, first of fields, is the file's name
    mapped_layout = kind(units, column_names[skipped:], row_fields[skipped:], **kind_options)
    mapped_layout.check()
    return ByFile(mapped_layout) if skipped else mapped_layout


def _own_options(name: str, options: Mapping[str, object]) -> dict[str, Any]:
    """Picks a mapped layout's options. Raises ValueError for others."""
    values = {option: value for option, value in options.items() if value is not None}
    for option, value in values.items():
        if option not in MAPPED[name].OPTIONS:
            owner = next(layout for layout in MAPPED if option in MAPPED[layout].OPTIONS)
            raise ValueError(f"{option}: goes with layout {owner!r} only, got {value!r}")
    return values


def _unit_of(name: str, column: Column | None, unit: str | None) -> str | None:
    """Returns the unit of a value's column in layout `name`; None for speeds.

    unit: the specification's, None for speeds. Raises ValueError if the column's cannot be converted to it.
    """
    if column is None or (unit is None and isinstance(column, str)):
        return None
    units_of, value_unit = FIXED[name].units_of if name in FIXED else {}, unit or UNIT  # units_of: by column
    # A pair of columns holds two times: their difference is in seconds.
    column_unit = units_of.get(column, value_unit) if isinstance(column, str) else "s"
    if column_unit not in per_unit(value_unit):
        rule = f"value.unit must be {', '.join(per_unit(column_unit))}, got {value_unit}"
        raise ValueError(f"{column!r} is in {column_unit}: {rule}")
    return column_unit


def _with_choices(
    name: str,
    headed: bool,
    fields: tuple[str, ...] | None,
    chosen: Mapping[str, Column | None],
    refused: Mapping[str, object],
) -> Any:
    """Returns the fixed layout `name` with the columns that a specification chooses.

    headed: whether rows need a heading. fields: of rows with a key in place of a position, else None. chosen: columns
    that the specification names, by field; None: the default. refused: other layouts' options; ValueError unless None.
    """
    for option, argument in refused.items():
        if argument is not None:
            raise ValueError(f"{option}: layout {name!r} has its own columns, got {argument!r}")
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
    is_table = isinstance(layout, base.MappedLayout)  # a table may have any further columns, a message type may not
    for field, column in chosen.items():
        choices = fixed.choices.get(field, ())  # columns that the field may have
        names = () if column is None else _listed(column)  # one, or several
        # `units_of` lists the layout's columns of values but speeds; outside it the default column holds a speed.
        if field == SPEED and column == columns[SPEED] and column not in fixed.units_of:
            raise ValueError(f"columns: {column!r} of layout {name!r} is a speed: write [speed] in place of [value]")
        is_free = is_table and field in _OPTIONS
        for column_name in () if is_free else names:
            if column_name not in choices:
                rule = f"must be of {', '.join(choices)}" if choices else "has no other one"
                raise ValueError(f"{_OPTIONS.get(field, field)}: with layout {name!r} {rule}, got {column_name[:60]!r}")
        if names:
            columns[field] = names[0] if len(names) == 1 else names
    flat_names, flat_fields = _flat_columns(name, {key: columns[key] for key in fields if key in columns}, fields)
    return replace(layout, columns=flat_names, fields=flat_fields)


def message_layout(name: str, layout: Layout) -> MessageLayout:
    """Checks that a layout reads messages. Raises ValueError that lists those that do."""
    if isinstance(layout, MessageLayout):
        return layout
    layouts = {fixed_name: fixed.layout for fixed_name, fixed in FIXED.items()} | {**MAPPED}
    able = [layout_name for layout_name, kind in layouts.items() if hasattr(kind, "from_messages")]
    raise ValueError(f"layout: messages must be one of {', '.join(able)}, got {name!r}")


def _units(
    given_time_unit: str | None,
    speed_unit: str | None,
    time_zone: str | None,
    time_format: str | None,
    decimal: str | None,
    unit: str | None,
    defaults: Units,
) -> Units:
    """Creates units from options and defaults. unit: of values, None: speeds. Raises ValueError."""
    time_unit, value_option = given_time_unit or defaults.time_unit, "speed_unit" if unit is None else "value_unit"
    factors, value_unit = per_unit(unit or UNIT), speed_unit or unit or UNIT  # UNIT: speeds'; value_unit: the input's
    for field, name, names in (("time_unit", time_unit, _TIME_UNITS), (value_option, value_unit, factors)):
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
    parsed_format = None if time_format is None else TimeFormat(time_format)
    mark = decimal or defaults.decimal
    if mark not in (marks := get_args(DecimalMark)):
        raise ValueError(f"decimal: must be {' or '.join(map(repr, marks))}, got {mark[:20]!r}")
    factor = defaults.value_per_unit if speed_unit is None else factors[speed_unit]
    return Units(_TIME_UNITS[time_unit], factor, time_zone, parsed_format, cast(DecimalMark, mark))


def _listed(column: Column) -> tuple[str, ...]:
    return (column,) if isinstance(column, str) else tuple(column)


def _flat_columns(
    name: str, columns: Mapping[str, Column] | None, fields: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Checks and flattens fields' columns to (columns, fields). Raises ValueError.

    Fields in `base.LISTED`, and a value that is the time between two columns, have several; further ones get numbers:

    >>> _flat_columns("csv", {"vehicle": ("oper", "veh"), "time": "tst"}, ("vehicle", "time"))
    (('oper', 'veh', 'tst'), ('vehicle', 'vehicle.1', 'time'))
    """
    if columns is None or set(columns) != set(fields):
        column_text = ", ".join(sorted(columns or ())) or "none"
        why = "" if (base.HEADING in fields) == (base.HEADING in (columns or ())) else _ABOUT_HEADINGS
        raise ValueError(f"columns: layout {name!r} needs exactly {', '.join(fields)}, got {column_text}{why}")
    # A column holds one field, but that of the row's time may be one of the two whose difference is the value.
    is_span = len(_listed(columns.get(SPEED, ""))) > 1
    exclusive = [column for field in fields if field != SPEED or not is_span for column in _listed(columns[field])]
    for field in fields:
        listed = _listed(columns[field])
        if not listed or not all(listed):
            raise ValueError(f"columns.{field}: must name a column of the input, got {columns[field]!r}")
        most_columns = 1 if field not in (*base.LISTED, SPEED) else 4 if field == "vehicle" else 2  # 4: parts of an id
        if len(listed) > most_columns:
            raise ValueError(f"columns.{field}: takes fewer columns than these {len(listed)}")
        for column in listed:
            if exclusive.count(column) > 1:
                raise ValueError(f"columns.{field}: needs a column of its own, {column!r} is given twice")
        if len(listed) > 1 and FILE in listed:  # the file's name identifies the vehicle by itself
            raise ValueError(f"columns.{field}: {FILE!r} stands alone")
    flat = {
        f"{field}.{number}" if number else field: column
        for field in fields
        for number, column in enumerate(_listed(columns[field]))
    }
    return tuple(flat.values()), tuple(flat)
