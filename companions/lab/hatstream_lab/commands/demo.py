"""`hatstream demo`: releases four made-up days beside the truth."""

import json
from pathlib import Path

import click

from hatstream.api import console, option


@click.command()
@option("folder", help="Folder for the demo's files.")
@option("json")
def demo(output: Path, as_json: bool) -> None:
    """Simulate four days of buses, release mean speeds, and compare with the truth.

    Everything, the ledger and the key too, is kept in the output folder; running it again returns the same numbers.

    \b
    Example:
      hatstream demo --output build/demo
    """
    from hatstream_lab.demo.steps import demonstrate

    out = console()
    out.quiet = as_json
    document = demonstrate(output, out)
    if as_json:
        click.echo(json.dumps(document))
