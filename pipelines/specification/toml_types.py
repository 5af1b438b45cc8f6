"""TOML types in Python, their schema, and suggestions."""

import inspect
import types
from collections.abc import Iterator, Mapping
from datetime import date
from decimal import Decimal
from difflib import get_close_matches
from fractions import Fraction
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from dpops.accountant import Accountant, DeltaLimit, Limit, PureLimit
from pipelines.errors import shortened
from transforms.errors import did_you_mean

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


def from_toml(kind: type, value: object) -> Fraction:
    """Reads a number as written: 0.1 is one tenth. Raises ValueError for others."""
    if kind is Fraction and isinstance(value, int | Decimal) and not isinstance(value, bool):
        if isinstance(value, Decimal) and not value.is_finite():
            raise ValueError(f"expected a finite number, got {value}")
        if value and abs(Decimal(value).adjusted()) > 30:  # the digits of 1e999999999 would fill memory
            raise ValueError(f"expected a number between 1e-30 and 1e30, got {shortened(str(value))}")
        return Fraction(value)
    raise ValueError(f"expected a number, got {value!r}")


_LIMIT_KEYS = {"epsilon", "delta", "pure"}
_NO_GAUSSIAN_NOISE = (
    "the account has a limit without delta, so it allows no Gaussian noise, however little is asked for: leave out "
    "privacy.delta, or take an account of which every limit has a delta"
)
_OTHER_NOISE_ERROR = (
    "the account adds up Gaussian noise alone (account.accounting = 'gdp'), and what is released has none, or other: "
    "give privacy.delta, which goes with mechanism 'levels', or take an account that sets a part of its limits apart "
    "for pure claims ({ epsilon = .., delta = .., pure = .. })"
)


def limit_from_toml(value: Any) -> Limit:
    """Reads an account's limit: an epsilon, or epsilon and delta. Raises ValueError.

    Of the latter, `pure` is the part of epsilon set apart for releases without delta; None if left out.
    """
    if isinstance(value, int | Decimal):
        return PureLimit(from_toml(Fraction, value))
    if not isinstance(value, dict) or not {"epsilon", "delta"} <= value.keys() <= _LIMIT_KEYS:
        raise ValueError("expected a number, or { epsilon = .., delta = .. }, which may have pure = .. too")
    numbers = {name: from_toml(Fraction, number) for name, number in value.items()}
    return DeltaLimit(numbers["epsilon"], numbers["delta"], numbers.get("pure"))


def not_added_up(limit: Limit, spent: Accountant) -> str:
    """Explains why a limit cannot add up spending under another noise; else ""."""
    refusing = next((span.limit for span in limit.spans if not span.limit.can_add(spent)), None)
    if refusing is None:
        return ""
    return _NO_GAUSSIAN_NOISE if isinstance(refusing, PureLimit) else _OTHER_NOISE_ERROR


def hint(data: Any, kind: type[msgspec.Struct], document: type[msgspec.Struct]) -> str:
    """Suggests a close match for an unknown key or value.

    document: the whole specification, whose tables a key may belong to.
    """
    return next(_hints(data, table_type(kind), table_type(document)["properties"], path=""), "")


def _hints(data: Any, schema: Schema, tables: Mapping[str, Schema], path: str) -> Iterator[str]:
    """Yields suggestions for unknown keys and values, in their order in `data`.

    tables: schemas of the document's tables, by name. path: keys down to `data`, with dots.
    """
    if isinstance(data, str):
        if (values := values_of(schema)) and data not in values:
            yield did_you_mean(data, values) or f"; {path} may be {', '.join(map(repr, values))}"
    elif isinstance(data, list):
        for item in data:
            yield from _hints(item, schema.get("items", {}), tables, path)
    elif isinstance(data, Mapping) and (properties := schema.get("properties")):
        for key in (key for key in data if key not in properties):
            others = (name for name, table in tables.items() if name != path and key in table.get("properties", ()))
            names = get_close_matches(key, tables, 1)
            if near := did_you_mean(key, properties):
                yield near
            elif (other := next(others, None)) is not None:
                yield f"; it belongs to [{other}]"
            elif names and not path:
                yield f"; did you mean [{names[0]}]?"
        for key, inner in properties.items():
            if key in data:
                yield from _hints(data[key], inner, tables, f"{path}.{key}" if path else key)
