"""Renders self-contained HTML files, of which the map is one."""

import base64
import csv
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jinja2
import msgspec
import pyarrow as pa

from hatstream.api import write_whole
from hatstream_publish.pages.pack import packed
from hatstream_publish.pages.places import GroundLine, NamedPlaces
from hatstream_publish.pages.rows import ADVICE, STATUSES

_POLICY, _WORDS = "@policy@", "@words@"
"""Stand in a rendered page for texts that are put in afterwards: the policy has digests of the page's own scripts."""
_INLINE = {
    "script-src": re.compile(r"<script>(.*?)</script>", re.DOTALL),
    "style-src": re.compile(r"<style>(.*?)</style>", re.DOTALL),
}


def render(
    template: str,
    *,
    images: str | None = None,
    connects: bool = False,
    frames: bool = False,
    language: str | None = None,
    **texts: Any,
) -> bytes:
    """Renders a page whose security policy allows only its own scripts and styles.

    images: allowed source of pictures. connects: its server may be asked. frames: pages of its folder may be shown.
    language: of the page; None for the browser's.
    """
    page = text_of(template, policy=_POLICY, **texts)
    page = page.replace(_WORDS, script_json({"site": language, "table": words()}), 1)  # before its script is hashed
    allowed = {name: " ".join(map(_hash, pattern.findall(page))) or "'none'" for name, pattern in _INLINE.items()}
    allowed |= {
        "img-src": f"data: blob: {_origin(images)}".strip(),
        "connect-src": "'self'" if connects else "'none'",
        "frame-src": "'self'" if frames else "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    policy = "; ".join(["default-src 'none'", *(f"{name} {sources}" for name, sources in allowed.items())])
    return page.replace(_POLICY, policy, 1).encode()  # last, as it holds hashes of the page's scripts


def text_of(template: str, **texts: Any) -> str:
    """Renders a template, escaping values in HTML."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("hatstream_publish.pages"),
        autoescape=jinja2.select_autoescape(),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=template.endswith(".md"),  # a text file ends with one
    )
    return environment.get_template(template).render(**texts)


def words() -> list[list[str]]:
    """Reads the pages' texts as rows, languages first."""
    text = files(__package__).joinpath("templates/words.csv").read_text(encoding="utf-8")
    return list(csv.reader(text.splitlines()))


def script_json(data: Mapping[str, Any]) -> str:
    """Encodes JSON safely for a <script> element."""
    return msgspec.json.encode(data).decode().replace("<", "\\u003c")


def _hash(text: str) -> str:
    """Writes a text's digest as a policy allows it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _origin(address: str | None) -> str:
    """Extracts scheme and host for a security policy; no further rule can slip in."""
    parts = urlsplit(address or "")
    host = re.sub(r"[^A-Za-z0-9.:-]", "", parts.netloc.rpartition("@")[2])  # without a name and password
    return f"{parts.scheme}://{host}" if host and parts.scheme in ("http", "https") else ""


# --- the map ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MapTexts:
    """Texts of the map's page."""

    title: str
    claim: str  # sentence of the guarantee
    tiles: str | None = None  # address of raster tiles, with {z}, {x} and {y}; None for no requests
    credit: str = ""  # source of the tiles
    language: str | None = None  # of the page; None for the browser's


@dataclass(frozen=True)
class Surroundings:
    """Public surroundings: places' names and shapes, and background lines."""

    places: NamedPlaces = field(default_factory=NamedPlaces)
    ground: Sequence[GroundLine] = ()


def draw_map(
    rows: pa.Table, path: Path, texts: MapTexts, surroundings: Surroundings, standing_rows: pa.Table | None = None
) -> int:
    """Writes the map, see `packed`; returns its number of places. Raises InputError, OSError."""
    data = packed(rows, surroundings.places, surroundings.ground, standing_rows)
    page = map_page(texts, data=data)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, page)
    return len(rows["cell"].unique())


def map_page(texts: MapTexts, *, data: bytes | None = None, source: str | None = None, follow_s: float = 5) -> bytes:
    """Renders the map's page, with data, or polling `source` every `follow_s` seconds."""
    settings = {"source": source, "followMs": round(1_000 * follow_s)}
    return render(
        "map.html",
        images=texts.tiles,  # allowed source
        connects=source is not None,
        title=texts.title,
        claim=texts.claim,
        credit=texts.credit,
        language=texts.language,
        page=script_json(settings | {"tiles": texts.tiles, "says": STATUSES, "advice": ADVICE}),
        packed=base64.b64encode(data or b"").decode(),
    )
