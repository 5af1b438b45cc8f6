"""`hatstream map`: one HTML file with the hexagons of result files, to open from disk."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from hatstream_publish.commands.surroundings import credit_option, surroundings_options, tiles_option, with_specified
from pipelines.commands.options import answer, html_option, json_option, loaded, results_option
from pipelines.input_files import paths_of

if TYPE_CHECKING:
    from hatstream_publish.pages.map import Surroundings

NOISY = "All figures carry noise that hides what any single vehicle did (differential privacy)."


@click.command("map")
@results_option
@html_option
@click.option(
    "--spec",
    "spec_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Their specification: the page then says whom its account protects, and draws its own places.",
)
@click.option("--title", default="Speeds of buses", show_default=True, help="What the page is called.")
@tiles_option
@credit_option
@surroundings_options
@json_option
def map_(
    pattern: str,
    output: Path,
    spec_path: Path | None,
    title: str,
    tiles: str | None,
    credit: str,
    around: Surroundings,
    as_json: bool,
) -> int:
    """Draw result files as a map in one HTML file that needs no network.

    \b
    Example:
      hatstream map --input 'out/hats-*.parquet' --output out/map.html
    """
    from hatstream_publish.pages.map import MapTexts, draw_map
    from hatstream_publish.pages.rows import read_days_of_places

    rows, standing = read_days_of_places(paths_of(pattern))
    if spec_path is not None:
        around = with_specified(around, loaded(spec_path, quiet=as_json), spec_path)
    places = draw_map(rows, output, MapTexts(title, claim_of(spec_path), tiles, credit), around, standing)
    slots = len(rows["slot_start"].unique())
    size = output.stat().st_size
    document = {"output": str(output), "bytes": size, "places": places, "slots": slots}
    answer(as_json, document, f"{places:,} places, {slots:,} slots: {output} ({size / 1e3:,.0f} kB)")
    return 0


def claim_of(spec_path: Path | None) -> str:
    """Says what protects vehicles, and with a specification whom and how much."""
    if spec_path is None:
        return NOISY
    from pipelines.specification import load

    account = load(spec_path).account
    what = "that it drove at all, where and when included" if account.adjacency == "add-remove" else "its speeds"
    most = f"epsilon at most {account.limit.said()} by their specification"
    return f"{NOISY} They protect a vehicle's whole {account.unit.removeprefix('vehicle-')}, {what}, with {most}."
