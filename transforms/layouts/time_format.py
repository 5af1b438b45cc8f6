"""Times as texts in a specified format."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa

from dpops.types import Int64s
from transforms import arrow_compute as pc
from transforms.layouts.columns import Bools, Instants, absolute, as_binary, nulls, place_local

_TWO, _ONE_OR_TWO = "[0-9]{2}", "[0-9]{1,2}"
_PARTS: Mapping[str, tuple[str, str]] = {
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
"""Of each directive of C's strptime that is known: the part of a time, and what is written for it.

Months by name are English ones, of which three letters count; what a weekday says is not looked at. %s is of seconds
after midnight, in place of a clock."""
_NEEDED = ("year", "month", "day", "hour", "minute")
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_LONGEST = 60


@dataclass(frozen=True)
class TimeFormat:
    """Format of times (strptime); other texts make rows bad.

    >>> import pyarrow as pa
    >>> found = TimeFormat.of("%d.%m.%Y %H:%M").instants(pa.array(["13.05.2026 08:15", "5/13/2026"]), "Europe/Berlin")
    >>> found.us.tolist(), found.valid.tolist()
    ([1778652900000000, 0], [True, False])
    """

    text: str

    @classmethod
    def of(cls, text: str) -> "TimeFormat":
        """Makes a format. Raises ValueError naming rule and value."""
        directives = re.findall("%.?", text)
        unknown = next((name for name in directives if name not in _PARTS), None)
        parts = [_PARTS[directive][0] for directive in directives if directive in _PARTS]
        has_clock = "midnight" not in parts
        missing = [part for part in _NEEDED[: None if has_clock else 3] if part not in parts]
        rule = ""
        if len(text) > _LONGEST:
            rule = f"must be at most {_LONGEST} letters"
        elif unknown is not None:
            rule = f"knows {' '.join(_PARTS)}"
        elif len(set(parts)) < len(parts):
            rule = "must name each part of a time once"
        elif missing:
            rule = f"must have {', '.join(missing)}, as %d.%m.%Y %H:%M:%S has"
        elif ("%I" in directives) != ("%p" in directives):
            rule = "needs %I and %p (am or pm) together"
        elif "%f" in directives and not {"%S", "%s"}.intersection(directives):
            rule = "has %f after %S or %s only"
        elif not has_clock and {"hour", "minute", "second"}.intersection(parts):
            rule = "has %s in place of a clock"
        if rule:
            raise ValueError(f"time_format: {rule}, got {text[:_LONGEST]!r}")
        return cls(text)

    def instants(self, column: pa.Array, zone: str | None) -> Instants:
        """Reads texts in this format; `zone` applies without an offset."""
        text = pc.ascii_trim_whitespace(as_binary(column).view(pa.string()))
        missing = pc.equal(pc.binary_length(text), 0).fill_null(True).to_numpy(zero_copy_only=False)
        parts = pc.extract_regex(text, _pattern(self.text))
        names = {field.name for field in parts.type}

        def number(name: str) -> Int64s:
            return _whole(pc.struct_field(parts, name)) if name in names else np.zeros(len(parts), np.int64)

        year = number("year") + (2_000 if "%y" in self.text else 0)  # of this century
        day, minute, second, midnight_s = (number(name) for name in ("day", "minute", "second", "midnight"))
        if "%b" in self.text or "%B" in self.text:  # three letters count; 0 for another word
            word = pc.utf8_lower(pc.utf8_slice_codeunits(pc.struct_field(parts, "month"), 0, 3))
            month = _whole(pc.add(pc.index_in(word, value_set=pa.array(_MONTHS)), 1))
        else:
            month = number("month")
        hour = number("hour")
        if "half" in names:  # of twelve hours: 12 am is midnight, and 0 or 13 no time
            letter = pc.utf8_lower(pc.utf8_slice_codeunits(pc.struct_field(parts, "half"), 0, 1))
            is_pm = pc.equal(letter, "p").fill_null(False).to_numpy(zero_copy_only=False)
            hour = np.where((hour >= 1) & (hour <= 12), hour % 12 + 12 * is_pm, 24)
        seconds, valid = _clock_s(year, month, day, hour, minute, second)
        us, valid = (seconds + midnight_s) * 1_000_000, valid & ~nulls(parts)
        if "fraction" in names:
            digits = pc.utf8_slice_codeunits(pc.utf8_rpad(pc.struct_field(parts, "fraction"), 9, "0"), 0, 6)
            us += _whole(digits)
        if "offset" in names:
            offset = pc.replace_substring_regex(pc.struct_field(parts, "offset"), "Z|UTC|GMT", "+0000")
            plain = pc.replace_substring(offset, ":", "")
            off_hour, off_minute = (_whole(pc.utf8_slice_codeunits(plain, start, start + 2)) for start in (1, 3))
            is_west = pc.starts_with(plain, "-").fill_null(False).to_numpy(zero_copy_only=False)
            us -= np.where(is_west, -1_000_000, 1_000_000) * (off_hour * 3_600 + off_minute * 60)
            valid &= (off_hour <= 23) & (off_minute <= 59)
        instants = absolute(np.where(valid, us, 0), valid, missing)
        return instants if "%z" in self.text else place_local(instants, None, zone)


@cache
def _pattern(text: str) -> str:
    """Compiles a time format to an RE2 pattern."""
    pieces = re.split("(%.)", text)
    written = [
        f"(?P<{_PARTS[piece][0]}>{_PARTS[piece][1]})" if piece in _PARTS else re.escape(piece).replace("\\ ", " +")
        for piece in pieces
    ]
    return f"^{''.join(written)}$"


def _whole(digits: pa.Array) -> Int64s:
    numbers: Int64s = digits.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return numbers


def _clock_s(
    year: Int64s, month: Int64s, day: Int64s, hour: Int64s, minute: Int64s, second: Int64s
) -> tuple[Int64s, Bools]:
    """Computes local seconds since 1970, and fields' validity."""
    is_time = (
        (year >= 1) & (year <= 9999) & (month >= 1) & (month <= 12) & (hour <= 23) & (minute <= 59) & (second <= 59)
    )
    firsts, lengths = _days_of_months()
    number = np.where(is_time, year * 12 + month - 1, 12)
    is_time &= (day >= 1) & (day <= lengths[number])
    return (firsts[number] + day - 1) * 86_400 + hour * 3_600 + minute * 60 + second, is_time


@cache
def _days_of_months() -> tuple[Int64s, Int64s]:
    """Lists months to year 9999: first day and length."""
    firsts = np.arange("0000-01", "10000-01", dtype="datetime64[M]").astype("datetime64[D]").astype(np.int64)
    return firsts, np.diff(firsts, append=np.int64(firsts[-1] + 31))
