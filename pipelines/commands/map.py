"""`hatstream map`: one HTML file with the hexagons of result files, to open from disk."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipelines.commands.local_path import LocalPath
from pipelines.commands.options import answer, json_option
from pipelines.commands.surroundings import surroundings_options, with_specified
from pipelines.input_files import paths_of

if TYPE_CHECKING:
    from pipelines.advice.pages.map import Surroundings
    from pipelines.specification import Specification

NOISY = "All figures carry noise that hides what any single vehicle did (differential privacy)."


@click.command("map")
@click.option(
    "--input", "pattern", required=True, metavar="GLOB", help="Result files: a folder, or files as a quoted pattern."
)
@click.option("--output", required=True, type=LocalPath(path_type=Path, dir_okay=False), help="The HTML file to write.")
@click.option(
    "--spec",
    "spec_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Their specification: the page then says whom its account protects, and draws its own places.",
)
@click.option("--title", default="Speeds of buses", show_default=True, help="What the page is called.")
@click.option(
    "--tiles",
    metavar="URL",
    help="Raster tiles to draw under the places, with {z}, {x} and {y}: the browser then loads them from there.",
)
@click.option("--credit", default="", help="Whom the tiles are by; shown on the map.")
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
    from pipelines.advice.pages.map import MapTexts, draw_map
    from pipelines.advice.pages.rows import read_days_of_places

    rows, standing = read_days_of_places(paths_of(pattern))
    if spec_path is not None:
        around = _with_own_places(around, spec_path)
    places = draw_map(rows, output, MapTexts(title, claim_of(spec_path), tiles, credit), around, standing)
    slots = len(rows["slot_start"].unique())
    size = output.stat().st_size
    document = {"output": str(output), "bytes": size, "places": places, "slots": slots}
    answer(as_json, document, f"{places:,} places, {slots:,} slots: {output} ({size / 1e3:,.0f} kB)")
    return 0


def _with_own_places(around: Surroundings, spec_path: Path) -> Surroundings:
    from pipelines.specification import load

    return with_specified(around, load(spec_path), spec_path)


def claim_of(spec_path: Path | None) -> str:
    """What protects vehicles, and with a specification whom and how much."""
    if spec_path is None:
        return NOISY
    from pipelines.specification import load

    return f"{NOISY} {protected(load(spec_path))}"


def protected(spec: Specification) -> str:
    account = spec.account
    what = "that it drove at all, where and when included" if account.adjacency == "add-remove" else "its speeds"
    most = f"epsilon at most {account.limit.said()}"
    return f"They protect a vehicle's whole {account.unit.removeprefix('vehicle-')}, {what}, with {most}."
