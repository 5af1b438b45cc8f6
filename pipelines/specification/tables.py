"""Types of TOML: numbers, limits, tables of options, their schema, and hints."""

import inspect
import types
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from decimal import Decimal
from difflib import get_close_matches
from fractions import Fraction
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from dpops.accountant import Accountant, DeltaLimit, Limit, PureLimit
from dpops.levels.defaults import Fleet, Profile
from dpops.levels.stages import EXPONENT
from pipelines.errors import shortened
from transforms.errors import did_you_mean
from transforms.places.ground import BETWEEN, Keys

SHARE = Fraction(3, 10)  # of a total, for places
EXPONENTS = {"reports": Fraction(1), "vehicles": Fraction(0)}  # by target: a vehicle with n reports weighs n^exponent


class ProfileTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Public rough numbers of what one vehicle touches on a day."""

    hats: Annotated[int, "HATs"] = Profile.hats
    cells: Annotated[int, "cells"] = Profile.cells
    parents: Annotated[int, "cells one resolution coarser"] = Profile.parents
    grandparents: Annotated[int, "cells two resolutions coarser"] = Profile.grandparents
    hours: Annotated[int, "hours of the day"] = Profile.hours
    parts: Annotated[int, "parts of four hours"] = Profile.parts
    reports: Annotated[int | None, "its reports in one HAT; then those of a brief visit weigh less"] = None


class PublisherTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Publisher's contacts and duties, for report and portal; no part of the spec_id."""

    controller: Annotated[str, "who decides on the processing of the vehicles' data"] = ""
    contact: Annotated[str, "an email or an address of theirs, for the portal"] = ""
    legal_ground: Annotated[str, "on which it rests"] = ""
    also_published: Annotated[
        str, "what else is public of these vehicles, such as a GTFS-realtime feed: it adds up with a release"
    ] = ""


class FleetTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """With mechanism levels: public facts of the fleet, from timetables or registers, never counted."""

    vehicles: Annotated[int, "that drive on a day, roughly"] = Fleet.vehicles
    profile: ProfileTable = ProfileTable()


class LiveTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """With mechanism levels: live slots of a day that is not over."""

    share: Annotated[Fraction | None, "of the total, for all slots of a period as they end"] = None
    day_lateness_s: Annotated[
        int | None,
        "so long after a period's end a stream releases it whole, and until then counts late reports; where it is left "
        "out, a scheduled job does",
    ] = None


class CountOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of [[statistic]] for counts, in place of the mean."""

    of: Annotated[Literal["reports", "vehicles"], "what is counted under each key and in each slot"]
    bound: Annotated[
        int,
        "of one vehicle and period: its counts are scaled down where the root of the sum of their squares is more; "
        "noise grows with it. Public",
    ]


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of [[statistic]]; defaults follow from the total and the fleet."""

    levels: Annotated[dict[str, Fraction] | None, "share of the budget by level; adds up to 1"] = None
    first_levels: Annotated[dict[str, Fraction] | None, "the same of the first look at the first day"] = None
    first_share: Annotated[Fraction | None, "of the budget, for the first look"] = None
    bound_kmh: Annotated[
        tuple[Fraction, Fraction] | None, "clip of a vehicle's residual speeds: first day, later days"
    ] = None
    alpha: Annotated[
        tuple[Fraction, Fraction, Fraction] | None,
        "part of the budget for speeds: the first day's two looks, later days",
    ] = None
    target: Annotated[
        Literal["reports", "vehicles"] | None,
        "the mean of all reports, or that of vehicles' own means; left out: between the two",
    ] = None
    exponent: Annotated[
        Fraction | None,
        "of the number of reports that a HAT's weight grows with: `1` for target reports, `0` for vehicles, else "
        "`0.75`",
    ] = None

    @property
    def power(self) -> Fraction:
        """Exponent of a HAT's reports in a vehicle's weight: as written, or the target's."""
        if self.exponent is not None:
            return self.exponent
        return EXPONENT if self.target is None else EXPONENTS[self.target]


class PlacesTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """With mechanism levels under add-remove: a map of places smaller than cells.

    Places are H3 cells of a finer resolution, or those of a file; or, without [cells], keys of a column.
    """

    resolution: Annotated[int | None, "of H3, finer than cells.resolution: all such cells of the region"] = None
    file: Annotated[
        str | None,
        "instead: a GeoJSON FeatureCollection of lines and polygons with the property name; a line with the property "
        "directed is of those who drive in the order of its positions. Public",
    ] = None
    buffer_m: Annotated[Fraction | None, "with file: so near to a line is what belongs to it; 25 if left out"] = None
    visits: Annotated[
        str | None, "a public CSV of columns place and vehicles: how many come to each on a day; absent: hardly any"
    ] = None
    share: Annotated[Fraction, "of each period's total; hexagons and hours keep the rest"] = SHARE
    column: Annotated[
        str | None,
        "of the input: names a report's key; gtfs-..: route_id, trip_id, direction_id, stop_id, next_stop_id; siri-vm: "
        "LineRef, DirectionRef, StopPointRef, PreviousStopPointRef, DatedVehicleJourneyRef",
    ] = None
    keys: Annotated[str | list[str] | None, "of column: all that are released, or their file. Public"] = None
    within: Annotated[str | None, "a second column, such as next_stop_id"] = None
    keys_within: Annotated[
        str | list[str] | None, "its keys, all pairs are released; left out: keys are pairs, a|b"
    ] = None


def read_keys(table: PlacesTable, read: Callable[[str], str]) -> Keys:
    """Builds keys of `column`, or of its pairs with `within`. Raises ValueError."""
    names = [name for name in ("resolution", "file", "buffer_m", "visits") if getattr(table, name) is not None]
    if names or table.share != SHARE:  # other than the default
        raise ValueError(f"column goes without {names[0] if names else 'share'}: keys stand in the place of hexagons")
    if table.keys is None or (table.within is None and table.keys_within is not None):
        raise ValueError("column needs keys, and keys_within needs within")

    def listed(keys: str | list[str]) -> list[str]:
        return keys if isinstance(keys, list) else [line.strip() for line in read(keys).splitlines() if line.strip()]

    keys, are_pairs = listed(table.keys), table.within is not None and table.keys_within is None
    if are_pairs and (single := next((key for key in keys if key.count(BETWEEN) != 1), None)):
        raise ValueError(f"keys of column and within are pairs, a{BETWEEN}b, or name keys_within: {single[:60]!r}")
    return Keys.of(keys, inner=None if table.keys_within is None else listed(table.keys_within))


STATISTIC = "distribution"


class ClassOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of the [[statistic]] of distributions, as written."""

    share: Annotated[Fraction, "of each period's total; the mean keeps the rest"] = Fraction(1, 5)
    classes: Annotated[int, "of speeds, 6 to 10: standing, and others of equal width up to the upper bound"] = 8


Schema = dict[str, Any]

_JSON_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", Fraction: "number"}
_LIMIT_SCHEMA = {
    "title": "{ epsilon, delta }",
    "type": "object",
    "properties": {name: {"type": "number"} for name in ("epsilon", "delta", "pure")},
    "required": ["epsilon", "delta"],
    "additionalProperties": False,
}


def table_type(table: type, without: tuple[str, ...] = ()) -> Schema:
    """Describes a msgspec.Struct or dataclass that forbids unknown keys. without: excluded fields."""
    kind: Any = msgspec.inspect.type_info(table)
    hints = get_type_hints(table, include_extras=True)
    fields = [field for field in kind.fields if field.name not in without]
    properties = {field.name: json_type(hints[field.name]) for field in fields}
    for field in fields:
        default = float(field.default) if isinstance(field.default, Fraction) else field.default
        if isinstance(default, str | int | float):
            properties[field.name] |= {"default": default}
    return {
        "type": "object",
        "description": inspect.getdoc(table) or "",
        "properties": properties,
        "required": [field.name for field in fields if field.required],
        "additionalProperties": False,
    }


def json_type(kind: Any) -> Schema:
    """Describes a field's type as JSON Schema; None is left out of unions."""
    if kind in _JSON_TYPES:
        return {"type": _JSON_TYPES[kind]}
    if kind is date:
        return {"type": "string", "format": "date"}
    if kind is Limit:
        return {"anyOf": [{"type": "number"}, _LIMIT_SCHEMA]}
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return table_type(kind)
    origin, members = get_origin(kind), [member for member in get_args(kind) if member not in (Ellipsis, type(None))]
    if origin is Annotated:
        kind, text, *allowed = members  # allowed: at most one collection of texts, narrower than the type
        return json_type(kind) | {"description": text} | ({"enum": list(allowed[0])} if allowed else {})
    if origin is Literal:
        return {"enum": members}
    inner = [{} if member is Any else json_type(member) for member in members]
    if origin is dict:
        return {"type": "object", "additionalProperties": inner[1] or True}  # True: values of any type
    if origin is list:
        return {"type": "array", "items": inner[0]}
    if origin is tuple:
        return {"type": "array", "prefixItems": inner, "minItems": len(inner), "maxItems": len(inner)}
    if origin not in (Union, types.UnionType):
        raise TypeError(f"no specification has values of type {kind}")
    return inner[0] if len(inner) == 1 else {"anyOf": inner}


def values_of(schema: Schema) -> list[str]:
    """Lists the allowed texts; empty if any is allowed."""
    values: list[str] = schema.get("enum", [])
    return values or [value for variant in schema.get("anyOf", ()) for value in values_of(variant)]


def fraction_from_toml(value: object) -> Fraction:
    """Reads a number as written: 0.1 is one tenth. Raises ValueError for others."""
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        if isinstance(value, Decimal) and not value.is_finite():
            raise ValueError(f"expected a finite number, got {value}")
        if value and abs(Decimal(value).adjusted()) > 30:  # the digits of 1e999999999 would fill memory
            raise ValueError(f"expected a number between 1e-30 and 1e30, got {shortened(str(value))}")
        return Fraction(value)
    raise ValueError(f"expected a number, got {value!r}")


def limit_from_toml(value: Any) -> Limit:
    """Reads an account's limit: an epsilon, or epsilon and delta. Raises ValueError.

    Of the latter, `pure` is the part of epsilon set apart for releases without delta; None if left out.
    """
    if isinstance(value, int | Decimal):
        return PureLimit(fraction_from_toml(value))
    if not isinstance(value, dict) or not {"epsilon", "delta"} <= value.keys() <= {"epsilon", "delta", "pure"}:
        raise ValueError("expected a number, or { epsilon = .., delta = .. }, which may have pure = .. too")
    numbers = {name: fraction_from_toml(number) for name, number in value.items()}
    return DeltaLimit(numbers["epsilon"], numbers["delta"], numbers.get("pure"))


def not_added_up(limit: Limit, spent: Accountant) -> str:
    """Explains why a limit cannot add up spending under another noise; else ""."""
    refusing = next((span.limit for span in limit.spans if not span.limit.can_add(spent)), None)
    if refusing is None:
        return ""
    if isinstance(refusing, PureLimit):
        return (
            "the account has a limit without delta, so it allows no Gaussian noise, however little is asked for: leave "
            "out privacy.delta, or take an account of which every limit has a delta"
        )
    return (
        "the account adds up Gaussian noise alone (account.accounting = 'gdp'), and what is released has none, or "
        "other: give privacy.delta, which goes with mechanism 'levels', or take an account that sets a part of its "
        "limits apart for pure claims ({ epsilon = .., delta = .., pure = .. })"
    )


def hints(data: Any, schema: Schema, tables: Mapping[str, Schema], path: str = "") -> Iterator[str]:
    """Yields suggestions for unknown keys and values, in their order in `data`.

    tables: schemas of the document's tables, by name. path: keys down to `data`, with dots.
    """
    if isinstance(data, str):
        if (values := values_of(schema)) and data not in values:
            yield did_you_mean(data, values) or f"; {path} may be {', '.join(map(repr, values))}"
    elif isinstance(data, list):
        for item in data:
            yield from hints(item, schema.get("items", {}), tables, path)
    elif isinstance(data, Mapping) and (properties := schema.get("properties")):
        for key in (key for key in data if key not in properties):
            others = (name for name, table in tables.items() if name != path and key in table.get("properties", ()))
            names = get_close_matches(key, tables, 1)
            if near := did_you_mean(key, properties):
                yield near
            elif (owner := next(others, None)) is not None:
                yield f"; it belongs to [{owner}]"
            elif names and not path:
                yield f"; did you mean [{names[0]}]?"
        for key, inner in properties.items():
            if key in data:
                yield from hints(data[key], inner, tables, f"{path}.{key}" if path else key)
