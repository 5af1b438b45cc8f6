"""Judges columns by the motion of vehicles: steps, ids, units of speeds.

A step is from one position of an id to its next; moves are steps of 2 to 120 s, below 180 km/h. A way is the distance
driven in a step: by positions, or by the mean of its two speeds times its time; the ratio of both tells the unit of
speeds. `speed` is in the feed's unit. `is_nowhere`: at sea or in Antarctica.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hatstream.api import vehicle_ids
from hatstream_city.draft.notation import KMH, MOST_BAD, in_century, is_nowhere, units
from hatstream_city.timetable.positions import Floats, Int64s, distance_m

Bools = NDArray[np.bool_]
Column = str | tuple[str, ...]  # name of an input's column, or names of several that hold a field together
OPEN = "?"  # stands in a draft for a column that a person has to name
MIN_PAIRS = 30  # least number of steps that tell a unit
LEAST_MOVE_M = 50.0
_DAY_US = 86_400_000_000
UNLIKELY, UNKNOWN, LIKELY = 0, 1, 2  # results of `plausibility`, ascending: may a column's ids be those of vehicles?
_PATTERN_BY_UNIT = (
    ("km/h", r"km_?/?h|kph|kmph"),
    ("mph", r"mph|miles"),
    ("cm/s", r"cm_?/s|cmps|cm_s\b"),
    ("ft/s", r"f(ee)?t_?/s|fps|ft_s\b"),
    ("m/s", r"m_?/s|mps|m_s\b"),
    ("knots", r"knots?|kts|_kn\b|\bsog\b"),  # sog: of ships and trackers, speed over ground
)


class DraftPositions(NamedTuple):
    """Positions in any order, (rows,).

    vehicle: codes. us: since 1970 UTC. speed: as written, NaN if unknown.
    """

    vehicle: Int64s
    us: Int64s
    lat: Floats
    lon: Floats
    speed: Floats

    def where(self, chosen: Bools | Int64s) -> "DraftPositions":
        """Selects rows by mask or index."""
        return DraftPositions._make(column[chosen] for column in self)

    def with_speed(self) -> "DraftPositions":
        """Selects rows with a known speed."""
        return self.where(np.isfinite(self.speed))

    @property
    def have_seconds(self) -> bool:
        """Whether not all times are whole minutes, which make steps seem longer."""
        return bool((self.us % 60_000_000).any())


class Track(NamedTuple):
    """Times (us since 1970 UTC) and positions (degrees), (rows,); fits: valid rows."""

    us: Int64s
    lat: Floats
    lon: Floats
    fits: Bools

    def positions(self, ids: Any, speeds: Any = None) -> DraftPositions:
        """Joins valid rows with Arrow columns of ids and, in any unit, of speeds."""
        speed = units().numbers(pa.nulls(len(ids), pa.float64()) if speeds is None else speeds)
        speed_or_nan = np.where(speed.valid, speed.values, np.nan)
        return DraftPositions(codes_of(ids), self.us, self.lat, self.lon, speed_or_nan).where(self.fits)


def track_of(layout_units: Any, time: Any, lat: Any, lon: Any, *, timed: bool = True) -> Track:
    """Reads Arrow columns of times and positions, of which (0, 0) means no fix.

    timed: rows need a time of this century.
    """
    times, lats, lons = layout_units.instants(time), layout_units.numbers(lat), layout_units.longitudes(lon)
    on_earth = (np.abs(lats.values) <= 90) & (np.abs(lons.values) <= 180)
    fits = lats.valid & lons.valid & on_earth & ((lats.values != 0) | (lons.values != 0))
    return Track(times.us, lats.values, lons.values, fits & (in_century(times) | (not timed)))


class Steps(NamedTuple):
    """Steps between a vehicle's consecutive positions, (steps,), with speeds at both ends."""

    metres: Floats
    step_s: Floats
    start_speed: Floats
    end_speed: Floats


def steps_of(rows: DraftPositions) -> Steps:
    """Lists all steps of all vehicles."""
    rows = rows.where(np.lexsort((rows.us, rows.vehicle)))  # by vehicle, then time
    metres = distance_m(rows.lat[:-1], rows.lon[:-1], rows.lat[1:], rows.lon[1:])
    steps = metres, np.diff(rows.us) / 1e6, rows.speed[:-1], rows.speed[1:]
    is_same = np.diff(rows.vehicle) == 0
    return Steps(*(column[is_same] for column in steps))


def moves_of(rows: DraftPositions, least_m: float = LEAST_MOVE_M) -> Steps:
    """Lists short steps of at least `least_m`; none where clocks have no seconds."""
    steps = steps_of(rows)
    fits = (steps.step_s >= 2) & (steps.step_s <= 120)  # in shorter ones positions' errors count, in longer ways bend
    fits &= (steps.metres >= least_m) & (steps.metres < 50 * steps.step_s)  # faster, 180 km/h, is a jump
    return Steps(*(column[fits & rows.have_seconds] for column in steps))


def plausibility(rows: DraftPositions) -> int:
    """Judges whether each id's rows look like one vehicle's: UNLIKELY, UNKNOWN or LIKELY.

    They do if most steps are near enough to drive, and most ids have several rows on a day.
    """
    is_near = _are_near(rows, steps_of(rows))
    if is_near.size and is_near.mean() < 0.9:  # a few positions are wrong
        return UNLIKELY
    if not rows.us.size:
        return UNKNOWN
    days = np.stack([rows.vehicle, rows.us // _DAY_US])
    if np.median(np.unique(days, axis=1, return_counts=True)[1]) >= 2:  # rows by id and day
        return LIKELY
    is_snapshot = np.ptp(rows.us) <= 1_800_000_000  # half an hour, in which each id may come once, whatever it is of
    return UNKNOWN if is_snapshot else UNLIKELY


def agreement(rows: DraftPositions) -> float:
    """Computes the share of drivable steps where both time and position change, or neither."""
    steps = steps_of(rows)
    agrees = ((steps.step_s != 0) == (steps.metres > 0)) & _are_near(rows, steps)  # a step too far to drive: no
    return float(agrees.mean()) if agrees.size else 0.0


def _are_near(rows: DraftPositions, steps: Steps) -> Bools:
    """Marks the steps that a vehicle can drive, (steps,)."""
    rounded_s = 0 if rows.have_seconds else 60  # whole minutes may be 60 s off
    # Guesses, generous for buses: 200 m that positions may be wrong by, and 45 m/s, 162 km/h.
    return np.asarray(steps.metres <= 200 + 45 * (steps.step_s + rounded_s))


def clearest(choices: Mapping[Any, DraftPositions], score: Callable[[DraftPositions], float]) -> Any:
    """Picks the choice whose rows score best; the first unless another is clearly better."""
    scores = {choice: score(rows) for choice, rows in choices.items()}
    first, best = next(iter(scores)), max(scores, key=scores.__getitem__)
    return best if scores[best] > scores[first] + 0.05 else first


def speed_agreement(rows: DraftPositions) -> float:
    """Correlates speeds, in any unit, with ways between positions."""
    moves = moves_of(rows, least_m=0)
    # Ranks (0 throughout where all are equal), as codes of unknown speeds lie far from the others.
    by_position, by_speed = (
        np.unique(values, return_inverse=True)[1]
        for values in (moves.metres / moves.step_s, moves.start_speed + moves.end_speed)  # twice the mean ranks alike
    )
    if moves.metres.size < MIN_PAIRS or not (by_position.any() and by_speed.any()):
        return 0.0
    return float(np.corrcoef(by_position, by_speed)[0, 1])


def speed_unit(name: str, rows: DraftPositions, ratio: float | None) -> tuple[str, str]:
    """Finds the unit of speeds by column name or `speed_ratio`, and the reason."""
    for unit, pattern in _PATTERN_BY_UNIT:
        if re.search(pattern, name.lower()):
            return unit, "by the column's name"
    if ratio is not None:
        misfits = {name: abs(math.log(ratio * kmh / KMH["m/s"])) for name, kmh in KMH.items()}
        del misfits["ft/s"]  # by name alone: a tenth less than km/h are, and ways bend by as much
        unit, next_unit = sorted(misfits, key=misfits.__getitem__)[:2]  # the smallest two; 0 fits exactly
        doubt = f" ({next_unit} would fit as well: check it)" if misfits[next_unit] < 0.1 else ""  # as ways bend
        return unit, f"by the distances between positions: a speed is {ratio:.2g} times metres per second{doubt}"
    if not rows.speed.size:
        return "m/s", "a guess, as no row has a position and a speed: check it"
    fast = float(np.quantile(rows.speed, 0.99))  # in the unknown unit
    unit = "km/h" if fast > 35 else "m/s"  # no bus drives 35 m/s, 126 km/h
    return unit, f"a guess, from the fastest of a hundred ({fast:.0f}): check it"


def speed_ratio(rows: DraftPositions) -> float | None:
    """Computes the ratio of distances by speeds to those by positions, or None.

    It is 3.6 for km/h, as speeds are taken for m/s. Steps count if positions or speeds show movement; where many speeds
    are 0 on the way, only those with a speed. The longest 5 % of both are left out, where jumps and codes would be.
    """
    moves = moves_of(rows, least_m=0)
    by_speed_m = (moves.start_speed + moves.end_speed) / 2 * moves.step_s  # in metres if speeds are m/s
    moving = (moves.metres >= LEAST_MOVE_M) | (by_speed_m > 0)
    if (by_speed_m[moving] == 0).sum() > MOST_BAD * moving.sum():
        moving &= by_speed_m > 0
    if (moving & (by_speed_m > 0)).sum() < MIN_PAIRS:
        return None
    below_p95 = slice(0, math.ceil(0.95 * int(moving.sum())))
    by_speed, by_position = (float(np.sort(ways_m[moving])[below_p95].sum()) for ways_m in (by_speed_m, moves.metres))
    return by_speed / by_position if by_speed > 0 and by_position > 0 else None


def are_crossed(rows: DraftPositions) -> bool:
    """Checks whether speeds fit ways clearly better if latitude and longitude are swapped.

    Where they are swapped, the ratio of a way by speeds to one by positions varies with the direction.
    """
    swapped, errors = rows._replace(lat=rows.lon, lon=rows.lat), []
    # They are not swapped if that gives impossible latitudes, or a middle at sea; [2:4]: lat and lon.
    if not rows.us.size or np.abs(rows.lon).max() > 90 or is_nowhere(*(np.median(swapped[2:4], axis=1).tolist())):
        return False
    for moves in map(moves_of, (rows, swapped)):
        speed = moves.start_speed + moves.end_speed  # twice the mean: the median below takes the factor off
        log_ratio = np.log((speed * moves.step_s / moves.metres)[speed > 0])
        if log_ratio.size < MIN_PAIRS:
            return False
        errors.append(np.abs(log_ratio - np.median(log_ratio)))
    standard_error = math.sqrt(sum(float(error.var()) / error.size for error in errors))  # as if both were independent
    return bool(errors[0].mean() - errors[1].mean() > 5 * standard_error)  # a vehicle's moves are like one another


def strange_speeds(rows: DraftPositions, upper: float) -> list[str]:
    """Describes strange speeds to the operator. upper: the largest accepted, in the feed's unit."""
    speed, moves = rows.speed, moves_of(rows)
    if not speed.size:
        return []
    # Rows of the commonest speed but 0; one row alone says nothing.
    commonest = np.unique(speed[speed != 0], return_counts=True)[1].max(initial=0) if speed.size > 1 else 0
    shares = {  # of rows; with the share above which the fault is reported
        "are below 0, and count as 0": ((speed < 0).mean(), 0.0),
        "are above speed.upper_kmh, and count as it (if input.speed_unit is theirs)": ((speed > upper).mean(), 0.01),
        "are one and the same number": (commonest / speed.size, 0.1),
    }
    sentences = [f"{share:.1%} of the speeds {fault}." for fault, (share, limit) in shares.items() if share > limit]
    zero = float(((moves.start_speed == 0) & (moves.end_speed == 0)).mean()) if moves.metres.size else 0.0
    if zero > 0.5:  # share of moves; a few are of parked vehicles, whose positions jump
        sentences.append("Speeds are 0 where vehicles move: leave the column out, and derive speeds from positions.")
    elif zero > 0.01:  # the same share as for speeds above speed.upper_kmh
        sentences.append(f"{zero:.1%} of the speeds of vehicles that move are 0.")
    elif speed.size >= 20 and not speed.any():  # hardly do so many vehicles stand at once
        sentences.append("All speeds are 0: if vehicles move, leave the column out, and derive speeds from positions.")
    if are_crossed(rows):
        sentences.append("Speeds fit ways better with latitudes and longitudes swapped: check input.columns.")
    return sentences


def codes_of(ids: Any) -> Int64s:
    """Numbers the distinct ids of rows, as a release reads them, (rows,)."""
    return vehicle_ids(ids).code.astype(np.int64)


def array_of(arrays: Mapping[str, Any], column: Column) -> Any:
    """Returns a field's array: a struct if it has several columns, nulls for OPEN."""
    if column == OPEN:
        return pa.nulls(len(next(iter(arrays.values()), ())), pa.string())
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
