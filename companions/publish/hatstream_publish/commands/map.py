"""`hatstream map`: draws result files as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from hatstream.api import option
from hatstream_publish.commands.answer import answer, drawing_options, loaded, read_surroundings

if TYPE_CHECKING:
    from hatstream.api import Specification

NOISY = "All figures carry noise that hides what any single vehicle did (differential privacy)."


@click.command("map")
@option("input")
@option("file")
@click.option(
    "--spec",
    "spec_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Their specification, to state its guarantee and draw its places.",
)
@click.option("--title", default="Speeds of buses", show_default=True, help="Title of the page.")
@drawing_options
@option("json")
def map_(
    pattern: str,
    output: Path,
    spec_path: Path | None,
    title: str,
    tiles: str | None,
    credit: str,
    language: str | None,
    places_path: Path | None,
    ground_path: Path | None,
    as_json: bool,
) -> int:
    """Draw result files as a map in one HTML file that needs no network.

    \b
    Example:
      hatstream map --input 'out/*.parquet' --output out/map.html
    """
    from hatstream_publish.pages.page import MapTexts, draw_map
    from hatstream_publish.pages.rows import read_rows

    spec = None if spec_path is None else loaded(spec_path, quiet=as_json)
    around = read_surroundings(places_path, ground_path, spec, spec_path)
    rows, standing_rows = read_rows(pattern, spec)  # rows of the product place-standing, or None
    places = draw_map(rows, output, MapTexts(title, claim_of(spec), tiles, credit, language), around, standing_rows)
    slot_count = len(rows["slot_start"].unique())
    size = output.stat().st_size
    document = {"output": str(output), "bytes": size, "places": places, "slots": slot_count}
    answer(as_json, document, f"{places:,} places, {slot_count:,} slots: {output} ({size / 1e3:,.0f} kB)")
    return 0


def claim_of(spec: Specification | None) -> str:
    """Words what the figures protect; without a specification only that they are noisy."""
    if spec is None:
        return NOISY
    account = spec.account
    protects = "that it drove at all, where and when included" if account.adjacency == "add-remove" else "its speeds"
    bound = f"epsilon at most {account.limit.describe()} by their specification"
    return f"{NOISY} They protect a vehicle's whole {account.unit.removeprefix('vehicle-')}, {protects}, with {bound}."
