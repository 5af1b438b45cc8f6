"""What a mistaken key or value of a specification was probably meant to be."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, get_type_hints

import msgspec

from pipelines.specification.type_parts import item_of, struct_of, values_of
from transforms.errors import did_you_mean


def hint(data: Any, kind: type[msgspec.Struct], document: type[msgspec.Struct]) -> str:
    """Says at the end of a message which known key or value the first unknown one of `data` resembles, or nothing.

    document: the whole specification, whose tables a key may belong to.
    """
    return next(_hints(data, kind, document, ""), "")


def _hints(data: Any, kind: Any, document: type[msgspec.Struct], where: str) -> Iterator[str]:
    if isinstance(data, str):
        if (values := values_of(kind)) and data not in values:
            yield from filter(None, [did_you_mean(data, values)])
        return
    if isinstance(data, list):
        for item in data:
            yield from _hints(item, item_of(kind), document, where)
        return
    struct = struct_of(kind)
    if struct is None or not isinstance(data, Mapping):
        return
    hints = get_type_hints(struct, include_extras=True)
    for key in data:
        if key not in hints:
            yield from filter(None, [did_you_mean(key, hints) or _elsewhere(key, document, where)])
    for key, inner in hints.items():
        if key in data:
            yield from _hints(data[key], inner, document, f"{where}.{key}" if where else key)


def _elsewhere(key: str, document: type[msgspec.Struct], where: str) -> str:
    """Names the other table that a key belongs to."""
    for table, kind in get_type_hints(document, include_extras=True).items():
        struct = struct_of(kind)
        if struct is not None and table != where and key in struct.__struct_fields__:
            return f"; it belongs to [{table}]"
    names = get_close_matches(key, document.__struct_fields__, 1)
    return f"; did you mean [{names[0]}]?" if names and not where else ""
