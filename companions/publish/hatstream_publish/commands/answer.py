"""What the commands have in common: how they answer, and load a specification."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from hatstream.api import progress_bars

if TYPE_CHECKING:
    from hatstream.api import Specification


def answer(as_json: bool, document: Mapping[str, Any], *lines: str) -> None:
    """Prints one JSON document for programs, or lines for people."""
    click.echo(msgspec.json.encode(document).decode() if as_json else "\n".join(lines))


def loaded(path: Path, *, quiet: bool) -> Specification:
    """Loads a specification, and shows how far that is where it has a file of very many places."""
    from hatstream.api import load

    with progress_bars(quiet=quiet) as report:
        return load(path, report)
