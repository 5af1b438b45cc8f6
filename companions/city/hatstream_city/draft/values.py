"""Recognises what columns hold: degrees, speeds or times."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hatstream.api import MergedIds, layout, vehicle_ids
from hatstream_city.timetable.positions import Floats, Int64s, distance_m

FIELDS = ("vehicle", "time", "lat", "lon", "speed")
ZONES = frozenset(available_timezones())  # once: each call looks through folders
KMH = {"km/h": 1.0, "m/s": 3.6, "mph": 1.609344, "knots": 1.852}
"""How much one of each unit is that a specification may name."""
_PATTERN_BY_UNIT = (
    ("km/h", r"km_?/?h|kph|kmph"),
    ("mph", r"mph|miles"),
    ("m/s", r"m_?/s|mps|m_s\b"),
    ("knots", r"knots?|kts|_kn\b"),
)
_COMMA_NUMBER = re.compile(r"^\s*([+-]?[0-9]+),([0-9]+)\s*$")
_POINT_NUMBER = re.compile(r"^\s*[+-]?[0-9]+\.[0-9]+\s*$")
_FIRST_DIGIT, _DIGITS, _LETTERS = re.compile(r"\W*[0-9]"), re.compile("[0-9]+"), re.compile(r"[^\W\d_]+")
LOOKED_AT = 1_000  # values of a column whose notation is looked at
MIN_PAIRS = 30  # least number of steps that tell a unit
CLEAR_ERRORS = 5  # standard errors that are no chance, though a vehicle's moves are like one another
LEAST_MOVE_M = 50.0
LEAST_STEP_S, MOST_STEP_S, MOST_STEP_MPS = 2, 120, 50
"""In shorter steps positions' errors count, in longer ones ways bend; faster than this is a jump."""


@cache
def units(time_unit: str = "iso", time_format: str | None = None, zone: str | None = None) -> Any:
    """Builds the reader by which a release reads numbers and instants.

    A format takes no unit, and numbers since 1970 no zone: `layout` refuses them.
    """
    # Of any layout with columns: only its units are used.
    columns, unit = dict(zip(FIELDS, FIELDS, strict=True)), None if time_format else time_unit
    zone = zone if time_unit in ("iso", "excel") else None
    return layout("parquet", columns, unit, time_zone=zone, time_format=time_format).units


def with_points(columns: Mapping[str, Sequence[Any]]) -> tuple[Mapping[str, Sequence[Any]], str | None]:
    """Replaces decimal commas by points; returns the columns and the mark, "," or None.

    It applies if texts in most rows of a column are numbers with commas, and none anywhere have a point.
    """
    heads = [[str(cell) for cell in values[:LOOKED_AT] if cell is not None] for values in columns.values()]
    has_commas = any(2 * sum(bool(_COMMA_NUMBER.match(cell)) for cell in cells) > len(cells) > 0 for cells in heads)
    if not has_commas or any(_POINT_NUMBER.match(cell) for cells in heads for cell in cells):
        return columns, None
    pointed = {
        name: [_COMMA_NUMBER.sub(r"\1.\2", cell) if isinstance(cell, str) else cell for cell in values]
        for name, values in columns.items()
    }
    return pointed, ","


def has_values(rows: Sequence[Sequence[str]]) -> bool:
    """Checks whether the first row has values; taken for names, they would be shown.

    It has if a cell begins with digits and has few letters, or if another row looks alike but for letters and digits.
    """
    first, *others = rows
    form = _form(first)
    is_alike = "0" in form and any(row != first and _form(row) == form for row in others)
    return is_alike or any(_FIRST_DIGIT.match(cell) and is_mostly_digits(cell) for cell in first)


def _form(row: Sequence[str]) -> str:
    """Replaces digits by 0 and letters by a."""
    return _LETTERS.sub("a", _DIGITS.sub("0", "\0".join(row)))


def is_mostly_digits(text: str) -> bool:
    """Checks for more digits than letters, as in numbers, times and many ids."""
    return sum(map(str.isdecimal, text)) > sum(map(str.isalpha, text))


def merged(ids: Iterable[bytes]) -> MergedIds:
    """Counts distinct ids, and how many fewer without case or as integers."""
    texts = pa.array(list(filter(None, ids)), pa.binary())
    as_text, caseless, integers = (len(vehicle_ids(texts, form).ids) for form in ("text", "casefold", "integer"))
    return MergedIds(as_text, as_text - caseless, as_text - integers)


class DraftPositions(NamedTuple):
    """Positions in any order, (rows,); vehicle: codes, us: since 1970 UTC, speed: as written."""

    vehicle: Int64s
    us: Int64s
    lat: Floats
    lon: Floats
    speed: Floats

    def where(self, chosen: NDArray[np.bool_]) -> "DraftPositions":
        """Selects rows by a mask."""
        return DraftPositions._make(column[chosen] for column in self)


def are_positions(lat: Any, lon: Any) -> NDArray[np.bool_]:
    """Marks rows with a place on earth; (0, 0) means no fix."""
    on_earth = (np.abs(lat.values) <= 90) & (np.abs(lon.values) <= 180)
    return np.asarray(lat.valid & lon.valid & on_earth & ((lat.values != 0) | (lon.values != 0)))


def speed_unit(name: str, rows: DraftPositions, ratio: float | None) -> tuple[str, str]:
    """Finds the unit of speeds by column name or `speed_ratio`, and the reason."""
    for unit, pattern in _PATTERN_BY_UNIT:
        if re.search(pattern, name.lower()):
            return unit, "by the column's name"
    if ratio is not None:
        unit = min(KMH, key=lambda name: abs(np.log(ratio * KMH[name] / KMH["m/s"])))  # the ratio nearest to 1
        return unit, f"by the distances between positions: a speed is {ratio:.2g} times metres per second"
    if not rows.speed.size:
        return "m/s", "a guess, as no row has a position and a speed: check it"
    fast = float(np.quantile(rows.speed, 0.99))  # in the unknown unit
    unit = "km/h" if fast > 35 else "m/s"  # no bus drives 35 m/s, 126 km/h
    return unit, f"a guess, from the fastest of a hundred ({fast:.0f}): check it"


class Moves(NamedTuple):
    """Short steps between a vehicle's positions, (steps,), with speeds, as written, at both ends."""

    metres: Floats
    step_s: Floats
    start_speed: Floats
    end_speed: Floats


def moves_of(rows: DraftPositions, least_m: float = LEAST_MOVE_M) -> Moves:
    """Lists vehicles' steps of at least `least_m`; none where clocks have no seconds."""
    order = np.lexsort((rows.us, rows.vehicle))
    if not (rows.us % 60_000_000).any():  # all are whole minutes
        order = order[:0]  # steps could be a minute longer than they seem
    lat, lon, speed = rows.lat[order], rows.lon[order], rows.speed[order]
    step_s = np.diff(rows.us[order]) / 1e6
    metres = distance_m(lat[:-1], lon[:-1], lat[1:], lon[1:])
    fits = (np.diff(rows.vehicle[order]) == 0) & (step_s >= LEAST_STEP_S) & (step_s <= MOST_STEP_S)
    fits &= (metres >= least_m) & (metres < MOST_STEP_MPS * step_s)
    return Moves(metres[fits], step_s[fits], speed[:-1][fits], speed[1:][fits])


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

    The ratio of a way by speeds to one by positions depends on the direction where they are swapped.
    """
    swapped, errors = rows._replace(lat=rows.lon, lon=rows.lat), []
    if not rows.us.size or np.abs(rows.lon).max() > 90 or is_nowhere(*(np.median(swapped[2:4], axis=1).tolist())):
        return False
    for moves in map(moves_of, (rows, swapped)):
        speed = moves.start_speed + moves.end_speed
        log_ratio = np.log((speed * moves.step_s / moves.metres)[speed > 0])
        if log_ratio.size < MIN_PAIRS:
            return False
        errors.append(np.abs(log_ratio - np.median(log_ratio)))
    standard_error = math.sqrt(sum(float(error.var()) / error.size for error in errors))
    return bool(errors[0].mean() - errors[1].mean() > CLEAR_ERRORS * standard_error)


def strange_speeds(rows: DraftPositions, upper: float) -> list[str]:
    """Describes strange speeds to the operator. upper: the largest accepted, in the feed's unit."""
    speed, moves = rows.speed, moves_of(rows)
    if not speed.size:
        return []
    # Rows of the commonest speed but 0; one row alone says nothing.
    commonest = np.unique(speed[speed != 0], return_counts=True)[1].max(initial=0) if speed.size > 1 else 0
    shares = {  # of rows; with the share above which the fault is reported
        "are below 0, and count as 0": ((speed < 0).mean(), 0.0),
        "are above speed.upper_kmh, and count as it": ((speed > upper).mean(), 0.01),
        "are one and the same number": (commonest / speed.size, 0.1),
    }
    sentences = [f"{share:.1%} of the speeds {fault}." for fault, (share, limit) in shares.items() if share > limit]
    zero = float(((moves.start_speed == 0) & (moves.end_speed == 0)).mean()) if moves.metres.size else 0.0
    if zero > 0.5:  # of movements; a few are jumps of a parked vehicle's position
        sentences.append("Speeds are 0 where vehicles move: leave the column out, and derive speeds from positions.")
    elif zero > 0.01:  # the same share as for speeds above speed.upper_kmh
        sentences.append(f"{zero:.1%} of the speeds of vehicles that move are 0.")
    if are_crossed(rows):
        sentences.append("Speeds fit ways better with latitudes and longitudes swapped: check input.columns.")
    return sentences


def zones_at(lat: float, lon: float) -> list[str]:
    """Lists a place's time zones, several at disputed borders."""
    from tzfpy import get_tz, get_tzs  # loads its map of borders

    return [name for name in dict.fromkeys([get_tz(lon, lat), *get_tzs(lon, lat)]) if name in ZONES]


def is_nowhere(lat: float, lon: float) -> bool:
    """Checks for a position in Antarctica or at sea."""
    return lat < -60 or all(zone.startswith("Etc/") for zone in zones_at(lat, lon))


def follows_hours(zone: str) -> bool:
    """Checks that a zone's clock changes by full hours, as slots of hours need."""
    return len({offset % timedelta(hours=1) for offset in _offsets(zone, range(367))}) == 1  # a year


def same_clock(zone: str, reference: str) -> bool:
    """Checks that two clocks agree this year and next; False for an unknown zone."""
    days = range(0, 24 * 30, 30)  # one in each month
    try:
        return _offsets(zone, days) == _offsets(reference, days)
    except (KeyError, ValueError, OSError):
        return False


def _offsets(zone: str, days: range) -> list[timedelta]:
    """Lists a zone's offsets from UTC, so many days from today."""
    instants = (datetime.now(UTC) + timedelta(days=number) for number in days)
    return [instant.astimezone(ZoneInfo(zone)).utcoffset() or timedelta() for instant in instants]


MOST_BAD = 0.2  # share of rows that may be unusable in the column of a field
TRIED = 200  # values of a column that formats and letters are tried on before all others
IN_CENTURY_US = 946_684_800 * 1_000_000, 2_524_608_000 * 1_000_000
"""The years 2000 to 2049, UTC, in which a feed's times must lie."""


def time_unit_of(array: Any) -> str | None:
    """Finds the unit that puts most values in this century, or None."""
    is_struct = pa.types.is_struct(array.type)
    if not (is_struct or is_plain(array)) or not len(array):
        return None
    for unit in ("iso", "s", "ms", "us", "ns"):
        if in_century(units(unit, zone="UTC").instants(array)).mean() >= 1 - MOST_BAD:
            return unit
    return None


def in_century(instants: Any) -> Any:
    """Marks the instants that a feed may have, (rows,)."""
    return instants.valid & (instants.us > IN_CENTURY_US[0]) & (instants.us < IN_CENTURY_US[1])


_DATES = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d", "%Y-%m-%d", "%Y%m%d")
_SHORT_DATES = ("%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%d-%m-%y", "%m-%d-%y")
_NAMED_DATES = (
    *("%d %b %Y", "%b %d %Y", "%b %d, %Y", "%d-%b-%Y", "%d-%b-%y", "%d%b%Y", "%Y-%b-%d", "%d %b %y", "%d. %b %Y"),
)
_CLOCKS = ("%H:%M:%S", "%H:%M", "%H:%M:%S.%f", "%H:%M:%S,%f", "%H:%M:%S:%f", "%H.%M.%S", "%H%M%S", "%H%M")
_HALF_CLOCKS = tuple(
    f"{clock}{blank}%p" for clock in ("%I:%M:%S", "%I:%M", "%I:%M:%S.%f", "%I:%M:%S:%f") for blank in (" ", "")
)
_MOST_DISTINCT, _MOST_FORMATS = 3, 8
"""Texts that each form is tried on at first; forms that fit them, and are tried on all."""
_LEAST_DIGITS, _MOST_LETTERS = 6, 45
"""A time's text has at least so many digits, such as 9/5/26 7:00, and at most so many letters."""


@cache
def _forms(*, has_weekday: bool, has_month_name: bool, has_half_day: bool) -> tuple[str, ...]:
    """Lists strptime formats of texts with these parts, likeliest first. has_half_day: AM or PM."""
    dates = _NAMED_DATES if has_month_name else (*_DATES, *_SHORT_DATES)
    clocks = _HALF_CLOCKS if has_half_day else _CLOCKS
    plain = [f"{date}{separator}{clock}" for date in dates for clock in clocks for separator in (" ", "T", ", ")]
    plain += [f"{date}%H%M%S" for date in dates if not has_month_name]
    day_forms = [f"%a{comma}{form}" for form in plain for comma in (", ", " ")] if has_month_name else []
    day_forms += [f"%a %b %d {clock}{zone} %Y" for clock in clocks for zone in ("", " %z")] if has_month_name else []
    forms = [*day_forms, *plain] if has_weekday else plain
    return tuple(f"{form}{zone}" for form in forms for zone in (("", " %z", "%z") if "%z" not in form else ("",)))


def time_formats(array: Any) -> tuple[str, ...]:
    """Lists formats that fit most texts, or structs of date and clock, likeliest first."""
    if pa.types.is_struct(array.type):
        rows = zip(*(text.to_pylist() for text in array.flatten()), strict=True)
        array = pa.array([None if None in row else " ".join(map(_plain_text, row)) for row in rows], pa.string())
    if not is_text(array):
        return ()
    head = array.slice(0, TRIED)
    first = head.drop_null().slice(0, _MOST_DISTINCT)
    texts = [str(text).strip() for text in first.to_pylist()]
    if not texts or any(len(re.findall("[0-9]", text)) < _LEAST_DIGITS or len(text) > _MOST_LETTERS for text in texts):
        return ()
    forms = _seconds_forms(texts[0]) or _forms(
        has_weekday=bool(re.match("[A-Za-z]{2,9}[, ]", texts[0])),
        # The T of ISO 8601 and the Z of UTC begin no month.
        has_month_name=bool(re.search("[A-SU-Ya-su-y][a-z]{2}", re.sub("UTC|GMT|[AaPp]\\.?[Mm]", "", texts[0]))),
        has_half_day=bool(re.search("[AaPp]\\.?[Mm]\\.?$|[AaPp][Mm] ", texts[0])),
    )
    # A pattern is faster than parsing, and a few values are faster than all: cheap checks come first.
    fitting = [form for form in forms if _shape(form).fullmatch(" ".join(texts[0].split())) and _fits(first, form)]
    return tuple(form for form in fitting[:_MOST_FORMATS] if _fits(head, form) and _fits(array, form))


def _seconds_forms(text: str) -> tuple[str, ...]:
    """Lists formats of a date with seconds after midnight; six digits are hhmmss."""
    _, blank, clock = text.rpartition(" ")
    return tuple(f"{form} %s" for form in _DATES) if blank and clock.isdecimal() and len(clock) != 6 else ()


@cache
def _shape(form: str) -> re.Pattern[str]:
    """Compiles the pattern of a format's texts. %s: seconds after midnight."""
    shapes = {"%b": "[A-Za-z]{3,9}\\.?", "%a": "[A-Za-z]{2,9}\\.?", "%p": "[AaPp]\\.?[Mm]\\.?", "%Y": "[0-9]{4}"}
    shapes |= {"%z": "(Z|UTC|GMT|[+-][0-9]{2}:?[0-9]{2})", "%f": "[0-9]{1,9}", "%y": "[0-9]{2}", "%s": "[0-9]{1,6}"}
    parts = re.split("(%.)", form)
    return re.compile("".join(shapes.get(part, "[0-9]{1,2}") if part[:1] == "%" else re.escape(part) for part in parts))


def _plain_text(value: Any) -> str:
    """Writes a part of a time, whole numbers without a point."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()


def _fits(array: Any, form: str) -> bool:
    return bool(in_century(units(time_format=form, zone="UTC").instants(array)).mean() >= 1 - MOST_BAD)


def is_time(array: Any) -> bool:
    """Checks whether values look like times."""
    return bool(len(array)) and (time_unit_of(array) is not None or bool(time_formats(array)))


def is_plain(array: Any) -> bool:
    """Checks for a type other than booleans and nested ones."""
    return not (pa.types.is_boolean(array.type) or pa.types.is_nested(array.type))


def is_text(array: Any) -> bool:
    """Checks for text or binary values."""
    return bool(pa.types.is_string(array.type) or pa.types.is_binary(array.type))
