"""Reads a town from its timetable, with map files."""

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zoneinfo import available_timezones

import h3
import msgspec
import numpy as np
from numpy.typing import NDArray

from hatstream.api import InputError
from hatstream_city.timetable.gtfs import Gtfs, read_gtfs
from hatstream_city.timetable.segments import read_segments
from hatstream_city.timetable.service import ServiceDay, calendar_of, hours_table, service_of
from hatstream_city.timetable.surroundings import (
    cells_of_lines,
    cells_or_none,
    ground_document,
    places_document,
    region_document,
)

NAME_LETTERS = 60
PAIR = "|"  # between the ids of two consecutive stops, which are one key
_IMPOSSIBLE = "with one that cannot be, as near (0, 0) or a world away from all stops"


def left_out(feed: Gtfs) -> list[str]:
    """Lists parts of the feed that are left out, in sentences."""
    rows = "1 row of the timetable has more or fewer columns than its header, and is left out."
    if feed.skipped != 1:
        rows = f"{feed.skipped:,} rows of the timetable have more or fewer columns than their header, and are left out."
    trip, stop = (feed.rows_of("stop_times", f"{name}_id", f"{name}s") for name in ("trip", "stop"))
    unknown, no_point = int(((trip < 0) | (stop < 0)).sum()), np.isnan(feed.shape_positions[0])
    points, frequencies = int(no_point.sum()), int((~feed.are_frequencies).sum())
    stops = np.unique(feed.stop_times.stop)
    nowhere = stops[np.isnan(feed.stop_positions[0][stops])]
    name = (feed.tables["stops"]["stop_id"][int(nowhere[0])].as_py() or "") if nowhere.size else ""
    first = "".join(letter for letter in name if letter.isprintable())[:NAME_LETTERS]
    sentences = {
        rows: feed.skipped,
        f"Left out: {unknown:,} of {trip.size:,} stop times, of a trip or stop that has no row.": unknown,
        f"Left out: {nowhere.size:,} of {stops.size:,} stops that are served, without a position or {_IMPOSSIBLE}. "
        f"The first is stop_id {first!r}.": nowhere.size,
        f"Left out: {points:,} of {no_point.size:,} points of shapes, without a position or {_IMPOSSIBLE}.": points,
        f"Left out: {frequencies:,} of {feed.are_frequencies.size:,} rows of frequencies.txt, without trip, times or "
        "headway.": frequencies,
    }
    return [sentence for sentence, count in sentences.items() if count]


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
        return files | ({f"{stem}-{VISITS}.csv": _table(self.visits)} if self.visits else {})


def read_town(path: Path, resolution: int, *, directed: bool | None = None) -> Town:
    """Reads a town from GTFS data. directed: whether segments are one-way; None: no segments."""
    feed = read_gtfs(path)
    if feed.zone in ("localtime", "posixrules") or feed.zone not in available_timezones():
        raise InputError(f"{path}: agency_timezone must be a name like America/Chicago; it is {feed.zone[:40]!r}")
    stop_cells = cells_or_none(*feed.stop_positions, resolution)
    passages = cells_of_lines(feed, resolution)
    served = np.unique(feed.stop_times.stop)
    cells = np.unique(np.concatenate([passages.cell, stop_cells[served]]))
    cells = cells[cells > 0]  # 0: of a stop without position
    if not cells.size:
        raise InputError(f"{path}: no stop that is served has a position")
    documents = {
        REGION: region_document(cells),
        PLACES: places_document(feed, cells, passages, resolution),
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
        "stop-pair": [name for name in dict.fromkeys(names) if name.count(PAIR) == 1],  # no id has the mark
    }
    hours, served_hours = hours_table(feed, calendar, cells, passages, stop_cells)
    return Town(
        origin=path.name,
        zone=feed.zone,
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


def _table(visits: Mapping[str, float]) -> bytes:
    """Writes the CSV that `[places] visits` names."""
    text = io.StringIO()
    csv.writer(text).writerows([("place", "vehicles"), *((name, f"{number:g}") for name, number in visits.items())])
    return text.getvalue().encode()
