"""Chooses among rival columns by the motion of vehicles."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hatstream.api import vehicle_ids
from hatstream_city.draft.values import MIN_PAIRS, DraftPositions, are_positions, moves_of, units
from hatstream_city.timetable.positions import Floats, Int64s, distance_m

Column = str | tuple[str, ...]  # name of an input's column, or names of several that hold a field together
OPEN = "?"  # stands in a draft for a column that a person has to name
MOST_MPS, ERROR_M = 45.0, 200.0
"""Highest speed of a vehicle, 162 km/h, and the error that a position may have: guesses, generous for buses."""
NEAR_SHARE = 0.9
"""Least share of steps that a vehicle can drive, in a column of vehicles; the others are wrong positions."""
SNAPSHOT_S = 1_800  # in a sample of so short a time each vehicle may have one row alone
CLEARER = 0.05  # by so much, of 1, another column must agree better with the motion than the first one by name
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


def best_vehicle(
    named: Sequence[str], others: Sequence[str], arrays: Mapping[str, Any], tracks: Collection[Track]
) -> str | None:
    """Picks the most plausible column of vehicles, or None.

    named: columns with a vehicle's name, best first; one of them is picked even if no column at all is LIKELY.
    others: columns that may hold ids. arrays: columns by name. tracks: one for each column that may be of times.
    """

    def rank(name: str) -> int:
        return max(plausibility(arrays[name], track) for track in tracks)

    ranks = {name: rank(name) for name in named}
    best = max(named, key=ranks.__getitem__, default=None)
    if best is not None and ranks[best] == LIKELY:
        return best
    likely = [name for name in others if rank(name) == LIKELY]
    # A vehicle drives several trips: of ids of vehicles and of trips, those of vehicles are fewer.
    return min(likely, key=lambda name: len(arrays[name].unique()), default=best)


def clearest(agreements: Mapping[Any, float]) -> Any:
    """Picks the choice that agrees best; the first unless another is clearly better."""
    first, best = next(iter(agreements)), max(agreements, key=agreements.__getitem__)
    return best if agreements[best] > agreements[first] + CLEARER else first


def agreement(vehicle: Int64s, track: Track) -> float:
    """Computes the share of drivable steps where both time and position change, or neither."""
    vehicle, rows = _in_order(vehicle, track)
    is_step = np.diff(vehicle) == 0  # between rows of one vehicle
    moved = (np.diff(rows.lat) != 0) | (np.diff(rows.lon) != 0)
    agrees = ((np.diff(rows.us) != 0) == moved) & _is_near(rows)
    return float(agrees[is_step].mean()) if is_step.any() else 0.0


def speed_agreement(vehicle: Int64s, track: Track, speeds: Any) -> float:
    """Correlates an Arrow column of speeds, in any unit, with ways between positions."""
    moves = moves_of(with_speeds(vehicle, track, speeds), least_m=0)
    # Ranks, as codes of unknown speeds lie far from the others.
    by_position, by_speed = (
        np.unique(values, return_inverse=True)[1]
        for values in (moves.metres / moves.step_s, moves.start_speed + moves.end_speed)
    )
    if moves.metres.size < MIN_PAIRS or not (by_position.any() and by_speed.any()):
        return 0.0
    return float(np.corrcoef(by_position, by_speed)[0, 1])


def with_speeds(vehicle: Int64s, track: Track, speeds: Any) -> DraftPositions:
    """Joins valid rows of a track and of an Arrow column of speeds."""
    speed = units().numbers(speeds)
    return DraftPositions(vehicle, track.us, track.lat, track.lon, speed.values).where(track.fits & speed.valid)


def codes_of(ids: Any) -> Int64s:
    """Numbers the distinct ids of rows, as a release reads them, (rows,)."""
    return vehicle_ids(ids).code.astype(np.int64)


def plausibility(ids: Any, track: Track) -> int:
    """Judges whether each id's rows look like one vehicle's: UNLIKELY, UNKNOWN or LIKELY.

    They do if most steps are near enough to drive, and most ids have several rows on a day. ids: Arrow column, (rows,).
    """
    code, rows = _in_order(codes_of(ids), track)
    is_step = np.diff(code) == 0  # between rows of one id
    if is_step.any() and _is_near(rows)[is_step].mean() < NEAR_SHARE:
        return UNLIKELY
    if not (us := rows.us).size:
        return UNKNOWN
    rows_a_day = np.unique(np.stack([code, us // _DAY_US]), axis=1, return_counts=True)[1]  # by id and day
    if np.median(rows_a_day) >= 2:
        return LIKELY
    is_snapshot = us.max() - us.min() <= SNAPSHOT_S * 1_000_000
    return UNKNOWN if is_snapshot else UNLIKELY


def _in_order(codes: Int64s, track: Track) -> tuple[Int64s, Track]:
    """Sorts valid rows by id and time."""
    order = np.lexsort((track.us, codes))
    order = order[track.fits[order]]
    return codes[order], Track._make(column[order] for column in track)


def _is_near(rows: Track) -> NDArray[np.bool_]:
    """Marks the steps that a vehicle can drive, (steps,)."""
    metres = distance_m(rows.lat[:-1], rows.lon[:-1], rows.lat[1:], rows.lon[1:])
    rounded_s = 0 if (rows.us % 60_000_000).any() else 60  # times that are all whole minutes may be 60 s off
    return np.asarray(metres <= ERROR_M + MOST_MPS * (np.diff(rows.us) / 1e6 + rounded_s))


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
