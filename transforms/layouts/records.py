"""JSON records to columns, singly where one is damaged.

A record is an object, read for its values at paths' first keys alone; `walk` follows the rest of each path. Refusals
are numbers of refused rows by reason. Bad values become NaN, null or "?", which later checks refuse.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from transforms.layouts.base import MappedLayout, Path, RawBatch, are_times, raw_batch, refuse_steps, steps_of
from transforms.layouts.columns import LARGEST_FLOAT, DecimalMark, numbers, whole_number_texts
from transforms.layouts.open_file import LINE_BYTES, is_utf8
from transforms.value import SPEED

DAMAGE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)  # what a bad record or document raises
_STRING_OR_NUMBER = re.compile(
    rb'"[^"\\]*(?:\\.[^"\\]*)*"?|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?', re.DOTALL
)
_BAD_VALUE = object()  # stands where a path leads into a plain value, such as a number
_ID_TYPES = (str, int)
_ID_FIELDS = ("vehicle", "user")


class Paths(NamedTuple):
    """Fields of a record, and the path of each."""

    fields: tuple[str, ...]
    by_field: tuple[Path, ...]
    decimal: DecimalMark  # mark of numbers in texts


class RecordLayout(MappedLayout):
    """Base of layouts of JSON records; columns are dotted paths, numbers index arrays."""

    def check(self) -> None:
        """Raises ValueError for columns of one object in an array: others would be lost."""
        for field, name in zip(self.fields, self.columns, strict=True):
            refuse_steps(field, name)
            *parents, _last = steps = name.split(".")
            index = next((depth for depth, step in enumerate(parents) if step.isdecimal()), None)
            if index is not None:
                array = ".".join(steps[:index])
                raise ValueError(
                    f"columns.{field}: {name[:60]!r} takes one object of an array, and would lose all others: "
                    f"say records = {array[:60]!r} with layout 'json', and name columns from there"
                )

    @property
    def paths(self) -> Paths:
        """Paths of the columns in a record."""
        return Paths(self.fields, tuple(map(steps_of, self.columns)), self.units.decimal)


def table_of_records(texts: Sequence[bytes], paths: Paths, refusals: dict[str, int]) -> RawBatch:
    """Reads a JSON object per text, each alone if one is damaged.

    refusals: earlier refusals by reason, to be counted too.
    """
    if is_utf8(b"\n".join(texts)) and max(map(len, texts), default=0) <= LINE_BYTES:
        with suppress(*DAMAGE):
            return _batch(list(map(_decoder(paths).decode, texts)), paths, refusals)
    records, counts = [], Counter(refusals)
    decode = _decoder(paths).decode
    for text in texts:
        if len(text) > LINE_BYTES or not is_utf8(text):
            counts["too-long" if len(text) > LINE_BYTES else "not-utf8"] += 1
            continue
        try:  # called here, as in bulk: both at one depth of the stack, which limits how deep a record may be nested
            try:
                records.append(decode(text))
            except msgspec.ValidationError:  # a number beyond float64, clamped here, or no object, which raises again
                records.append(decode(_STRING_OR_NUMBER.sub(_clamped, text)))
        except DAMAGE:
            counts["malformed"] += 1
    return _batch(records, paths, counts)


def _clamped(token: re.Match[bytes]) -> bytes:
    """Clamps a JSON number beyond float64 to the largest float64; other tokens stay."""
    text = token[0]
    if text.startswith(b'"'):
        return text
    try:
        msgspec.json.decode(text)
    except msgspec.ValidationError:  # of a number out of range
        return repr(max(-LARGEST_FLOAT, min(float(text), LARGEST_FLOAT))).encode()
    return text


@cache
def _decoder(paths: Paths) -> msgspec.json.Decoder[Any]:
    """Creates a decoder of a record to the values at paths' first keys."""
    names = {f"f{i}": key for i, key in enumerate(_first_keys(paths))}  # keys need not be names that a class may have
    fields = [(name, Any, None) for name in names]
    return msgspec.json.Decoder(msgspec.defstruct("Record", fields, rename=names, gc=False))


def _first_keys(paths: Paths) -> list[str]:
    return list(dict.fromkeys(path[0] for path in paths.by_field))


def _batch(records: list[Any], paths: Paths, refusals: dict[str, int]) -> RawBatch:
    """Makes a batch of decoded records: follows each field's path through all of them."""
    columns_of_records = zip(*map(msgspec.structs.astuple, records), strict=True)  # values of each first key
    by_first_key = dict(zip(_first_keys(paths), columns_of_records, strict=True)) if records else {}
    pairs = zip(paths.fields, paths.by_field, strict=True)  # each field, and the steps of its path
    columns = {name: walk(by_first_key.get(path[0], ()), path[1:]) for name, path in pairs}
    return typed_batch(columns, refusals, paths.decimal)


def typed_batch(columns: Mapping[str, Any], refusals: Mapping[str, int], decimal: DecimalMark = ".") -> RawBatch:
    """Creates a batch from fields' Python values or Arrow arrays; the id is first.

    refusals: earlier refusals by reason; rows whose id is neither text nor a whole number are added. decimal: mark of
    numbers in texts, fixed so that no row decides how another is read.
    """
    id_field = next(iter(columns))
    ids = columns[id_field]
    is_id = np.ones(len(ids), np.bool_)
    if id_field in _ID_FIELDS and not isinstance(ids, pa.Array):
        types = set(map(type, ids))
        if float in types:  # whole numbers are written as integers; fractions stay floats, refused below
            floats = pa.array([value for value in ids if type(value) is float])
            texts = iter(whole_number_texts(floats).to_pylist())  # of each float, in order; None of a fraction
            ids = [value if type(value) is not float or (text := next(texts)) is None else text for value in ids]
        if not types <= {*_ID_TYPES, type(None)}:
            is_id = np.fromiter((value is None or type(value) in _ID_TYPES for value in ids), np.bool_, len(ids))
    arrays = dict(columns)
    for name, values in {**columns, id_field: ids}.items():
        if not isinstance(values, pa.Array):
            field = name if name in _CONVERTER_BY_FIELD else name.partition(".")[0]  # `vehicle.1` is read as `vehicle`
            # a value that is the span between two columns is read as two times
            convert = _times if are_times(name, [*columns]) else _CONVERTER_BY_FIELD[field]
            arrays[name] = convert(values, decimal)
    if is_id.all():
        return raw_batch(arrays, refusals)
    arrays = {name: array.filter(pa.array(is_id)) for name, array in arrays.items()}
    bad = refusals.get(f"bad-{id_field}", 0) + int(np.count_nonzero(~is_id))
    return raw_batch(arrays, {**refusals, f"bad-{id_field}": bad})


def walk(values: Sequence[Any], path: Path) -> Sequence[Any]:
    """Follows a path into each value; None if absent, _BAD_VALUE in a plain value."""
    for step in path:
        types = set(map(type, values))
        # All are objects, or all arrays: `itemgetter` is fast, if all have the step.
        key = step if types == {dict} else int(step) if types == {list} and step.isdecimal() else None
        try:
            if key is None:
                raise KeyError
            values = list(map(itemgetter(key), values))
        except (KeyError, IndexError):
            values = [step_into(value, step) for value in values]
    return values


def step_into(value: Any, step: str) -> Any:
    """Steps into an object or array: None if absent, _BAD_VALUE in a plain value."""
    if value is None:
        return None
    if isinstance(value, list | tuple) and step.isdecimal():
        return value[int(step)] if int(step) < len(value) else None
    inner = mapping_of(value)
    return _BAD_VALUE if inner is None else inner.get(step)


def mapping_of(value: Any) -> Mapping[str, Any] | None:
    """Reads a dict, NamedTuple or Beam Row as a mapping; None if impossible."""
    if isinstance(value, Mapping):
        return value
    as_dict = getattr(value, "as_dict", None) or getattr(value, "_asdict", None)
    fields = as_dict() if callable(as_dict) else None
    return fields if isinstance(fields, Mapping) else None


def _numbers(values: Sequence[Any], decimal: DecimalMark = ".") -> Any:
    """Reads numbers, also in texts; NaN stands for bad values, null for missing ones."""
    types = set(map(type, values))
    if str in types:
        read = numbers(pa.array([value for value in values if type(value) is str], pa.string()), decimal)
        pairs = zip(np.where(read.valid, read.values, np.nan).tolist(), read.missing.tolist(), strict=True)
        numbers_read = iter([None if is_missing else number for number, is_missing in pairs])
        values = [next(numbers_read) if type(value) is str else value for value in values]
    if not types <= {float, int, str, type(None)}:
        values = [value if type(value) in (float, int) or value is None else float("nan") for value in values]
    try:
        return pa.array(values, pa.float64())
    except (pa.ArrowInvalid, OverflowError):  # an integer beyond float64, or that none equals
        return pa.array([None if value is None else _as_float(value) for value in values], pa.float64())


def _as_float(value: float) -> float:
    """Converts a number, an integer beyond all floats to the largest one."""
    try:
        return float(value)
    except OverflowError:
        return LARGEST_FLOAT if value > 0 else -LARGEST_FLOAT


def _times(values: Sequence[Any], _decimal: DecimalMark) -> Any:  # ISO times have no decimal comma
    """Converts times to numbers if all are, else to texts; other types become bad."""
    types = set(map(type, values)) - {type(None)}
    if types <= {str}:
        return pa.array(values, pa.string())
    if types <= {float, int}:
        return _numbers(values)
    numbers_as_texts = [repr(_as_float(value)) if type(value) in (float, int) else value for value in values]
    # Of another type than times have: "?", which parses as none.
    return pa.array([value if value is None or type(value) is str else "?" for value in numbers_as_texts], pa.string())


def _texts(values: Sequence[Any], _decimal: DecimalMark) -> Any:
    """Reads texts, and integers as texts; values of other types are null."""
    if set(map(type, values)) <= {str, type(None)}:
        return pa.array(values, pa.string())
    return pa.array([str(value) if type(value) in _ID_TYPES else None for value in values], pa.string())


_CONVERTER_BY_FIELD: dict[str, Callable[[Sequence[Any], DecimalMark], Any]] = {
    **dict.fromkeys(("vehicle", "user", "service", "mechanism", "cell", "key", "key_within"), _texts),
    **dict.fromkeys(("lat", "lon", "heading", SPEED, "epsilon", "report"), _numbers),
    **dict.fromkeys(("lat.1", "lon.1"), _texts),  # N, E, S or W
}
