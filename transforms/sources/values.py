"""Python values of any type, each told by itself: no value decides how another one of its column is read.

Arrow would infer one type for a whole column, so that one vehicle's row could change or refuse all others.
"""

import math
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from apache_beam.utils.timestamp import Timestamp

Kind = Literal["nothing", "bad", "whole", "number", "text", "instant", "clock"]
"""bad: a type that no field has, such as a truth value or a date. clock: a time that names no zone."""
Told = tuple[Kind, Any]
"""The kind of a value, and the value as a column of that kind holds it."""

TYPES: Mapping[Kind, pa.DataType] = {
    "nothing": pa.null(),
    "bad": pa.bool_(),
    "whole": pa.int64(),
    "number": pa.float64(),
    "text": pa.binary(),
    "instant": pa.timestamp("us", "UTC"),
    "clock": pa.timestamp("us"),
}

TEXT_BYTES = 1_024
"""A longer text is bad: 131,072 of them must fit into one column."""

BAD: Told = ("bad", True)
_NOTHING: Told = ("nothing", None)
_DIGITS = 400  # more than the largest float has, and than the bytes of an id
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_US = timedelta(microseconds=1)
_FAR_US = 1 << 62
_NO_DAY = frozenset(("Y", "M", "W", "D"))  # units of numpy that are no times of a day
_LARGEST = sys.float_info.max


def told(value: Any) -> Told:
    """Tells what a value is, whatever stands beside it. It never raises, and never shows the value."""
    how = _HOW.get(type(value))
    if how is None:
        how = next((how for kind, how in _HOW.items() if isinstance(value, kind)), _bad)
    try:
        return how(value)
    except (ValueError, TypeError, ArithmeticError):
        return BAD


def _bad(_: Any) -> Told:
    return BAD


def _whole(value: int) -> Told:
    """Gives text where 64 bits do not hold it; one of thousands of digits is as good as another, and takes long."""
    value = int(value)
    if -(1 << 63) <= value < 1 << 63:
        return "whole", value
    digits = "9" * _DIGITS if value.bit_length() > 3 * _DIGITS else str(abs(value))
    return "text", (("-" if value < 0 else "") + digits).encode()


def _text(value: str | bytes | bytearray | memoryview) -> Told:
    """Gives bytes; what cannot be encoded is no UTF-8."""
    text = str.encode(value, errors="surrogatepass") if isinstance(value, str) else bytes(value)
    return ("text", text) if len(text) <= TEXT_BYTES else BAD


def _decimal(value: Decimal) -> Told:
    """Tells what a decimal is; a finite one beyond float64 is held at the largest float, as layouts hold numbers."""
    if value.is_finite() and value.adjusted() < _DIGITS and value == value.to_integral_value():
        return _whole(int(value))
    number = float(value)
    return "number", math.copysign(_LARGEST, number) if math.isinf(number) and value.is_finite() else number


def _time(value: datetime) -> Told:
    if value.utcoffset() is None:
        return _at("clock", (value.replace(tzinfo=UTC) - _EPOCH) // _US)
    return _at("instant", (value - _EPOCH) // _US)


def _at(kind: Literal["instant", "clock"], us: int) -> Told:
    return kind, max(-_FAR_US, min(int(us), _FAR_US))


def _numpy(value: np.generic) -> Told:
    """Tells what a NumPy scalar is that is no Python value by itself already."""
    if isinstance(value, np.datetime64):
        if np.datetime_data(value.dtype)[0] in _NO_DAY:
            return BAD
        time = value.astype("datetime64[us]").item()
        return _NOTHING if time is None else _time(time) if isinstance(time, datetime) else BAD
    if isinstance(value, np.integer):
        return _whole(int(value))
    return ("number", float(value)) if isinstance(value, np.floating) else BAD


_HOW: Mapping[type, Callable[[Any], Told]] = {
    type(None): lambda _: _NOTHING,
    bool: _bad,
    str: _text,
    bytes: _text,
    bytearray: _text,
    memoryview: _text,
    float: lambda value: ("number", float(value)),
    int: _whole,
    datetime: _time,
    Timestamp: lambda value: _at("instant", value.micros),
    Decimal: _decimal,
    np.generic: _numpy,
}
"""By type. In this order where a value is of a type derived from one of them."""
