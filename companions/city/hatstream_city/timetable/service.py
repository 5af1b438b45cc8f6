"""Reads a fleet from its timetable: days, hours, vehicles."""

import heapq
from collections.abc import Callable, Mapping, Sequence
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
from hatstream_city.timetable.positions import Int64s

TURN_S = 600
"""Between two duties of a vehicle."""
LEAST_SHARE = 0.005
"""Of a day's stops: an hour with fewer is none of service."""
MOST_DATES = 50_000
"""From the first on: what a calendar says of later ones is not read."""
MOST_VISITS = 10_000_000
"""Of stops, by all runs of a day."""
_DAY_S, _HOUR_S, _PART_HOURS = 86_400, 3_600, 4


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


class _Visits(NamedTuple):
    """Stops of the day's runs, in seconds since midnight."""

    run: Int64s
    trip: Int64s
    stop: Int64s
    s: Int64s


def service_of(feed: Gtfs, stop_cells: Int64s) -> ServiceDay:
    """Finds the busiest day's service. Raises InputError."""
    coded = pc.fill_null(feed.tables["trips"]["service_id"], "").dictionary_encode().combine_chunks()
    names, service = coded.dictionary.to_pylist(), coded.indices.to_numpy().astype(np.int64)
    calendar = calendar_of(feed, names)
    per_date = np.zeros(calendar.days, np.int64)
    for number, trips in enumerate(np.bincount(service, minlength=len(names)).tolist()):
        per_date[calendar.runs(number)] += trips
    if not per_date.any():
        raise InputError("the timetable has no trip on any day: calendar.txt and calendar_dates.txt name none")
    busiest, days = int(per_date.argmax()), [calendar.date_of(day) for day in np.flatnonzero(per_date).tolist()]
    runs_then = np.array([calendar.runs(number)[busiest] for number in range(len(names))])
    visits, block = _visits(feed, np.flatnonzero(runs_then[service]), calendar.date_of(busiest))
    if not visits.s.size:
        raise InputError("the timetable has no stop time of the day with the most trips")
    vehicle, blocks = _vehicles(visits, block)
    per_hour = np.bincount((visits.s % _DAY_S) // _HOUR_S, minlength=24) / visits.s.size
    busy = per_hour >= LEAST_SHARE
    starts = np.flatnonzero(busy & ~np.roll(busy, 1)).tolist() or [0]
    pauses = [np.flatnonzero(~np.roll(busy, -start)).tolist() for start in starts]
    hours = tuple((start, start + min(pause, default=24)) for start, pause in zip(starts, pauses, strict=True))
    outside = float(per_hour[~busy].sum())
    there = ~np.isnan(feed.stop_positions[0][visits.stop])
    run, stop = visits.run[there], visits.stop[there]
    goes_on = run[1:] == run[:-1]
    stops = 1 + int(stop.max(initial=0))
    hour, route = visits.s // _HOUR_S, feed.rows_of("trips", "route_id", "routes")
    keys = {"route_id": route[visits.trip], "stop_id": visits.stop, "trip_id": visits.trip}
    pairs, count = np.unique(stop[:-1][goes_on] * stops + stop[1:][goes_on], return_counts=True)
    return ServiceDay(
        day=calendar.date_of(busiest),
        first=days[0],
        last=days[-1],
        weekdays=tuple(WEEKDAYS[date_number].capitalize() for date_number in sorted({day.weekday() for day in days})),
        hours=hours,
        outside=outside,
        vehicles=int(vehicle.max()) + 1,
        blocks=blocks,
        profile=_profile(vehicle, stop_cells[visits.stop], hour, _coarser),
        by_key={column: _profile(vehicle, 1 + rows, hour, _group) for column, rows in keys.items()},
        runs=dict(zip(map(divmod, pairs.tolist(), repeat(stops)), count.tolist(), strict=False)),
    )


# --- days ---------------------------------------------------------------------------------------------------------


class _Calendar(NamedTuple):
    """Services by day, from the first one on."""

    first: date
    days: int
    weeks: Mapping[int, Sequence[Mapping[str, Any]]]
    exceptions: Mapping[int, Sequence[Mapping[str, Any]]]

    def date_of(self, day: int) -> date:
        return self.first + timedelta(days=day)

    def runs(self, service: int) -> NDArray[np.bool_]:
        """Lists the days of a service."""
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


def calendar_of(feed: Gtfs, names: list[str]) -> _Calendar:
    """Reads the calendar of services."""
    number = {name: number_of_name for number_of_name, name in enumerate(names)}
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
    return _Calendar(days[0], min((days[-1] - days[0]).days + 1, MOST_DATES), *tables)


def _date(text: str | None) -> date | None:
    """Reads a date like "20260513"."""
    try:
        return date.fromisoformat((text or "").strip())
    except ValueError:
        return None


# --- the day's runs -----------------------------------------------------------------------------------------------


def _visits(feed: Gtfs, trips: Int64s, day: date) -> tuple[_Visits, Int64s]:
    """Lists the day's stops by run, with blocks.

    A frequency gives a run for each departure. Raises InputError above MOST_VISITS.
    """
    times = feed.stop_times
    begins, ends = (np.searchsorted(times.trip, trips, side) for side in ("left", "right"))
    departures = departures_of(feed)
    stretches = [
        (trip, start, end, shifts)
        for trip, start, end in zip(trips.tolist(), begins.tolist(), ends.tolist(), strict=True)
        for shifts in departures.get(trip, [(None,)])
    ]
    visits = sum((end - start) * len(shifts) for _, start, end, shifts in stretches)
    if visits > MOST_VISITS:
        raise InputError(
            f"on {day} the timetable's vehicles stop {visits:,} times, more than {MOST_VISITS:,}: look for small "
            "headway_secs in frequencies.txt, which are seconds; or give the timetable of a smaller area"
        )
    runs = [(trip, start, end, shift) for trip, start, end, shifts in stretches for shift in shifts]
    sizes = np.array([end - start for _, start, end, _ in runs], np.int64)
    run = np.repeat(np.arange(len(runs)), sizes)
    row = (
        np.arange(sizes.sum())
        - np.repeat(np.cumsum(sizes) - sizes, sizes)
        + np.repeat([start for _, start, _, _ in runs], sizes)
    )
    shift = np.array(
        [0 if at_s is None or end == start else at_s - times.s[start] for _, start, end, at_s in runs], np.int64
    )
    blocks = feed.tables["trips"]["block_id"].dictionary_encode().combine_chunks()
    block = pc.fill_null(blocks.indices, -1).to_numpy().astype(np.int64)
    of_run = np.array([block[trip] if at_s is None else -1 for trip, _, _, at_s in runs], np.int64)
    trip = np.array([trip for trip, *_ in runs], np.int64)
    return _Visits(run, trip[run], times.stop[row], times.s[row] + shift[run]), of_run


def departures_of(feed: Gtfs) -> dict[int, list[Sequence[int | None]]]:
    """Lists departures of trips by frequency, in seconds."""
    trip = feed.rows_of("frequencies", "trip_id", "trips")
    start, end = feed.seconds("frequencies", "start_time"), feed.seconds("frequencies", "end_time")
    headway = feed.numbers("frequencies", "headway_secs")
    departures: dict[int, list[Sequence[int | None]]] = {}
    for row in np.flatnonzero(feed.are_frequencies).tolist():
        departures.setdefault(int(trip[row]), []).append(range(int(start[row]), int(end[row]), int(headway[row])))
    return departures


def _vehicles(visits: _Visits, block: Int64s) -> tuple[Int64s, int]:
    """Assigns visits to the fewest vehicles, and counts duties.

    A duty is a block, or a trip without one.
    """
    is_own = block < 0
    duty_of_run = np.where(is_own, block.max(initial=-1) + 1 + np.arange(block.size), block)
    duties, duty = np.unique(duty_of_run[visits.run], return_inverse=True)
    start, end = np.full(duties.size, np.iinfo(np.int64).max), np.full(duties.size, -1)
    np.minimum.at(start, duty, visits.s)
    np.maximum.at(end, duty, visits.s)
    vehicle, free = np.empty(duties.size, np.int64), list[tuple[int, int]]()
    vehicles = 0
    for trip in np.argsort(start, kind="stable").tolist():
        if free and free[0][0] + TURN_S <= start[trip]:
            _, vehicle[trip] = heapq.heappop(free)
        else:
            vehicle[trip], vehicles = vehicles, vehicles + 1
        heapq.heappush(free, (int(end[trip]), int(vehicle[trip])))
    return vehicle[duty], int(duties.size)


def _profile(vehicle: Int64s, cell: Int64s, hour: Int64s, above: Callable[[Int64s, int], Int64s]) -> dict[str, int]:
    """Counts what the middle vehicle touches, to one digit."""
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
