"""Recognises fields by the names of columns, and numbers and times by values.

`array`: an Arrow column, of a pair of columns a struct. A form is a strptime format, with %s for seconds after
midnight. `units(..)` reads an array as a release does: `instants` with `us` since 1970 UTC, `numbers` with `values`,
both with masks such as `valid`. Names of columns are paths such as "a.b.0", as JSON is flattened.
"""

import re
import tomllib
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib.resources import files
from operator import eq
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
import pyarrow as pa

from hatstream.api import MergedIds, layout, vehicle_ids

_NOTATION: Mapping[str, Mapping[str, list[str]]] = tomllib.loads(
    files(__package__).joinpath("notation.toml").read_text()
)
_TIMES = _NOTATION["times"]
MONTH_FIRST_ZONES = _TIMES["month_first_zones"]
FIELDS = ("vehicle", "time", "lat", "lon", "speed")
ZONES = frozenset(available_timezones())  # once: each call looks through folders
KMH = {"km/h": 1.0, "m/s": 3.6, "mph": 1.609344, "knots": 1.852, "cm/s": 0.036, "ft/s": 1.09728}
"""How much one of each unit is that a specification may name."""
_COMMA_NUMBER = re.compile(r"^\s*([+-]?[0-9]+),([0-9]+)\s*$")
_POINT_NUMBER = re.compile(r"^\s*[+-]?[0-9]+\.[0-9]+\s*$")
_FIRST_DIGIT, _DIGITS, _LETTERS = re.compile(r"\W*[0-9]"), re.compile("[0-9]+"), re.compile(r"[^\W\d_]+")
LOOKED_AT = 1_000  # values of a column whose notation is looked at


@cache
def units(time_unit: str = "iso", time_format: str | None = None, zone: str | None = None) -> Any:
    """Builds the reader by which a release reads numbers and instants.

    A format takes no unit, and numbers since 1970 no zone: `layout` refuses them.
    """
    # Any layout with columns will do, as only its units are used.
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
    """Checks whether the first row has values, not names: only names may be shown.

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
TIME_UNITS = ("iso", "s", "ms", "us", "ns")
IN_CENTURY_US = 946_684_800 * 1_000_000, 2_524_608_000 * 1_000_000  # 2000 to 2049, UTC, of a feed's times


def time_unit_of(array: Any, tried: Sequence[str] = TIME_UNITS, least: float = 1 - MOST_BAD) -> str | None:
    """Finds the first unit that puts a share `least` in this century, or None."""
    is_struct = pa.types.is_struct(array.type)
    if not (is_struct or is_plain(array)) or not len(array):
        return None
    fits = (unit for unit in tried if in_century(units(unit, zone="UTC").instants(array)).mean() >= least)
    return next(fits, None)


def in_century(instants: Any) -> Any:
    """Marks the instants that a feed may have, (rows,)."""
    return instants.valid & (instants.us > IN_CENTURY_US[0]) & (instants.us < IN_CENTURY_US[1])


_MIDNIGHT, _NO_DAY = r"[ T](0?0:00(:00(\.0+)?)?|12:00:00 AM)", r" (1899-12-30|1900-01-01|12/30/1899|30[./]12[./]1899)"
_CONSTANT = re.compile(f"({_MIDNIGHT}{_NO_DAY}|{_MIDNIGHT}|{_NO_DAY})(?= )")
"""What databases and spreadsheets put between a date and a clock: the date's clock, the clock's date."""


@cache
def _forms(*, has_weekday: bool, has_month_name: bool, has_half_day: bool) -> tuple[str, ...]:
    """Lists strptime formats of texts with these parts, likeliest first. has_half_day: AM or PM."""
    dates = _TIMES["named_dates"] if has_month_name else _TIMES["dates"] + _TIMES["short_dates"]
    clocks = _TIMES["half_clocks"] if has_half_day else _TIMES["clocks"]
    plain = [f"{date}{separator}{clock}" for date in dates for clock in clocks for separator in (" ", "T", ", ")]
    plain += [f"{date}%H%M%S" for date in dates if not has_month_name]
    day_forms = [f"%a{comma}{form}" for form in plain for comma in (", ", " ")] if has_month_name else []
    day_forms += [f"%a %b %d {clock}{zone} %Y" for clock in clocks for zone in ("", " %z")] if has_month_name else []
    forms = [*day_forms, *plain] if has_weekday else plain
    return tuple(f"{form}{zone}" for form in forms for zone in (("", " %z", "%z") if "%z" not in form else ("",)))


def time_formats(array: Any) -> tuple[str, ...]:
    """Lists formats that fit most texts, or structs of date and clock, likeliest first."""
    is_pair = pa.types.is_struct(array.type)
    if is_pair:
        rows = zip(*(text.to_pylist() for text in array.flatten()), strict=True)
        array = pa.array([None if None in row else " ".join(map(_plain_text, row)) for row in rows], pa.string())
    if not is_text(array):
        return ()
    head = array.slice(0, TRIED)
    first = head.drop_null().slice(0, 3)
    texts = [str(text).strip() for text in first.to_pylist()]
    # A time's text has at least six digits, such as 9/5/26 7:00, and is not long.
    if not texts or any(len(re.findall("[0-9]", text)) < 6 or len(text) > 45 for text in texts):
        return ()
    match = _CONSTANT.search(texts[0]) if is_pair else None  # midnight behind a date, or a day before a clock
    constant = match[0] if match and all(match[0] in text for text in head.drop_null().to_pylist()) else ""
    text = texts[0].replace(constant, "", 1)
    forms = _forms(
        has_weekday=bool(re.match("[A-Za-z]{2,9}[, ]", text)),
        # The T of ISO 8601 and the Z of UTC begin no month.
        has_month_name=bool(re.search("[A-SU-Ya-su-y][a-z]{2}", re.sub("UTC|GMT|[AaPp]\\.?[Mm]", "", text))),
        has_half_day=bool(re.search("[AaPp]\\.?[Mm]\\.?$|[AaPp][Mm] ", text)),
    )
    # Dates and seconds after midnight come last: numbers of six digits may be clocks too, as %H%M%S.
    forms += tuple(f"{date} %s" for date in _TIMES["dates"])
    shaped = [form for form in forms if _shape(form).fullmatch(" ".join(text.split()))]
    # A pattern is faster than parsing, and a few values are faster than all: cheap checks come first.
    # The constant, which begins with a blank, stands before the blank between date and clock.
    fitting = [form for form in (form.replace(" ", f"{constant} ", 1) for form in shaped) if _fits(first, form)]
    fitting = [form for form in fitting[:8] if _fits(head, form) and _fits(array, form)]
    formats = [form for form in fitting if "%s" not in form] or fitting  # %s: seconds of the day
    if len({form.startswith("%y") for form in formats}) > 1:  # of 26-05-13 either end may be the year
        formats.sort(key=lambda form: _days(head, form))  # a sample's times lie on few days, near today
    return tuple(formats)


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


def _days(array: Any, form: str) -> tuple[float, float]:
    """Computes how many days times span, and how many the first is from today."""
    instants = units(time_format=form, zone="UTC").instants(array)
    days = instants.us[instants.valid] // 86_400_000_000
    return float(np.ptp(days)), abs(float(days[0]) - datetime.now(UTC).timestamp() / 86_400)


def is_time(array: Any) -> bool:
    """Checks whether values look like times."""
    return bool(len(array)) and (time_unit_of(array) is not None or bool(time_formats(array)))


def is_date(array: Any) -> bool:
    """Checks whether all times are midnight, as databases write dates."""
    head = array.slice(0, TRIED).drop_null().to_pylist()
    return bool(head) and all(re.search(f"{_MIDNIGHT}$", str(value)) for value in head)


def is_plain(array: Any) -> bool:
    """Checks for a type other than booleans and nested ones."""
    return not (pa.types.is_boolean(array.type) or pa.types.is_nested(array.type))


def is_text(array: Any) -> bool:
    """Checks for text or binary values."""
    return bool(pa.types.is_string(array.type) or pa.types.is_binary(array.type))


_NOT_OF_VEHICLE = re.compile(r"stop|dest|depot|limit|max|accuracy|speeding")  # in names of what no vehicle measures


def by_name(field: str, names: Sequence[str]) -> list[str]:
    """Lists columns that match a field's patterns, the plainest pattern and shortest name first."""
    matches = []  # pattern's rank, length of the name, name
    for name in names:
        texts = [re.sub(r"[^a-z0-9]", "", unicodedata.normalize("NFKD", text.lower())) for text in last_parts(name)]
        patterns = enumerate(_NOTATION["names"][field])  # the plainest first
        ranks = [rank for rank, pattern in patterns if any(re.fullmatch(pattern, text) for text in texts)]
        if ranks and not _NOT_OF_VEHICLE.search("".join(name.split(".")[-2:]).lower()):
            matches.append((ranks[0], len(name), name))
    return [name for _, _, name in sorted(matches)]


def last_parts(name: str) -> tuple[str, ...]:
    """Lists texts that identify a path: "speed" of "a.speed" and "speed.$numberDouble", "busid" of "bus.id"."""
    *_, last = steps = re.sub(r"(\.(\$\w+|value|#text))+$", "", name).split(".")  # keys of MongoDB's types, SIRI, XML
    last_two = "".join(steps[-2:])
    if last.isdigit():  # an index of an array, such as coordinates.0
        return (last_two,)
    return (last, last_two) if last.lower() == "id" else (last,)


def letters_of(name: str) -> str:
    """Returns the lower-case letters of a path's last key: "time" of "gps.Time_1"."""
    return re.sub(r"[^a-z]", "", name.split(".")[-1].lower())


def most_alike(name: str, others: Iterable[str]) -> str:
    """Picks the name with the most letters in common, from either end."""
    return max(others, key=lambda rival: sum(map(eq, name, rival)) + sum(map(eq, name[::-1], rival[::-1])))
