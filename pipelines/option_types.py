"""Types of options and what they offer, said here so that `--help` imports no room: a test compares both."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

FORMATS = ("parquet", "avro", "csv", "jsonl", "geojson")
FURTHER = ("times", "counts", "traffic")
"""Further columns of rows."""
PRODUCTS = (
    "days", "cell-part", "parent-hour", "city-hour", "place-standing", "place-day", "place-part", "place-slot"
)  # fmt: skip


@dataclass(frozen=True)
class InputFiles:
    """Files that a pattern matches, or those in a folder. allow_empty: seals periods without rows.

    skip_unreadable: see `Job`. unattended: see `LedgerAccount`.
    """

    pattern: str
    allow_empty: bool = False
    skip_unreadable: bool = False
    unattended: bool = False


class FiniteRange(click.FloatRange):
    """Numbers of a range. nan, which a comparison with its ends lets pass, and inf are refused."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is no finite number.", param, ctx)
        return number


class LocalPath(click.Path):
    """A path that is no address: s3://bucket/folder, for instance, would quietly become a folder of that name."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if scheme := re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://", str(value)):
            self.fail(f"results are written to this machine's file system only, not to {scheme[1]}://", param, ctx)
        if not str(value):
            self.fail("a path is needed, and this one is empty", param, ctx)
        return super().convert(value, param, ctx)


def listed(*offered: str) -> Callable[[click.Context, click.Parameter, str | None], tuple[str, ...]]:
    """Gives the callback of an option whose value names some of these, with commas between."""

    def read(_context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...]:
        parts = (value or "").split(",") if value or isinstance(parameter.default, str) else []
        names = tuple(dict.fromkeys(part.strip() for part in parts))
        if unknown := [name for name in names if name not in offered]:
            raise click.BadParameter(f"{unknown[0]!r} is not one of {', '.join(offered)}")
        return names

    return read
