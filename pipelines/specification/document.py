"""Specification as written: a strict TOML file of tables."""

import re
import sys
import tomllib
from collections.abc import Callable, Mapping
from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

import msgspec

from dpops.accountant import Limit
from dpops.claims import Accounting
from dpops.types import Per, Scope
from pipelines.errors import SpecificationError, shortened
from pipelines.specification import tables as toml
from pipelines.specification.tables import FleetTable, LiveTable, PlacesTable, PublisherTable
from transforms.atomic_files import read_text
from transforms.layouts import FIXED, MAPPED
from transforms.layouts.columns import DecimalMark, TimeUnit
from transforms.layouts.mapped.csv import DELIMITERS
from transforms.observe.vehicle_ids import VehicleForm
from transforms.releases.periods.products import ProductName
from transforms.time.calendar import Unit, Weekday
from transforms.value import PER_UNIT, SECONDS

Table = TypeVar("Table", bound=msgspec.Struct)
SPEC_BYTES = 1 << 20  # of a specification, at most
_READ_BY_TYPE: dict[Any, Any] = {Fraction: toml.fraction_from_toml, Limit: toml.limit_from_toml}  # msgspec reads others
_KEY_PREFIX = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+"""  # of a dotted key: a word or a text, and its dot
_DEEP_KEY = re.compile(rf"(?<![\w.-])(?:{_KEY_PREFIX}){{64}}")  # a key of more than 64 parts


class SpanTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The most that a vehicle may spend in a span of consecutive local days."""

    days: Annotated[int, "length of the span; 1 is a day by itself"]
    epsilon: Annotated[Fraction, "total of all days of the span"]
    delta: Annotated[Fraction | None, "with it noise may be Gaussian, added up as accounting says"] = None
    pure: Annotated[Fraction | None, "with delta: the part of epsilon that pure claims are added up in"] = None


class AccountTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Budget shared by releases, written to the ledger once; only its limit may fall."""

    name: Annotated[str, "of the account; several specifications may share it"]
    unit: Annotated[Unit, "what is protected: all that a vehicle does in a local day, a week from Monday, or ever"]
    timezone: Annotated[str, "of days, weeks and slots, such as America/Chicago"]
    adjacency: Annotated[
        Literal["counts-public", "add-remove"],
        "what is hidden: with counts-public a vehicle's speeds; with add-remove that it drove at all",
    ]
    limit: Annotated[
        Limit | None, "most epsilon that a vehicle may spend in a period, over all releases on the account"
    ] = None
    limits: Annotated[
        list[SpanTable],
        "instead of limit, with unit vehicle-day: limits of spans of days that all hold, each length once",
    ] = []
    accounting: Annotated[
        Accounting,
        "of Gaussian noise under limits with delta: zcdp in rho, or gdp in mu^2, with 5 to 7 % less noise at totals of "
        "1 to 10; pure claims then fit only in what pure sets apart",
    ] = "zcdp"
    since: Annotated[date | None, "first day of an account of unit vehicle-ever"] = None
    until: Annotated[date | None, "day after the last, with unit vehicle-ever"] = None


class SlotTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Timeslots."""

    minutes: Annotated[int, "length; divides a day"]
    service: Annotated[
        str, "the local hours that are released, several with commas, 26:00 for the next day's 02:00; public"
    ] = "00:00-24:00"
    weekdays: Annotated[list[Weekday] | None, "the local days that are released; all seven if left out; public"] = None
    trips: Annotated[
        str | None,
        "a public CSV of columns cell, weekdays, hours with a trip and how many trips, as `spec new --gtfs` writes it: "
        "other HATs have no row, and `levels` begin with these numbers; no part of the spec_id",
    ] = None
    allowed_lateness_s: Annotated[int, "how long a stream waits for reports after a slot's end, in seconds"] = 0


class CellsTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """H3 hexagons, or [places] with a column."""

    resolution: Annotated[int, "of H3, 0 to 15; an edge of 7 is about 1.4 km, of 8 about 0.5 km"]
    region: Annotated[
        str | list[str],
        "released cells: a GeoJSON file, a list, or occupied where counts are public; never from protected reports",
    ]
    region_source: Annotated[
        Literal["timetable", "sample"] | None,
        "origin of the region; init refuses sample under add-remove without --region-is-public; no part of the spec_id",
    ] = None
    bbox: Annotated[
        tuple[Fraction, Fraction, Fraction, Fraction] | None,
        "west, south, east, north in degrees; positions outside are refused",
    ] = None


class PriorTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Public prior of speeds for plans and mechanism auto; it only selects mechanisms."""

    mean_kmh: Annotated[Fraction, "usual mean of a HAT"]
    sd_kmh: Annotated[Fraction, "standard deviation of single reports"]
    between: Annotated[Fraction, "share of the variance that lies between vehicles, 0 to 1"] = Fraction(0)


class SpeedTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Speeds."""

    upper_kmh: Annotated[Fraction, "speeds are clamped into [0, upper_kmh]; public, not the fastest report"]
    grid_kmh: Annotated[Fraction, "speeds are rounded to multiples of it"] = Fraction(1, 100)
    prior: PriorTable | None = None


class ValueTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """In place of [speed]: any reported number, with public bounds."""

    name: Annotated[
        str, "its column, or key in input.columns; gtfs-..: delay; occupancy_status, 0 to 5, occupancy_percentage"
    ]
    unit: Annotated[str, "such as min"]
    lower: Annotated[Fraction, "what is less counts as this"]
    upper: Annotated[Fraction, "what is more counts as this; half as wide bounds halve the noise"]


class FirstDaysTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """With span_days: what an account begins with. What its first days teach stays."""

    since: Annotated[date, "the first of them, released or not"]
    days: Annotated[int, "how many, in a row"]
    weight: Annotated[Fraction, "how many times its usual share each gets: 2.4 pays off"]


class PrivacyTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How much may be learned, and how it is divided."""

    epsilon: Annotated[Fraction, "of each HAT, or of a vehicle's whole period, as per says; taken as written"]
    per: Annotated[Per, "hat: epsilon for each HAT, and the account bounds the sum; period: the total, divided"]
    delta: Annotated[Fraction | None, "with mechanism levels: Gaussian noise; below 0.01"] = None
    span_days: Annotated[
        int | None,
        "with levels: epsilon is the total of any so many consecutive days, shared equally or by day_weights; one of "
        "the limits",
    ] = None
    day_weights: Annotated[
        dict[Weekday, Fraction] | None,
        "with span_days: shares of weekdays, 1 where not named: { sat = 2, sun = 2 }; no such days have more than "
        "epsilon",
    ] = None
    first_days: FirstDaysTable | None = None
    composition: Annotated[
        Literal["none", "clip-user", "cap"],
        "how a vehicle in many HATs is held down: not, by suppression, or by max_cells and max_samples",
    ] = "none"
    scope: Annotated[Scope, "what a plan sees at once; period is for scheduled jobs"] = "slot"
    release_shards: Annotated[int, "with composition cap: parts of a slot that are released apart"] = 1
    max_cells: Annotated[int | None, "with cap: most cells of a vehicle in a slot"] = None
    max_samples: Annotated[int | None, "with cap: most reports of a vehicle in a HAT"] = None


class DerivedSpeedTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Public limits of speeds derived from positions under add-remove; `columns` then has no speed."""

    max_gap_s: Annotated[int, "a position that follows later has no speed, in seconds; 1 to 3600"]
    max_kmh: Annotated[Fraction, "what would be faster is an error of a position, and has no speed"]


class DerivedHeadingTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Public limits of derived headings, for directed places; `columns` then has no heading."""

    max_gap_s: Annotated[int, "after a position that follows later nothing is known, in seconds; 1 to 3600"]
    min_m: Annotated[int, "what is nearer in metres is no way, but an error of a position; 1 to 1000"]


class InputTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The feed."""

    layout: Annotated[
        str, f"of the files; the first {len(FIXED)} have columns and units of their own", (*FIXED, *MAPPED)
    ]
    columns: Annotated[
        dict[str, str | list[str]] | None,
        "the input's names of vehicle, time, lat, lon and speed; dots lead into structs, numbers into arrays; a list: "
        "parts of an id, date and clock (to 47:59), degrees and N, S, E or W, two times between which a [value] lies "
        "in seconds; numbers from 1 on where CSV has no header; longitudes begin at -180 or 0; vehicle = '{file}' "
        "where each file is one's, named by it; heading, degrees from north, where places are directed",
    ] = None
    time_unit: Annotated[
        str | None, "numbers since 1970 UTC, or a spreadsheet's days; iso or the layout's", get_args(TimeUnit)
    ] = None
    speed_unit: Annotated[str | None, "km/h, or the layout's, if left out", tuple(PER_UNIT)] = None
    value_unit: Annotated[str | None, "of a [value] of time; its own or the layout's", tuple(SECONDS)] = None
    vehicle: Annotated[
        str | list[str] | None,
        "of these, in place of the first; gtfs-..: id, label, license_plate, entity; siri-vm: VehicleRef, OperatorRef, "
        "VehicleMonitoringRef; mds: device_id, vehicle_id, provider_id",
    ] = None
    time: Annotated[
        str | None,
        "likewise; gtfs-..: timestamp, header; siri-vm: RecordedAtTime, ResponseTimestamp, by which parked ones look "
        "fresh",
    ] = None
    no_value: Annotated[
        list[Fraction], "unknown values, such as -1; with counts-public, which rows have one is public"
    ] = []
    time_zone: Annotated[str | None, "of the clock of times without an offset"] = None
    delimiter: Annotated[str | None, "of CSV; a comma if left out; any blanks", tuple(DELIMITERS)] = None
    time_format: Annotated[
        str | None, "texts other than ISO 8601, as in strptime: %d.%m.%Y %I:%M:%S %p; %s: seconds after midnight"
    ] = None
    decimal: Annotated[str | None, "of numbers in texts; a point if left out", get_args(DecimalMark)] = None
    derived_speed: DerivedSpeedTable | None = None
    derived_heading: DerivedHeadingTable | None = None
    records: Annotated[
        str | None,
        "with json: path of the objects, such as entity; a[].b: in arrays; entity.*: any keys, whose column is '*'",
    ] = None
    header: Annotated[bool | None, "whether CSV's first line names the columns; true if left out"] = None
    vehicle_form: Annotated[
        VehicleForm, "spellings of one vehicle: with integer 0100, 100.0 and 100, with casefold BUS-1 and bus-1"
    ] = "text"


class OutputTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """With mechanism levels: a further product of each period, outside of the spec_id."""

    product: Annotated[
        Literal[ProductName, "cell-day"],
        "a row for each cell's day (days: always), cell in a part of it, parent or region in an hour, or place",
    ]
    parts: Annotated[
        list[str], "with cell-part and place-part: local times, such as 06:00-10:00; on slots, none overlap"
    ] = []


class Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One release. An unknown key is an error."""

    name: Annotated[str, "of the specification; no part of its identity"]
    account: AccountTable
    slot: SlotTable
    cells: CellsTable | None = None
    speed: SpeedTable | None = None
    value: ValueTable | None = None
    privacy: PrivacyTable
    statistic: Annotated[list[dict[str, Any]], "one table [[statistic]] for each statistic"]
    input: InputTable
    fleet: FleetTable | None = None
    live: LiveTable | None = None
    places: PlacesTable | None = None
    publisher: PublisherTable | None = None
    output: Annotated[list[OutputTable], "one table [[output]] for each coarser product"] = []


def read(path: Path) -> Document:
    """Reads a file and checks types. Raises SpecificationError."""
    return converted(toml_of(path, Decimal), Document, str(path))


def read_tables(tables: Mapping[str, Any]) -> Document:
    """Reads a document from a program's tables; 0.1 is one tenth. Raises SpecificationError."""
    return converted(_as_written(tables), Document, "specification")


def read_account(table: Mapping[str, Any]) -> AccountTable:
    """Reads a program's table [account]. Raises SpecificationError."""
    return converted(_as_written(table), AccountTable, "account")


def converted(data: Any, kind: type[Table], source: str) -> Table:
    """Reads a table from plain values. Raises SpecificationError with a hint."""
    try:
        return msgspec.convert(data, kind, dec_hook=lambda exact, value: _READ_BY_TYPE[exact](value))
    except msgspec.ValidationError as error:
        tables = toml.table_type(Document)["properties"]
        hint = next(toml.hints(data, toml.table_type(kind), tables), "")
        raise SpecificationError(f"{source}: {shortened(str(error))}{hint}") from None


def options_of(statistic: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a [[statistic]] table without the keys that all mechanisms have."""
    return {name: value for name, value in statistic.items() if name not in ("name", "mechanism", "weight")}


def _as_written(value: Any) -> Any:
    """Replaces floats by decimals of their shortest text, recursively: 0.1 is read as 1/10."""
    if isinstance(value, Mapping):
        return {str(key): _as_written(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_as_written(inner) for inner in value]
    return Decimal(repr(float(value))) if isinstance(value, float) else value


def toml_of(path: Path, parse_float: Callable[[str], object] = float) -> dict[str, Any]:
    """Reads a TOML file's tables. Raises SpecificationError if irregular, too large or invalid."""
    digits = sys.get_int_max_str_digits()
    try:
        text = read_text(path, SPEC_BYTES)
        if _DEEP_KEY.search(text):  # the decoder's memory grows with the square of a key's parts
            raise RecursionError
        document = tomllib.loads(text, parse_float=parse_float)
        unchecked: list[Any] = [document]
        while unchecked:  # hexadecimal numbers are read at any length, but messages could not show them
            item = unchecked.pop()
            if isinstance(item, int) and item.bit_length() > 3 * digits:  # a digit has over 3 bits
                raise ValueError
            unchecked += item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
        return document
    except OSError as error:
        raise SpecificationError(f"the specification cannot be read: {error.strerror}: {path}") from None
    except tomllib.TOMLDecodeError as error:
        raise SpecificationError(f"{path} is not TOML: {shortened(str(error))}") from None
    except RecursionError:
        raise SpecificationError(f"{path} is nested too deeply") from None
    except ValueError:  # of a number that is too long for Python
        raise SpecificationError(f"{path} holds a number of more than {digits:,} digits") from None
