"""Renders the map: coloured places with a slider."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from hatstream.api import write_whole
from hatstream_publish.pages.pack import packed
from hatstream_publish.pages.page import render, script_json
from hatstream_publish.pages.places import GroundLine, NamedPlaces
from hatstream_publish.pages.rows import ADVICE, STATUSES


@dataclass(frozen=True)
class MapTexts:
    """Texts of the page; claim: the guarantee's sentence.

    tiles: template of raster tiles ("https://host/{z}/{x}/{y}.png"), None for no requests. credit: their makers.
    language: of the page; None for the browser's.
    """

    title: str
    claim: str
    tiles: str | None = None
    credit: str = ""
    language: str | None = None


@dataclass(frozen=True)
class Surroundings:
    """Public surroundings: places' names and shapes, and background lines."""

    places: NamedPlaces = field(default_factory=NamedPlaces)
    ground: Sequence[GroundLine] = ()


NOTHING = Surroundings()


def draw_map(
    rows: pa.Table, path: Path, texts: MapTexts, around: Surroundings = NOTHING, standing: pa.Table | None = None
) -> int:
    """Writes the map; returns its number of places.

    standing: see `packed`. Raises InputError or OSError.
    """
    data = packed(rows, around.places, around.ground, standing)
    page = map_page(texts, data=data)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, page)
    return len(rows["cell"].unique())


def map_page(texts: MapTexts, *, data: bytes | None = None, source: str | None = None, follow_s: float = 5) -> bytes:
    """Renders the page, with data or polling `source`."""
    settings = {"source": source, "followMs": round(1_000 * follow_s)}
    return render(
        "map.html",
        images=texts.tiles,
        connects=source is not None,
        title=texts.title,
        claim=texts.claim,
        credit=texts.credit,
        language=texts.language,
        page=script_json(settings | {"tiles": texts.tiles, "says": STATUSES, "advice": ADVICE}),
        packed=base64.b64encode(data or b"").decode(),
    )
