"""Common parts of commands: answers, specifications, surroundings of places."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from hatstream.api import progress_bars

if TYPE_CHECKING:
    from hatstream.api import Specification
    from hatstream_publish.pages.page import Surroundings


def answer(as_json: bool, document: Mapping[str, Any], *lines: str) -> None:
    """Prints JSON for programs, or lines for people."""
    click.echo(msgspec.json.encode(document).decode() if as_json else "\n".join(lines))


def loaded(path: Path, *, quiet: bool) -> Specification:
    """Loads a specification, with a progress bar."""
    from hatstream.api import load

    with progress_bars(quiet=quiet) as report:
        return load(path, report)


def read_surroundings(
    places_path: Path | None, ground_path: Path | None, spec: Specification | None, spec_path: Path | None
) -> Surroundings:
    """Reads the files of --places and --ground, and adds shapes of a specification's places.

    spec_path: names the specification in errors about such shapes; given wherever `spec` is.
    """
    from hatstream_publish.pages.page import Surroundings
    from hatstream_publish.pages.places import read_ground, read_places

    named_places, ground = read_places(places_path), read_ground(ground_path)
    places = None if spec is None or spec.places is None else spec.places.pieces.places
    if places is not None and places.geometries and spec_path is not None:
        named_places = named_places.with_shapes(dict(zip(places.names, places.geometries, strict=True)), spec_path)
    return Surroundings(named_places, ground)


def drawing_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options of pages: tiles, language, and those of `read_surroundings`."""
    file = click.Path(path_type=Path, dir_okay=False)
    tiles = "Raster tiles to draw under the places, with {z}, {x} and {y}: the browser then loads them from there."
    language, languages = "Language of the pages. [default: the browser's, or ?lang=]", ["en", "de", "fr", "es", "pt"]
    places = "GeoJSON with names of places, and shapes of those that are not hexagons; `spec new --gtfs` writes one."
    ground = "GeoJSON of lines, water and parks to draw on the map; `spec new --gtfs` writes the lines."
    options = (
        click.option("--tiles", metavar="URL", help=tiles),
        click.option("--credit", default="", help="Source of the tiles, shown on the map."),
        click.option("--language", type=click.Choice(languages), help=language),
        click.option("--places", "places_path", type=file, help=places),
        click.option("--ground", "ground_path", type=file, help=ground),
    )
    # Applied like stacked decorators, the last first, so that --help lists them in order.
    return reduce(lambda decorated, decorate: decorate(decorated), reversed(options), command)
