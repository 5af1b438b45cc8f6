"""Reads a town from its timetable, and draws its map files.

`trip`, `stop`, `route`: rows of their tables, -1 for none. `feed.lines`: polylines of trips, each the points from
`starts[line]` on. `passages`: stretches of lines within a cell. A document is GeoJSON of a file. `keys`: ids of routes,
stops, trips and pairs of stops, which a release may have in the place of cells.
"""

import csv
import io
import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zoneinfo import available_timezones

import h3
import h3.api.basic_int as h3_int
import msgspec
import numpy as np
import pyarrow.compute as pc
import shapely
from numpy.typing import NDArray

from hatstream.api import InputError
from hatstream_city.timetable.gtfs import Gtfs, Passages, cells_of_lines, read_gtfs
from hatstream_city.timetable.positions import EARTH_M, FAR_M, Int64s, cells_at, distance_m
from hatstream_city.timetable.segments import read_segments
from hatstream_city.timetable.service import ServiceDay, calendar_of, hours_table, service_of

NAME_LETTERS = 60
PAIR = "|"  # between the ids of two consecutive stops, which are one key
_IMPOSSIBLE = "with one that cannot be, as near (0, 0) or a world away from all stops"


def left_out(feed: Gtfs) -> list[str]:
    """Lists parts of the feed that are left out, in sentences."""
    rows = "1 row of the timetable has more or fewer columns than its header, and is left out."
    if feed.skipped != 1:
        rows = f"{feed.skipped:,} rows of the timetable have more or fewer columns than their header, and are left out."
    trip, stop = (feed.rows_of("stop_times", f"{name}_id", f"{name}s") for name in ("trip", "stop"))
    stops = np.unique(feed.stop_times.stop)
    nowhere = np.isnan(feed.stop_positions[0][stops])
    first_ids = feed.tables["stops"]["stop_id"].take(stops[nowhere][:1]).to_pylist()
    first_id = "".join(letter for letter in "".join(filter(None, first_ids)) if letter.isprintable())[:NAME_LETTERS]
    masks = {  # of what is left out, in words
        "stop times, of a trip or stop that has no row": (trip < 0) | (stop < 0),
        f"stops that are served, without a position or {_IMPOSSIBLE}. The first is stop_id {first_id!r}": nowhere,
        f"points of shapes, without a position or {_IMPOSSIBLE}": np.isnan(feed.shape_positions[0]),
        "rows of frequencies.txt, without trip, times or headway": ~feed.are_frequencies,
    }
    sentences = [f"Left out: {mask.sum():,} of {mask.size:,} {what}." for what, mask in masks.items() if mask.any()]
    return [rows] * bool(feed.skipped) + sentences


REGION, PLACES, GROUND, SEGMENTS, VISITS, HOURS = "region", "places", "ground", "segments", "visits", "hours"
"""Of the files: the cells' outline, names of the cells, lines of the routes; lines from stop to stop, and how many
vehicles come to each; hours of each cell with a trip."""


@dataclass(frozen=True)
class Town:
    """Town of a timetable."""

    origin: str  # name of its file
    zone: str
    service: ServiceDay
    cells: frozenset[str]  # its region
    documents: Mapping[str, Mapping[str, Any]]  # GeoJSON by REGION, PLACES, GROUND and, if requested, SEGMENTS
    visits: Mapping[str, float]  # vehicles a day by segment
    left_out: list[str]  # sentences on invalid parts of the feed
    keys: Mapping[str, list[str]]  # ids of what runs, by column of a feed
    hours: bytes  # content of HOURS
    served_hours: int  # of HOURS, in a week

    def lists(self, stem: str) -> dict[str, bytes]:
        """Encodes the ids of each column, one a line."""
        return {
            f"{stem}-{column.removesuffix('_id')}s.txt": "".join(f"{name}\n" for name in names).encode()
            for column, names in self.keys.items()
        }

    def files(self, stem: str) -> dict[str, bytes]:
        """Encodes all documents, by file name."""
        files = {f"{stem}-{name}.geojson": msgspec.json.encode(document) for name, document in self.documents.items()}
        files[f"{stem}-{HOURS}.csv"] = self.hours
        if self.visits:  # as `[places] visits` names them
            text = io.StringIO()
            vehicles = ((name, f"{number:g}") for name, number in self.visits.items())
            csv.writer(text).writerows([("place", "vehicles"), *vehicles])
            files[f"{stem}-{VISITS}.csv"] = text.getvalue().encode()
        return files


def read_town(path: Path, resolution: int, *, directed: bool | None = None) -> Town:
    """Reads a town from GTFS data. Raises InputError. directed: one-way segments; None: none."""
    feed = read_gtfs(path)
    zone = feed.tables["agency"]["agency_timezone"][0].as_py() or ""  # of the first agency
    if zone in ("localtime", "posixrules") or zone not in available_timezones():
        raise InputError(f"{path}: agency_timezone must be a name like America/Chicago; it is {zone[:40]!r}")
    stop_cells = cells_at(*feed.stop_positions, resolution)
    passages = cells_of_lines(feed, resolution)
    served = np.unique(feed.stop_times.stop)
    cells = np.unique(np.concatenate([passages.cell, stop_cells[served]]))
    cells = cells[cells > 0]  # 0: of a stop without position
    if not cells.size:
        raise InputError(f"{path}: no stop that is served has a position")
    outline = h3.cells_to_geo([h3.int_to_str(cell) for cell in cells.tolist()])  # which holds exactly these cells
    documents = {
        REGION: {"type": "Feature", "properties": {"cells": int(cells.size)}, "geometry": outline},
        PLACES: places_document(feed, cells, passages, stop_cells),
        GROUND: ground_document(feed),
    }
    calendar, visits = calendar_of(feed), dict[str, float]()
    service = service_of(feed, calendar, stop_cells)
    if directed is not None:
        documents[SEGMENTS], visits = read_segments(feed, cells.tolist(), service.runs, directed=directed)
        visits = visits if any(visits.values()) else {}  # zeros alone tell no place from another
    trips, times = np.unique(feed.stop_times.trip), feed.stop_times  # by trip and sequence
    is_same_trip = times.trip[1:] == times.trip[:-1]
    pairs = np.unique(np.stack([times.stop[:-1][is_same_trip], times.stop[1:][is_same_trip]]), axis=1)
    stop_ids = [(name or "").strip() for name in feed.tables["stops"]["stop_id"].to_pylist()]
    names = [PAIR.join((stop_ids[first], stop_ids[second])) for first, second in pairs.T.tolist()]
    keys = {
        "route_id": _ids(feed, "routes", feed.rows_of("trips", "route_id", "routes")[trips]),
        "stop_id": _ids(feed, "stops", served),
        "trip_id": _ids(feed, "trips", trips),
        "stop-pair": [name for name in dict.fromkeys(names) if name.count(PAIR) == 1],  # but for ids with the mark
    }
    hours, served_hours = hours_table(feed, calendar, cells, passages, stop_cells)  # a CSV, and its hours of cells
    return Town(
        origin=path.name,
        zone=zone,
        service=service,
        cells=frozenset(map(h3.int_to_str, cells.tolist())),
        documents=documents,
        visits=visits,
        left_out=left_out(feed),
        keys=keys,
        hours=hours,
        served_hours=served_hours,
    )


def _ids(feed: Gtfs, table: str, rows: NDArray[np.int64]) -> list[str]:
    """Lists the distinct ids of a table's rows."""
    ids = feed.tables[table][f"{table[:-1]}_id"].take(np.unique(rows[rows >= 0])).to_pylist()  # -1: none
    return list(dict.fromkeys(name.strip() for name in ids if name and name.strip()))


SIMPLE_M = 15.0  # how far a drawn line may lie from the real one
MOST_ROUTES_NAMED = 12


def places_document(feed: Gtfs, cells: Int64s, passages: Passages, stop_cells: Int64s) -> dict[str, Any]:
    """Names cells after their busiest or nearest stop, as GeoJSON with routes and departures.

    cells: H3, of the region. passages: of lines through cells. stop_cells: of each stop, 0 without a position.
    """
    lat, lon = feed.stop_positions
    departures_by_stop = np.bincount(feed.stop_times.stop, minlength=lat.size)
    names = feed.tables["stops"]["stop_name"].to_pylist()
    busiest = {  # stop by cell: the last one stays
        int(stop_cells[stop]): int(stop)
        for stop in np.argsort(departures_by_stop, kind="stable")
        if stop_cells[stop] and names[stop]
    }
    route, route_name = feed.rows_of("trips", "route_id", "routes"), route_names(feed)
    by_line, by_cell = defaultdict[int, set[str]](set), defaultdict[int, set[str]](set)  # names of routes
    for line, number in set(zip(feed.lines.of_trip.tolist(), route.tolist(), strict=True)):
        if line >= 0 and number >= 0:  # -1: the trip has none
            by_line[line].add(route_name[number])
    for line, cell in set(zip(passages.line.tolist(), passages.cell.tolist(), strict=True)):
        by_cell[cell] |= by_line[line]
    departures_by_cell = Counter(stop_cells[feed.stop_times.stop].tolist())
    features = []
    for cell in cells.tolist():
        stop, prefix = busiest.get(cell), ""
        if stop is None and not np.isnan(lat).all():  # the nearest one, those with departures first
            centre_lat, centre_lon = (np.full(lat.size, degrees) for degrees in h3_int.cell_to_latlng(cell))
            far_m = distance_m(centre_lat, centre_lon, lat, lon) + np.where(departures_by_stop > 0, 0.0, FAR_M)
            stop, prefix = int(np.nanargmin(far_m)), "near "
        name = "" if stop is None else " ".join((names[stop] or "").split())
        properties = {
            "place": h3.int_to_str(cell),
            "name": name and f"{prefix}{name}",
            "note": _routes_text(by_cell[cell]),
            "departures": departures_by_cell[cell],
        }
        features.append({"type": "Feature", "geometry": None, "properties": properties})
    return {"type": "FeatureCollection", "features": features}


def _routes_text(routes: set[str]) -> str:
    """Lists routes in words, MOST_ROUTES_NAMED of them."""
    # Numbers in names count as such: route 9 comes before route 10.
    numbers = {name: [(int(n) if n.isdecimal() else -1, n) for n in re.split(r"(\d+)", name)] for name in routes}
    shown = sorted(filter(None, routes), key=numbers.__getitem__)
    suffix = f" and {len(shown) - MOST_ROUTES_NAMED} more" if len(shown) > MOST_ROUTES_NAMED else ""
    word = "route" if len(shown) == 1 else "routes"
    return f"{word} {', '.join(shown[:MOST_ROUTES_NAMED])}{suffix}" if shown else ""


def route_names(feed: Gtfs) -> list[str]:
    """Names routes by short name, long name or id."""
    table = feed.tables["routes"]
    names: list[str] = pc.coalesce(table["route_short_name"], table["route_long_name"], table["route_id"]).to_pylist()
    return [" ".join((name or "").split())[:40] for name in names]  # 40 characters are the longest label


def ground_document(feed: Gtfs) -> dict[str, Any]:
    """Draws the line with most trips of each route and direction, simplified, as GeoJSON."""
    trips, route = feed.tables["trips"], feed.rows_of("trips", "route_id", "routes")
    names, colours = route_names(feed), feed.tables["routes"]["route_color"].to_pylist()
    ways = zip(route.tolist(), trips["direction_id"].to_pylist(), feed.lines.of_trip.tolist(), strict=True)
    trips_of_way = Counter((number, direction, line) for number, direction, line in ways if number >= 0 and line >= 0)
    commonest_last = reversed(trips_of_way.most_common())
    line_of = {(number, direction): line for (number, direction, line), _ in commonest_last}  # the last one stays
    features = []
    for (number, _), line in sorted(line_of.items(), key=str):  # as texts, since a direction may be None
        rows = slice(feed.lines.starts[line], feed.lines.starts[line + 1])
        lat, lon = feed.lines.lat[rows], feed.lines.lon[rows]
        if lat.size < 2:
            continue
        scale = np.radians([math.cos(math.radians(float(lat.mean()))), 1.0]) * EARTH_M  # metres of a degree
        metres = shapely.linestrings(np.column_stack([lon, lat]) * scale)
        degrees = shapely.get_coordinates(shapely.simplify(metres, SIMPLE_M, preserve_topology=False)) / scale
        geometry = {"type": "LineString", "coordinates": np.round(degrees, 5).tolist()}  # 5 decimals: to about 1 m
        properties = {"name": names[number], "colour": colours[number] or ""}
        features.append({"type": "Feature", "geometry": geometry, "properties": properties})
    return {"type": "FeatureCollection", "features": features}
