"""Describes a timetable's places: cells, names and routes."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import h3
import h3.api.basic_int as h3_int
import numpy as np
import pyarrow.compute as pc
import shapely

from hatstream_city.timetable.gtfs import Gtfs
from hatstream_city.timetable.positions import EARTH_M, Floats, Int64s, cells_at, distance_m

SAMPLE_M = 150.0
"""Between two positions of a line that cells are looked up for."""
SIMPLE_M = 15.0
"""How far a drawn line may lie from the real one."""
MOST_ROUTES_NAMED = 12


def cells_or_none(lat: Floats, lon: Floats, resolution: int) -> Int64s:
    """Finds each position's cell; 0 for NaN."""
    lon = np.where(np.abs(lon) > 180, lon - 360 * np.sign(lon), lon)
    fits = ~np.isnan(lat) & ~np.isnan(lon)
    cells = np.zeros(lat.size, np.int64)
    cells[fits] = cells_at(lat[fits], lon[fits], resolution)
    return cells


class Passages(NamedTuple):
    """Stretches of lines within a cell, by parts of length."""

    line: Int64s
    cell: Int64s
    start: Floats
    end: Floats


def cells_of_lines(feed: Gtfs, resolution: int) -> Passages:
    """Finds the cells that lines pass, in order, sampled every SAMPLE_M metres."""
    lines = feed.lines
    line = np.repeat(np.arange(lines.starts.size - 1), np.diff(lines.starts))
    is_inside = np.append(line[1:] == line[:-1], False)
    following = np.minimum(np.arange(line.size) + 1, max(line.size - 1, 0))
    step_m = np.where(is_inside, distance_m(lines.lat, lines.lon, lines.lat[following], lines.lon[following]), 0.0)
    steps = np.maximum(1, np.ceil(np.minimum(step_m, 1e6) / SAMPLE_M)).astype(np.int64)
    row = np.repeat(np.arange(line.size), steps)
    part = (np.arange(row.size) - np.repeat(np.cumsum(steps) - steps, steps)) / steps[row]
    lat, lon = (column[row] + part * (column[following[row]] - column[row]) for column in (lines.lat, lines.lon))
    cell, of_row = cells_or_none(lat, lon, resolution), line[row]
    before_m = np.cumsum(step_m) - step_m
    along_m = (before_m[row] + part * step_m[row]) - before_m[lines.starts[of_row]]
    length_m = np.maximum(before_m[lines.starts[1:] - 1] - before_m[lines.starts[:-1]], 1e-9)
    starts = np.flatnonzero(np.append(True, (np.diff(cell) != 0) | (np.diff(of_row) != 0))[: row.size])
    of_passage, start = of_row[starts], along_m[starts] / length_m[of_row[starts]]
    is_last = np.append(np.diff(of_passage) != 0, True)[: starts.size]
    return Passages(of_passage, cell[starts], start, np.where(is_last, 1.0, np.roll(start, -1)))


def region_document(cells: Int64s) -> dict[str, Any]:
    """Draws the cells' outline as GeoJSON; at their resolution it holds exactly these cells."""
    shape = h3.cells_to_geo([h3.int_to_str(cell) for cell in cells.tolist()])
    return {"type": "Feature", "properties": {"cells": int(cells.size)}, "geometry": shape}


def places_document(feed: Gtfs, cells: Int64s, of_line: Passages, resolution: int) -> dict[str, Any]:
    """Names cells after their busiest or nearest stop, as GeoJSON with routes and departures.

    cells: (cells,), H3, to name. of_line: cells that each line passes.
    """
    lat, lon = feed.stop_positions
    stop_cell = cells_or_none(lat, lon, resolution)
    served = np.bincount(feed.stop_times.stop, minlength=lat.size)
    names = feed.tables["stops"]["stop_name"].to_pylist()
    best = {
        int(stop_cell[stop]): int(stop) for stop in np.argsort(served, kind="stable") if stop_cell[stop] and names[stop]
    }
    routes = _routes_by_cell(feed, of_line)
    departures = Counter(stop_cell[feed.stop_times.stop].tolist())
    features = []
    for cell in cells.tolist():
        stop = best.get(cell, _nearest(cell, lat, lon, served))
        name = "" if stop is None else " ".join((names[stop] or "").split())
        note = _routes_text(routes.get(cell, ()))
        properties = {
            "place": h3.int_to_str(cell),
            "name": name if cell in best else name and f"near {name}",
            "note": note,
            "departures": departures[cell],
        }
        features.append({"type": "Feature", "geometry": None, "properties": properties})
    return {"type": "FeatureCollection", "features": features}


def _nearest(cell: int, lat: Floats, lon: Floats, served: Int64s) -> int | None:
    if not (~np.isnan(lat)).any():
        return None
    here = h3_int.cell_to_latlng(cell)
    far_m = distance_m(np.full(lat.size, here[0]), np.full(lat.size, here[1]), lat, lon)
    return int(np.nanargmin(np.where(served > 0, far_m, far_m + 1e6)))


def _routes_by_cell(feed: Gtfs, of_line: Passages) -> dict[int, set[str]]:
    """Lists the names of the routes through each cell.

    of_line: the cells that each line of the feed passes.
    """
    route = feed.rows_of("trips", "route_id", "routes")
    names = route_names(feed)
    of_lines: dict[int, set[str]] = {}
    for line, number in set(zip(feed.lines.of_trip.tolist(), route.tolist(), strict=True)):
        if line >= 0 and number >= 0:
            of_lines.setdefault(line, set()).add(names[number])
    cells: dict[int, set[str]] = {}
    for line, cell in set(zip(of_line.line.tolist(), of_line.cell.tolist(), strict=True)):
        cells.setdefault(cell, set()).update(of_lines.get(line, ()))
    return cells


def _routes_text(routes: Sequence[str] | set[str]) -> str:
    shown = sorted(filter(None, routes), key=_natural)
    suffix = f" and {len(shown) - MOST_ROUTES_NAMED} more" if len(shown) > MOST_ROUTES_NAMED else ""
    word = "route" if len(shown) == 1 else "routes"
    return f"{word} {', '.join(shown[:MOST_ROUTES_NAMED])}{suffix}" if shown else ""


def _natural(text: str) -> list[tuple[int, str]]:
    """Sorts route 9 before route 10."""
    return [(int(part) if part.isdecimal() else -1, part) for part in re.split(r"(\d+)", text)]


def route_names(feed: Gtfs) -> list[str]:
    """Names routes by short name, long name or id."""
    routes = feed.tables["routes"]
    names: list[str] = pc.coalesce(
        routes["route_short_name"], routes["route_long_name"], routes["route_id"]
    ).to_pylist()
    return [" ".join((name or "").split())[:40] for name in names]


def ground_document(feed: Gtfs) -> dict[str, Any]:
    """Draws each route's line, by direction and simplified."""
    trips, route = feed.tables["trips"], feed.rows_of("trips", "route_id", "routes")
    names, colours = route_names(feed), feed.tables["routes"]["route_color"].to_pylist()
    ways = zip(route.tolist(), trips["direction_id"].to_pylist(), feed.lines.of_trip.tolist(), strict=True)
    ways_count = Counter(way for way in ways if way[0] >= 0 and way[2] >= 0)
    chosen: dict[tuple[int, str | None], int] = {}
    for (number, direction, line), _ in ways_count.most_common():
        chosen.setdefault((number, direction), line)
    features = [
        _line(feed, line, names[number], colours[number]) for (number, _), line in sorted(chosen.items(), key=str)
    ]
    return {"type": "FeatureCollection", "features": [feature for feature in features if feature]}


def _line(feed: Gtfs, line: int, name: str, colour: str | None) -> dict[str, Any] | None:
    """Draws one line of a feed as GeoJSON feature; None without two points."""
    rows = slice(feed.lines.starts[line], feed.lines.starts[line + 1])
    lat, lon = feed.lines.lat[rows], feed.lines.lon[rows]
    if lat.size < 2:
        return None
    positions = np.round(simplified(np.column_stack([lon, lat])), 5).tolist()
    return {
        "type": "Feature",
        "geometry": {"type": "LineString", "coordinates": positions},
        "properties": {"name": name, "colour": colour or ""},
    }


def simplified(degrees: Floats) -> Floats:
    """Simplifies a line of longitudes and latitudes, moving it by at most SIMPLE_M."""
    scale = np.radians([math.cos(math.radians(float(degrees[:, 1].mean()))), 1.0]) * EARTH_M
    line = shapely.simplify(shapely.linestrings(degrees * scale), SIMPLE_M, preserve_topology=False)
    positions: Floats = shapely.get_coordinates(line) / scale
    return positions
