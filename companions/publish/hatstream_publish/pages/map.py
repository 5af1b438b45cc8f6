"""The map: places coloured by their estimates, a slider over slots, and what is known of a place; one file."""

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
    """title, claim: what the page is called, and a sentence on what the release guarantees.

    tiles: a template of raster tiles' addresses ("https://host/{z}/{x}/{y}.png") that the browser then loads, None for
    a map that asks for nothing. credit: whom the tiles are by. language: of the page; None: the browser's.
    """

    title: str
    claim: str
    tiles: str | None = None
    credit: str = ""
    language: str | None = None


@dataclass(frozen=True)
class Surroundings:
    """What is publicly known of the area: names and shapes of places, lines under the map."""

    places: NamedPlaces = field(default_factory=NamedPlaces)
    ground: Sequence[GroundLine] = ()


NOTHING = Surroundings()


def draw_map(
    rows: pa.Table, path: Path, texts: MapTexts, around: Surroundings = NOTHING, standing: pa.Table | None = None
) -> int:
    """Writes the map of result rows (see `read_rows`); returns how many places it has. standing: see `packed`.

    May raise InputError and OSError.
    """
    data = packed(rows, around.places, around.ground, standing)
    page = map_page(texts, data=data)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, page)
    return len(rows["cell"].unique())


def map_page(texts: MapTexts, *, data: bytes | None = None, source: str | None = None, follow_s: float = 5) -> bytes:
    """Makes the page with its data inside, or one that asks its server for them at `source`, again each `follow_s`."""
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
