"""Finds the columns of fields, by names and values.

`arrays`: Arrow columns by name. `names`: by field (vehicle, time, lat, lon, speed) its column, or a tuple of columns
that hold it together, or OPEN, "?", for none. `guessed`: fields that were found by values alone. Unit "excel": days
since 1900. A `Track` holds the rows' times and positions; joined with ids, it shows by their motion whether ids are
vehicles' (LIKELY, UNKNOWN or UNLIKELY).
"""

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from hatstream.api import vehicle_ids
from hatstream_city.draft import motion, notation
from hatstream_city.timetable.positions import Floats

_OPERATOR_NAME = r"(op|oper|operator|agency|company|provider|organi[sz]ation|depot)(id|ref|code|no|nr|name)?"
_DATE_NAME = r".*(date|day|datum|fecha|data|tag|dia)"
_CLOCK_NAME = r".*(time|clock|hour|zeit|hora|heure|tijd|tod|seconds|secs)"
_HEMISPHERES = {"lat": {"N", "S"}, "lon": {"E", "W"}}
_HEMISPHERE_NAME = r"ns|ew|northsouth|eastwest|.*hemi(sphere)?|(gps)?(lat|lon|lng)\w*(ref|dir\w*|ind\w*|ns|ew|sign)"
_MOST_PAIRED = 4  # so many columns of dates, and of clocks, are tried with one another


@dataclass(frozen=True)
class DraftedColumns:
    """Columns of a feed's fields, and their notation.

    names: column or columns by field; no speed where there is none. guessed: fields found by their values alone.
    time_formats: formats that fit most times which are not ISO 8601; several where day and month are both small.
    options: deviations of a layout with fixed columns from its defaults. is_doubtful: rows of one vehicle id do not
    look like one vehicle's. comes_once: no vehicle has a second row. moves: some vehicle is seen at two places.
    """

    names: Mapping[str, motion.Column]
    time_unit: str
    guessed: tuple[str, ...]
    time_formats: tuple[str, ...] = ()
    is_doubtful: bool = False
    comes_once: bool = False
    moves: bool = False
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def missing(self) -> list[str]:
        """The fields of which no column was found."""
        return [field for field, column in self.names.items() if column == motion.OPEN]

    @property
    def says_utc(self) -> bool:
        """Whether names of the columns of times say that they are of UTC."""
        return any(re.search("utc|gmt|zulu", name.lower()) for name in names_in([self.names["time"]]))

    @property
    def has_ids(self) -> bool:
        """Whether all fields were found, and plausible vehicles by name."""
        return not self.missing and "vehicle" not in self.guessed and not self.is_doubtful

    def units(self, zone: str | None) -> Any:
        """Builds the reader of times and positions. zone: of times without an offset."""
        return notation.units(self.time_unit, next(iter(self.time_formats), None), zone)


def names_in(columns: Iterable[motion.Column]) -> list[str]:
    """Lists the names of columns, also of those that hold a field together."""
    return [name for column in columns for name in ((column,) if isinstance(column, str) else column)]


DESCRIPTION_BY_FIELD = {  # the fields that a feed must have, with the values that are taken for them
    "vehicle": "texts or whole numbers that come again, best in a column named vehicle, bus, plate or like that",
    "time": "ISO 8601 texts, dates like 13.05.2026 or 5/13/2026 with a time, or numbers since 1970 in s, ms, us or ns",
    "lat": "degrees with decimals from -90 to 90, best in a column named lat or latitude",
    "lon": "degrees with decimals from -180 to 180 or from 0 to 360, best in a column named lon, lng or longitude",
}


def find_columns(columns: Mapping[str, Sequence[Any]], vehicle: str | None = None) -> DraftedColumns:
    """Finds each field's column by names and values; OPEN stands for a missing one.

    columns: values by name, (rows,) each. vehicle: the vehicle's column, if it is known.
    """
    arrays = motion.arrays_of(columns)
    names, guessed = _assigned(arrays, vehicle)  # columns by field; fields found by values alone
    is_incomplete = not names.keys() >= DESCRIPTION_BY_FIELD.keys()  # a needed field has no column; speed is optional
    if "speed" in guessed and (is_incomplete or len(arrays) > len(names)):
        del names["speed"]  # any small number would do; it is certain only where every other column is another field
        guessed.remove("speed")
    names = dict.fromkeys(DESCRIPTION_BY_FIELD, motion.OPEN) | names
    drafted = drafted_columns(arrays, names, _unit_of(arrays, names["time"]), guessed)
    if drafted.missing:  # letters of hemispheres belong to columns of lat and lon, which must exist
        return drafted
    return replace(drafted, names={**drafted.names, **_with_hemispheres(arrays, names)})


def drafted_columns(
    arrays: Mapping[str, Any], names: Mapping[str, Any], unit: str | None, guessed: Sequence[str] = ()
) -> DraftedColumns:
    """Finds formats of times and, where every field has a column, judges ids.

    unit: of times; None for texts that need a format.
    """
    ordered = {field: names[field] for field in _CHECK_BY_FIELD if field in names}  # in a fixed order
    times = motion.array_of(arrays, names["time"])
    formats = () if unit else notation.time_formats(times)  # texts, not ISO 8601
    drafted = DraftedColumns(ordered, unit or "iso", tuple(guessed), formats)
    if drafted.missing:
        return drafted
    track = motion.track_of(drafted.units("UTC"), times, arrays[names["lat"]], arrays[names["lon"]])
    vehicle = _with_operator(arrays, names["vehicle"], track)  # a pair of columns if operators share ids
    ids = motion.array_of(arrays, vehicle)
    comes_once = len(np.unique(motion.codes_of(ids))) == len(ids)  # no vehicle has a second row
    rows = track.positions(ids)
    is_doubtful = not comes_once and motion.plausibility(rows) == motion.UNLIKELY
    moves = bool((motion.steps_of(rows).metres > motion.LEAST_MOVE_M).any())
    ordered |= {"vehicle": vehicle}
    return replace(drafted, names=ordered, is_doubtful=is_doubtful, comes_once=comes_once, moves=moves)


def _assigned(arrays: Mapping[str, Any], vehicle: str | None = None) -> tuple[dict[str, Any], list[str]]:
    """Assigns columns to fields; also lists fields that were found by values alone.

    A column must have a field's name and possible values, or, without such a one, values that no other field has.
    Vehicles come after times and positions, which show whether the rows of an id look like a vehicle's.
    """
    has_names = not all(name.isdigit() for name in arrays)  # else they are numbers of columns
    names: dict[str, Any] = {} if vehicle is None else {"vehicle": vehicle}  # columns by field
    guessed: list[str] = []
    rivals: dict[str, list[str]] = {}  # by field, the columns with its name and possible values
    for field in ("time", "lat", "lon", "speed"):  # each takes a column from those that are left
        unassigned = [name for name in arrays if name not in names.values()]
        with_name = notation.by_name(field, unassigned)
        candidates = [name for name in with_name if _CHECK_BY_FIELD[field](arrays[name])]
        if field == "time":
            candidates += [name for name in with_name if name not in candidates and _unit_of(arrays, name) == "excel"]
            is_clock_apart = all(notation.is_date(arrays[name]) for name in candidates)  # true without a candidate, too
            if is_clock_apart and (pair := _date_and_clock(arrays, unassigned)):
                names[field] = pair
                continue
        # Small numbers are speeds only where columns have no names and another one is left for vehicles.
        if not candidates and (field != "speed" or (not has_names and len(unassigned) > 1)):
            candidates = [name for name in unassigned if _STRICT_CHECK_BY_FIELD[field](arrays[name])]
            guessed += [field] if candidates else []
        rivals[field] = [] if field in guessed else candidates
        if candidates:
            is_paired = field == "lon" and "lat" in names
            names[field] = notation.most_alike(names["lat"], candidates) if is_paired else candidates[0]
    if {"lat", "lon"} <= names.keys():
        names["lat"], names["lon"] = _uncrossed(arrays, names["lat"], names["lon"], guessed)  # swapped if values say so
    if vehicle is None:
        _find_vehicle(arrays, names, guessed)
    if names.keys() >= DESCRIPTION_BY_FIELD.keys():  # all needed fields: rows can tell which columns are right
        _choose_by_motion(arrays, names, rivals, guessed)
    return names, guessed


def _choose_by_motion(
    arrays: Mapping[str, Any], names: dict[str, Any], rivals: Mapping[str, Sequence[str]], guessed: Sequence[str]
) -> None:
    """Replaces columns in `names` by rivals that agree clearly better with vehicles' motion.

    names, rivals: column, and possible columns, by field. guessed: fields found by values alone. `clearest` picks the
    first, unless one is clearly better.
    """
    ids, lons = arrays[names["vehicle"]], rivals["lon"]
    others = [lat for lat in rivals["lat"] if lons and lat not in names.values()]  # each takes the lon named alike
    pairs = [(names["lat"], names["lon"]), *(_uncrossed(arrays, lat, notation.most_alike(lat, lons)) for lat in others)]
    by_pair = {pair: _track(arrays, {**names, "lat": pair[0], "lon": pair[1]}).positions(ids) for pair in pairs}
    names["lat"], names["lon"] = motion.clearest(by_pair, motion.agreement)
    tracks = _tracks(arrays, names)
    by_time = {time: track.positions(ids) for time, track in tracks.items()}
    names["time"] = motion.clearest(by_time, motion.agreement)
    track = tracks[names["time"]]
    if rivals["speed"]:
        by_speed = {name: track.positions(ids, arrays[name]).with_speed() for name in rivals["speed"]}
        names["speed"] = motion.clearest(by_speed, motion.speed_agreement)
    is_unclear = "speed" in names and _may_be_crossed(names["lat"], names["lon"], guessed)
    if is_unclear and motion.are_crossed(track.positions(ids, arrays[names["speed"]]).with_speed()):
        names["lat"], names["lon"] = names["lon"], names["lat"]


def _tracks(arrays: Mapping[str, Any], names: Mapping[str, Any]) -> dict[Any, motion.Track]:
    """Reads positions by each column that may be of times, the named one first."""
    column = names["time"]
    is_fixed = not isinstance(column, str) or _unit_of(arrays, column) == "excel"  # a pair, or days since 1900
    others = [] if is_fixed else [name for name in arrays if name not in names.values()]
    rivals = [name for name in others if notation.is_time(arrays[name])]
    return {time: _track(arrays, {**names, "time": time}) for time in (column, *rivals)}


def _find_vehicle(arrays: Mapping[str, Any], names: dict[str, str], guessed: list[str]) -> None:
    """Adds the vehicle's column to `names`, by field, and to `guessed` if by values."""
    assigned = names_in(names.values())
    unassigned = [name for name in arrays if name not in assigned]
    keys = [name for name in unassigned if name == "*"]  # keys of a JSON object under which records lie
    named = [name for name in (*notation.by_name("vehicle", unassigned), *keys) if _are_ids(arrays[name])]
    others = [name for name in unassigned if name not in named and _are_repeated_ids(arrays[name])]
    # One track for each column that may be of times.
    tracks = _tracks(arrays, names).values() if {"time", "lat", "lon"} <= names.keys() else ()

    @cache
    def rank(name: str) -> int:
        ranks = (motion.plausibility(track.positions(arrays[name])) for track in tracks)
        return max(ranks, default=motion.UNKNOWN)

    # A name is no proof, as it may be of ids of rows: rows must look like vehicles'. The plainest of equals is taken.
    column = max(named, key=rank, default=None)
    if column is None or rank(column) != motion.LIKELY:
        likely = [name for name in others if rank(name) == motion.LIKELY]
        # A vehicle drives several trips: of ids of vehicles and of trips, those of vehicles are fewer.
        column = min(likely, key=lambda name: len(arrays[name].unique()), default=column or next(iter(others), None))
    if column is not None:
        names["vehicle"] = column
        guessed += [] if column in named else ["vehicle"]


def _track(arrays: Mapping[str, Any], names: Mapping[str, Any]) -> motion.Track:
    """Reads the columns of times and positions."""
    times, unit = motion.array_of(arrays, names["time"]), _unit_of(arrays, names["time"])
    time_format = None if unit else next(iter(notation.time_formats(times)), None)  # a unit has no format
    units = notation.units(unit or "iso", time_format, zone="UTC")
    return motion.track_of(units, times, arrays[names["lat"]], arrays[names["lon"]])


def _unit_of(arrays: Mapping[str, Any], column: motion.Column) -> str | None:
    """Finds the unit of times; days since 1900 only by a column's name."""
    is_named = isinstance(column, str) and notation.by_name("time", [column])
    tried = (*notation.TIME_UNITS, "excel") if is_named else notation.TIME_UNITS
    return notation.time_unit_of(motion.array_of(arrays, column), tried)


def _date_and_clock(arrays: Mapping[str, Any], names: Sequence[str]) -> tuple[str, str] | None:
    """Finds two columns of a time: date, and clock or seconds after midnight."""
    dates = [name for name in names if re.fullmatch(_DATE_NAME, notation.letters_of(name))]
    clocks = [name for name in names if re.fullmatch(_CLOCK_NAME, notation.letters_of(name))]
    # Small numbers are hours or minutes alone; a clock is a text, which has no numbers, or a count of seconds.
    clocks = [name for name in clocks if (hours := _numbers(arrays[name])) is None or np.max(hours) >= 100]
    pairs = [(date, clock) for date in dates[:_MOST_PAIRED] for clock in clocks[:_MOST_PAIRED] if date != clock]
    return next((pair for pair in pairs if notation.is_time(motion.array_of(arrays, pair))), None)


def _with_operator(arrays: Mapping[str, Any], vehicle: motion.Column, track: motion.Track) -> motion.Column:
    """Pairs ids with a column of operators, if several operators use the same ids."""
    if not isinstance(vehicle, str) or vehicle not in arrays:  # a pair already, or "{file}"
        return vehicle
    if motion.plausibility(track.positions(arrays[vehicle])) != motion.UNLIKELY:
        return vehicle
    for name in arrays:
        if any(re.fullmatch(_OPERATOR_NAME, notation.letters_of(text)) for text in notation.last_parts(name)):
            ids = motion.array_of(arrays, (name, vehicle))
            if _are_ids(ids) and motion.plausibility(track.positions(ids)) == motion.LIKELY:
                return name, vehicle
    return vehicle


def _with_hemispheres(arrays: Mapping[str, Any], names: Mapping[str, Any]) -> dict[str, Any]:
    """Pairs unsigned degrees with their column of N and S, or E and W.

    Their column is named like hemispheres, or has no name and follows the degrees; letters elsewhere may be headings.
    """
    pairs = {}
    for field, letters in _HEMISPHERES.items():
        hemispheres = []
        for former, name in pairwise(("", *arrays)):
            is_behind = name.isdigit() and former == names[field]  # columns without names have numbers
            may_be = is_behind or re.fullmatch(_HEMISPHERE_NAME, notation.letters_of(name))
            if may_be and notation.is_text(arrays[name]):
                head = arrays[name].slice(0, notation.TRIED).drop_null().unique()
                texts = {str(text).strip().upper() for text in head.to_pylist()}
                hemispheres += [name] if texts and texts <= letters else []
        degrees = _numbers(arrays[names[field]])
        if len(hemispheres) == 1 and degrees is not None and not np.any(degrees < 0):
            pairs[field] = (names[field], hemispheres[0])
    return pairs


def _uncrossed(arrays: Mapping[str, Any], lat: str, lon: str, guessed: Sequence[str] = ()) -> tuple[str, str]:
    """Swaps columns if names leave open which is latitude, and values tell it.

    Values tell it by an impossible latitude, or by a middle that lies at sea unless they are swapped.
    """
    if not _may_be_crossed(lat, lon, guessed):
        return lat, lon
    lats, lons = _numbers(arrays[lat]), _numbers(arrays[lon])
    if lats is None or lons is None or not (lats.size and lons.size):
        return lat, lon
    north, east = float(np.median(lats)), float(np.median(lons))
    is_at_sea = max(abs(north), abs(east)) <= 90 and notation.is_nowhere(north, east)
    is_crossed = abs(north) > 90 or (is_at_sea and not notation.is_nowhere(east, north))  # > 90: a longitude
    return (lon, lat) if is_crossed else (lat, lon)


def _may_be_crossed(lat: str, lon: str, guessed: Sequence[str]) -> bool:
    """Checks whether names leave open which is latitude: guessed columns, x and y, numbers."""
    names = {notation.letters_of(lat), notation.letters_of(lon)}  # of a number no letters are left
    is_geojson = lon.endswith("coordinates.0")  # GeoJSON writes the longitude first
    return ("lat" in guessed and "lon" in guessed) or (names <= {"x", "y", ""} and not is_geojson)


def _degrees(minimum: float, maximum: float, array: Any) -> bool:
    """Checks that most values lie in a range; devices without a fix send 91."""
    degrees = _numbers(array)
    return degrees is not None and bool(((degrees >= minimum) & (degrees <= maximum)).mean() >= 1 - notation.MOST_BAD)


def _fraction_degrees(array: Any) -> bool:
    """Checks for decimal degrees within a region, few at 0, unlike ids and speeds."""
    degrees = _numbers(array)
    if degrees is None or not degrees.size:
        return False
    steps = degrees / 1e-3  # of 100 m: ids and speeds have no digits beyond, positions do
    has_decimals = (np.abs(steps - np.rint(steps)) > 1e-6).mean() > 0.5  # beyond rounding errors, in most rows
    low, high = np.quantile(degrees, [0.05, 0.95])  # jumps, and codes of missing positions, lie outside
    on_earth, is_region = low >= -180 and high <= 360, high - low < 6  # 360: some longitudes start at 0; 6: 600 km
    return bool(has_decimals and on_earth and is_region and (degrees == 0).mean() < 0.05)  # flags have more zeros


def _may_be_speeds(array: Any) -> bool:
    """Checks that few numbers are negative, or all of these equal, for unknown."""
    speeds = _numbers(array, most_bad=1.0)  # many reports may have none
    if speeds is None or not speeds.size:
        return False
    negative = speeds[speeds < 0]
    share = negative.size / speeds.size
    return bool(share < 0.1 or (np.ptp(negative) == 0 and share < 0.9))  # both shares are guesses


def _small_numbers(array: Any) -> bool:
    """Checks for possible speeds in any unit; 0 and 1 alone are flags."""
    numbers = _numbers(array)
    return numbers is not None and bool(numbers.size and numbers.min() >= 0 and 1 < numbers.max() < 400)


def _are_ids(array: Any) -> bool:
    """Checks that most rows have an id that a release can read."""
    ids = vehicle_ids(array)
    usable = int((~(ids.missing | ids.bad)).sum())
    return usable >= (1 - notation.MOST_BAD) * len(array) and usable > 0


def _are_repeated_ids(array: Any) -> bool:
    """Checks for several ids, no decimals, where over a tenth of rows repeat others."""
    return not pa.types.is_floating(array.type) and _are_ids(array) and 1 < len(array.unique()) < 0.9 * len(array)


def _numbers(array: Any, most_bad: float = notation.MOST_BAD) -> Floats | None:
    """Reads a column's valid numbers; None if more than the share `most_bad` are invalid."""
    if not notation.is_plain(array):
        return None
    values = notation.units().numbers(array)
    if not len(array) or (~values.valid).mean() > most_bad:
        return None
    return np.asarray(values.values[values.valid])


_CHECK_BY_FIELD: Mapping[str, Callable[[Any], bool]] = {
    "time": notation.is_time,
    "lat": partial(_degrees, -90, 90),
    "lon": partial(_degrees, -180, 360),
    "speed": _may_be_speeds,
    "vehicle": _are_ids,
}
_STRICT_CHECK_BY_FIELD = dict(_CHECK_BY_FIELD, lat=_fraction_degrees, lon=_fraction_degrees, speed=_small_numbers)
