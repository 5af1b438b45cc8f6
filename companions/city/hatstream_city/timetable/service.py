"""Reads a fleet and the hours of cells from a timetable.

A run is one course of a vehicle along a trip: at the trip's times, or for each departure that frequencies.txt gives. A
visit is a run's halt at one stop. A duty is what one vehicle drives: a block of trips, or a run without a block.
`trip`, `stop`, `route`: rows of their tables. Seconds are after midnight, and may exceed a day. `passages`: stretches
of lines within a cell, from `start` to `end`, parts of the line's length.
"""

import csv
import heapq
import io
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import repeat
from typing import NamedTuple

import h3.api.basic_int as h3_int
import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from hatstream.api import InputError
from hatstream_city.timetable.gtfs import WEEKDAYS, Gtfs, Passages
from hatstream_city.timetable.positions import Floats, Int64s, distance_m

TURN_S = 1_800
"""A vehicle needs so long between duties of different routes; between those of one, the timetable has the layover."""
LEAST_SHARE = 0.005  # of a day's stops: an hour with fewer is none of service
MOST_DATES = 50_000  # from the first on: what a calendar says of later ones is not read
MOST_VISITS = 10_000_000  # of stops, by all runs of a day
_DAY_S, _HOUR_S, _DAY_HOURS, _PART_HOURS = 86_400, 3_600, 24, 4
_WEEK_HOURS = _DAY_HOURS * len(WEEKDAYS)


@dataclass(frozen=True, kw_only=True)
class ServiceDay:
    """Service of the day with the most trips."""

    day: date
    first: date  # of all days with service
    last: date
    weekdays: tuple[str, ...]
    hours: tuple[tuple[int, int], ...]
    outside: float  # share of the day's stops outside of the hours
    vehicles: int  # most at once
    blocks: int  # number of duties
    profile: Mapping[str, int]  # counts of what the median vehicle touches
    by_key: Mapping[str, Mapping[str, int]]  # such profiles, with keys of a column as cells
    runs: Mapping[tuple[int, int], int]  # vehicles between consecutive stops, by rows of their table


class ServiceCalendar(NamedTuple):
    """Services by day, from the first one on."""

    of_trip: Int64s  # each trip's service, (trips,)
    first: date  # earliest that any row names
    is_active: NDArray[np.bool_]  # whether a service runs on a day, (services, days)

    @property
    def weekday(self) -> Int64s:
        """Number of each day in its week, (days,), 0 for Mondays."""
        return (np.arange(self.is_active.shape[1]) + self.first.weekday()) % len(WEEKDAYS)


def calendar_of(feed: Gtfs) -> ServiceCalendar:
    """Reads the calendar of the services that trips name."""
    services = pc.fill_null(feed.tables["trips"]["service_id"], "").dictionary_encode().combine_chunks()
    number_of = {name: number for number, name in enumerate(services.dictionary.to_pylist())}
    weeks, exceptions = (
        [row for row in feed.tables[name].to_pylist() if row["service_id"] in number_of]
        for name in ("calendar", "calendar_dates")
    )
    dates = {_date(row[name]) for row in weeks for name in ("start_date", "end_date")}
    dates |= {_date(row["date"]) for row in exceptions}
    listed_days = sorted(day for day in dates if day is not None) or [date.min]  # one day without service
    first, is_active = (
        listed_days[0],
        np.zeros((len(number_of), min((listed_days[-1] - listed_days[0]).days + 1, MOST_DATES)), np.bool_),
    )
    calendar = ServiceCalendar(services.indices.to_numpy().astype(np.int64), first, is_active)
    weekday = calendar.weekday
    for row in weeks:
        start, end = _date(row["start_date"]), _date(row["end_date"])
        is_served = np.array([str(row[name]).strip() == "1" for name in WEEKDAYS])
        if start is not None and end is not None and start <= end:
            days = slice((start - first).days, (end - first).days + 1)
            is_active[number_of[row["service_id"]], days] |= is_served[weekday[days]]
    for row in exceptions:
        day = _date(row["date"])
        if day is not None and (day - first).days < is_active.shape[1]:  # none is before the first
            is_added = str(row["exception_type"]).strip() == "1"  # 1: added, 2: removed
            is_active[number_of[row["service_id"]], (day - first).days] = is_added
    return calendar


def _date(text: str | None) -> date | None:
    """Reads a date like "20260513"; None if it is none."""
    try:
        return date.fromisoformat((text or "").strip())
    except ValueError:
        return None


def service_of(feed: Gtfs, calendar: ServiceCalendar, stop_cells: Int64s) -> ServiceDay:
    """Finds the service of the day with most trips. Raises InputError without any."""
    trips_of_date = np.bincount(calendar.of_trip) @ calendar.is_active
    if not trips_of_date.any():
        raise InputError("the timetable has no trip on any day: calendar.txt and calendar_dates.txt name none")
    busiest = int(trips_of_date.argmax())
    day = calendar.first + timedelta(days=busiest)
    days = [calendar.first + timedelta(days=number) for number in np.flatnonzero(trips_of_date).tolist()]
    trips = np.flatnonzero(calendar.is_active[calendar.of_trip, busiest])
    run, trip, stop, s, block = _visits(feed, trips, day)
    if not s.size:
        raise InputError("the timetable has no stop time of the day with the most trips")
    route = feed.rows_of("trips", "route_id", "routes")[trip]
    vehicle, blocks = _vehicles(run, s, block, route)  # each visit's vehicle; number of blocks, and of runs without
    # Service: stretches of hours that have LEAST_SHARE of the visits each.
    share_of_hour = np.bincount((s % _DAY_S) // _HOUR_S, minlength=_DAY_HOURS) / s.size
    is_busy = share_of_hour >= LEAST_SHARE
    starts = np.flatnonzero(is_busy & ~np.roll(is_busy, 1)).tolist() or [0]  # service round the clock has no start
    pauses = [np.flatnonzero(~np.roll(is_busy, -start)).tolist() for start in starts]  # hours after each start
    hours = tuple((start, start + min(pause, default=24)) for start, pause in zip(starts, pauses, strict=True))
    # Pairs of consecutive stops of a run, as one number each.
    has_position = ~np.isnan(feed.stop_positions[0][stop])  # [0]: latitudes, NaN where unknown
    is_same_run, placed_stop = run[has_position][1:] == run[has_position][:-1], stop[has_position]
    stops = 1 + int(placed_stop.max(initial=0))
    pairs, count = np.unique(placed_stop[:-1][is_same_run] * stops + placed_stop[1:][is_same_run], return_counts=True)
    keys, hour = {"route_id": route, "stop_id": stop, "trip_id": trip}, s // _HOUR_S
    return ServiceDay(
        day=day,
        first=days[0],
        last=days[-1],
        weekdays=tuple(WEEKDAYS[weekday].capitalize() for weekday in sorted({day.weekday() for day in days})),
        hours=hours,
        outside=float(share_of_hour[~is_busy].sum()),
        vehicles=int(vehicle.max()) + 1,
        blocks=blocks,
        profile=_profile(vehicle, stop_cells[stop], hour, _coarser),
        # Keys are in the place of cells, counted from 1; releases group them about so: by eight, then all.
        by_key={
            column: _profile(vehicle, 1 + rows, hour, lambda keys, steps: keys // 8 * (steps == 1))
            for column, rows in keys.items()
        },
        runs=dict(zip(map(divmod, pairs.tolist(), repeat(stops)), count.tolist(), strict=False)),
    )


def _visits(feed: Gtfs, trips: Int64s, day: date) -> tuple[Int64s, ...]:
    """Lists a day's visits of stops in order, by run: run, trip, stop, second.

    The arrays are (visits,); a fifth one, (runs,), is each run's block, or -1. Raises InputError above MOST_VISITS.
    """
    times, departures = feed.stop_times, departures_of(feed)
    trips = trips[np.isin(trips, times.trip)]  # those with stops
    # A trip that no frequency repeats has one departure.
    runs = np.array([sum(map(len, departures.get(trip, [range(1)]))) for trip in trips.tolist()], np.int64)
    visits = int((np.bincount(times.trip)[trips] * runs).sum())
    if visits > MOST_VISITS:
        raise InputError(
            f"on {day} the timetable's vehicles stop {visits:,} times, more than {MOST_VISITS:,}: look for small "
            "headway_secs in frequencies.txt, which are seconds; or give the timetable of a smaller area"
        )
    trip_of_run, shift_s = _runs(departures, trips, times.s[np.searchsorted(times.trip, trips)])
    run, row = _matches(times.trip, trip_of_run)  # of each visit: its run, and row of stop_times
    blocks = feed.tables["trips"]["block_id"].dictionary_encode().combine_chunks()
    block = pc.fill_null(blocks.indices, -1).to_numpy().astype(np.int64)[trip_of_run]
    block[np.isin(trip_of_run, [*departures])] = -1  # several runs at once cannot be one vehicle's
    return run, trip_of_run[run], times.stop[row], times.s[row] + shift_s[run], block


def departures_of(feed: Gtfs) -> dict[int, list[range]]:
    """Lists departures, seconds after midnight, of the trips that frequencies repeat."""
    trip = feed.rows_of("frequencies", "trip_id", "trips")
    start, end = feed.seconds("frequencies", "start_time"), feed.seconds("frequencies", "end_time")
    headway = feed.numbers("frequencies", "headway_secs")
    departures: dict[int, list[range]] = {}
    for row in np.flatnonzero(feed.are_frequencies).tolist():
        departures.setdefault(int(trip[row]), []).append(range(int(start[row]), int(end[row]), int(headway[row])))
    return departures


def _runs(departures: Mapping[int, list[range]], trips: Int64s, first_s: Int64s) -> tuple[Int64s, Int64s]:
    """Lists each run's trip, and its shift in s from the trip's times, (runs,).

    departures: by trip, of those that frequencies repeat; others run once. trips, first_s: (trips,), the rows of trips
    and the first stop time of each.
    """
    runs = [
        (trip, departure_s - start_s)
        for trip, start_s in zip(trips.tolist(), first_s.tolist(), strict=True)
        for departures_s in departures.get(trip, [range(start_s, start_s + 1)])  # without frequencies: as written
        for departure_s in departures_s
    ]
    trip, shift_s = np.array(runs, np.int64).reshape(-1, 2).T
    return trip, shift_s


def _matches(ascending: Int64s, values: Int64s) -> tuple[Int64s, Int64s]:
    """Lists rows of an ascending column that equal values, after these values' indices.

    >>> _matches(np.array([3, 4, 4, 6]), np.array([4, 3]))
    (array([0, 0, 1]), array([1, 2, 0]))
    """
    low, high = (np.searchsorted(ascending, values, side) for side in ("left", "right"))
    sizes = high - low
    start = np.cumsum(sizes) - sizes  # where each value's rows begin in the result
    return np.repeat(np.arange(low.size), sizes), np.arange(sizes.sum()) - np.repeat(start - low, sizes)


def _vehicles(run: Int64s, s: Int64s, block: Int64s, route: Int64s) -> tuple[Int64s, int]:
    """Assigns visits to few vehicles; returns each one's, and the number of duties.

    A duty goes to the vehicle that has waited longest on its route, else to one that ended elsewhere TURN_S before,
    else to a new one. run, s, route: (visits,). block: (runs,), -1 for none.
    """
    duty_of_run = np.where(block < 0, block.max(initial=-1) + 1 + np.arange(block.size), block)
    duties, duty = np.unique(duty_of_run[run], return_inverse=True)
    order = np.lexsort((s, duty))  # visits by duty and time
    last = np.cumsum(np.bincount(duty, minlength=duties.size)) - 1  # position in `order` of a duty's last visit
    begins, ends = order[np.append(0, last[:-1] + 1)], order[last]  # each duty's first and last visit
    vehicle_of_duty, vehicle_count = np.empty(duties.size, np.int64), 0
    # Heaps of duties by their end; each is in two of them, and left there once another duty follows it.
    waiting, by_route, continued = list[tuple[int, int]](), defaultdict[int, list[tuple[int, int]]](list), set[int]()
    for number in np.argsort(s[begins], kind="stable").tolist():
        start_s, on_route = int(s[begins[number]]), by_route[int(route[begins[number]])]
        former = None  # the last duty of the vehicle that takes this one; None: a new vehicle
        for heap, turn_s in ((on_route, 0), (waiting, TURN_S)):
            while heap and heap[0][1] in continued:
                heapq.heappop(heap)
            if former is None and heap and heap[0][0] + turn_s <= start_s:
                former = heapq.heappop(heap)[1]
        if former is None:
            vehicle_of_duty[number], vehicle_count = vehicle_count, vehicle_count + 1
        else:
            continued.add(former)
            vehicle_of_duty[number] = vehicle_of_duty[former]
        for heap in (waiting, by_route[int(route[ends[number]])]):
            heapq.heappush(heap, (int(s[ends[number]]), number))
    return vehicle_of_duty[duty], int(duties.size)


def _profile(vehicle: Int64s, cell: Int64s, hour: Int64s, above: Callable[[Int64s, int], Int64s]) -> dict[str, int]:
    """Counts distinct HATs, cells, hours, .. of the median vehicle, for `[fleet] profile`.

    vehicle, cell, hour: (visits,); cells from 1, 0 for none. above: coarsens cells, (cells,), by so many steps.
    """
    has_position = cell > 0  # 0: without position
    vehicle, hour = vehicle[has_position], hour[has_position]
    cells, cell = np.unique(cell[has_position], return_inverse=True)
    parents, grandparents = (np.unique(above(cells, up), return_inverse=True)[1][cell] for up in (1, 2))
    constant = np.zeros_like(hour)  # where all cells, or all hours, count as one
    touched = {
        "hats": (cell, hour),
        "cells": (cell, constant),
        "parents": (parents, constant),
        "grandparents": (grandparents, constant),
        "hours": (constant, hour),
        "parts": (constant, hour // _PART_HOURS),
    }
    profile = {}
    for name, (area, time) in touched.items():
        area_count, time_count = (1 + int(column.max(initial=0)) for column in (area, time))
        triples = np.unique((vehicle * area_count + area) * time_count + time)  # as one number each
        counts = np.unique(triples // (area_count * time_count), return_counts=True)[1]  # by vehicle
        profile[name] = one_digit(float(np.median(counts))) if counts.size else 1
    return profile


def _coarser(cells: Int64s, steps: int) -> Int64s:
    """Finds H3 cells' parents, so many resolutions coarser."""
    resolution = h3_int.get_resolution(int(cells[0])) if cells.size else 0
    return np.array([h3_int.cell_to_parent(cell, max(resolution - steps, 0)) for cell in cells.tolist()], np.int64)


def one_digit(number: float) -> int:
    """Rounds to one digit, at least 1."""
    return max(1, int(float(f"{number:.1g}")))


def hours_table(
    feed: Gtfs, calendar: ServiceCalendar, cells: Int64s, passages: Passages, stop_cells: Int64s
) -> tuple[bytes, int]:
    """Writes the CSV that `slot.trips` names, and counts its hours of cells.

    Trips are averaged over a weekday's dates, exceptions included; beyond 24:00 they are the next day's. Between stops
    a vehicle follows its line evenly. cells: sorted H3 cells, with all that lines and served stops are in. stop_cells:
    of each stop, 0 for none.
    """
    trips_of_hour, runs_per_date = np.zeros((cells.size, _WEEK_HOURS)), _runs_per_date(calendar)
    for run, trip, cell, start_s, end_s in _stays(feed, passages, stop_cells):
        row, first, last = np.searchsorted(cells, cell), start_s // _HOUR_S, end_s // _HOUR_S
        stays = [  # one entry for each hour of a stay; a cell of 0 is none
            np.stack([run, trip, row, first + later])[:, (cell > 0) & (first + later <= last)]
            for later in range(int((last - first).max(initial=0)) + 1)
        ]
        run, trip, row, hour = np.concatenate(stays, axis=1)
        # A run counts once in an hour and cell, however often it comes.
        once = np.unique((run * cells.size + row) * (1 + hour.max(initial=0)) + hour, return_index=True)[1]
        trip, row, hour = trip[once], row[once], hour[once]
        for weekday in range(len(WEEKDAYS)):
            week_hour = (_DAY_HOURS * weekday + hour) % _WEEK_HOURS
            np.add.at(trips_of_hour, (row, week_hour), runs_per_date[trip, weekday])
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("cell", "weekdays", "hours", "trips"))
    for cell, week in zip(cells.tolist(), trips_of_hour.reshape(cells.size, len(WEEKDAYS), _DAY_HOURS), strict=True):
        days: dict[tuple[str, str], list[str]] = {}  # weekdays that are alike share a row
        for name, day in zip(WEEKDAYS, week, strict=True):
            hours = np.flatnonzero(day)
            # A rare trip must not be written as 0.0, which would be none.
            trips = (f"{max(number, 0.1):.1f}".removesuffix(".0") for number in day[hours].tolist())
            key = " ".join(map(str, hours.tolist())), " ".join(trips)
            days.setdefault(key, []).append(name[:3])
        writer.writerows((f"{cell:x}", " ".join(names), *key) for key, names in days.items() if key[0])
    return text.getvalue().encode(), int(np.count_nonzero(trips_of_hour))


def _runs_per_date(calendar: ServiceCalendar) -> Floats:
    """Averages each trip's service over the dates of a weekday, (trips, 7)."""
    are_weekdays = np.eye(len(WEEKDAYS), dtype=np.int64)[calendar.weekday]  # (days, 7)
    dates = calendar.is_active.any(axis=0) @ are_weekdays  # (7,), with any service
    averages: Floats = calendar.is_active @ are_weekdays / np.maximum(dates, 1)  # weekdays without service stay 0
    return averages[calendar.of_trip]


def _stays(feed: Gtfs, passages: Passages, stop_cells: Int64s) -> Iterator[tuple[Int64s, ...]]:
    """Yields stays in cells, in chunks: run, trip, cell, first and last second.

    Seconds are since midnight, both equal at a stop; (stays,) each. stop_cells: H3 cell of each stop, 0 for none.
    """
    times = feed.stop_times
    rows = np.flatnonzero(~np.isnan(feed.stop_positions[0][times.stop]))
    trip, stop, s = times.trip[rows], times.stop[rows], times.s[rows]
    lat, lon = (degrees[stop] for degrees in feed.stop_positions)
    step_m = distance_m(np.roll(lat, 1), np.roll(lon, 1), lat, lon)
    _, begins, sizes = np.unique(trip, return_index=True, return_counts=True)  # first stop, and number, by trip
    step_m[begins] = 0.0
    along_m = np.cumsum(step_m) - np.repeat(np.cumsum(step_m)[begins], sizes)
    length_m = along_m[begins + sizes - 1]
    share = along_m / np.maximum(np.repeat(length_m, sizes), 1e-9)  # of the trip's way, 0 to 1, at stops; no 0 / 0
    trip_of_run, shift_s = _runs(departures_of(feed), trip[begins], s[begins])
    for runs in np.array_split(np.arange(trip_of_run.size), 1 + trip_of_run.size // 20_000):  # chunks bound the memory
        trips, later_s = trip_of_run[runs], shift_s[runs]
        run, row = _matches(passages.line, feed.lines.of_trip[trips])  # a run, by its index in `runs`, and a passage
        # Shares of the way are 0 to 1, so 2 * trip + share ascends over all trips: one interpolation serves them all.
        edges = (np.interp(2 * trips[run] + edge[row], 2 * trip + share, s) for edge in (passages.start, passages.end))
        start_s, end_s = (edge.astype(np.int64) + later_s[run] for edge in edges)
        on_way = runs[run], trips[run], passages.cell[row], start_s, end_s
        run, row = _matches(trip, trips)  # a run and a row of stops
        stop_s = s[row] + later_s[run]
        at_stops = runs[run], trips[run], stop_cells[stop[row]], stop_s, stop_s
        yield tuple(map(np.concatenate, zip(on_way, at_stops, strict=True)))
