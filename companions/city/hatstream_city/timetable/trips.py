"""Lists the hours of a usual week in which trips pass each cell."""

import csv
import io
from collections.abc import Iterator

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from hatstream_city.timetable.gtfs import WEEKDAYS, Gtfs
from hatstream_city.timetable.positions import Int64s, distance_m
from hatstream_city.timetable.service import calendar_of, departures_of
from hatstream_city.timetable.surroundings import Passages

TRIPS_AT_ONCE = 20_000
_HOUR_S, _DAY_HOURS = 3_600, 24
_WEEK_HOURS = _DAY_HOURS * len(WEEKDAYS)


def hours_table(feed: Gtfs, cells: Int64s, passages: Passages, stop_cells: Int64s) -> tuple[bytes, int]:
    """Writes the CSV that `slot.trips` names, and counts its hours of cells.

    A trip of any date counts for all such weekdays, exceptions included; beyond 24:00 it is the next day's. Between
    stops a vehicle follows its line evenly. cells: sorted.
    """
    is_served, days = np.zeros((cells.size, _WEEK_HOURS), np.bool_), _weekdays_of_trips(feed)
    for trip, cell, start_s, end_s in _visits(feed, passages, stop_cells):
        row, known = np.searchsorted(cells, cell), cell > 0
        first, last = start_s // _HOUR_S, end_s // _HOUR_S
        for later in range(int((last - first).max(initial=0)) + 1):
            for weekday in range(len(WEEKDAYS)):
                chosen = known & (first + later <= last) & days[trip, weekday]
                is_served[row[chosen], (_DAY_HOURS * weekday + first[chosen] + later) % _WEEK_HOURS] = True
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("cell", "weekdays", "hours"))
    for cell, week in zip(cells.tolist(), is_served.reshape(cells.size, len(WEEKDAYS), _DAY_HOURS), strict=True):
        by_hours: dict[str, list[str]] = {}
        for name, day in zip(WEEKDAYS, week, strict=True):
            by_hours.setdefault(" ".join(map(str, np.flatnonzero(day).tolist())), []).append(name[:3])
        writer.writerows((f"{cell:x}", " ".join(names), hours) for hours, names in by_hours.items() if hours)
    return text.getvalue().encode(), int(is_served.sum())


def _weekdays_of_trips(feed: Gtfs) -> NDArray[np.bool_]:
    """Marks the weekdays on any of which each trip runs, (trips, 7)."""
    coded = pc.fill_null(feed.tables["trips"]["service_id"], "").dictionary_encode().combine_chunks()
    calendar = calendar_of(feed, coded.dictionary.to_pylist())
    weekday = (np.arange(calendar.days) + calendar.first.weekday()) % len(WEEKDAYS)
    runs = (calendar.runs(number) for number in range(len(coded.dictionary)))
    of_service = np.array([np.bincount(weekday[days], minlength=len(WEEKDAYS)) > 0 for days in runs])
    marks: NDArray[np.bool_] = of_service[coded.indices.to_numpy()]
    return marks


def _visits(feed: Gtfs, passages: Passages, stop_cells: Int64s) -> Iterator[tuple[Int64s, Int64s, Int64s, Int64s]]:
    """Yields columns of trip, cell, and first and last second of stops and passages."""
    times = feed.stop_times
    rows = np.flatnonzero(~np.isnan(feed.stop_positions[0][times.stop]))
    trip, stop, s = times.trip[rows], times.stop[rows], times.s[rows]
    lat, lon = (degrees[stop] for degrees in feed.stop_positions)
    is_start = np.append(True, trip[1:] != trip[:-1])[: trip.size]
    step_m = np.where(is_start, 0.0, distance_m(np.roll(lat, 1), np.roll(lon, 1), lat, lon))
    begins = np.flatnonzero(is_start)
    along_m = np.cumsum(step_m) - np.repeat(np.cumsum(step_m)[begins], np.diff(np.append(begins, trip.size)))
    length_m = np.maximum.reduceat(along_m, begins) if begins.size else along_m
    part = along_m / np.maximum(np.repeat(length_m, np.diff(np.append(begins, trip.size))), 1e-9)
    of_run, shift = _runs(feed, trip[begins], s[begins])
    for some in np.array_split(np.arange(of_run.size), 1 + of_run.size // TRIPS_AT_ONCE):
        chosen, later_s = of_run[some], shift[some]
        low, high = (np.searchsorted(passages.line, feed.lines.of_trip[chosen], side) for side in ("left", "right"))
        run, row = _expanded(low, high)
        edges = (np.interp(2 * chosen[run] + edge[row], 2 * trip + part, s) for edge in (passages.start, passages.end))
        start_s, end_s = (edge.astype(np.int64) + later_s[run] for edge in edges)
        yield chosen[run], passages.cell[row], start_s, end_s
        run, row = _expanded(*(np.searchsorted(trip, chosen, side) for side in ("left", "right")))
        yield chosen[run], stop_cells[stop[row]], s[row] + later_s[run], s[row] + later_s[run]


def _runs(feed: Gtfs, trips: Int64s, first_s: Int64s) -> tuple[Int64s, Int64s]:
    """Lists trips' runs, with seconds after their stop times."""
    departures = departures_of(feed)
    runs = [
        (trip, at_s - start_s)
        for trip, start_s in zip(trips.tolist(), first_s.tolist(), strict=True)
        for at_s in [at_s for row in departures.get(trip, [range(start_s, start_s + 1)]) for at_s in row]
    ]
    trip, shift = np.array(runs, np.int64).reshape(-1, 2).T
    return trip, shift


def _expanded(low: Int64s, high: Int64s) -> tuple[Int64s, Int64s]:
    """Lists all rows of ranges, with each one's range."""
    sizes = high - low
    owner = np.repeat(np.arange(low.size), sizes)
    return owner, np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes - low, sizes)
