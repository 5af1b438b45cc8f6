"""Renders self-contained HTML files: the map and the report.

A page may load only what its security policy allows: scripts and styles by their digests. `words` are its texts in all
languages. A row's half width is that of its interval; a row of status "parent" shows the value of the area around its
place. Odds are probabilities of a guess about one vehicle, before and after publication.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import jinja2
import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hatstream.api import write_whole
from hatstream_publish.pages.pack import WIDE_KMH, packed, shown_numbers
from hatstream_publish.pages.places import GroundLine, NamedPlaces
from hatstream_publish.pages.rows import ADVICE, DAYS, HATS, STATUSES, USABLE, shows_parent, table_of

if TYPE_CHECKING:  # a map needs no account
    from hatstream.api import AccountReport

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
    page = text_of(template, policy=_POLICY, **texts)  # _POLICY and _WORDS are placeholders, replaced below
    page = page.replace(_WORDS, script_json({"site": language, "table": words()}), 1)  # before its script is hashed
    # By directive: hashes of the page's inline scripts or styles, then other sources.
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
        page=script_json(settings | {"tiles": texts.tiles, "says": STATUSES, "advice": ADVICE}),
        packed=base64.b64encode(data or b"").decode(),
        **vars(texts),
    )


GUESSES = (0.5, 0.1, 0.01)  # probabilities that somebody gives a guess about one vehicle before publication


@dataclass(frozen=True)
class Odds:
    """Probabilities of a guess about one vehicle."""

    before: float
    most: float  # after publication, if results speak for it
    least: float  # if they speak against it

    @property
    def most_said(self) -> str:
        """Upper bound in words."""
        return _percent(self.most, math.ceil)

    @property
    def least_said(self) -> str:
        """Lower bound in words."""
        return _percent(self.least, math.floor)


_LEAST_SHOWN = 1e-5  # probabilities nearer to 0 or 1 are not shown with their digits


def _percent(share: float, rounded: Callable[[float], int]) -> str:
    """Writes a probability's bound in per cent; rounded: math.ceil if upper, else math.floor."""
    if share < _LEAST_SHOWN:
        return f"less than {100 * _LEAST_SHOWN:g}\u00a0%"
    if share > 1 - _LEAST_SHOWN:
        return f"more than {100 - 100 * _LEAST_SHOWN:g}\u00a0%"
    digits = 2 - math.floor(math.log10(100 * min(share, 1 - share)))  # three significant digits, of 1 - share near 1
    return f"{rounded(100 * share * 10**digits) / 10**digits:.{digits}f}\u00a0%"


def shown(epsilon: float) -> float:
    """Rounds an epsilon up to hundredths."""
    return -(-round(epsilon * 100, 6) // 1) / 100  # rounded first, as .07 * 100 is above 7


def odds(epsilon: float) -> list[Odds]:
    """Bounds posterior probabilities by Bayes' rule, with a likelihood ratio of at most e^epsilon."""
    factor = math.exp(min(epsilon, 700.0))  # e^710 overflows
    return [Odds(p, p * factor / (1 - p + p * factor), p / (p + (1 - p) * factor)) for p in GUESSES]


def span_odds(account: AccountReport) -> list[dict[str, Any]]:
    """Bounds the odds of a guess about a vehicle, by span of several days."""
    return [
        {
            "days": bound.days,
            "limit": bound.limit.describe(),
            "since": bound.since or None,  # the date from which spans keep the limit; None: all of them do
            "epsilon": float(bound.most.epsilon),  # `most`: the limit, or any larger loss in such a span
            "delta": float(bound.most.delta),
            "odds": odds(float(bound.most.epsilon))[0],  # of the first of GUESSES, one half
        }
        for bound in account.bounds
        if bound.days > 1
    ]


def draw_report(report: AccountReport, rows: Mapping[str, pa.Table], path: Path) -> None:
    """Writes the report of an account and its results, by product. Raises OSError."""
    spent, limit = float(report.most.epsilon), float(report.limit.epsilon)
    statuses = {status for table in rows.values() for status in table["status"].unique().to_pylist()}
    texts = {
        "title": f"{report.spec.name}: what is published and what it protects",
        "report": report,
        "odds": odds(spent or limit),  # of the limit, before anything is spent
        "spans": span_odds(report),
        "shown": shown,  # two functions for the template: `shown` rounds an epsilon up
        "odds_of": odds,
        "periods": {period: float(total.epsilon) for period, total in report.spent.items()},
        "classes": [{"table": name, **line} for name, table in rows.items() for line in reliability(table)],
        "statuses": [(s, f"{STATUSES[s]} {ADVICE.get(s, '')}".strip()) for s in sorted(statuses & STATUSES.keys())],
        "usable": report.usable(*(table_of(rows, name) for name in (HATS, DAYS))) if rows else "",  # in words
        "wide": WIDE_KMH,
        "version": version("hatstream"),
        "created": datetime.now(UTC),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, render("report.html", **vars(report) | texts))  # the template reads the report's fields too


def reliability(rows: pa.Table) -> list[Mapping[str, Any]]:
    """Summarises rows by statistic and status.

    "reliable" is the share of values with a usable interval, "half" has quantiles of intervals' half widths; of status
    "parent" the value is the area's.
    """
    classes: list[Mapping[str, Any]] = []
    for name in sorted(rows["statistic"].unique().to_pylist()):
        of_name = rows.filter(pc.equal(rows["statistic"], name))
        for status in sorted(of_name["status"].unique().to_pylist()):
            subset = of_name.filter(pc.equal(of_name["status"], status))
            is_parent = shows_parent(subset)
            lower, upper = (shown_numbers(subset, column, is_parent) for column in ("lower95", "upper95"))
            half = (upper - lower) / 2
            half = half[~np.isnan(half)]
            reliable = float((half <= WIDE_KMH).mean()) if half.size and status in USABLE else 0.0
            quantiles = [float(q) for q in np.quantile(half, (0.1, 0.5, 0.9))] if half.size else None
            row = {"statistic": name, "status": status, "rows": subset.num_rows, "unit": subset["unit"][0].as_py()}
            classes.append(row | {"reliable": reliable, "half": quantiles})
    return classes
