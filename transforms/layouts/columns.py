"""Strict conversion of Arrow columns to numbers and instants.

Texts may be bytes, and need not be UTF-8. A local time is held as if its clock showed UTC until `place_local` applies
the zone's offset. A field's several columns are a struct (`are_parts`): date and clock, or degrees and hemisphere.
ABSOLUTE and LOCAL are Arrow's types of times with and without a zone; `absolute` marks none as lacking an offset.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Literal, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpops.types import Int64s

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
TimeUnit = Literal["iso", "s", "ms", "us", "ns", "excel"]
DecimalMark = Literal[".", ","]

# Plain decimal or exponent notation: no nan, inf, hexadecimal, underscore or blank inside.
PLAIN_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_US_PER_UNIT = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 0.001, "excel": 86_400_000_000}
_EXCEL_EPOCH_US = 25_569 * 86_400_000_000  # from the day 0 of spreadsheets, 1899-12-30, to 1970
_NIGHT_PATTERN = "^(?P<date>.* )(?P<hour>2[4-9]|3[0-9]|4[0-7])(?P<minute>:[0-9:.]+)$"  # of the day after its date
_DOT_NET_PATTERN = r"^/Date\((?P<number>-?[0-9]+)(?:[+-][0-9]{4})?\)/$"
NULL_WORDS = ("null", "none", "\\n", "-", "--", "n/a", "na")  # what exports write for no number, in small letters
_TEXT_TYPES = {pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()}
FAR_US = 2**62  # times further from 1970 count as this: implausible, and without overflow
_DECIMAL_DIGITS = 76  # the most that Arrow's decimal256 has
_EXACT_FLOATS = 2.0**53  # below, every whole number has a float of its own
LARGEST_FLOAT = sys.float_info.max

# An ISO time, spelled out: Arrow's cast would take other dates of 29 to 31 too, and days of the year 0.
_SIXTY, _HOURS, _LEAP = "[0-5][0-9]", "([01][0-9]|2[0-3])", "(0[48]|[2468][048]|[13579][26])"
_YEAR = "([0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)"  # no year is 0
_DATE_PATTERN = (
    f"(([0-9]{{2}}{_LEAP}|{_LEAP}00)-02-29|{_YEAR}-((0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])|"
    "(0[13-9]|1[0-2])-(29|30)|(0[13578]|1[02])-31))"
)
_OFFSET_PATTERN = f"(Z|[+-]{_HOURS}(:?{_SIXTY})?)"
_ISO_PATTERN = f"^{_DATE_PATTERN}[T ]{_HOURS}:{_SIXTY}(:{_SIXTY}(\\.[0-9]{{1,6}})?)?{_OFFSET_PATTERN}?$"
ABSOLUTE, LOCAL = pa.timestamp("us", "UTC"), pa.timestamp("us")
_DIGIT_BYTES = [b"%d" % digit for digit in range(10)]  # no array: what Arrow takes before a decoder is limited counts
_AT_ONCE = 512  # most texts of one cast: one that fails takes Arrow 5 us for each text


class Numbers(NamedTuple):
    """Numbers by row; neither valid nor missing means bad."""

    values: Floats  # float64, finite, 0 where not valid
    valid: Bools
    missing: Bools


class Instants(NamedTuple):
    """Instants by row; neither valid nor missing means bad."""

    us: Int64s  # int64 microseconds since 1970 UTC, 0 where not valid
    valid: Bools
    missing: Bools
    no_offset: Bools
    clock_change: Bools  # local time that occurs twice or never


def numbers(column: pa.Array, decimal: DecimalMark = ".") -> Numbers:
    """Reads finite numbers of numeric, text or dictionary columns.

    decimal: mark of texts; with a comma, texts with a point are bad. Texts beyond float64 (`1e999`) are clamped to the
    largest float64. Booleans, NaN, infinities and other types are bad; nulls, empty texts and words such as NULL and
    n/a are missing. Of two columns the second is the hemisphere N, E, S or W, which gives the sign.
    """
    kind = column.type
    if are_parts(kind) and kind.num_fields == 2:
        degrees, letters = numbers(column.field(0), decimal), column.field(1)
        letters = letters.dictionary_decode() if pa.types.is_dictionary(letters.type) else letters
        texts = as_string(letters) if is_text(letters.type) else pa.nulls(len(letters), pa.string())
        texts = pc.ascii_upper(pc.ascii_trim_whitespace(texts))  # others than these four are bad
        is_negative = pc.is_in(texts, value_set=pa.array(["S", "W"])).to_numpy(zero_copy_only=False)
        is_positive = pc.is_in(texts, value_set=pa.array(["N", "E"])).to_numpy(zero_copy_only=False)
        valid = degrees.valid & (is_negative | is_positive)
        signed = np.where(is_negative, -degrees.values, degrees.values)
        return Numbers(np.where(valid, signed, 0.0), valid, degrees.missing)
    if pa.types.is_dictionary(kind):
        return Numbers(*_of_rows(column, numbers(column.dictionary, decimal)))
    if is_text(kind):
        return _text_numbers(column, decimal)
    if pa.types.is_decimal(kind):
        column = column.cast(pa.float64(), safe=False)
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return Numbers(np.zeros(len(column)), np.zeros(len(column), np.bool_), nulls(column))
    missing = nulls(column)
    values = column.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
    valid = np.isfinite(values) & ~missing
    return Numbers(values if valid.all() else np.where(valid, values, 0.0), valid, missing)


def instants(
    column: pa.Array,
    time_unit: TimeUnit,
    zone: str | None = None,
    parse: Callable[[pa.Array, str | None], Instants] | None = None,
    decimal: DecimalMark = ".",
) -> Instants:
    """Reads instants: Arrow timestamps, or texts and numbers.

    iso: `YYYY-MM-DD[T ]HH:MM[:SS[.fraction]]` and an offset `Z`, `+HH:MM`, `+HHMM` or `+HH`, truncated to microseconds.
    s, ms, us, ns: numbers or plain texts since 1970 UTC, rounded to microseconds; ms: also `/Date(..)/`. excel: local
    days since 1899-12-30. Several columns: a date and a clock, joined to one text; hours 24 to 47 are the next day's.
    zone: of texts without offset and of timestamps without zone, which are not valid for None. parse: in place of
    iso's form, reads texts of another one, given them and the zone. decimal: mark.
    """
    kind = column.type
    if are_parts(kind):
        text, is_night = _one_text(column)
        if not is_night.any():
            return instants(text, time_unit, zone, parse, decimal)
        # Read twice: with UTC as zone, which leaves local times as they are, and without, which marks them.
        as_utc, without_zone = (instants(text, time_unit, name, parse, decimal) for name in ("UTC", None))
        added_us = np.where(is_night & as_utc.valid, 86_400_000_000, 0)  # a day, which the hours lack
        return place_local(as_utc._replace(us=as_utc.us + added_us), zone, is_chosen=without_zone.no_offset)
    if pa.types.is_dictionary(kind):
        return Instants(*_of_rows(column, instants(column.dictionary, time_unit, zone, parse, decimal)))
    if pa.types.is_timestamp(kind):
        return timestamps(column) if kind.tz is not None else place_local(timestamps(column), zone)
    if time_unit == "iso":
        if is_text(kind):
            return (parse or _iso)(column, zone)
        return absolute(np.zeros(len(column), np.int64), np.zeros(len(column), np.bool_), nulls(column))  # all bad
    if time_unit == "ms" and is_text(kind):  # `/Date(1773133200000-0700)/`: the offset says on which clock it is shown
        text = as_string(column)
        if pc.any(pc.starts_with(text, "/Date(")).as_py():
            ms = pc.struct_field(pc.extract_regex(text, _DOT_NET_PATTERN), "number")
            column = pc.if_else(pc.is_valid(ms), ms, text)
    values = numbers(column, decimal)
    scale = _US_PER_UNIT[time_unit]
    clipped = np.clip(values.values, -FAR_US / scale, FAR_US / scale)  # no overflow; refused later as implausible
    us = np.rint(clipped * scale).astype(np.int64)
    if time_unit == "excel":
        us = np.rint(us / 1_000).astype(np.int64) * 1_000  # days as floats are exact to about a millisecond
        return place_local(absolute(us - _EXCEL_EPOCH_US, values.valid, values.missing), zone)
    return absolute(us, values.valid, values.missing)


def _one_text(column: pa.StructArray) -> tuple[pa.Array, Bools]:
    """Joins a time's columns to texts; marks hours from 24 on, written less 24."""
    texts = []
    for values in column.flatten():
        values = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
        if is_number(values.type):
            values = whole_number_texts(values)
        trimmed = pc.ascii_trim_whitespace(as_string(values) if is_text(values.type) else values.cast(pa.string()))
        texts.append(pc.if_else(pc.equal(pc.binary_length(trimmed), 0), None, trimmed))
    text = pc.binary_join_element_wise(*texts, " ")
    date, hour, minute = pc.extract_regex(text, _NIGHT_PATTERN).flatten()
    hour = pc.utf8_lpad(pc.subtract(hour.cast(pa.int64()), 24).cast(pa.string()), 2, "0")
    return pc.coalesce(pc.binary_join_element_wise(date, hour, minute, ""), text), ~nulls(hour)


def absolute(us: Int64s, is_valid: Bools, is_missing: Bools) -> Instants:
    """Creates instants without ambiguity: each has an offset, and no clock change affects it."""
    no_row = np.zeros(len(us), np.bool_)
    return Instants(us, is_valid, is_missing, no_offset=no_row, clock_change=no_row)


def place_local(instants: Instants, zone: str | None, is_chosen: Bools | None = None) -> Instants:
    """Converts chosen rows (None: all) from local time to UTC.

    Local times that a clock change repeats or skips are not guessed: they are marked, and not valid.
    """
    local = instants.valid if is_chosen is None else instants.valid & is_chosen
    if zone is None or not local.any():  # without a zone local times are refused: no_offset
        return instants._replace(us=np.where(local, 0, instants.us), valid=instants.valid & ~local, no_offset=local)
    local_us = np.where(local, instants.us, 0)
    quarters, quarter_of_row = np.unique(local_us // 1_000_000 // _QUARTER_S, return_inverse=True)  # each once
    offsets_s = [_offset_s(int(number) * _QUARTER_S, zone) for number in quarters]
    is_certain = np.array([offset_s is not None for offset_s in offsets_s], np.bool_)[quarter_of_row]
    offset_us = np.array([offset_s or 0 for offset_s in offsets_s], np.int64)[quarter_of_row] * 1_000_000
    valid = instants.valid & (is_certain | ~local)
    us = np.where(valid, np.where(local, local_us - offset_us, instants.us), 0)
    return instants._replace(us=us, valid=valid, clock_change=local & ~is_certain)


_QUARTER_S = 900  # clocks change on quarters of an hour: within one, all local times have the same offset
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)
# Years 1 to 9999, as datetime has them, but for the first and the last day: an offset moves times by up to a day.
_FIRST_S, _LAST_S = -62_135_596_800 + 86_400, 253_402_300_799 - 86_400


@lru_cache(maxsize=65_536)
def _offset_s(local_s: int, zone: str) -> int | None:
    """Computes the UTC offset of a local quarter hour, None in a clock change."""
    if not _FIRST_S <= local_s <= _LAST_S:
        return 0  # datetime cannot hold it; with any offset the row is refused as implausible
    local = _EPOCH + timedelta(seconds=local_s)
    once, again = (local.replace(tzinfo=ZoneInfo(zone), fold=fold).utcoffset() for fold in (0, 1))
    return None if once is None or once != again else round(once.total_seconds())


def are_parts(kind: pa.DataType) -> bool:
    """Recognises the struct type that joins a field's columns."""
    return bool(pa.types.is_struct(kind) and kind.num_fields > 1 and kind.field(0).name == "0")


def is_text(kind: pa.DataType) -> bool:
    """Recognises types of texts and bytes."""
    return kind in _TEXT_TYPES or bool(pa.types.is_fixed_size_binary(kind))


def as_binary(column: pa.Array) -> pa.Array:
    """Turns a column of any text type into `binary`, which need not be UTF-8."""
    kind = column.type
    if pa.types.is_binary(kind):
        return column
    return column.view(pa.binary()) if pa.types.is_string(kind) else column.cast(pa.binary())


def as_string(column: pa.Array) -> pa.Array:
    """Views a column of any text type as `string`, perhaps not UTF-8."""
    return as_binary(column).view(pa.string())


def is_number(kind: pa.DataType) -> bool:
    """Recognises floats, and decimals without negative scale."""
    return bool(pa.types.is_floating(kind) or (pa.types.is_decimal(kind) and kind.scale >= 0))


def widened(column: pa.Array) -> pa.Array:
    """Casts floats to float64, and decimals to decimal256: Arrow's functions lack narrower ones."""
    is_float = pa.types.is_floating(column.type)
    return column.cast(pa.float64() if is_float else pa.decimal256(_DECIMAL_DIGITS, column.type.scale))


def whole_number_texts(column: pa.Array) -> pa.Array:
    """Formats floats or decimals as integers, null for fractions.

    >>> whole_number_texts(pa.array([100.0, 0.5, 2.0**53])).to_pylist()
    ['100', None, None]
    """
    values = widened(column)
    is_whole, integer_type = pc.equal(pc.trunc(values), values), pa.decimal256(_DECIMAL_DIGITS, 0)
    if pa.types.is_floating(values.type):  # from 2^53 on, a float may be a rounded integer: these are null too
        is_whole, integer_type = pc.and_(is_whole, pc.less(pc.abs(values), _EXACT_FLOATS)), pa.int64()
    return pc.if_else(is_whole, values, None).cast(integer_type).cast(pa.string())


def nulls(column: pa.Array) -> Bools:
    """Marks rows that hold nothing."""
    if not column.null_count:
        return np.zeros(len(column), np.bool_)
    return np.asarray(column.is_null().to_numpy(zero_copy_only=False))


def _of_rows(column: pa.Array, of_values: Numbers | Instants) -> Iterator[Any]:
    """Yields a dictionary column's results by row, from those by distinct value."""
    null = nulls(column.indices)
    indices = column.indices.fill_null(0).to_numpy(zero_copy_only=False)
    for name, by_value in of_values._asdict().items():
        by_row = by_value[indices] if len(by_value) else np.zeros(len(column), by_value.dtype)
        yield by_row | null if name == "missing" else np.where(null, by_value.dtype.type(0), by_row)


def _text_numbers(column: pa.Array, decimal: DecimalMark) -> Numbers:
    """Parses all texts at once; if one fails, only those in plain notation."""
    text = as_string(column)
    if decimal == ",":  # a point, here no decimal mark, becomes ?, which no number has
        text = pc.replace_substring(pc.replace_substring(text, ".", "?"), ",", ".")
    bare = text
    if any(pc.any(pc.starts_with(text, blank)).as_py() for blank in (" ", "\t")):
        bare = pc.ascii_trim(text, characters=" \t")
    missing: Bools = pc.binary_length(bare).fill_null(0).to_numpy(zero_copy_only=False) == 0
    if missing.any():
        text = pc.if_else(pa.array(missing), None, text)
    try:  # Arrow's parser takes plain notation, and the words for NaN and infinity, which are not finite
        values = text.cast(pa.float64()).to_numpy(zero_copy_only=False)
        valid = np.isfinite(values)
        if (valid | missing).all():
            return Numbers(np.where(missing, 0.0, values) if missing.any() else values, valid, missing)
    except pa.ArrowInvalid:
        pass
    text = pc.ascii_trim(text, characters=" \t")
    missing |= pc.is_in(pc.ascii_lower(text), value_set=pa.array(NULL_WORDS)).to_numpy(zero_copy_only=False)
    plain = pc.match_substring_regex(text, PLAIN_NUMBER)
    values = pc.if_else(plain, text, None).cast(pa.float64())
    valid = plain.fill_null(False).to_numpy(zero_copy_only=False)
    numbers = np.where(valid, values.to_numpy(zero_copy_only=False), 0.0)
    return Numbers(np.clip(numbers, -LARGEST_FLOAT, LARGEST_FLOAT), valid, missing)  # 1e999 is read as infinite


def timestamps(column: pa.Array) -> Instants:
    """Converts Arrow timestamps to microseconds."""
    missing, unit = nulls(column), column.type.unit
    ticks = column.view(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    if unit == "ns":
        us = ticks // 1_000
    else:
        scale = _US_PER_UNIT[unit]
        us = np.clip(ticks, -(FAR_US // scale), FAR_US // scale) * scale  # without overflow
    return absolute(us, is_valid=~missing, is_missing=missing)


def _iso(column: pa.Array, zone: str | None) -> Instants:
    """Reads ISO texts by Arrow's fast cast, or by pattern where that is lax."""
    text = as_string(column)
    if any(pc.any(pc.ends_with(text, word)).as_py() for word in ("UTC", "GMT")):  # as databases write Z
        text = pc.replace_substring_regex(text, " *(UTC|GMT)$", "Z")
    missing: Bools = pc.binary_length(text).fill_null(0).to_numpy(zero_copy_only=False) == 0
    if missing.any():
        text = pc.if_else(pa.array(missing), None, text)
    seventh = pc.binary_slice(as_binary(text), 26, 27)  # of a fraction's digits, as in 2026-05-13T08:15:00.123456789
    if pc.any(pc.is_in(seventh, value_set=pa.array(_DIGIT_BYTES))).as_py():
        text = pc.replace_substring_regex(text, r"(\.[0-9]{6})[0-9]{1,38}", r"\1")  # cut to 6 digits; over 44 are bad
    is_full = pc.equal(pc.binary_slice(as_binary(text), 13, 14), b":")  # after the hour: the cast takes hours alone
    if pc.all(is_full).as_py() and not pc.any(pc.starts_with(text, "0000")).as_py():  # no year, but the cast takes it
        for kind in (ABSOLUTE, LOCAL):
            with suppress(pa.ArrowInvalid):
                # In small pieces: the first that cannot be cast ends the cast, which is slow for each such text.
                chunks = (text[first : first + _AT_ONCE].cast(kind) for first in range(0, len(text), _AT_ONCE))
                instants = timestamps(pa.concat_arrays(chunks))
                return instants if kind is ABSOLUTE else place_local(instants, zone)
    signs = pc.add(pc.count_substring(text, "-"), pc.count_substring(text, "+"))  # a date has two, an offset one
    has_offset = pc.or_(pc.ends_with(text, "Z"), pc.greater(signs, 2))
    utc = cast_iso(pc.if_else(has_offset, text, None), ABSOLUTE)
    local = cast_iso(pc.if_else(has_offset, None, text), LOCAL)
    us = utc.us + local.us  # each row is in one of them, and 0 in the other
    return place_local(absolute(us, utc.valid | local.valid, missing), zone, is_chosen=local.valid)


def cast_iso(text: pa.Array, kind: pa.DataType) -> Instants:
    """Casts texts of the form _ISO_PATTERN; others count as missing."""
    fits = pc.match_substring_regex(text, _ISO_PATTERN)
    return timestamps(pc.if_else(fits, text, None).cast(kind))
