"""The JSON Schema of a specification, for editors and other programs: made from the tables that read it."""

from typing import Any

from dpops import statistics as registry
from pipelines.specification.document import Document
from pipelines.specification.fields import Variant, json_type, table_type, variants

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema() -> dict[str, Any]:
    """Keys, types and words. What several fields say together is for `hatstream spec check`."""
    found = {"$schema": DIALECT, "title": "A specification of hatstream"} | table_type(Document)
    items = {"anyOf": [*map(_with_mechanism, variants()), *map(_default_mechanism, registry.registered())]}
    found["properties"]["statistic"] |= {"minItems": 1, "items": items}
    return found


def _with_mechanism(variant: Variant) -> dict[str, Any]:
    own = {"name": {"enum": list(variant.statistics)}, "mechanism": {"const": variant.mechanism}}
    return _statistic(own, variant)


def _default_mechanism(name: str) -> dict[str, Any]:
    default = registry.registered()[name].default
    variant = next(each for each in variants() if each.mechanism == default)
    return _statistic({"name": {"const": name}}, variant)


def _statistic(own: dict[str, Any], variant: Variant) -> dict[str, Any]:
    options = {field.name: json_type(field.kind) for field in variant.options}
    return {
        "type": "object",
        "properties": own | {"weight": {"type": "number", "exclusiveMinimum": 0}} | options,
        "required": list(own),
        "additionalProperties": False,
    }
