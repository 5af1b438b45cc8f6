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

Column = str | tuple[str, ...]  # name of an input's column, or names of several that hold a field together
OPEN = "?"  # stands in a draft for a column that a person has to name
MOST_MPS, ERROR_M = 45.0, 200.0
"""Highest speed of a vehicle, 162 km/h, and the error that a position may have: guesses, generous for buses."""
NEAR_SHARE = 0.9
"""Least share of steps that a vehicle can drive, in a column of vehicles; the others are wrong positions."""
SNAPSHOT_S = 1_800  # in a sample of so short a time each vehicle may have one row alone
CLEARER = 0.05  # share of rows by which another column of times must agree better with positions than the first one
_DAY_US = 86_400_000_000
UNLIKELY, UNKNOWN, LIKELY = 0, 1, 2  # results of `plausibility`, ascending: may a column's ids be those of vehicles?


class Track(NamedTuple):
    """Times (us since 1970 UTC) and positions (degrees), (rows,); fits: valid rows."""

    us: Int64s
    lat: Floats
    lon: Floats
    fits: NDArray[np.bool_]


def track_of(time: Any, lat: Any, lon: Any) -> Track:
    """Converts instants, and Arrow columns of latitudes and longitudes, to a track."""
    lats, lons = units().numbers(lat), units().longitudes(lon)
    return Track(time.us, lats.values, lons.values, time.valid & are_positions(lats, lons))


def best_vehicle(named: Sequence[str], others: Sequence[str], arrays: Mapping[str, Any], track: Track) -> str | None:
    """Picks the most plausible column of vehicles, or None.

    named: columns with a vehicle's name, best first; one of them is picked even if no column at all is LIKELY.
    others: columns that may hold ids. arrays: columns by name.
    """
    ranks = {name: plausibility(arrays[name], track) for name in named}
    best = max(named, key=ranks.__getitem__, default=None)
    if best is not None and ranks[best] == LIKELY:
        return best
    likely = [name for name in others if plausibility(arrays[name], track) == LIKELY]
    # A vehicle drives several trips: of ids of vehicles and of trips, those of vehicles are fewer.
    return min(likely, key=lambda name: len(arrays[name].unique()), default=best)


def best_time(times: Mapping[str, Any], lat: Any, lon: Any, ids: Any) -> str:
    """Picks the column of times that change when, and only when, the position does.

    times: instants by column; the first wins unless another is clearly better. lat, lon, ids: Arrow columns, (rows,).
    """
    first = next(iter(times))
    track, vehicle = track_of(times[first], lat, lon), codes_of(ids)
    order = np.lexsort((track.us, vehicle))
    order = order[track.fits[order]]  # valid rows, by vehicle and time
    is_step = np.diff(vehicle[order]) == 0  # between rows of one vehicle
    moved = (np.diff(track.lat[order]) != 0) | (np.diff(track.lon[order]) != 0)
    if not (is_step & ~moved).any():  # vehicles always move: any column of times agrees
        return first
    agreement = {name: float(((np.diff(time.us[order]) != 0) == moved)[is_step].mean()) for name, time in times.items()}
    best = max(agreement, key=agreement.__getitem__)
    return best if agreement[best] > agreement[first] + CLEARER else first


def codes_of(ids: Any) -> Int64s:
    """Numbers the distinct ids of rows, as a release reads them, (rows,)."""
    return vehicle_ids(ids).code.astype(np.int64)


def plausibility(ids: Any, track: Track) -> int:
    """Judges whether each id's rows look like one vehicle's: UNLIKELY, UNKNOWN or LIKELY.

    They do if most steps are near enough to drive, and most ids have several rows on a day. ids: Arrow column, (rows,).
    """
    codes = codes_of(ids)
    order = np.lexsort((track.us, codes))
    order = order[track.fits[order]]  # valid rows alone
    us, code, lat, lon = track.us[order], codes[order], track.lat[order], track.lon[order]
    is_step = np.diff(code) == 0  # between rows of one id
    if not is_step.any():
        return UNKNOWN
    metres = distance_m(lat[:-1], lon[:-1], lat[1:], lon[1:])
    rounded_s = 0 if (us % 60_000_000).any() else 60  # times that are all whole minutes may be 60 s off
    is_near = metres <= ERROR_M + MOST_MPS * (np.diff(us) / 1e6 + rounded_s)
    if is_near[is_step].mean() < NEAR_SHARE:
        return UNLIKELY
    rows_a_day = np.unique(np.stack([code, us // _DAY_US]), axis=1, return_counts=True)[1]  # by id and day
    if np.median(rows_a_day) >= 2:
        return LIKELY
    is_snapshot = us.max() - us.min() <= SNAPSHOT_S * 1_000_000
    return UNKNOWN if is_snapshot else UNLIKELY


def array_of(arrays: Mapping[str, Any], column: Column) -> Any:
    """Returns a field's array: a struct if it has several columns, nulls for OPEN."""
    if column == OPEN:
        return pa.nulls(len(next(iter(arrays.values()))), pa.string())
    if isinstance(column, str):
        return arrays[column]
    return pa.StructArray.from_arrays([arrays[name] for name in column], names=list(map(str, range(len(column)))))


def arrays_of(columns: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Converts columns to Arrow arrays; leaves out those that cannot be."""
    return {name: array for name, values in columns.items() if (array := as_array(values)) is not None}


def as_array(values: Sequence[Any]) -> Any:
    """Converts values, or where types are mixed their texts, to Arrow; None if impossible."""
    with suppress(pa.ArrowException, TypeError, OverflowError):
        array = pa.array(values)
        if not isinstance(array.type, pa.BaseExtensionType):  # of UUIDs, which a release reads as texts
            return array
    try:
        return pa.array([None if value is None else str(value) for value in values])
    except (pa.ArrowException, ValueError):
        return None
