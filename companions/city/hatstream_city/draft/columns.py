"""Which column of a sample holds what: by its name first, and by its values always."""

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from hatstream.api import vehicle_ids
from hatstream_city.draft.candidates import Track, best_time, best_vehicle, is_doubtful, track_of
from hatstream_city.draft.units import is_at_sea, units
from hatstream_city.timetable.positions import Floats

_SPEED = r".*(geschwindigkeit|velocidad|velocidade|vitesse|velocita|snelheid|hastighet|predkosc|rychlost).*"
_NAMES: Mapping[str, tuple[str, ...]] = {
    "vehicle": (
        r"(vehicle|veh|bus|tram|train|unit|device|fleet)(id|no|nr|num|number|ref)?",
        r"vid|imei|(license|number)?plate|.*(vehicleid|busid|vehicleref)",
        r"(vehicle|bus)?label|id",
        r"(fahrzeug|vehiculo|veiculo|vehicule|voertuig|autobus|onibus)(id|nr)?",
    ),
    "time": (
        r"timestamp|time|ts|datetime|dt|.*(datetime|timestamp|attime)",
        r"(gps|event|report|recorded|server|utc|unix)(time|at|ts)|epoch(s|ms)?|utc|date",
        r"zeit(stempel|punkt)?|hora|fechahora|datahora|heure|horodatage|tijd(stip)?",
    ),
    "lat": (r"lat|latitude", r".*(lat|latitude)", r"y|coordinates1", r"latitud|(geo)?breite(ngrad)?"),
    "lon": (
        r"lon|lng|long|longitude",
        r".*(lon|lng|longitude)",
        r"x|coordinates0",
        r"longitud|(geo)?lae?nge(ngrad)?",
    ),
    "speed": (r"speed|velocity", r".*(speed|velocity).*", r"v|spd|sog|.*(kmh|kmph|kph|mph|mps|knots?|kts)", _SPEED),
}
"""Names of a field without case, accents, marks and blanks, the plainest first; English, then some others."""
MOST_BAD = 0.2
"""Share of rows that may be unusable in the column of a field."""
_US = 1_000_000
_TRIED = 200


@dataclass(frozen=True)
class DraftedColumns:
    """names: column by field; no speed where there is none. guessed: fields that were found by their values alone.

    time_formats: those that most times fit, where they are texts but no ISO 8601: several where days and months are
    both small.
    is_doubtful: whether rows with the same vehicle do not look like those of one. comes_once: whether no vehicle has a
    second row.
    """

    names: Mapping[str, str]
    time_unit: str
    guessed: tuple[str, ...]
    time_formats: tuple[str, ...] = ()
    is_doubtful: bool = False
    comes_once: bool = False

    def instants(self, column: Any, zone: str | None) -> Any:
        """Reads the column of times."""
        return units(self.time_unit, next(iter(self.time_formats), None), zone).instants(column)


LOOKED_FOR = {
    "vehicle": "texts or whole numbers that come again, best in a column named vehicle, bus, plate or like that",
    "time": "ISO 8601 texts, dates like 13.05.2026 or 5/13/2026 with a time, or numbers since 1970 in s, ms, us or ns",
    "lat": "degrees with decimals from -90 to 90, best in a column named lat or latitude",
    "lon": "degrees with decimals from -180 to 180 or from 0 to 360, best in a column named lon, lng or longitude",
}
"""The fields that a feed must have, and what is taken for them."""


def find_columns(columns: Mapping[str, Sequence[Any]], vehicle: str | None = None) -> DraftedColumns | None:
    """Finds the column of each field; None where vehicles, times or positions cannot be told. A speed may be missing.
    vehicle: the column, if known."""
    arrays = _arrays(columns)
    names, guessed = _assigned(arrays, vehicle)
    if any(field not in names for field in LOOKED_FOR):
        return None
    if "speed" in guessed and len(arrays) > len(names):
        del names["speed"]  # any small number would do: that is no finding
        guessed.remove("speed")
    times = arrays[names["time"]]
    unit = _time_unit(times)
    ids = arrays[names["vehicle"]]
    doubtful, once = is_doubtful(ids, _track(arrays, names)), len(ids.unique()) == len(ids)
    names = {field: names[field] for field in _FITS if field in names}
    return DraftedColumns(names, unit or "iso", tuple(guessed), () if unit else _time_formats(times), doubtful, once)


def missing_fields(columns: Mapping[str, Sequence[Any]]) -> list[str]:
    """Lists the fields of LOOKED_FOR of which no column was found."""
    names, _ = _assigned(_arrays(columns))
    return [field for field in LOOKED_FOR if field not in names]


def _arrays(columns: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    return {name: array for name, values in columns.items() if (array := as_array(values)) is not None}


def _assigned(arrays: Mapping[str, Any], vehicle: str | None = None) -> tuple[dict[str, str], list[str]]:
    """Finds the column of each field that has one, and lists the fields that were found by their values alone."""
    has_names = not all(name.isdigit() for name in arrays)
    names = {} if vehicle is None else {"vehicle": vehicle}
    guessed = []
    for field in ("time", "lat", "lon", "speed"):
        left = [name for name in arrays if name not in names.values()]
        named = [name for name in _by_name(field, left) if _FITS[field](arrays[name])]
        by_value = field != "speed" or not has_names  # another small number is no speed
        candidates = named or [name for name in left if by_value and _GUESSES[field](arrays[name])]
        if candidates:
            names[field] = candidates[0]
            if not named:
                guessed.append(field)
    if "lat" in guessed and "lon" in guessed and _crossed(arrays[names["lat"]], arrays[names["lon"]]):
        names["lat"], names["lon"] = names["lon"], names["lat"]
    if vehicle is None:
        _find_vehicle(arrays, names, guessed)
    if names.keys() >= LOOKED_FOR.keys():
        _settle_time(arrays, names)
    return names, guessed


def _find_vehicle(arrays: Mapping[str, Any], names: dict[str, str], guessed: list[str]) -> None:
    """Adds the column of vehicles, if there is one; a name alone is not enough, for ids may be of rows."""
    left = [name for name in arrays if name not in names.values()]
    named = [name for name in _by_name("vehicle", left) if _vehicles(arrays[name])]
    others = [name for name in left if name not in named and _repeated(arrays[name])]
    column = next(iter([*named, *others]), None)
    if {"time", "lat", "lon"} <= names.keys():
        column = best_vehicle(named, others, arrays, _track(arrays, names)) or column
    if column is not None:
        names["vehicle"] = column
    if column is not None and column not in named:
        guessed.append("vehicle")


def _settle_time(arrays: Mapping[str, Any], names: dict[str, str]) -> None:
    """Picks of several columns of times the one that changes with the position."""
    taken = {name for field, name in names.items() if field != "time"}
    others = [name for name in arrays if name not in taken and name != names["time"] and _is_time(arrays[name])]
    if others:
        times = {name: _instants(arrays[name]) for name in (names["time"], *others)}
        names["time"] = best_time(times, arrays[names["lat"]], arrays[names["lon"]], arrays[names["vehicle"]])


def _track(arrays: Mapping[str, Any], names: Mapping[str, str]) -> Track:
    return track_of(_instants(arrays[names["time"]]), arrays[names["lat"]], arrays[names["lon"]])


def _instants(times: Any) -> Any:
    """Reads the column in whatever form its times are."""
    unit = _time_unit(times)
    return units(unit or "iso", None if unit else next(iter(_time_formats(times)), None), "UTC").instants(times)


def as_array(values: Sequence[Any]) -> Any:
    """Makes an Arrow array of one type; None where there is none."""
    with suppress(pa.ArrowException, TypeError, OverflowError):
        array = pa.array(values)
        if not isinstance(array.type, pa.BaseExtensionType):  # of UUIDs, which a release reads as texts
            return array
    try:
        return pa.array([None if value is None else str(value) for value in values])
    except (pa.ArrowException, ValueError):
        return None


def _by_name(field: str, names: Sequence[str]) -> list[str]:
    """Finds the names that say the field, the plainest first."""
    columns = []
    for name in names:
        plain = [re.sub(r"[^a-z0-9]", "", unicodedata.normalize("NFKD", text.lower())) for text in _spoken(name)]
        ranks = (index for index, pattern in enumerate(_NAMES[field]) if any(re.fullmatch(pattern, p) for p in plain))
        if (rank := next(ranks, None)) is not None:
            columns.append((rank, len(name), name))
    return [name for _, _, name in sorted(columns)]


def _spoken(name: str) -> tuple[str, ...]:
    """Lists what a column's name may say: its last part, and whose `id` or number it is by the part before."""
    *_, last = parts = name.split(".")
    owned = "".join(parts[-2:])
    if last.isdigit():
        return (owned,)
    return (last, owned) if last.lower() == "id" else (last,)


# --- what values a field may have ---------------------------------------------------------------------------------


def _degrees(least: float, most: float) -> Callable[[Any], bool]:
    """Makes a test that most are within these bounds: devices that do not know where they are say 91, 181 or worse."""

    def fits(array: Any) -> bool:
        degrees = _numbers(array)
        return degrees is not None and bool(((degrees >= least) & (degrees <= most)).mean() >= 1 - MOST_BAD)

    return fits


def _fraction_degrees(array: Any) -> bool:
    """Says whether degrees have decimals and lie in a region, few at 0: ids and speeds are not taken for them."""
    degrees = _numbers(array)
    if degrees is None or not degrees.size or np.abs(degrees).max() > 180:
        return False
    decimal = (np.abs(degrees * 1000 - np.rint(degrees * 1000)) > 1e-6).mean() > 0.5
    low, high = np.quantile(degrees, [0.05, 0.95])
    return bool(decimal and high - low < 6 and (degrees == 0).mean() < 0.05)


def _crossed(lat: Any, lon: Any) -> bool:
    """Says whether two columns of degrees are each other's: one is no latitude, or only so their middle is on land."""
    lats, lons = _numbers(lat), _numbers(lon)
    if lats is None or lons is None or not (lats.size and lons.size):
        return False
    if max(np.abs(lats).max(), np.abs(lons).max()) > 90:
        return bool(np.abs(lats).max() > 90)
    north, east = float(np.median(lats)), float(np.median(lons))
    return is_at_sea(north, east) and not is_at_sea(east, north)


def _speeds(array: Any) -> bool:
    speeds = _numbers(array, most_bad=1.0)
    return speeds is not None and speeds.size > 0 and bool((speeds >= 0).mean() > 0.9)


def _small_numbers(array: Any) -> bool:
    numbers_read = _numbers(array)
    return numbers_read is not None and bool(
        numbers_read.size and numbers_read.min() >= 0 and 1 < numbers_read.max() < 400
    )


def _vehicles(array: Any) -> bool:
    ids = vehicle_ids(array)
    usable = int((~(ids.missing | ids.bad)).sum())
    return usable >= (1 - MOST_BAD) * len(array) and usable > 0


def _repeated(array: Any) -> bool:
    """Says whether ids come again, and there are several. Not of floats: without a name any whole numbers would do."""
    return not pa.types.is_floating(array.type) and _vehicles(array) and 1 < len(array.unique()) < 0.9 * len(array)


def _numbers(array: Any, most_bad: float = MOST_BAD) -> Floats | None:
    if pa.types.is_boolean(array.type) or pa.types.is_nested(array.type):
        return None
    values = units().numbers(array)
    if not len(array) or (~values.valid).mean() > most_bad:
        return None
    read: Floats = values.values[values.valid]
    return read


def _is_text(array: Any) -> bool:
    return bool(pa.types.is_string(array.type) or pa.types.is_binary(array.type))


def _time_unit(array: Any) -> str | None:
    """Finds the unit in which most values are instants of this century; a text without an offset is one, too."""
    if pa.types.is_nested(array.type) or pa.types.is_boolean(array.type) or not len(array):
        return None
    for unit in ("iso", "s", "ms", "us", "ns"):
        if _in_century(units(unit, None, "UTC").instants(array)).mean() >= 1 - MOST_BAD:
            return unit
    return None


def _in_century(instants: Any) -> Any:
    return instants.valid & (instants.us > 946_684_800 * _US) & (instants.us < 2_524_608_000 * _US)


_DATES = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d", "%d.%m.%y", "%m/%d/%y")
_CLOCKS = ("%H:%M:%S", "%I:%M:%S %p", "%H:%M", "%I:%M %p", "%H:%M:%S.%f", "%I:%M:%S.%f %p")


def _time_formats(array: Any) -> tuple[str, ...]:
    """Lists forms in which most values are instants of this century; ISO dates may have a clock of twelve hours."""
    if not _is_text(array):
        return ()
    some = array.slice(0, _TRIED)
    forms = [f"{day} {clock}" for day in (*_DATES, "%Y-%m-%d") for clock in _CLOCKS]
    return tuple(form for form in forms if _fits(some, form) and _fits(array, form))


def _fits(array: Any, form: str) -> bool:
    return bool(_in_century(units("iso", form, "UTC").instants(array)).mean() >= 1 - MOST_BAD)


def _is_time(array: Any) -> bool:
    return bool(len(array)) and (_time_unit(array) is not None or bool(_time_formats(array)))


_FITS: Mapping[str, Callable[[Any], bool]] = {
    "time": _is_time,
    "lat": _degrees(-90, 90),
    "lon": _degrees(-180, 360),
    "speed": _speeds,
    "vehicle": _vehicles,
}
_GUESSES: Mapping[str, Callable[[Any], bool]] = {
    "time": _is_time,
    "lat": _fraction_degrees,
    "lon": _fraction_degrees,
    "speed": _small_numbers,
    "vehicle": _repeated,
}
