"""The JSON Schema of the types of a specification's tables, of which its reference and its hints are made too."""

import dataclasses
import inspect
import types
from collections.abc import Iterator
from datetime import date
from fractions import Fraction
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from dpops.accountant import Limit

Schema = dict[str, Any]

_PLAIN = {str: "string", bool: "boolean", int: "integer", float: "number", Fraction: "number"}
_LIMIT = {
    "title": "{ epsilon, delta }",
    "type": "object",
    "properties": {name: {"type": "number"} for name in ("epsilon", "delta", "pure")},
    "required": ["epsilon", "delta"],
    "additionalProperties": False,
}


def about(text: str, *values: str) -> msgspec.Meta:
    """Describes a field for the reference and the JSON Schema. values: all that it may be, where its type does not
    say."""
    return msgspec.Meta(description=text, extra_json_schema={"enum": list(values)} if values else None)


def table_type(table: type, without: tuple[str, ...] = ()) -> Schema:
    """Describes a table, in which an unknown key is an error: a msgspec.Struct or a dataclass.

    without: fields that no specification writes.
    """
    fields = [field for field in _fields(table) if field[0] not in without]
    hints = get_type_hints(table, include_extras=True)
    return {
        "type": "object",
        "description": inspect.getdoc(table) or "",
        "properties": {name: json_type(hints[name]) | _default(default) for name, default in fields},
        "required": [name for name, default in fields if default is msgspec.NODEFAULT],
        "additionalProperties": False,
    }


def _fields(table: type) -> Iterator[tuple[str, Any]]:
    """Yields names with defaults: NODEFAULT where a field must be there, None where nothing stands for it."""
    if issubclass(table, msgspec.Struct):
        for field in msgspec.structs.fields(table):
            yield field.name, None if field.default_factory is not msgspec.NODEFAULT else field.default
        return
    for own in dataclasses.fields(table):  # type: ignore[arg-type]
        yield own.name, msgspec.NODEFAULT if own.default is dataclasses.MISSING else own.default


def _default(value: Any) -> Schema:
    if value is None or value is msgspec.NODEFAULT or isinstance(value, msgspec.Struct):
        return {}
    return {"default": float(value) if isinstance(value, Fraction) else value}


def json_type(kind: Any) -> Schema:
    """Describes any type; None, which no TOML holds, is left out."""
    if kind in _PLAIN:
        return {"type": _PLAIN[kind]}
    if kind is date:
        return {"type": "string", "format": "date"}
    if kind is Limit:
        return {"anyOf": [{"type": "number"}, _LIMIT]}
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return table_type(kind)
    origin, parts = get_origin(kind), [part for part in get_args(kind) if part not in (Ellipsis, type(None))]
    if origin is Annotated:
        return json_type(parts[0]) | _said(parts[1:])
    if origin is Literal:
        return {"enum": parts}
    inner = [{} if part is Any else json_type(part) for part in parts]
    if origin is dict:
        return {"type": "object", "additionalProperties": inner[1] or True}
    if origin is list:
        return {"type": "array", "items": inner[0]}
    if origin is tuple:
        return {"type": "array", "prefixItems": inner, "minItems": len(inner), "maxItems": len(inner)}
    if origin not in (Union, types.UnionType):
        raise TypeError(f"no specification has values of type {kind}")
    return inner[0] if len(inner) == 1 else {"anyOf": inner}


def _said(notes: list[Any]) -> Schema:
    """Collects what a type is annotated with."""
    said: Schema = {}
    for meta in notes:
        if isinstance(meta, msgspec.Meta):
            told = {"description": meta.description, "minimum": meta.ge, "maximum": meta.le}
            said |= {name: value for name, value in told.items() if value is not None}
            said |= meta.extra_json_schema or {}
    return said


def values_of(schema: Schema) -> list[str]:
    """Lists all texts that a value may be; none where it may be anything of its type."""
    own: list[str] = schema.get("enum", [])
    return own or [value for part in schema.get("anyOf", ()) for value in values_of(part)]
