"""Engines, one per file: their command options, and construction from them.

Every command with an engine loads these files, so they import Beam only in construction.
"""

import inspect
import re
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import click

if TYPE_CHECKING:
    from pipelines.engine import Engine

Option = Callable[[Callable[..., Any]], Callable[..., Any]]
"""What `click.option` gives."""


class EngineOptions(NamedTuple):
    """Options of one engine, in the order of `made_by`'s parameters.

    made_by: returns an `EngineStarter` (streams) or a `BoundedEngine` (closed ranges). Raises UsageError for conflicts.
    """

    made_by: Callable[..., Any]
    options: tuple[Option, ...]

    @property
    def by_parameter(self) -> Mapping[str, Option]:
        """Options by their parameter's name."""
        return dict(zip(inspect.signature(self.made_by).parameters, self.options, strict=True))


class EngineStarter(Protocol):
    """An engine for a stream, as options ask for it."""

    @property
    def parallelism(self) -> int:
        """How many workers read and count side by side."""

    def start(self, stack: ExitStack) -> "Engine":
        """Starts the engine; the stack closes its servers. Raises MissingTool or ServerError."""


def address(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """Checks an option's value that must be like host:8081."""
    if value is not None and re.fullmatch(r"[^\s/@]+:\d{1,5}", value) is None:
        raise click.BadParameter(f"{value!r} is not like host:8081")
    return value


def engines_with(kind: str) -> dict[str, EngineOptions]:
    """Finds engines with options of the kind STREAM or BOUNDED, by file name."""
    files = {module.name: import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)}
    return {name: getattr(file, kind) for name, file in files.items() if hasattr(file, kind)}
