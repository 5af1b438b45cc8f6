"""Times as texts in a specified format."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from transforms.layouts.columns import ABSOLUTE, LOCAL, Instants, absolute, as_string, cast_iso, place_local

_TWO, _ONE_OR_TWO = "[0-9]{2}", "[0-9]{1,2}"
_FIELDS: Mapping[str, tuple[str, str]] = {
    "%Y": ("year", "[0-9]{4}"),
    "%y": ("year", _TWO),  # of this century
    "%m": ("month", _ONE_OR_TWO),
    "%d": ("day", _ONE_OR_TWO),
    "%H": ("hour", _ONE_OR_TWO),
    "%I": ("hour", _ONE_OR_TWO),
    "%M": ("minute", _TWO),
    "%S": ("second", _TWO),
    "%f": ("fraction", "[0-9]{1,9}"),
    "%p": ("half", "[AaPp]\\.?[Mm]\\.?"),
    "%z": ("offset", "Z|UTC|GMT|[+-][0-9]{2}:?[0-9]{2}"),
    "%b": ("month", "[A-Za-z]{3,9}\\.?"),
    "%B": ("month", "[A-Za-z]{3,9}\\.?"),
    "%a": ("weekday", "[A-Za-z]{2,9}\\.?"),
    "%A": ("weekday", "[A-Za-z]{2,9}\\.?"),
    "%s": ("midnight", "[0-9]{1,6}"),
}
"""Of each directive of C's strptime that is known: the part of a time, and the pattern of what it matches.

Months by name are English ones, of which three letters count; weekdays are ignored. %s is of seconds after midnight,
in place of a clock."""
_NEEDED_FIELDS = ("year", "month", "day", "hour", "minute")  # the first 3 where %s is the clock
_MONTH_NAMES = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_CLOCK_HOURS = [f"{hour:02}" for hour in (12, *range(1, 12))]  # of a clock of twelve hours, from midnight on
_MOST_LETTERS = 60


@dataclass(frozen=True)
class TimeFormat:
    """Format of times (strptime); other texts make rows bad.

    >>> import pyarrow as pa
    >>> found = TimeFormat("%d.%m.%Y %H:%M").instants(pa.array(["13.05.2026 08:15", "5/13/2026"]), "Europe/Berlin")
    >>> found.us.tolist(), found.valid.tolist()
    ([1778652900000000, 0], [True, False])
    """

    text: str

    def __post_init__(self) -> None:
        """Raises ValueError naming rule and value."""
        directives = re.findall("%.?", self.text)
        fields = [_FIELDS[directive][0] for directive in directives if directive in _FIELDS]  # parts of a time
        has_clock = "midnight" not in fields  # else seconds since midnight stand for it: a date alone is needed
        missing = [field for field in _NEEDED_FIELDS[: None if has_clock else 3] if field not in fields]
        is_broken = {
            f"must be at most {_MOST_LETTERS} letters": len(self.text) > _MOST_LETTERS,
            f"knows {' '.join(_FIELDS)}": not set(directives) <= _FIELDS.keys(),
            "must name each part of a time once": len(set(fields)) < len(fields),
            f"must have {', '.join(missing)}, as %d.%m.%Y %H:%M:%S has": bool(missing),
            "needs %I and %p (am or pm) together": ("%I" in directives) != ("%p" in directives),
            "has %f after %S or %s only": "%f" in directives and not {"%S", "%s"}.intersection(directives),
            "has %s in place of a clock": not has_clock and bool({"hour", "minute", "second"}.intersection(fields)),
        }
        for rule in (rule for rule, broken in is_broken.items() if broken):  # raises for the first broken rule
            raise ValueError(f"time_format: {rule}, got {self.text[:_MOST_LETTERS]!r}")

    def instants(self, column: pa.Array, zone: str | None) -> Instants:
        """Reads texts of this format by way of ISO 8601; zone: if without offset."""
        text = pc.ascii_trim_whitespace(as_string(column))
        missing = pc.equal(pc.binary_length(text), 0).fill_null(True).to_numpy(zero_copy_only=False)
        fields = pc.extract_regex(text, _pattern(self.text))  # struct of a time's parts; null if it does not fit
        names = {field.name for field in fields.type}

        def digits(name: str) -> Any:
            return pc.utf8_lpad(pc.struct_field(fields, name), 2, "0") if name in names else "00"

        year, month, hour = (digits(name) for name in ("year", "month", "hour"))
        if "%y" in self.text:  # of this century
            year = pc.binary_join_element_wise("20", year, "")
        if "%b" in self.text or "%B" in self.text:  # three letters count
            word = pc.utf8_lower(pc.utf8_slice_codeunits(month, 0, 3))
            month = _two_digits(pc.add(pc.index_in(word, value_set=pa.array(_MONTH_NAMES)), 1))
        if "half" in names:  # half of a day, whose hours are called 12, 1, .. 11: others, such as 0 or 13, are no time
            is_pm = pc.match_substring_regex(pc.struct_field(fields, "half"), "^[Pp]")
            hour = _two_digits(pc.add(pc.index_in(hour, value_set=pa.array(_CLOCK_HOURS)), pc.if_else(is_pm, 12, 0)))
        written = [year, "-", month, "-", digits("day"), " ", hour, ":", digits("minute"), ":", digits("second")]
        if "fraction" in names:
            written += [".", pc.utf8_slice_codeunits(pc.struct_field(fields, "fraction"), 0, 6)]
        if "offset" in names:
            written.append(pc.replace_substring_regex(pc.struct_field(fields, "offset"), "UTC|GMT", "Z"))
        arrow_type = ABSOLUTE if "offset" in names else LOCAL  # of times with a zone, or without
        us, valid, *_ = cast_iso(pc.binary_join_element_wise(*written, ""), arrow_type)
        if "midnight" in names:  # %s here: seconds since midnight
            seconds = pc.struct_field(fields, "midnight").cast(pa.int64()).fill_null(0)
            us = np.where(valid, us + 1_000_000 * seconds.to_numpy(zero_copy_only=False), 0)
        instants = absolute(us, valid, missing)
        return instants if "offset" in names else place_local(instants, zone)  # to UTC


def _two_digits(numbers: pa.Array) -> pa.Array:
    return pc.utf8_lpad(numbers.cast(pa.string()), 2, "0")


@cache
def _pattern(text: str) -> str:
    """Compiles a time format to an RE2 pattern."""
    groups = {directive: f"(?P<{field}>{letters})" for directive, (field, letters) in _FIELDS.items()}
    if re.search("%[Yymd]%[md]", text):  # undivided parts need two digits: 2026072, a day of a year, is no date
        groups |= {f"%{letter}": groups[f"%{letter}"].replace(_ONE_OR_TWO, _TWO) for letter in "md"}
    # Between directives: the text itself, where a blank stands for one or more.
    pieces = (groups.get(piece) or re.escape(piece).replace("\\ ", " +") for piece in re.split("(%.)", text))
    return f"^{''.join(pieces)}$"
