"""Where `hatstream evaluate` puts its figures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.table import Table

from hatstream.api import console, option, packed
from hatstream_lab.evaluation import NOT_PRIVATE


@dataclass(frozen=True)
class Results:
    """Tables on standard output, or one JSON document there; the document and pictures in a folder, if there is one."""

    output: Path | None
    as_json: bool

    def keep(self, document: Mapping[str, Any], name: str) -> None:
        """Writes the document into the folder, under that name, and prints it, where that is asked for."""
        encoded = msgspec.json.encode(document)
        if self.output is not None:
            self.output.mkdir(parents=True, exist_ok=True)
            (self.output / name).write_bytes(encoded)
            click.echo(f"wrote {self.output / name}", err=True)
        if self.as_json:
            click.echo(encoded.decode())

    def tell(self, document: Mapping[str, Any], name: str, *shown: str | Table) -> None:
        """Keeps figures that are functions of true values, and shows them, between two warnings."""
        self.keep({"not_private": NOT_PRIVATE, **document}, name)
        if self.as_json:
            return
        out = console()
        out.print(NOT_PRIVATE, style="bold")
        for part in (*shown, NOT_PRIVATE):
            out.print(part)

    def drew(self, pictures: Sequence[Path]) -> None:
        click.echo(f"wrote {len(pictures)} pictures to {self.output}", err=True)


results_options = packed(
    "results",
    Results,
    option("folder", required=False, help="Folder for all figures as JSON, and for pictures of what is simulated."),
    option("json"),
)
