"""Option types and choices, kept import-free for fast `--help`."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

FORMATS = ("parquet", "avro", "csv", "jsonl", "geojson")
FURTHER = ("times", "counts", "traffic")  # optional columns of rows
PRODUCTS = (
    "days", "cell-part", "parent-hour", "city-hour", "place-standing", "place-day", "place-part", "place-slot"
)  # fmt: skip


@dataclass(frozen=True)
class InputFiles:
    """Input files of a pattern or folder."""

    pattern: str
    allow_empty: bool = False  # seals periods without rows
    skip_unreadable: bool = False  # counts undecodable files as dead letters, in place of an error
    unattended: bool = False  # a period that was stopped for too few vehicles stays stopped


class FiniteRange(click.FloatRange):
    """Range of finite numbers."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Converts to a number in the range; fails for infinite ones and NaN."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number", param, ctx)
        return number


class LocalPath(click.Path):
    """Path on this machine: no address, nor an empty text."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Converts to a path; fails for s3://bucket/folder, which would become a local folder."""
        if not str(value):  # else it would be the current folder
            self.fail("a path is needed, and this one is empty", param, ctx)
        if scheme := re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://", str(value)):
            self.fail(f"it must lie in this machine's file system, not behind {scheme[1]}://", param, ctx)
        return super().convert(value, param, ctx)


def listed(*offered: str) -> Callable[[click.Context, click.Parameter, str | None], tuple[str, ...]]:
    """Returns an option callback that parses a comma-separated choice."""

    def read(_context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...]:
        # An empty text is no choice; an option with a default needs one, and refuses it below.
        items = (value or "").split(",") if value or isinstance(parameter.default, str) else []
        names = tuple(dict.fromkeys(item.strip() for item in items))  # each once, in order
        if unknown := [name for name in names if name not in offered]:
            raise click.BadParameter(f"{unknown[0]!r} is not one of {', '.join(offered)}")
        return names

    return read
