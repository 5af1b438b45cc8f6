"""Describes a timetable's places: cells, names and routes."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import h3
import h3.api.basic_int as h3_int
import numpy as np
import pyarrow.compute as pc
import shapely

from hatstream_city.timetable.gtfs import Gtfs
from hatstream_city.timetable.positions import EARTH_M, FAR_M, Floats, Int64s, cells_at, distance_m

SAMPLE_M = 150.0  # between two positions of a line that cells are looked up for
SIMPLE_M = 15.0  # how far a drawn line may lie from the real one
MOST_ROUTES_NAMED = 12


def cells_or_none(lat: Floats, lon: Floats, resolution: int) -> Int64s:
    """Finds each position's cell; 0 for NaN."""
    lon = np.where(np.abs(lon) > 180, lon - 360 * np.sign(lon), lon)  # of lines across the antimeridian
    fits = ~np.isnan(lat) & ~np.isnan(lon)
    cells = np.zeros(lat.size, np.int64)
    cells[fits] = cells_at(lat[fits], lon[fits], resolution)
    return cells


class Passages(NamedTuple):
    """Stretches of lines within a cell, (stretches,), ascending by line and start."""

    line: Int64s
    cell: Int64s
    start: Floats  # part of the line's length, 0 to 1
    end: Floats


def cells_of_lines(feed: Gtfs, resolution: int) -> Passages:
    """Finds the cells that lines pass, in order, sampled every SAMPLE_M metres."""
    lines = feed.lines
    line = np.repeat(np.arange(lines.starts.size - 1), np.diff(lines.starts))
    has_next = np.append(line[1:] == line[:-1], False)
    following = np.minimum(np.arange(line.size) + 1, max(line.size - 1, 0))
    step_m = np.where(has_next, distance_m(lines.lat, lines.lon, lines.lat[following], lines.lon[following]), 0.0)
    # Samples after each point; a step beyond FAR_M is an error of the feed, and must not fill the memory.
    steps = np.maximum(1, np.ceil(np.minimum(step_m, FAR_M) / SAMPLE_M)).astype(np.int64)
    row = np.repeat(np.arange(line.size), steps)
    fraction = (np.arange(row.size) - np.repeat(np.cumsum(steps) - steps, steps)) / steps[row]
    lat, lon = (column[row] + fraction * (column[following[row]] - column[row]) for column in (lines.lat, lines.lon))
    cell, sample_line = cells_or_none(lat, lon, resolution), line[row]
    before_m = np.cumsum(step_m) - step_m
    along_m = (before_m[row] + fraction * step_m[row]) - before_m[lines.starts[sample_line]]
    length_m = np.maximum(before_m[lines.starts[1:] - 1] - before_m[lines.starts[:-1]], 1e-9)  # no 0 / 0
    starts = np.flatnonzero(np.append(True, (np.diff(cell) != 0) | (np.diff(sample_line) != 0))[: row.size])
    passage_line, start = sample_line[starts], along_m[starts] / length_m[sample_line[starts]]  # start: 0 to 1
    is_last = np.append(np.diff(passage_line) != 0, True)[: starts.size]  # of a line; cut, as there may be none
    return Passages(passage_line, cell[starts], start, np.where(is_last, 1.0, np.roll(start, -1)))  # ends: next starts


def region_document(cells: Int64s) -> dict[str, Any]:
    """Draws the cells' outline as GeoJSON; at their resolution it holds exactly these cells."""
    shape = h3.cells_to_geo([h3.int_to_str(cell) for cell in cells.tolist()])
    return {"type": "Feature", "properties": {"cells": int(cells.size)}, "geometry": shape}


def places_document(feed: Gtfs, cells: Int64s, passages: Passages, resolution: int) -> dict[str, Any]:
    """Names cells after their busiest or nearest stop, as GeoJSON with routes and departures.

    cells: H3, of the region. passages: of lines through cells.
    """
    lat, lon = feed.stop_positions
    stop_cell = cells_or_none(lat, lon, resolution)
    departures_of = np.bincount(feed.stop_times.stop, minlength=lat.size)  # number by stop
    names = feed.tables["stops"]["stop_name"].to_pylist()
    busiest = {  # stop by cell (0: no position): the last one stays
        int(stop_cell[stop]): int(stop)
        for stop in np.argsort(departures_of, kind="stable")
        if stop_cell[stop] and names[stop]
    }
    routes = _routes_by_cell(feed, passages)
    departures = Counter(stop_cell[feed.stop_times.stop].tolist())
    features = []
    for cell in cells.tolist():
        stop = busiest.get(cell, _nearest(cell, lat, lon, departures_of))
        name = "" if stop is None else " ".join((names[stop] or "").split())
        properties = {
            "place": h3.int_to_str(cell),
            "name": name if cell in busiest else name and f"near {name}",
            "note": _routes_text(routes.get(cell, ())),
            "departures": departures[cell],
        }
        features.append({"type": "Feature", "geometry": None, "properties": properties})
    return {"type": "FeatureCollection", "features": features}


def _nearest(cell: int, lat: Floats, lon: Floats, departures_of: Int64s) -> int | None:
    """Finds the nearest stop, those with departures first; None without any position."""
    if not (~np.isnan(lat)).any():
        return None
    centre = h3_int.cell_to_latlng(cell)
    far_m = distance_m(np.full(lat.size, centre[0]), np.full(lat.size, centre[1]), lat, lon)
    return int(np.nanargmin(np.where(departures_of > 0, far_m, far_m + FAR_M)))  # FAR_M puts others behind


def _routes_by_cell(feed: Gtfs, passages: Passages) -> dict[int, set[str]]:
    """Lists the names of routes through each cell."""
    route = feed.rows_of("trips", "route_id", "routes")
    names = route_names(feed)
    by_line, by_cell = defaultdict[int, set[str]](set), defaultdict[int, set[str]](set)
    for line, number in set(zip(feed.lines.of_trip.tolist(), route.tolist(), strict=True)):
        if line >= 0 and number >= 0:  # -1: the trip has none
            by_line[line].add(names[number])
    for line, cell in set(zip(passages.line.tolist(), passages.cell.tolist(), strict=True)):
        by_cell[cell].update(by_line.get(line, ()))
    return by_cell


def _routes_text(routes: Sequence[str] | set[str]) -> str:
    """Lists routes in words, MOST_ROUTES_NAMED of them."""
    shown = sorted(filter(None, routes), key=_natural)
    suffix = f" and {len(shown) - MOST_ROUTES_NAMED} more" if len(shown) > MOST_ROUTES_NAMED else ""
    word = "route" if len(shown) == 1 else "routes"
    return f"{word} {', '.join(shown[:MOST_ROUTES_NAMED])}{suffix}" if shown else ""


def _natural(text: str) -> list[tuple[int, str]]:
    """Splits a text so that route 9 sorts before route 10."""
    return [(int(token) if token.isdecimal() else -1, token) for token in re.split(r"(\d+)", text)]


def route_names(feed: Gtfs) -> list[str]:
    """Names routes by short name, long name or id."""
    table = feed.tables["routes"]
    names: list[str] = pc.coalesce(table["route_short_name"], table["route_long_name"], table["route_id"]).to_pylist()
    return [" ".join((name or "").split())[:40] for name in names]  # a label is no longer


def ground_document(feed: Gtfs) -> dict[str, Any]:
    """Draws the line with most trips of each route and direction, simplified, as GeoJSON."""
    trips, route = feed.tables["trips"], feed.rows_of("trips", "route_id", "routes")
    names, colours = route_names(feed), feed.tables["routes"]["route_color"].to_pylist()
    ways = zip(route.tolist(), trips["direction_id"].to_pylist(), feed.lines.of_trip.tolist(), strict=True)
    trips_of_way = Counter((number, direction, line) for number, direction, line in ways if number >= 0 and line >= 0)
    line_of: dict[tuple[int, str | None], int] = {}
    for (number, direction, line), _ in trips_of_way.most_common():
        line_of.setdefault((number, direction), line)
    drawn = sorted(line_of.items(), key=str)  # None, a direction too, has no order
    features = [_line(feed, line, names[number], colours[number]) for (number, _), line in drawn]
    return {"type": "FeatureCollection", "features": [feature for feature in features if feature]}


def _line(feed: Gtfs, line: int, name: str, colour: str | None) -> dict[str, Any] | None:
    """Draws one line of a feed as GeoJSON feature; None without two points."""
    rows = slice(feed.lines.starts[line], feed.lines.starts[line + 1])
    lat, lon = feed.lines.lat[rows], feed.lines.lon[rows]
    if lat.size < 2:
        return None
    positions = np.round(simplified(np.column_stack([lon, lat])), 5).tolist()  # 5 decimals: to about 1 m
    geometry = {"type": "LineString", "coordinates": positions}
    return {"type": "Feature", "geometry": geometry, "properties": {"name": name, "colour": colour or ""}}


def simplified(degrees: Floats) -> Floats:
    """Simplifies a line of longitudes and latitudes, moving it by at most SIMPLE_M."""
    scale = np.radians([math.cos(math.radians(float(degrees[:, 1].mean()))), 1.0]) * EARTH_M
    line = shapely.simplify(shapely.linestrings(degrees * scale), SIMPLE_M, preserve_topology=False)
    return np.asarray(shapely.get_coordinates(line) / scale)
