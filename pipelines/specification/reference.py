"""The reference page of specifications, made from the tables that read them: docs/specification.md."""

from collections.abc import Iterator

import msgspec

from dpops import statistics as registry
from pipelines.specification.document import Document, OutputTable
from pipelines.specification.fields import Key, fields_of, tables, variants
from pipelines.specification.type_parts import struct_of

_HEAD = """# The specification

One strict TOML file says what is released. An unknown key is an error that names it. This page is made from the code:
`hatstream spec reference > docs/specification.md`. `hatstream spec check FILE` checks a file, `hatstream spec new
--gtfs TIMETABLE --sample FEED` drafts one, `hatstream spec schema` prints a JSON Schema for editors. Ready ones are in
`examples/`, words in the [glossary](glossary.md).

Its identity, `spec_id`, is the hash of everything that decides a release, with defaults filled in and regions by their
cells. Names, the account's limit, the allowed lateness and further outputs are no part of it.
"""


def reference() -> str:
    """Markdown."""
    return "\n".join([_HEAD, *_lines()])


def _lines() -> Iterator[str]:
    yield "## At the top\n"
    yield from _table(Document)
    for name, table, required in tables():
        yield f"## [{name}]\n"
        yield f"{(table.__doc__ or '').strip()}{'' if required else ' May be left out.'}\n"
        yield from _table(table)
    yield from _statistics()
    yield "## [[output]]\n"
    yield f"{(OutputTable.__doc__ or '').strip()} [products.md](products.md) says more.\n"
    yield from _table(OutputTable)


def _table(table: type[msgspec.Struct]) -> Iterator[str]:
    yield "| key | value | if left out | |"
    yield "|---|---|---|---|"
    for field in fields_of(table):
        if struct_of(field.kind) is not None:
            continue
        default = "must be there" if field.required else f"`{field.default}`" if field.default else "-"
        yield f"| `{field.name}` | {_escaped(field.type_text)} | {default} | {_escaped(field.text)} |"
    yield ""


def _statistics() -> Iterator[str]:
    yield "## [[statistic]]\n"
    yield (
        "Each table has a `name`; it may have a `mechanism`, a `weight` (its share of the HAT's epsilon, 1 if left "
        "out) and the mechanism's options. [mechanisms.md](mechanisms.md) says what each does.\n"
    )
    yield "| statistic | default mechanism |"
    yield "|---|---|"
    for name, statistic in registry.registered().items():
        options = "".join(f", with `{option}`" for option in statistic.options)
        yield f"| `{name}`{options} | `{statistic.default}` |"
    yield ""
    yield "| mechanism | statistics | fits | options |"
    yield "|---|---|---|---|"
    for variant in variants():
        options = "; ".join(_option(field) for field in variant.options) or "-"
        statistics = ", ".join(f"`{name}`" for name in variant.statistics)
        yield f"| `{variant.mechanism}` | {statistics} | {', '.join(variant.adjacencies)} | {_escaped(options)} |"
    yield ""


def _option(field: Key) -> str:
    default = f", `{field.default}` if left out" if field.default else ""
    text = f": {field.text}" if field.text else ""
    return f"`{field.name}` ({field.type_text}{default}){text}"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\t", "\\t")
