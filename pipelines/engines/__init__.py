"""Engines, a file each: the options by which a command asks for one, and how it is made of them.

The files are loaded for every command that has an engine: they import Beam when the engine is made.
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
    """The options of one engine, in the order of the parameters of `made_by`, which takes their values.

    made_by: gives an `EngineStarter` for a stream, a `BoundedEngine` for a closed range. Raises UsageError for values
    that do not go together.
    """

    made_by: Callable[..., Any]
    options: tuple[Option, ...]

    @property
    def by_parameter(self) -> Mapping[str, Option]:
        return dict(zip(inspect.signature(self.made_by).parameters, self.options, strict=True))


class EngineStarter(Protocol):
    """An engine for a stream, as options ask for it."""

    @property
    def parallelism(self) -> int:
        """How many workers read and count side by side."""

    def start(self, stack: ExitStack) -> "Engine":
        """Makes the engine. Servers that this starts end with the stack. Raises MissingTool or ServerError."""


def address(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """Checks an option's value that must be like host:8081."""
    if value is not None and re.fullmatch(r"[^\s/@]+:\d{1,5}", value) is None:
        raise click.BadParameter(f"{value!r} is not like host:8081")
    return value


def engines_with(kind: str) -> dict[str, EngineOptions]:
    """Finds the engines, by the names of their files, that have options of that kind: STREAM or BOUNDED."""
    files = {module.name: import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)}
    return {name: getattr(file, kind) for name, file in files.items() if hasattr(file, kind)}
