"""JSON Schema and reference page of specifications."""

from collections.abc import Iterator
from typing import NamedTuple

from dpops import statistics as registry
from dpops.mechanisms import registered
from pipelines.specification.document import Document, OutputTable
from pipelines.specification.tables import STATISTIC, ClassOptions, Options, Schema, table_type, values_of
from transforms.recorded.units import VECTOR

_HIDDEN_TABLES = ("prior", "statistic")  # fields of mechanisms that come from elsewhere in the specification
DIALECT = "https://json-schema.org/draft/2020-12/schema"


class Variant(NamedTuple):
    """Options of a [[statistic]] with one mechanism, by name."""

    mechanism: str
    statistics: tuple[str, ...]
    adjacencies: tuple[str, ...]
    options: Schema


def variants() -> list[Variant]:
    """Lists mechanisms with their options; VECTOR is `levels`, STATISTIC distributions over classes."""
    kinds = [
        Variant(
            mechanism=name,
            statistics=tuple(statistic for statistic in registry.registered() if statistic in cls.statistics),
            adjacencies=tuple(sorted(cls.adjacencies)),
            options=table_type(cls, _HIDDEN_TABLES)["properties"],
        )
        for name, cls in registered().items()
    ]
    levels = Variant(VECTOR, ("mean",), ("add-remove", "counts-public"), table_type(Options)["properties"])
    classes = Variant(VECTOR, (STATISTIC,), ("add-remove",), table_type(ClassOptions)["properties"])
    return sorted([*kinds, levels, classes], key=lambda variant: variant.mechanism)


def schema() -> Schema:
    """Returns the JSON Schema of specifications; rules across fields are for `hatstream spec check`."""
    document: Schema = {"$schema": DIALECT, "title": "A specification of hatstream"} | table_type(Document)
    # Statistics, keys that name the mechanism (none for a statistic's default one), and its options.
    requests = [(list(variant.statistics), ["mechanism"], variant) for variant in variants()]
    for statistic in registry.registered().values():
        default = next(variant for variant in variants() if variant.mechanism == statistic.default)
        requests.append(([statistic.name], [], default))
    items = [
        {
            "type": "object",
            "properties": {
                "name": {"enum": names},
                **{key: {"const": variant.mechanism} for key in keys},
                "weight": {"type": "number", "exclusiveMinimum": 0},
                **variant.options,
            },
            "required": ["name", *keys],
            "additionalProperties": False,
        }
        for names, keys, variant in requests
    ]
    document["properties"]["statistic"] |= {"minItems": 1, "items": {"anyOf": items}}
    return document


_FIRST_PAGE_TEXT = """# The specification

One strict TOML file says what is released. An unknown key is an error that names it. This page is made from the code:
`hatstream spec reference > docs/specification.md`. `hatstream spec check FILE` checks a file, `hatstream spec new
--gtfs TIMETABLE --sample FEED` drafts one, `hatstream spec schema` prints a JSON Schema for editors. Ready ones are in
`examples/`, words in the [glossary](glossary.md).

Its identity, `spec_id`, is the hash of everything that decides a release, with defaults filled in and regions by their
cells. Names, the account's limit, the allowed lateness, hours with a trip and further outputs are no part of it.
"""


def reference() -> str:
    """Writes the page as Markdown, table by table."""
    lines = [_FIRST_PAGE_TEXT, "## At the top\n", *_table(table_type(Document))]
    for name, table, required in _tables(prefix="", table=table_type(Document)):
        lines += [f"## [{name}]\n", f"{table['description']}{'' if required else ' Optional.'}\n", *_table(table)]
    lines += [
        "## [[statistic]]\n",
        "Each table has a `name`; it may have a `mechanism`, a `weight` (its share of the HAT's epsilon, 1 if left "
        "out) and the mechanism's options. [mechanisms.md](mechanisms.md) says what each does.\n",
        "| statistic | default mechanism |",
        "|---|---|",
        *(f"| `{name}` | `{statistic.default}` |" for name, statistic in registry.registered().items()),
        "\n| mechanism | statistics | fits | options |",
        "|---|---|---|---|",
    ]
    for variant in variants():
        options = "; ".join(_option(*option) for option in variant.options.items()) or "-"
        statistics = ", ".join(f"`{name}`" for name in variant.statistics)
        lines.append(
            f"| `{variant.mechanism}` | {statistics} | {', '.join(variant.adjacencies)} | {_escaped(options)} |"
        )
    output = table_type(OutputTable)
    see_also = "[What is released](released.md#coarser-products) says more."
    lines += ["\n## [[output]]\n", f"{output['description']} {see_also}\n", *_table(output)]
    return "\n".join(lines)


def _tables(prefix: str, table: Schema) -> Iterator[tuple[str, Schema, bool]]:
    """Yields nested tables by name; whether each is required."""
    for key, inner in table["properties"].items():
        if "properties" in inner:
            name = f"{prefix}.{key}" if prefix else key
            yield name, inner, key in table["required"]
            yield from _tables(name, inner)


def _table(table: Schema) -> Iterator[str]:
    """Yields a Markdown table of a table's own keys, without nested tables."""
    yield "| key | value | if left out | |"
    yield "|---|---|---|---|"
    for key, inner in table["properties"].items():
        if "properties" not in inner:
            default = f"`{_shown(inner['default'])}`" if "default" in inner else "-"
            default = "required" if key in table["required"] else default
            yield f"| `{key}` | {_escaped(_words(inner))} | {default} | {_escaped(inner.get('description', ''))} |"
    yield ""


def _option(name: str, schema: Schema) -> str:
    default = f", else `{_shown(schema['default'])}`" if "default" in schema else ""
    text = f": {schema['description']}" if "description" in schema else ""
    return f"`{name}` ({_words(schema)}{default}){text}"


_WORDS = {"string": "text", "boolean": "true or false", "integer": "whole number", "number": "number", "date": "date"}


def _words(schema: Schema) -> str:
    """Writes the type of a value in words."""
    if values := values_of(schema):
        return ", ".join(f'"{value}"' for value in values)
    if variants := schema.get("anyOf"):
        return " or ".join(map(_words, variants))
    if variants := schema.get("prefixItems"):
        return f"{len(variants)} {_words(variants[0])}s"
    if schema["type"] == "array":
        item = _words(schema["items"])
        return "tables" if item.startswith("table") else f"list of {item}s"
    if schema["type"] == "object":
        item = schema["additionalProperties"]
        return f"table of {_words(item).removesuffix('s')}s" if isinstance(item, dict) else schema.get("title", "table")
    return _WORDS[str(schema.get("format", schema["type"]))]


def _shown(default: object) -> str:
    """Writes a default as TOML does."""
    if isinstance(default, bool):
        return str(default).lower()
    return f'"{default}"' if isinstance(default, str) else f"{default:g}"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\t", "\\t")
