"""The map: hexagons coloured by their estimates, a slider over slots, and what is known of a clicked hexagon."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import h3
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpops.types import Int64s
from pipelines.advice.pages.page import write_page
from transforms.places.hexagons import cell_text

WIDE_KMH = 15.0
"""An interval wider than this to either side is drawn as not reliable, whatever its status says."""

RELIABLE = ("ok",)
_DECIMALS = 5


def draw_map(rows: pa.Table, path: Path, *, title: str, claim: str, tiles: str | None = None) -> int:
    """Writes the map of result rows; returns how many hexagons it has.

    rows: see `read_rows`. claim: a sentence on what the release guarantees. tiles: a template of raster tiles'
    addresses ("https://host/{z}/{x}/{y}.png") that the browser then loads, or None for a map that asks for nothing.
    """
    data = map_data(rows) | {"tiles": tiles, "wide": WIDE_KMH, "reliable": RELIABLE}
    write_page(path, "map.html", data, title=title, claim=claim)
    return len(data["cells"])


def map_data(rows: pa.Table) -> dict[str, Any]:
    """What the page's program reads: cells with their rings, slots, and per statistic a matrix (slots, cells) of each
    of value, lower95, upper95 (null where there is none), status and mechanism (indices into `texts`)."""
    slot, slot_index = _coded(rows["slot_start"], key=datetime.fromisoformat)
    cell, cell_index = _coded(rows["cell"], key=str)
    ends = dict(zip(rows["slot_start"].to_pylist(), rows["slot_end"].to_pylist(), strict=True))
    texts: list[str] = sorted({*rows["status"].unique().to_pylist(), *rows["mechanism"].unique().to_pylist()})
    layers = {
        name: _layer(rows, pc.equal(rows["statistic"], name).to_numpy(), slot_index, cell_index, texts)
        for name in sorted(rows["statistic"].unique().to_pylist())
    }
    return {
        "cells": [{"id": cell_text(int(text, 16)), "ring": _ring(text)} for text in cell],
        "slots": [{"start": start, "label": _label(start, ends[start])} for start in slot],
        "texts": texts,
        "layers": layers,
    }


def _coded(column: pa.ChunkedArray, key: Callable[[str], Any]) -> tuple[list[str], Int64s]:
    """The different texts of a column in the order of their key, and for each row which of them it holds."""
    values: list[str] = sorted(column.unique().to_pylist(), key=key)
    return values, pc.index_in(column, pa.array(values)).to_numpy().astype(np.int64)


def _layer(rows: pa.Table, chosen: Any, slot: Int64s, cell: Int64s, texts: list[str]) -> dict[str, Any]:
    shape = int(slot.max()) + 1, int(cell.max()) + 1
    place = slot[chosen], cell[chosen]
    code = {text: at for at, text in enumerate(texts)}

    def numbers(name: str) -> list[list[float | None]]:
        matrix = np.full(shape, np.nan)
        matrix[place] = rows[name].to_numpy()[chosen]
        return [[None if np.isnan(x) else round(x, 1) for x in line] for line in matrix.tolist()]

    def codes(name: str) -> list[list[int]]:
        matrix = np.full(shape, -1)
        matrix[place] = np.array([code[text] for text in rows[name].to_pylist()])[chosen]
        lines: list[list[int]] = matrix.tolist()
        return lines

    first = int(np.flatnonzero(chosen)[0])
    return {
        "unit": rows["unit"][first].as_py(),
        "value": numbers("value"),
        "lower": numbers("lower95"),
        "upper": numbers("upper95"),
        "status": codes("status"),
        "mechanism": codes("mechanism"),
    }


def _ring(cell: str) -> list[list[float]]:
    """The hexagon's corners as [longitude, latitude], closed, clockwise as plotly fills them."""
    corners = [[round(lon, _DECIMALS), round(lat, _DECIMALS)] for lat, lon in h3.cell_to_boundary(cell)]
    west, east = min(c[0] for c in corners), max(c[0] for c in corners)
    if east - west > 180:  # across the antimeridian
        corners = [[lon + 360 if lon < 0 else lon, lat] for lon, lat in corners]
    corners.reverse()
    return [*corners, corners[0]]


def _label(start: str, end: str) -> str:
    begun, over = datetime.fromisoformat(start), datetime.fromisoformat(end)
    return f"{begun:%a %d %b %Y, %H:%M} to {over:%H:%M}"
