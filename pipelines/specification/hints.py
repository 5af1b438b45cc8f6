"""What a mistaken key or value of a specification was probably meant to be."""

import types
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from transforms.errors import did_you_mean


def hint(data: Any, kind: type[msgspec.Struct]) -> str:
    """For the end of a message: the first unknown key or value of `data` that resembles a known one, or nothing."""
    return next(_hints(data, kind, ""), "")


def _hints(data: Any, kind: Any, where: str) -> Iterator[str]:
    if isinstance(data, str):
        values = [value for value in _literals(kind) if isinstance(value, str)]
        if values and data not in values:
            yield from filter(None, [did_you_mean(data, values)])
        return
    if isinstance(data, list):
        for item in data:
            yield from _hints(item, _item(kind), where)
        return
    struct = _struct(kind)
    if struct is None or not isinstance(data, Mapping):
        return
    known = get_type_hints(struct, include_extras=True)
    for key in data:
        if key not in known:
            yield from filter(None, [did_you_mean(key, known) or _elsewhere(key, where)])
    for key, inner in known.items():
        if key in data:
            yield from _hints(data[key], inner, f"{where}.{key}" if where else key)


def _elsewhere(key: str, where: str) -> str:
    """A key that belongs to another table."""
    from pipelines.specification.document import Document

    for table, kind in get_type_hints(Document, include_extras=True).items():
        struct = _struct(kind)
        if struct is not None and table != where and key in struct.__struct_fields__:
            return f"; it belongs to [{table}]"
    names = get_close_matches(key, Document.__struct_fields__, 1)
    return f"; did you mean [{names[0]}]?" if names and not where else ""


def _struct(kind: Any) -> type[msgspec.Struct] | None:
    """The struct that a type is, or may be."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind
    return next((found for part in _parts(kind) if (found := _struct(part)) is not None), None)


def _item(kind: Any) -> Any:
    """The type of a list's items, where a type is a list or may be one."""
    if get_origin(kind) is list:
        return get_args(kind)[0]
    return next((found for part in _parts(kind) if (found := _item(part)) is not None), None)


def _literals(kind: Any) -> list[Any]:
    """All values that a type allows; none where it allows others too."""
    if get_origin(kind) is Literal:
        return list(get_args(kind))
    return [value for part in _parts(kind) for value in _literals(part)]


def _parts(kind: Any) -> tuple[Any, ...]:
    if get_origin(kind) is Annotated:
        return (get_args(kind)[0],)
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else ()
