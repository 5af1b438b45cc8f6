"""What the types of a specification's tables are made of: walked once, for its schema, its reference and its hints."""

import types
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from dpops.accountant import Limit


def struct_of(kind: Any) -> type[msgspec.Struct] | None:
    """The table that a type is, or may be."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind
    return next((struct for part in parts_of(kind) if (struct := struct_of(part)) is not None), None)


def item_of(kind: Any) -> Any:
    """The type of a list's items, where a type is a list or may be one."""
    if get_origin(kind) is list:
        return get_args(kind)[0]
    return next((item for part in parts_of(kind) if (item := item_of(part)) is not None), None)


def parts_of(kind: Any) -> tuple[Any, ...]:
    """The alternatives of a union without None, or the type that is annotated; of other types none."""
    if get_origin(kind) is Annotated:
        return (get_args(kind)[0],)
    if get_origin(kind) in (Union, types.UnionType) and kind is not Limit:
        return tuple(part for part in get_args(kind) if part is not type(None))
    return ()


def values_of(kind: Any) -> list[str]:
    """All texts that a value may be; none where it may be anything of its type."""
    if get_origin(kind) is Literal:
        return [str(value) for value in get_args(kind)]
    told = [value for meta in metas_of(kind) for value in (meta.extra_json_schema or {}).get("enum", [])]
    return told or [value for part in parts_of(kind) for value in values_of(part)]


def metas_of(kind: Any) -> list[msgspec.Meta]:
    """What a type, and the types that it is made of, are annotated with."""
    annotated = get_args(kind)[1:] if get_origin(kind) is Annotated else ()
    own = [part for part in annotated if isinstance(part, msgspec.Meta)]
    return own + [meta for part in parts_of(kind) for meta in metas_of(part)]
