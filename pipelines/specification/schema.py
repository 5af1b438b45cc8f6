"""The JSON Schema of a specification, for editors and other programs: made from the tables that read it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dpops import statistics as registry
from dpops.mechanisms import registered
from dpops.statistics import Statistic
from pipelines.specification.classes import STATISTIC, ClassOptions
from pipelines.specification.document import document_type
from pipelines.specification.levels_tables import Options
from pipelines.specification.types_schema import Schema, table_type
from transforms.recorded.units import VECTOR

_NUMBER = {"type": "number"}
_NOT_WRITTEN = ("prior", "statistic")
"""Fields of mechanisms that come from elsewhere in the specification."""
DIALECT = "https://json-schema.org/draft/2020-12/schema"


@dataclass(frozen=True)
class Variant:
    """What a [[statistic]] may hold with one mechanism. options: their schemas, by name."""

    mechanism: str
    statistics: tuple[str, ...]
    adjacencies: tuple[str, ...]
    options: Schema


def variants() -> list[Variant]:
    """Lists the mechanisms with their options."""
    kinds = [
        Variant(
            name,
            tuple(statistic for statistic in registry.registered() if statistic in cls.statistics),
            tuple(sorted(cls.adjacencies)),
            table_type(cls, _NOT_WRITTEN)["properties"],
        )
        for name, cls in registered().items()
    ]
    levels = Variant(VECTOR, ("mean",), ("add-remove", "counts-public"), table_type(Options)["properties"])
    classes = Variant(VECTOR, (STATISTIC,), ("add-remove",), table_type(ClassOptions)["properties"])
    return sorted([*kinds, levels, classes], key=lambda variant: variant.mechanism)


def schema() -> Schema:
    """Describes keys, types and words. What several fields say together is for `hatstream spec check`."""
    document: Schema = {"$schema": DIALECT, "title": "A specification of hatstream"} | table_type(document_type())
    named = [item for variant in variants() for item in _with_mechanism(variant)]
    items = {"anyOf": [*named, *map(_default_mechanism, registry.registered().values())]}
    document["properties"]["statistic"] |= {"minItems": 1, "items": items}
    return document


def _with_mechanism(variant: Variant) -> Iterator[Schema]:
    """Describes the statistics without options together, and each that has its own apart."""
    statistics = [registry.registered()[name] for name in variant.statistics]
    plain = [statistic.name for statistic in statistics if not statistic.options]
    for names, options in [
        (plain, ()),
        *(([statistic.name], statistic.options) for statistic in statistics if statistic.options),
    ]:
        if names:
            own = {"name": {"enum": names}, "mechanism": {"const": variant.mechanism}}
            yield _statistic(own | dict.fromkeys(options, _NUMBER), variant)


def _default_mechanism(statistic: Statistic) -> Schema:
    variant = next(candidate for candidate in variants() if candidate.mechanism == statistic.default)
    return _statistic({"name": {"const": statistic.name}} | dict.fromkeys(statistic.options, _NUMBER), variant)


def _statistic(own: dict[str, Any], variant: Variant) -> Schema:
    return {
        "type": "object",
        "properties": own | {"weight": {"type": "number", "exclusiveMinimum": 0}} | variant.options,
        "required": list(own),
        "additionalProperties": False,
    }
