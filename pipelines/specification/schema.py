"""The JSON Schema of a specification, for editors and other programs: made from the tables that read it."""

from collections.abc import Iterator
from typing import Any

from dpops import statistics as registry
from dpops.statistics import Statistic
from pipelines.specification.document import document_type
from pipelines.specification.fields import Variant, json_type, table_type, variants

_NUMBER = {"type": "number"}
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema() -> dict[str, Any]:
    """Keys, types and words. What several fields say together is for `hatstream spec check`."""
    document = {"$schema": DIALECT, "title": "A specification of hatstream"} | table_type(document_type())
    named = [item for variant in variants() for item in _with_mechanism(variant)]
    items = {"anyOf": [*named, *map(_default_mechanism, registry.registered().values())]}
    document["properties"]["statistic"] |= {"minItems": 1, "items": items}
    return document


def _with_mechanism(variant: Variant) -> Iterator[dict[str, Any]]:
    """One entry for the statistics without options, and one for each that has its own."""
    statistics = [registry.registered()[name] for name in variant.statistics]
    plain = [statistic.name for statistic in statistics if not statistic.options]
    for names, options in [
        (plain, ()),
        *(([statistic.name], statistic.options) for statistic in statistics if statistic.options),
    ]:
        if names:
            own = {"name": {"enum": names}, "mechanism": {"const": variant.mechanism}}
            yield _statistic(own | dict.fromkeys(options, _NUMBER), variant)


def _default_mechanism(statistic: Statistic) -> dict[str, Any]:
    variant = next(candidate for candidate in variants() if candidate.mechanism == statistic.default)
    return _statistic({"name": {"const": statistic.name}} | dict.fromkeys(statistic.options, _NUMBER), variant)


def _statistic(own: dict[str, Any], variant: Variant) -> dict[str, Any]:
    options = {field.name: json_type(field.kind) for field in variant.options}
    return {
        "type": "object",
        "properties": own | {"weight": {"type": "number", "exclusiveMinimum": 0}} | options,
        "required": list(own),
        "additionalProperties": False,
    }
