"""The fields of a specification as its own tables define them: what the JSON Schema and the reference are made of."""

from collections.abc import Iterator
from dataclasses import MISSING, dataclass
from dataclasses import fields as dataclass_fields
from datetime import date
from fractions import Fraction
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from dpops import statistics as registry
from dpops.accountant import Limit
from dpops.registry import registered
from pipelines.specification.classes import STATISTIC, ClassOptions
from pipelines.specification.document import document_type
from pipelines.specification.levels_tables import Options
from pipelines.specification.type_parts import metas_of, parts_of, struct_of, values_of
from transforms.recorded.units import VECTOR

NOT_WRITTEN = ("prior", "statistic")
"""Fields of mechanisms that come from elsewhere in the specification."""

_TEXTS = {str: "text", bool: "true or false", int: "whole number", Fraction: "number", date: "date"}
_JSON = {str: "string", bool: "boolean", int: "integer", Fraction: "number"}


@dataclass(frozen=True)
class Key:
    """One key: its type, whether it must be there, and else its default as TOML writes it ("" for none)."""

    name: str
    kind: Any
    required: bool
    default: str

    @property
    def text(self) -> str:
        return next((part.description or "" for part in metas_of(self.kind)), "")

    @property
    def type_text(self) -> str:
        values = values_of(self.kind)
        return " or ".join(f'"{value}"' for value in values) if values else type_text(self.kind)


@dataclass(frozen=True)
class Variant:
    """What a [[statistic]] may hold with one mechanism."""

    mechanism: str
    statistics: tuple[str, ...]
    adjacencies: tuple[str, ...]
    options: tuple[Key, ...]


def fields_of(table: type[msgspec.Struct]) -> list[Key]:
    hints = get_type_hints(table, include_extras=True)
    return [Key(field.name, hints[field.name], field.required, _default(field)) for field in _struct_fields(table)]


def _struct_fields(table: type[msgspec.Struct]) -> Iterator[msgspec.structs.FieldInfo]:
    yield from msgspec.structs.fields(table)


def tables() -> Iterator[tuple[str, type[msgspec.Struct], bool]]:
    """Every table by the name that TOML gives it, and whether it must be there."""
    yield from _inner("", document_type())


def _inner(where: str, table: type[msgspec.Struct]) -> Iterator[tuple[str, type[msgspec.Struct], bool]]:
    for field in fields_of(table):
        struct = struct_of(field.kind)
        if struct is not None:
            name = f"{where}.{field.name}" if where else field.name
            yield name, struct, field.required
            yield from _inner(name, struct)


def variants() -> list[Variant]:
    """The mechanisms with their options."""
    kinds = [
        Variant(
            name,
            tuple(statistic for statistic in registry.registered() if statistic in cls.statistics),
            tuple(sorted(cls.adjacencies)),
            tuple(_options(cls)),
        )
        for name, cls in registered().items()
    ]
    levels = Variant(VECTOR, ("mean",), ("add-remove", "counts-public"), tuple(fields_of(Options)))
    classes = Variant(VECTOR, (STATISTIC,), ("add-remove",), tuple(fields_of(ClassOptions)))
    return sorted([*kinds, levels, classes], key=lambda variant: variant.mechanism)


def _options(cls: type) -> Iterator[Key]:
    hints = get_type_hints(cls, include_extras=True)
    for field in dataclass_fields(cls):
        if field.name not in NOT_WRITTEN:
            yield Key(field.name, hints[field.name], field.default is MISSING, _shown(field.default))


def _default(field: msgspec.structs.FieldInfo) -> str:
    return "" if field.default is msgspec.NODEFAULT else _shown(field.default)


def _shown(value: Any) -> str:
    if value is None or value is MISSING:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else f"{float(value):g}"


# --- types --------------------------------------------------------------------------------------------------------


def type_text(kind: Any) -> str:
    """A type in words."""
    if kind is Limit or kind == Limit:
        return "number, or { epsilon, delta }"
    if kind in _TEXTS:
        return _TEXTS[kind]
    if struct_of(kind) is not None and not parts_of(kind):
        return "table"
    if get_origin(kind) is Literal:
        return " or ".join(f'"{value}"' for value in get_args(kind))
    inner = [type_text(part) for part in get_args(kind) if part is not Ellipsis]
    if get_origin(kind) is dict:
        return f"table of {inner[1]}s"
    if get_origin(kind) is tuple:
        return f"{len(inner)} {inner[0]}s"
    if get_origin(kind) is list:
        return "tables" if inner[0].startswith("table") else f"list of {inner[0]}s"
    return " or ".join(type_text(part) for part in parts_of(kind))


def json_type(kind: Any) -> dict[str, Any]:
    """A type as JSON Schema says it."""
    if kind is Limit or kind == Limit:
        return {"anyOf": [{"type": "number"}, _LIMIT]}
    if kind in _JSON:
        return {"type": _JSON[kind]}
    if kind is date:
        return {"type": "string", "format": "date"}
    if get_origin(kind) is Annotated:
        return _annotated(kind)
    if get_origin(kind) is Literal:
        return {"enum": list(get_args(kind))}
    if (struct := struct_of(kind)) is not None:
        return table_type(struct)
    return _container(kind)


_LIMIT = {
    "type": "object",
    "properties": {name: {"type": "number"} for name in ("epsilon", "delta", "pure")},
    "required": ["epsilon", "delta"],
    "additionalProperties": False,
}


def _container(kind: Any) -> dict[str, Any]:
    inner = [json_type(part) for part in get_args(kind) if part not in (Ellipsis, type(None), Any)]
    if get_origin(kind) is dict:
        return {"type": "object", "additionalProperties": inner[1] if len(inner) > 1 else True}
    if get_origin(kind) is list:
        return {"type": "array", "items": inner[0]}
    if get_origin(kind) is tuple:
        return {"type": "array", "prefixItems": inner, "minItems": len(inner), "maxItems": len(inner)}
    return inner[0] if len(inner) == 1 else {"anyOf": inner}


def _annotated(kind: Any) -> dict[str, Any]:
    described = json_type(get_args(kind)[0])
    for meta in get_args(kind)[1:]:
        if isinstance(meta, msgspec.Meta):
            told = {"description": meta.description, "minimum": meta.ge, "maximum": meta.le}
            described |= {name: value for name, value in told.items() if value is not None}
            described |= meta.extra_json_schema or {}
    return described


def table_type(table: type[msgspec.Struct]) -> dict[str, Any]:
    """A table as JSON Schema says it: an unknown key is an error."""
    fields = fields_of(table)
    return {
        "type": "object",
        "description": (table.__doc__ or "").strip(),
        "properties": {field.name: json_type(field.kind) for field in fields},
        "required": [field.name for field in fields if field.required],
        "additionalProperties": False,
    }
