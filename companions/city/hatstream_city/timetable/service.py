"""Reads a fleet and the hours of cells from a timetable."""

import csv
import heapq
import io
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import repeat
from typing import Any, NamedTuple

import h3.api.basic_int as h3_int
import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from hatstream.api import InputError
from hatstream_city.timetable.gtfs import WEEKDAYS, Gtfs
from hatstream_city.timetable.positions import Floats, Int64s, distance_m
from hatstream_city.timetable.surroundings import Passages

TURN_S = 1_800
"""Between duties of different routes; between those of one, layover stands in the timetable."""
LEAST_SHARE = 0.005
"""Of a day's stops: an hour with fewer is none of service."""
MOST_DATES = 50_000
"""From the first on: what a calendar says of later ones is not read."""
MOST_VISITS = 10_000_000
"""Of stops, by all runs of a day."""
TRIPS_AT_ONCE = 20_000
_DAY_S, _HOUR_S, _DAY_HOURS, _PART_HOURS = 86_400, 3_600, 24, 4
_WEEK_HOURS = _DAY_HOURS * len(WEEKDAYS)
_ONCE = range(1)
"""Of a trip that no frequency repeats: one run."""


@dataclass(frozen=True, kw_only=True)
class ServiceDay:
    """Service of the day with the most trips.

    outside: share of the day's stops outside of the hours. vehicles: most at once. blocks: number of duties. profile:
    counts of what the median vehicle touches; by_key: with keys of a column. runs: vehicles between consecutive stops,
    by rows of the table, above 0.
    """

    day: date
    first: date
    last: date
    weekdays: tuple[str, ...]
    hours: tuple[tuple[int, int], ...]
    outside: float
    vehicles: int
    blocks: int
    profile: Mapping[str, int]
    by_key: Mapping[str, Mapping[str, int]]
    runs: Mapping[tuple[int, int], int]


class ServiceCalendar(NamedTuple):
    """Services by day, from the first one on; of_trip: each trip's service."""

    of_trip: Int64s
    first: date
    days: int
    weeks: Mapping[int, Sequence[Mapping[str, Any]]]
    exceptions: Mapping[int, Sequence[Mapping[str, Any]]]

    def date_of(self, day: int) -> date:
        return self.first + timedelta(days=day)

    def runs(self, service: int) -> NDArray[np.bool_]:
        """Returns a mask of the calendar's days, (days,), on which a service runs."""
        runs = np.zeros(self.days, np.bool_)
        weekday = (np.arange(self.days) + self.first.weekday()) % 7
        for row in self.weeks.get(service, ()):
            start, end = _date(row["start_date"]), _date(row["end_date"])
            on = np.array([str(row[name]).strip() == "1" for name in WEEKDAYS])
            if start is not None and end is not None and start <= end:
                days = slice((start - self.first).days, (end - self.first).days + 1)
                runs[days] |= on[weekday[days]]
        for row in self.exceptions.get(service, ()):
            day = _date(row["date"])
            if day is not None and (day - self.first).days < self.days:
                runs[(day - self.first).days] = str(row["exception_type"]).strip() == "1"
        return runs


def calendar_of(feed: Gtfs) -> ServiceCalendar:
    """Reads the calendar of services."""
    coded = pc.fill_null(feed.tables["trips"]["service_id"], "").dictionary_encode().combine_chunks()
    number = {name: row for row, name in enumerate(coded.dictionary.to_pylist())}
    tables = []
    for name in ("calendar", "calendar_dates"):
        rows: dict[int, list[Mapping[str, Any]]] = {}
        for row in feed.tables[name].to_pylist():
            if row["service_id"] in number:
                rows.setdefault(number[row["service_id"]], []).append(row)
        tables.append(rows)
    dates = {_date(row[name]) for rows in tables[0].values() for row in rows for name in ("start_date", "end_date")}
    dates |= {_date(row["date"]) for rows in tables[1].values() for row in rows}
    days = sorted(day for day in dates if day is not None) or [date.min]
    length = min((days[-1] - days[0]).days + 1, MOST_DATES)
    return ServiceCalendar(coded.indices.to_numpy().astype(np.int64), days[0], length, *tables)


def _date(text: str | None) -> date | None:
    """Reads a date like "20260513"."""
    try:
        return date.fromisoformat((text or "").strip())
    except ValueError:
        return None


def service_of(feed: Gtfs, calendar: ServiceCalendar, stop_cells: Int64s) -> ServiceDay:
    """Finds the service of the day with most trips. Raises InputError without any.

    stop_cells: H3 cell of each stop, 0 where its position is missing.
    """
    per_date, services = np.zeros(calendar.days, np.int64), np.bincount(calendar.of_trip)
    for number, trips in enumerate(services.tolist()):
        per_date[calendar.runs(number)] += trips
    if not per_date.any():
        raise InputError("the timetable has no trip on any day: calendar.txt and calendar_dates.txt name none")
    busiest, days = int(per_date.argmax()), [calendar.date_of(day) for day in np.flatnonzero(per_date).tolist()]
    runs_then = np.array([calendar.runs(number)[busiest] for number in range(services.size)])
    run, trip, stop, s, block = _visits(feed, np.flatnonzero(runs_then[calendar.of_trip]), calendar.date_of(busiest))
    if not s.size:
        raise InputError("the timetable has no stop time of the day with the most trips")
    vehicle, blocks = _vehicles(run, s, block, feed.rows_of("trips", "route_id", "routes")[trip])
    per_hour = np.bincount((s % _DAY_S) // _HOUR_S, minlength=24) / s.size
    busy = per_hour >= LEAST_SHARE
    starts = np.flatnonzero(busy & ~np.roll(busy, 1)).tolist() or [0]  # service round the clock has no start
    pauses = [np.flatnonzero(~np.roll(busy, -start)).tolist() for start in starts]
    hours = tuple((start, start + min(pause, default=24)) for start, pause in zip(starts, pauses, strict=True))
    outside = float(per_hour[~busy].sum())
    placed = ~np.isnan(feed.stop_positions[0][stop])
    goes_on, placed_stop = run[placed][1:] == run[placed][:-1], stop[placed]
    stops = 1 + int(placed_stop.max(initial=0))
    hour, route = s // _HOUR_S, feed.rows_of("trips", "route_id", "routes")
    keys = {"route_id": route[trip], "stop_id": stop, "trip_id": trip}
    pairs, count = np.unique(placed_stop[:-1][goes_on] * stops + placed_stop[1:][goes_on], return_counts=True)
    return ServiceDay(
        day=calendar.date_of(busiest),
        first=days[0],
        last=days[-1],
        weekdays=tuple(WEEKDAYS[date_number].capitalize() for date_number in sorted({day.weekday() for day in days})),
        hours=hours,
        outside=outside,
        vehicles=int(vehicle.max()) + 1,
        blocks=blocks,
        profile=_profile(vehicle, stop_cells[stop], hour, _coarser),
        by_key={column: _profile(vehicle, 1 + rows, hour, _group) for column, rows in keys.items()},
        runs=dict(zip(map(divmod, pairs.tolist(), repeat(stops)), count.tolist(), strict=False)),
    )


# --- the day's runs -----------------------------------------------------------------------------------------------


def _visits(feed: Gtfs, trips: Int64s, day: date) -> tuple[Int64s, ...]:
    """Lists the day's stops: run, trip, stop, seconds; last, each run's block.

    A frequency gives a run for each departure. Raises InputError above MOST_VISITS.
    """
    times, departures = feed.stop_times, departures_of(feed)
    start, end = (np.searchsorted(times.trip, trips, side) for side in ("left", "right"))
    trips, start, end = (column[end > start] for column in (trips, start, end))
    runs = np.array([sum(map(len, departures.get(trip, [_ONCE]))) for trip in trips.tolist()], np.int64)
    visits = int(((end - start) * runs).sum())
    if visits > MOST_VISITS:
        raise InputError(
            f"on {day} the timetable's vehicles stop {visits:,} times, more than {MOST_VISITS:,}: look for small "
            "headway_secs in frequencies.txt, which are seconds; or give the timetable of a smaller area"
        )
    of_run, shift = _runs(departures, trips, times.s[start])
    run, row = _expanded(np.repeat(start, runs), np.repeat(end, runs))
    blocks = feed.tables["trips"]["block_id"].dictionary_encode().combine_chunks()
    block = pc.fill_null(blocks.indices, -1).to_numpy().astype(np.int64)[of_run]
    block[np.isin(of_run, [*departures])] = -1
    return run, of_run[run], times.stop[row], times.s[row] + shift[run], block


def departures_of(feed: Gtfs) -> dict[int, list[range]]:
    """Lists departures of trips by frequency, in seconds."""
    trip = feed.rows_of("frequencies", "trip_id", "trips")
    start, end = feed.seconds("frequencies", "start_time"), feed.seconds("frequencies", "end_time")
    headway = feed.numbers("frequencies", "headway_secs")
    departures: dict[int, list[range]] = {}
    for row in np.flatnonzero(feed.are_frequencies).tolist():
        departures.setdefault(int(trip[row]), []).append(range(int(start[row]), int(end[row]), int(headway[row])))
    return departures


def _runs(departures: Mapping[int, list[range]], trips: Int64s, first_s: Int64s) -> tuple[Int64s, Int64s]:
    """Lists trips' runs, with seconds after their stop times."""
    runs = [
        (trip, at_s - start_s)
        for trip, start_s in zip(trips.tolist(), first_s.tolist(), strict=True)
        for row in departures.get(trip, [range(start_s, start_s + 1)])
        for at_s in row
    ]
    trip, shift = np.array(runs, np.int64).reshape(-1, 2).T
    return trip, shift


def _expanded(low: Int64s, high: Int64s) -> tuple[Int64s, Int64s]:
    """Lists all rows of ranges, with each one's range."""
    sizes = high - low
    owner = np.repeat(np.arange(low.size), sizes)
    return owner, np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes - low, sizes)


def _vehicles(run: Int64s, s: Int64s, block: Int64s, route: Int64s) -> tuple[Int64s, int]:
    """Assigns visits to few vehicles, and counts duties.

    A duty is a block, or a trip without one. Who waits at its route drives it, else who waits elsewhere for TURN_S.
    """
    is_own = block < 0
    duty_of_run = np.where(is_own, block.max(initial=-1) + 1 + np.arange(block.size), block)
    duties, duty = np.unique(duty_of_run[run], return_inverse=True)
    order = np.lexsort((s, duty))
    last = np.cumsum(np.bincount(duty, minlength=duties.size)) - 1
    begins, ends = order[np.append(0, last[:-1] + 1)], order[last]
    vehicle, vehicles = np.empty(duties.size, np.int64), 0
    waiting, by_route, continued = list[tuple[int, int]](), defaultdict[int, list[tuple[int, int]]](list), set[int]()
    for number in np.argsort(s[begins], kind="stable").tolist():
        start_s, of_route = int(s[begins[number]]), by_route[int(route[begins[number]])]
        chosen = None
        for heap, turn_s in ((of_route, 0), (waiting, TURN_S)):
            while heap and heap[0][1] in continued:
                heapq.heappop(heap)
            if chosen is None and heap and heap[0][0] + turn_s <= start_s:
                chosen = heapq.heappop(heap)[1]
        if chosen is None:
            vehicle[number], vehicles = vehicles, vehicles + 1
        else:
            continued.add(chosen)
            vehicle[number] = vehicle[chosen]
        for heap in (waiting, by_route[int(route[ends[number]])]):
            heapq.heappush(heap, (int(s[ends[number]]), number))
    return vehicle[duty], int(duties.size)


def _profile(vehicle: Int64s, cell: Int64s, hour: Int64s, above: Callable[[Int64s, int], Int64s]) -> dict[str, int]:
    """Counts what the middle vehicle touches in a day, to one digit, by kind.

    vehicle, cell, hour: (stop times,); cells from 1, 0 for none. above: coarsens cells by so many steps.
    """
    placed = cell > 0
    vehicle, hour = vehicle[placed], hour[placed]
    cells, cell = np.unique(cell[placed], return_inverse=True)
    parents, grandparents = (np.unique(above(cells, up), return_inverse=True)[1][cell] for up in (1, 2))
    none = np.zeros_like(hour)
    touched = {
        "hats": (cell, hour),
        "cells": (cell, none),
        "parents": (parents, none),
        "grandparents": (grandparents, none),
        "hours": (none, hour),
        "parts": (none, hour // _PART_HOURS),
    }
    return {name: _middle(vehicle, *columns) for name, columns in touched.items()}


def _coarser(cells: Int64s, steps: int) -> Int64s:
    resolution = h3_int.get_resolution(int(cells[0])) if cells.size else 0
    return np.array([h3_int.cell_to_parent(cell, max(resolution - steps, 0)) for cell in cells.tolist()], np.int64)


def _group(rows: Int64s, steps: int) -> Int64s:
    """Groups rows of a table by eight, about as releases group listed keys."""
    return rows // 8 if steps == 1 else np.zeros_like(rows)


def _middle(vehicle: Int64s, first: Int64s, second: Int64s) -> int:
    """Finds the median number of a vehicle's distinct pairs."""
    sizes = [1 + int(column.max(initial=0)) for column in (first, second)]
    pairs = np.unique((vehicle * sizes[0] + first) * sizes[1] + second)
    counts = np.unique(pairs // (sizes[0] * sizes[1]), return_counts=True)[1]
    return one_digit(float(np.median(counts))) if counts.size else 1


def one_digit(number: float) -> int:
    """Rounds to one digit, at least 1."""
    return max(1, int(float(f"{number:.1g}")))


# --- hours with a trip ---------------------------------------------------------------------------------------------


def hours_table(
    feed: Gtfs, calendar: ServiceCalendar, cells: Int64s, passages: Passages, stop_cells: Int64s
) -> tuple[bytes, int]:
    """Writes the CSV that `slot.trips` names, and counts its hours of cells.

    Trips are averaged over a weekday's dates, exceptions included; beyond 24:00 they are the next day's. Between stops
    a vehicle follows its line evenly. cells: sorted.
    """
    numbers, per_date = np.zeros((cells.size, _WEEK_HOURS)), _runs_per_date(calendar)
    for run, trip, cell, start_s, end_s in _stays(feed, passages, stop_cells):
        row, first, last = np.searchsorted(cells, cell), start_s // _HOUR_S, end_s // _HOUR_S
        stays = [
            np.stack([run, trip, row, first + later])[:, (cell > 0) & (first + later <= last)]
            for later in range(int((last - first).max(initial=0)) + 1)
        ]
        run, trip, row, hour = np.concatenate(stays, axis=1)
        once = np.unique((run * cells.size + row) * (1 + hour.max(initial=0)) + hour, return_index=True)[1]
        trip, row, hour = trip[once], row[once], hour[once]
        for weekday in range(len(WEEKDAYS)):
            np.add.at(numbers, (row, (_DAY_HOURS * weekday + hour) % _WEEK_HOURS), per_date[trip, weekday])
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("cell", "weekdays", "hours", "trips"))
    for cell, week in zip(cells.tolist(), numbers.reshape(cells.size, len(WEEKDAYS), _DAY_HOURS), strict=True):
        days: dict[tuple[str, str], list[str]] = {}
        for name, day in zip(WEEKDAYS, week, strict=True):
            hours = np.flatnonzero(day)
            trips = (f"{max(number, 0.1):.1f}".removesuffix(".0") for number in day[hours].tolist())
            key = " ".join(map(str, hours.tolist())), " ".join(trips)
            days.setdefault(key, []).append(name[:3])
        writer.writerows((f"{cell:x}", " ".join(names), *key) for key, names in days.items() if key[0])
    return text.getvalue().encode(), int(np.count_nonzero(numbers))


def _runs_per_date(calendar: ServiceCalendar) -> Floats:
    """Averages each trip's service over the dates of a weekday, (trips, 7)."""
    weekday = (np.arange(calendar.days) + calendar.first.weekday()) % len(WEEKDAYS)
    served, counts = np.zeros(calendar.days, np.bool_), []
    for number in range(calendar.of_trip.max(initial=-1) + 1):
        runs = calendar.runs(number)
        served |= runs
        counts.append(np.bincount(weekday[runs], minlength=len(WEEKDAYS)))
    dates = np.bincount(weekday[served], minlength=len(WEEKDAYS))
    averages: Floats = np.array(counts) / np.maximum(dates, 1)  # weekdays without service stay 0
    return averages[calendar.of_trip]


def _stays(feed: Gtfs, passages: Passages, stop_cells: Int64s) -> Iterator[tuple[Int64s, ...]]:
    """Yields when runs are in which cells: run, trip, cell, first and last second.

    stop_cells: H3 cell of each stop. Seconds since midnight; both equal at a stop. Yields (stays,) each, in chunks.
    """
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
    of_run, shift = _runs(departures_of(feed), trip[begins], s[begins])
    for some in np.array_split(np.arange(of_run.size), 1 + of_run.size // TRIPS_AT_ONCE):
        chosen, later_s = of_run[some], shift[some]
        low, high = (np.searchsorted(passages.line, feed.lines.of_trip[chosen], side) for side in ("left", "right"))
        run, row = _expanded(low, high)
        edges = (np.interp(2 * chosen[run] + edge[row], 2 * trip + part, s) for edge in (passages.start, passages.end))
        start_s, end_s = (edge.astype(np.int64) + later_s[run] for edge in edges)
        on_way = some[run], chosen[run], passages.cell[row], start_s, end_s
        run, row = _expanded(*(np.searchsorted(trip, chosen, side) for side in ("left", "right")))
        at_s = s[row] + later_s[run]
        at_stops = some[run], chosen[run], stop_cells[stop[row]], at_s, at_s
        yield tuple(map(np.concatenate, zip(on_way, at_stops, strict=True)))
