"""ISO 8601 texts as byte matrices, and UTC conversion."""

from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from dpops.types import Int64s

Bools = NDArray[np.bool_]
Bytes = NDArray[np.uint8]


def iso_matrix(text: Bytes) -> tuple[Int64s, Bools, Bools]:
    """Parses uint8 texts: microseconds since 1970, validity, missing offsets."""
    rows, width = text.shape
    us, valid, local = np.zeros(rows, np.int64), np.zeros(rows, np.bool_), np.zeros(rows, np.bool_)
    colon = text[:, -3] == ord(":")
    forms = [
        (1, text[:, -1] == ord("Z")),
        (6, _sign(text[:, -6]) & colon),
        (5, _sign(text[:, -5]) & (text[:, -3] - ord("0") <= 9)),
        (3, _sign(text[:, -3])),
    ]
    none = ~np.logical_or.reduce([chosen for _, chosen in forms])
    for tail, chosen in [*forms, (0, none)]:
        body = width - tail
        if not (body in (16, 19) or body >= 21) or not chosen.any():
            continue
        if chosen.all():
            return *_iso_form(text, body), local if tail else ~local
        us[chosen], valid[chosen] = _iso_form(text[chosen], body)
        local |= chosen if not tail else False
    return us, valid, local & valid


def _sign(letters: Bytes) -> Bools:
    signs: Bools = (letters == ord("+")) | (letters == ord("-"))
    return signs


def _iso_form(text: Bytes, body: int) -> tuple[Int64s, Bools]:
    """Parses rows of equally wide dates, times and offsets."""
    digit = text - ord("0")  # wraps around: only digits stay below 10
    tail = text.shape[1] - body
    separator = text[:, 10]
    ok = (separator == ord("T")) | (separator == ord(" "))
    for position, mark in ((4, "-"), (7, "-"), (13, ":")) + (((16, ":"),) if body >= 19 else ()):
        ok &= text[:, position] == ord(mark)
    if body > 19:
        ok &= text[:, 19] == ord(".")
    places = [0, 1, 2, 3, 5, 6, 8, 9, 11, 12, 14, 15]
    places += [17, 18] if body >= 19 else []
    places += list(range(20, body))
    if tail > 1:
        places += [body + 1, body + 2] + ([body + tail - 2, body + tail - 1] if tail > 3 else [])
    for place in places:
        ok &= digit[:, place] <= 9

    year, (month, day, hour, minute) = (
        _two(digit, 0) * 100 + _two(digit, 2),
        (_two(digit, first) for first in (5, 8, 11, 14)),
    )
    second, nothing = _two(digit, 17) if body >= 19 else 0 * year, 0 * year
    seconds, is_time = clock_s(year, month, day, hour, minute, second)
    off_hour = _two(digit, body + 1) if tail > 1 else nothing
    off_minute = _two(digit, body + tail - 2) if tail > 3 else nothing
    offset_s = off_hour * 3_600 + off_minute * 60
    if tail > 1:
        offset_s = np.where(text[:, body] == ord("-"), -offset_s, offset_s)
    ok &= is_time & (off_hour <= 23) & (off_minute <= 59)
    us = (seconds - offset_s) * 1_000_000
    for power, place in enumerate(range(20, min(body, 26))):
        us += digit[:, place].astype(np.int64) * 10 ** (5 - power)
    return np.where(ok, us, 0), ok


def clock_s(
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


def _two(digit: Bytes, place: int) -> Int64s:
    return digit[:, place].astype(np.int64) * 10 + digit[:, place + 1]


@cache
def _days_of_months() -> tuple[Int64s, Int64s]:
    """Lists months to year 9999: first day and length."""
    firsts = np.arange("0000-01", "10000-01", dtype="datetime64[M]").astype("datetime64[D]").astype(np.int64)
    return firsts, np.diff(firsts, append=np.int64(firsts[-1] + 31))


_STEP_S = 900  # clocks change on quarters of an hour: within one, all local times have the same offset
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)
_FIRST_S, _LAST_S = -62_135_596_800, 253_402_300_799 - 86_400  # years 1 to 9999, as datetime has them


def to_utc(local_us: Int64s, zone: str) -> tuple[Int64s, NDArray[np.bool_]]:
    """Converts local microseconds to UTC; marks unique times.

    Times in the hour that a clock change repeats or skips are not valid: nothing guesses.
    """
    steps, place = np.unique(local_us // (_STEP_S * 1_000_000), return_inverse=True)
    offsets = [_offset_s(int(step) * _STEP_S, zone) for step in steps]
    is_known = np.array([offset is not None for offset in offsets], np.bool_)
    offset_us = np.array([offset or 0 for offset in offsets], np.int64) * 1_000_000
    return local_us - offset_us[place], is_known[place]


@lru_cache(maxsize=65_536)
def _offset_s(local_s: int, zone: str) -> int | None:
    """Computes a local quarter hour's UTC offset, if unique."""
    if not _FIRST_S + 86_400 <= local_s <= _LAST_S:
        return 0  # implausible in any zone
    local = _EPOCH + timedelta(seconds=local_s)
    once, again = (local.replace(tzinfo=ZoneInfo(zone), fold=fold).utcoffset() for fold in (0, 1))
    return None if once is None or once != again else round(once.total_seconds())
