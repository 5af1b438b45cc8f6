"""Chooses the columns of vehicles and times by rows."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hatstream.api import vehicle_ids
from hatstream_city.draft.values import are_positions, units
from hatstream_city.timetable.positions import Floats, Int64s, distance_m

Column = str | tuple[str, ...]
"""Of a specification: the name of a column, or of several that hold a field together."""
OPEN = "?"
"""Of a specification: a column that somebody has to name."""
MOST_MPS, ANYWAY_M = 45.0, 200.0
"""Of positions of one vehicle: it is never faster, and a position may be wrong by that much."""
NEAR_SHARE = 0.9
"""Least share of steps that are near enough to drive; wrong positions are the others."""
SNAPSHOT_S = 1_800
"""Where all rows are of so short a time, a vehicle may be in one of them alone."""
CLEARER = 0.05
"""Share of rows by which another column of times must agree better with positions than the first one."""
_DAY_US = 86_400_000_000
UNLIKELY, UNKNOWN, LIKELY = 0, 1, 2
"""Marks of a column of vehicles, see `mark`; ascending."""


class Track(NamedTuple):
    """Times (since 1970 UTC) and positions of rows, (rows,); fits marks complete ones."""

    us: Int64s
    lat: Floats
    lon: Floats
    fits: NDArray[np.bool_]


def track_of(time: Any, lat: Any, lon: Any) -> Track:
    """Converts times and positions of columns to a track."""
    lat_, lon_ = units().numbers(lat), units().longitudes(lon)
    return Track(time.us, lat_.values, lon_.values, time.valid & are_positions(lat_, lon_))


def best_vehicle(named: Sequence[str], others: Sequence[str], arrays: Mapping[str, Any], track: Track) -> str | None:
    """Picks the most plausible column of vehicles; None if none is.

    named: columns whose names say vehicles, best first. others: columns that may hold ids. arrays: columns by name.
    """
    marks = {name: mark(arrays[name], track) for name in named}
    best = max(named, key=marks.__getitem__, default=None)
    if best is not None and marks[best] == LIKELY:
        return best
    likely = [name for name in others if mark(arrays[name], track) == LIKELY]
    # Of ids of vehicles and, say, of their trips, the fewest are vehicles'.
    return min(likely, key=lambda name: len(arrays[name].unique()), default=best)


def best_time(times: Mapping[str, Any], lat: Any, lon: Any, ids: Any) -> str:
    """Picks the column of times that change when, and only when, the position does.

    times: instants by column; the first wins unless another is clearly better. lat, lon, ids: columns of the rows.
    """
    first = next(iter(times))
    track, codes = track_of(times[first], lat, lon), codes_of(ids)
    order = np.lexsort((np.arange(codes.size), track.us, codes))
    order = order[track.fits[order]]
    repeats = np.diff(codes[order]) == 0  # steps between rows of one vehicle
    moved = (np.diff(track.lat[order]) != 0) | (np.diff(track.lon[order]) != 0)
    if not (repeats & ~moved).any():  # all times fit equally
        return first
    marks = {name: float(((np.diff(time.us[order]) != 0) == moved)[repeats].mean()) for name, time in times.items()}
    best = max(marks, key=marks.__getitem__)
    return best if marks[best] > marks[first] + CLEARER else first


def codes_of(ids: Any) -> Int64s:
    """Numbers the distinct ids of rows, as a release reads them, (rows,)."""
    return vehicle_ids(ids).code.astype(np.int64)


def mark(ids: Any, track: Track) -> int:
    """Judges whether each id's rows look like one vehicle's: UNLIKELY, UNKNOWN or LIKELY.

    They do if most steps are near enough to drive, and ids recur within days; a snapshot shows each id once.
    """
    codes = codes_of(ids)
    chosen = np.flatnonzero(track.fits)
    if not chosen.size:
        return UNKNOWN
    order = chosen[np.lexsort((track.us[chosen], codes[chosen]))]
    us, code, lat, lon = track.us[order], codes[order], track.lat[order], track.lon[order]
    repeats = np.diff(code) == 0
    if not repeats.any():
        return UNKNOWN
    metres = distance_m(lat[:-1], lon[:-1], lat[1:], lon[1:])
    rounded_s = 0 if (us % 60_000_000).any() else 60  # times that are all whole minutes may be 60 s off
    near = metres <= ANYWAY_M + MOST_MPS * (np.diff(us) / 1e6 + rounded_s)
    if near[repeats].mean() < NEAR_SHARE:
        return UNLIKELY
    rows_a_day = np.unique(np.stack([code, us // _DAY_US]), axis=1, return_counts=True)[1]
    if np.median(rows_a_day) >= 2:
        return LIKELY
    return UNKNOWN if us.max() - us.min() <= SNAPSHOT_S * 1_000_000 else UNLIKELY


def array_of(arrays: Mapping[str, Any], column: Column) -> Any:
    """Returns a field's column; a struct of several, all null for OPEN."""
    if column == OPEN:
        return pa.nulls(len(next(iter(arrays.values()))), pa.string())
    if isinstance(column, str):
        return arrays[column]
    return pa.StructArray.from_arrays([arrays[name] for name in column], list(map(str, range(len(column)))))


def arrays_of(columns: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Converts columns to Arrow arrays; leaves out those that cannot be."""
    return {name: array for name, values in columns.items() if (array := as_array(values)) is not None}


def as_array(values: Sequence[Any]) -> Any:
    """Converts values to an Arrow array, if need be of texts; None if impossible."""
    with suppress(pa.ArrowException, TypeError, OverflowError):
        array = pa.array(values)
        if not isinstance(array.type, pa.BaseExtensionType):  # of UUIDs, which a release reads as texts
            return array
    try:
        return pa.array([None if value is None else str(value) for value in values])
    except (pa.ArrowException, ValueError):
        return None
