"""In which form the times of a column are: a unit of numbers, ISO 8601, or one of the forms of other countries."""

import re
from functools import cache
from typing import Any

import pyarrow as pa

from hatstream_city.draft.units import units

MOST_BAD = 0.2
"""Share of rows that may be unusable in the column of a field."""
TRIED = 200


def time_unit_of(array: Any) -> str | None:
    """Finds the unit in which most values are instants of this century; a text without an offset is one, too."""
    is_struct = pa.types.is_struct(array.type)
    if not (is_struct or is_plain(array)) or not len(array):
        return None
    for unit in ("iso", "s", "ms", "us", "ns"):
        if in_century(units(unit, None, "UTC").instants(array)).mean() >= 1 - MOST_BAD:
            return unit
    return None


def in_century(instants: Any) -> Any:
    """Marks the instants that a feed may have."""
    return instants.valid & (instants.us > 946_684_800 * 1_000_000) & (instants.us < 2_524_608_000 * 1_000_000)


_DATES = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d", "%Y-%m-%d", "%Y%m%d")
_SHORT_DATES = ("%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%d-%m-%y", "%m-%d-%y")
_NAMED_DATES = (
    "%d %b %Y",
    "%b %d %Y",
    "%b %d, %Y",
    "%d-%b-%Y",
    "%d-%b-%y",
    "%d%b%Y",
    "%Y-%b-%d",
    "%d %b %y",
    "%d. %b %Y",
)
_CLOCKS = ("%H:%M:%S", "%H:%M", "%H:%M:%S.%f", "%H:%M:%S,%f", "%H:%M:%S:%f", "%H.%M.%S", "%H%M%S", "%H%M")
_HALF_CLOCKS = tuple(
    f"{clock}{blank}%p" for clock in ("%I:%M:%S", "%I:%M", "%I:%M:%S.%f", "%I:%M:%S:%f") for blank in (" ", "")
)
_MOST_DISTINCT = 3


@cache
def _forms(is_long: bool, has_letters: bool, has_half: bool) -> tuple[str, ...]:
    """Lists forms of times that a text may have, the likeliest first."""
    dates, clocks = _NAMED_DATES if has_letters else (*_DATES, *_SHORT_DATES), _HALF_CLOCKS if has_half else _CLOCKS
    plain = [f"{date}{between}{clock}" for date in dates for clock in clocks for between in (" ", "T", ", ")]
    plain += [f"{date}%H%M%S" for date in dates if not has_letters]
    named = [f"%a{comma}{form}" for form in plain for comma in (", ", " ")] if has_letters else []
    named += [f"%a %b %d {clock}{zone} %Y" for clock in clocks for zone in ("", " %z")] if has_letters else []
    forms = [*named, *plain] if is_long else plain
    return tuple(f"{form}{zone}" for form in forms for zone in (("", " %z", "%z") if "%z" not in form else ("",)))


def time_formats(array: Any) -> tuple[str, ...]:
    """Lists forms in which most values are instants of this century; ISO dates may have a clock of twelve hours."""
    if pa.types.is_struct(array.type):
        array = _joined(array)
    if not is_text(array):
        return ()
    some = array.slice(0, TRIED)
    first = some.drop_null().slice(0, _MOST_DISTINCT)
    texts = [str(text).strip() for text in first.to_pylist()]
    if not texts or any(len(re.findall("[0-9]", text)) < 6 or len(text) > 45 for text in texts):
        return ()
    forms = _seconds_forms(texts[0]) or _forms(
        bool(re.match("[A-Za-z]{2,9}[, ]", texts[0])),
        bool(re.search("[A-SU-Ya-su-y][a-z]{2}", re.sub("UTC|GMT|[AaPp]\\.?[Mm]", "", texts[0]))),
        bool(re.search("[AaPp]\\.?[Mm]\\.?$|[AaPp][Mm] ", texts[0])),
    )
    fitting = [form for form in forms if _reads(form, texts[0]) and _fits(first, form)]
    return tuple(form for form in fitting[:8] if _fits(some, form) and _fits(array, form))


def _seconds_forms(text: str) -> tuple[str, ...]:
    """Lists forms of a date and a number alone, which may be seconds after midnight."""
    _, blank, clock = text.rpartition(" ")
    return tuple(f"{form} %s" for form in _DATES) if blank and clock.isdecimal() and len(clock) != 6 else ()


@cache
def _shape(form: str) -> re.Pattern[str]:
    """Writes what a text of a form looks like, to try few of them on columns."""
    shapes = {"%b": "[A-Za-z]{3,9}\\.?", "%a": "[A-Za-z]{2,9}\\.?", "%p": "[AaPp]\\.?[Mm]\\.?", "%Y": "[0-9]{4}"}
    shapes |= {"%z": "(Z|UTC|GMT|[+-][0-9]{2}:?[0-9]{2})", "%f": "[0-9]{1,9}", "%y": "[0-9]{2}", "%s": "[0-9]{1,6}"}
    pieces = re.split("(%.)", form)
    return re.compile(
        "".join(shapes.get(part, "[0-9]{1,2}") if part[:1] == "%" else re.escape(part) for part in pieces)
    )


def _reads(form: str, text: str) -> bool:
    return _shape(form).fullmatch(" ".join(text.split())) is not None


def _joined(array: Any) -> Any:
    """Joins date and clock by a blank, as a release does."""
    parts = [[None if value is None else _plain_text(value) for value in part.to_pylist()] for part in array.flatten()]
    joined = [" ".join(row) if None not in row else None for row in zip(*parts, strict=True)]
    return pa.array(joined, pa.string())


def _plain_text(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()


def _fits(array: Any, form: str) -> bool:
    return bool(in_century(units("iso", form, "UTC").instants(array)).mean() >= 1 - MOST_BAD)


def is_time(array: Any) -> bool:
    return bool(len(array)) and (time_unit_of(array) is not None or bool(time_formats(array)))


def is_plain(array: Any) -> bool:
    return not (pa.types.is_boolean(array.type) or pa.types.is_nested(array.type))


def is_text(array: Any) -> bool:
    return bool(pa.types.is_string(array.type) or pa.types.is_binary(array.type))
