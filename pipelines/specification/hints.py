"""What a mistaken key or value of a specification was probably meant to be."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

import msgspec

from pipelines.specification.types_schema import Schema, table_type, values_of
from transforms.errors import did_you_mean


def hint(data: Any, kind: type[msgspec.Struct], document: type[msgspec.Struct]) -> str:
    """Says at the end of a message what the first unknown key or value of `data` resembles, or which values there are.

    document: the whole specification, whose tables a key may belong to.
    """
    return next(_hints(data, table_type(kind), table_type(document)["properties"], ""), "")


def _hints(data: Any, schema: Schema, tables: Mapping[str, Schema], where: str) -> Iterator[str]:
    if isinstance(data, str):
        if (values := values_of(schema)) and data not in values:
            yield did_you_mean(data, values) or f"; {where} may be {', '.join(map(repr, values))}"
    elif isinstance(data, list):
        for item in data:
            yield from _hints(item, schema.get("items", {}), tables, where)
    elif isinstance(data, Mapping) and (properties := schema.get("properties")):
        for key in data:
            if key not in properties:
                yield from filter(None, [did_you_mean(key, properties) or _elsewhere(key, tables, where)])
        for key, inner in properties.items():
            if key in data:
                yield from _hints(data[key], inner, tables, f"{where}.{key}" if where else key)


def _elsewhere(key: str, tables: Mapping[str, Schema], where: str) -> str:
    """Names the other table that a key belongs to."""
    for table, schema in tables.items():
        if table != where and key in schema.get("properties", ()):
            return f"; it belongs to [{table}]"
    names = get_close_matches(key, tables, 1)
    return f"; did you mean [{names[0]}]?" if names and not where else ""
