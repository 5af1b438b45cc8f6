"""What a timetable says of a fleet: days, hours, vehicles at once, and what one of them touches on a day."""

import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, NamedTuple

import h3.api.basic_int as h3_int
import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpops.levels import Profile
from dpops.types import Int64s
from pipelines.advice.timetable.gtfs import WEEKDAYS, Gtfs
from pipelines.errors import InputError

TURN_S = 600
"""Between two duties of a vehicle."""
LEAST_SHARE = 0.005
"""Of a day's stops: an hour with fewer is none of service."""
MOST_DATES = 1_000
_DAY_S, _HOUR_S, _PART_HOURS = 86_400, 3_600, 4


@dataclass(frozen=True, kw_only=True)
class ServiceDay:
    """Service of the day with the most trips. hours: of service, first and last (excluded). weekdays: on which anything
    runs.

    outside: share of the day's stops outside of the hours. vehicles: most that are under way at once. blocks: duties in
    all. profile: what the middle one of these vehicles touches. runs: how many vehicles go from a stop straight to
    another, by rows of the table; only where they are above 0.
    """

    day: date
    first: date
    last: date
    weekdays: tuple[str, ...]
    hours: tuple[int, int]
    outside: float
    vehicles: int
    blocks: int
    profile: Profile
    runs: Mapping[tuple[int, int], int]


class _Visits(NamedTuple):
    """Stops of the day's runs, an entry each. run: numbered from 0. s: since midnight, maybe beyond a day."""

    run: Int64s
    stop: Int64s
    s: Int64s


def service_of(feed: Gtfs, stop_cells: Int64s) -> ServiceDay:
    """Finds the service of the busiest day. stop_cells: of each stop, 0 for none. Raises InputError if nothing runs."""
    names, service = _services(feed)
    dates, runs_on = _calendar(feed, names)
    per_date = runs_on @ np.bincount(service, minlength=runs_on.shape[1])
    if not per_date.any():
        raise InputError("the timetable has no trip on any day: calendar.txt and calendar_dates.txt name none")
    busiest, days = int(per_date.argmax()), [dates[date_number] for date_number in np.flatnonzero(per_date)]
    visits, block = _visits(feed, np.flatnonzero(runs_on[busiest][service]))
    if not visits.s.size:
        raise InputError("the timetable has no stop time of the day with the most trips")
    vehicle, blocks = _vehicles(visits, block)
    hours, outside = _hours(visits.s)
    return ServiceDay(
        day=dates[busiest],
        first=days[0],
        last=days[-1],
        weekdays=tuple(WEEKDAYS[date_number].capitalize() for date_number in sorted({day.weekday() for day in days})),
        hours=hours,
        outside=outside,
        vehicles=int(vehicle.max()) + 1,
        blocks=blocks,
        profile=_profile(vehicle, stop_cells[visits.stop], visits.s // _HOUR_S),
        runs=_runs(feed, visits),
    )


# --- days ---------------------------------------------------------------------------------------------------------


def _services(feed: Gtfs) -> tuple[list[str], Int64s]:
    """Lists the services, and numbers that of each trip."""
    coded = pc.fill_null(feed.tables["trips"]["service_id"], "").dictionary_encode().combine_chunks()
    return coded.dictionary.to_pylist(), coded.indices.to_numpy().astype(np.int64)


def _calendar(feed: Gtfs, names: list[str]) -> tuple[list[date], NDArray[np.bool_]]:
    """Lists the dates of the timetable, and on which each service runs: (dates, services)."""
    number = {name: number_of_name for number_of_name, name in enumerate(names)}
    weeks = [row for row in feed.tables["calendar"].to_pylist() if row["service_id"] in number]
    exceptions = [row for row in feed.tables["calendar_dates"].to_pylist() if row["service_id"] in number]
    said = [_date(row[name]) for row in weeks for name in ("start_date", "end_date")]
    said += [_date(row["date"]) for row in exceptions]
    first = min((day for day in said if day), default=date.min)
    last = max((day for day in said if day), default=date.min)
    dates = [first + timedelta(days=index) for index in range(min((last - first).days + 1, MOST_DATES))]
    runs = np.zeros((len(dates), len(names)), np.bool_)
    for row in weeks:
        _mark_weeks(runs[:, number[row["service_id"]]], dates, row)
    for row in exceptions:
        day = _date(row["date"])
        if day is not None and 0 <= (day - first).days < len(dates):
            runs[(day - first).days, number[row["service_id"]]] = str(row["exception_type"]).strip() == "1"
    return dates, runs


def _mark_weeks(runs: NDArray[np.bool_], dates: list[date], row: Mapping[str, Any]) -> None:
    start, end = _date(row["start_date"]), _date(row["end_date"])
    on = [str(row[name]).strip() == "1" for name in WEEKDAYS]
    if start is not None and end is not None:
        runs |= [start <= day <= end and on[day.weekday()] for day in dates]


def _date(text: str | None) -> date | None:
    """Reads a date like "20260513"."""
    try:
        return date.fromisoformat((text or "").strip())
    except ValueError:
        return None


# --- the day's runs -----------------------------------------------------------------------------------------------


def _visits(feed: Gtfs, trips: Int64s) -> tuple[_Visits, Int64s]:
    """Lists what runs on the day, a trip by frequency once a departure; and the block of each run, -1 for none."""
    times = feed.stop_times
    begins, ends = (np.searchsorted(times.trip, trips, side) for side in ("left", "right"))
    offsets = _offsets(feed)
    runs = [
        (trip, start, end, shift)
        for trip, start, end in zip(trips.tolist(), begins.tolist(), ends.tolist(), strict=True)
        for shift in offsets.get(trip, (None,))
    ]
    sizes = np.array([end - start for _, start, end, _ in runs], np.int64)
    run = np.repeat(np.arange(len(runs)), sizes)
    row = (
        np.arange(sizes.sum())
        - np.repeat(np.cumsum(sizes) - sizes, sizes)
        + np.repeat([start for _, start, _, _ in runs], sizes)
    )
    shift = np.array(
        [0 if asked is None or end == start else asked - times.s[start] for _, start, end, asked in runs], np.int64
    )
    blocks = feed.tables["trips"]["block_id"].dictionary_encode().combine_chunks()
    block = pc.fill_null(blocks.indices, -1).to_numpy().astype(np.int64)
    of_run = np.array([block[trip] if asked is None else -1 for trip, _, _, asked in runs], np.int64)
    return _Visits(run, times.stop[row], times.s[row] + shift[run]), of_run


def _runs(feed: Gtfs, visits: _Visits) -> dict[tuple[int, int], int]:
    """Counts the runs by pairs of stops, one after the other, that have positions."""
    there = ~np.isnan(feed.stop_positions[0][visits.stop])
    run, stop = visits.run[there], visits.stop[there]
    goes_on = run[1:] == run[:-1]
    pairs, count = np.unique(np.stack([stop[:-1][goes_on], stop[1:][goes_on]]), axis=1, return_counts=True)
    return dict(zip(map(tuple, pairs.T.tolist()), count.tolist(), strict=True))


def _offsets(feed: Gtfs) -> dict[int, list[int]]:
    """Lists the departures of trips that run by frequency, in seconds."""
    table = feed.tables["frequencies"]
    trip = feed.rows_of("frequencies", "trip_id", "trips")
    start, end = feed.seconds("frequencies", "start_time"), feed.seconds("frequencies", "end_time")
    headway = feed.numbers("frequencies", "headway_secs")
    departures: dict[int, list[int]] = {}
    for index in range(table.num_rows):
        if trip[index] >= 0 and headway[index] >= 1 and start[index] < end[index] <= 4 * _DAY_S:
            departures.setdefault(int(trip[index]), []).extend(
                range(int(start[index]), int(end[index]), int(headway[index]))
            )
    return departures


def _vehicles(visits: _Visits, block: Int64s) -> tuple[Int64s, int]:
    """Gives each visit its vehicle, as few as can drive all duties; and how many duties there are.

    A duty is a block; a trip without one is a duty of its own. Vehicles are numbered by who is free first.
    """
    is_own = block < 0
    duty_of_run = np.where(is_own, block.max(initial=-1) + 1 + np.arange(block.size), block)
    duties, duty = np.unique(duty_of_run[visits.run], return_inverse=True)
    start, end = np.full(duties.size, np.iinfo(np.int64).max), np.full(duties.size, -1)
    np.minimum.at(start, duty, visits.s)
    np.maximum.at(end, duty, visits.s)
    vehicle, free = np.empty(duties.size, np.int64), list[tuple[int, int]]()
    many = 0
    for trip in np.argsort(start, kind="stable").tolist():
        if free and free[0][0] + TURN_S <= start[trip]:
            _, vehicle[trip] = heapq.heappop(free)
        else:
            vehicle[trip], many = many, many + 1
        heapq.heappush(free, (int(end[trip]), int(vehicle[trip])))
    return vehicle[duty], int(duties.size)


def _hours(s: Int64s) -> tuple[tuple[int, int], float]:
    """Finds the shortest stretch of the clock that leaves out only hours with hardly a stop, and the share left out."""
    per_hour = np.bincount((s % _DAY_S) // _HOUR_S, minlength=24) / s.size
    busy = np.flatnonzero(per_hour >= LEAST_SHARE)
    first, last = int(busy[0]), int(busy[-1]) + 1
    return (first, last), float(1 - per_hour[first:last].sum())


def _profile(vehicle: Int64s, cell: Int64s, hour: Int64s) -> Profile:
    """Counts what the middle vehicle touches, to one digit."""
    placed = cell > 0
    vehicle, cell, hour = vehicle[placed], cell[placed], hour[placed]
    cells, of_cell = np.unique(cell, return_inverse=True)
    parents, grandparents = (_coarser(cells, steps)[of_cell] for steps in (1, 2))
    none = np.zeros_like(hour)
    touched = {
        "hats": (cell, hour),
        "cells": (cell, none),
        "parents": (parents, none),
        "grandparents": (grandparents, none),
        "hours": (none, hour),
        "parts": (none, hour // _PART_HOURS),
    }
    return Profile(**{name: _middle(vehicle, *columns) for name, columns in touched.items()})


def _coarser(cells: Int64s, steps: int) -> Int64s:
    resolution = h3_int.get_resolution(int(cells[0])) if cells.size else 0
    return np.array([h3_int.cell_to_parent(cell, max(resolution - steps, 0)) for cell in cells.tolist()], np.int64)


def _middle(vehicle: Int64s, first: Int64s, second: Int64s) -> int:
    """Finds the middle number of different pairs of a vehicle."""
    pairs = np.unique(np.column_stack([vehicle, first, second]), axis=0)
    counts = np.unique(pairs[:, 0], return_counts=True)[1]
    return one_digit(float(np.median(counts))) if counts.size else 1


def one_digit(number: float) -> int:
    """Rounds to one digit, at least 1."""
    return max(1, int(float(f"{number:.1g}")))
