"""The first rows of a file as named columns, whatever its form is."""

import codecs
import csv
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from hatstream.api import InputError, open_input, own_layouts, read_batches
from hatstream_city.draft.columns import find_columns
from hatstream_city.draft.units import FIELDS

HEADING = "heading"
HEADED = (*FIELDS[:4], HEADING, *FIELDS[4:])
"""The fields of rows that say a heading too, in the order of a specification."""
BLANK = " "
DELIMITERS = (",", ";", "\t", "|")
LINES, WHOLE_ARRAY = None, ""
"""Where JSON has its objects: one on each line, or the file is their array."""

ROWS = 20_000
LOOK_BYTES = 16 << 20
_MOST_NESTED, _MOST_DEEP = 200, 8
_MOST_AGREE = 0.5
_LOOKED_AT = 1_000


@dataclass(frozen=True)
class Sample:
    """columns: a value for each row and name, None where a row has none. layout: by name, which may be a fixed one.

    decimal: what numbers have before the fraction, where that is no point; the columns then have points.
    records: of JSON, the path of the array in which the rows are objects. repeated: names that several columns have, so
    that none of these can be named.
    """

    layout: str
    columns: Mapping[str, Sequence[Any]]
    delimiter: str | None = None
    header: bool | None = None
    decimal: str | None = None
    records: str | None = None
    repeated: tuple[str, ...] = ()


def read_sample(path: str) -> Sample:
    """Raises InputError where the form is none that a layout knows; it shows nothing of the content."""
    with open_input(path) as file:
        data = file.read(LOOK_BYTES)
    if not data.strip():
        raise InputError(f"{path}: it is empty")
    _check_letters(path, data)
    try:
        return _sample(path, data)
    except (ValueError, RecursionError, pa.ArrowException, EOFError, LookupError, OSError, csv.Error, InputError):
        rule = "this is no CSV, JSON, XML of SIRI-VM, Parquet, Avro or GTFS-realtime file that can be read"
        raise InputError(f"{path}: {rule}") from None


def _check_letters(path: str, data: bytes) -> None:
    """Raises InputError for a text that a release could not read."""
    if (
        data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and b"<" not in data[:4]
    ):  # XML says its letters itself
        raise InputError(f"{path}: the text is UTF-16: save it as UTF-8")
    first, is_whole, _ = data.partition(b"\n")
    try:
        first.decode("utf-8" if is_whole and _is_text(data) else "latin-1")
    except UnicodeDecodeError:
        raise InputError(f"{path}: the first line is not UTF-8: save it as UTF-8") from None


def _sample(path: str, data: bytes) -> Sample:
    if data.startswith(b"PAR1"):
        file = pq.ParquetFile(path)
        rows = next(file.iter_batches(ROWS), file.schema_arrow.empty_table())
        return Sample("parquet", {name: rows.column(name).to_pylist() for name in rows.schema.names})
    if data.startswith(b"Obj\x01"):
        with open(path, "rb") as file:
            return Sample("avro", _columns(list(islice(fastavro.reader(file), ROWS))))
    start = data.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    if start in (b"[", b"{"):
        return _json(data.removeprefix(b"\xef\xbb\xbf"), is_array=start == b"[")
    if start == b"<":
        return _decoded("xml", path)
    return _csv(data.decode("utf-8-sig", errors="replace")) if _is_text(data) else _decoded("binary", path)


def _decoded(form: str, path: str) -> Sample:
    """Reads the file by the first layout of that form that can. Raises InputError."""
    for name, own in own_layouts().items():
        if own.form != form:
            continue
        with suppress(InputError):
            rows = [batch.table for batch in read_batches(own.headed or own.layout, path)]
            names = rows[0].schema.names if rows else FIELDS
            columns = {name: [value for row in rows for value in row.column(name).to_pylist()][:ROWS] for name in names}
            if not any(columns.get(HEADING, ())):
                columns.pop(HEADING, None)
            return Sample(name, columns)
    raise InputError(f"{path}: no layout reads it as {form}")


def _layout_of(form: str, columns: Mapping[str, Sequence[Any]], records: str | None = LINES) -> str | None:
    """Finds the layout with columns of its own that has these, where texts that it reads as times say their offset."""
    for name, own in own_layouts().items():
        if own.form == form and own.fits(columns, records):
            in_texts = own.layout.units.time_unit == "iso"
            if not in_texts or _have_offsets(columns[own.columns[1]]):
                return name
    return None


def _is_text(data: bytes) -> bool:
    head = data[:4096]
    return b"\0" not in head and sum(byte < 9 or 13 < byte < 32 for byte in head) < len(head) / 100 + 1


# --- JSON ---------------------------------------------------------------------------------------------------------


def _json(data: bytes, *, is_array: bool) -> Sample:
    text = data.decode(errors="replace")
    records = _array_start(text) if is_array else _documents(text)
    columns = _columns([_flat(record) for record in records])
    if layout := _layout_of("json", columns, WHOLE_ARRAY if is_array else LINES):
        return Sample(layout, columns)
    place = None if find_columns(columns) else _array_of_objects(records)
    if place is not None:
        inside = [_flat(item) for record in records for item in _at(record, place) if isinstance(item, dict)]
        columns, path = _columns(inside[:ROWS]), ".".join(place)
        layout = _layout_of("json", columns, path)
        return Sample(layout, columns) if layout else Sample("json", columns, records=path)
    return Sample("json" if is_array else "jsonl", columns)


def _documents(text: str) -> list[dict[str, Any]]:
    """Reads the one object that the text is, or those of its lines."""
    if (whole := _record(text)) is not None:
        return [whole]
    records = [record for line in text.splitlines()[: ROWS + 1] if (record := _record(line)) is not None]
    if not records:
        raise ValueError("no object on one line")
    return records


def _array_of_objects(records: Sequence[Mapping[str, Any]]) -> tuple[str, ...] | None:
    """Finds where most objects are: the keys of the array that holds them."""
    counts: Counter[tuple[str, ...]] = Counter()
    for record in records:
        todo: list[tuple[tuple[str, ...], Any]] = [((), record)]
        while todo:
            place, value = todo.pop()
            if isinstance(value, dict) and len(place) < _MOST_DEEP:
                todo += [((*place, key), inner) for key, inner in value.items() if key and "." not in key]
            elif isinstance(value, list):
                counts[place] += sum(isinstance(inner, dict) for inner in value)
    commonest = counts.most_common(1)
    return commonest[0][0] if commonest and commonest[0][1] else None


def _at(record: Any, place: tuple[str, ...]) -> list[Any]:
    for key in place:
        record = record.get(key) if isinstance(record, dict) else None
    return record if isinstance(record, list) else []


def _array_start(text: str) -> list[dict[str, Any]]:
    """Reads the objects of an array, up to where the text was cut."""
    objects: list[dict[str, Any]] = []
    decoder, place = json.JSONDecoder(), text.index("[") + 1
    while len(objects) < ROWS:
        while place < len(text) and text[place] in " \t\r\n,":
            place += 1
        try:
            record, place = decoder.raw_decode(text, place)
        except json.JSONDecodeError:
            break
        if isinstance(record, dict):
            objects.append(record)
    if not objects:
        raise ValueError("an array without objects")
    return objects


def _record(line: str) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except json.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def _flat(record: Mapping[str, Any]) -> dict[str, Any]:
    """Maps dotted paths to what is no object or array. Not to objects in arrays, of which each index has one."""
    flat: dict[str, Any] = {}
    todo: list[tuple[str, Any]] = list(record.items())
    while todo and len(flat) < _MOST_NESTED:
        name, value = todo.pop(0)
        if isinstance(value, dict):
            todo += [(f"{name}.{key}", inner) for key, inner in value.items()]
        elif isinstance(value, list):
            plain = [(index, inner) for index, inner in enumerate(value[:4]) if not isinstance(inner, dict | list)]
            todo += [(f"{name}.{number}", inner) for number, inner in plain]
        else:
            flat[name] = value
    return flat


def _columns(records: Sequence[Any]) -> dict[str, list[Any]]:
    names = dict.fromkeys(name for record in records for name in record)
    return {name: [record.get(name) for record in records] for name in names}


# --- CSV ----------------------------------------------------------------------------------------------------------


def _csv(text: str) -> Sample:
    lines = [line for line in text.splitlines()[: ROWS + 1] if line.strip()]
    delimiter = max(DELIMITERS, key=lambda mark: _agreement(lines[:200], mark))
    if _agreement(lines[:200], delimiter)[0] < _MOST_AGREE:  # a text has blanks anyway
        delimiter, lines = BLANK, [" ".join(filter(None, line.split(BLANK))) for line in lines]
    rows = _fields(lines, delimiter)
    width = Counter(map(len, rows)).most_common(1)[0][0]
    if width < 4:
        raise ValueError("fewer than four fields")
    rows = [row for row in rows if len(row) == width]
    has_commas = _has_decimal_commas(rows)
    if has_commas:
        rows = [[_COMMA.sub(r"\1.\2", cell) for cell in row] for row in rows]
    header = not any(_is_number(cell) for cell in rows[0]) and ("" not in rows[0] or len(set(rows[0])) == width)
    names = [name.strip(BLANK) for name in rows[0]] if header else [str(index + 1) for index in range(width)]
    values = rows[1:] if header else rows
    repeated = tuple(name for name, many in Counter(names).items() if many > 1)
    columns = {
        name: [row[number] or None for row in values] for number, name in enumerate(names) if name not in repeated
    }
    if delimiter == "," and header and (layout := _layout_of("csv", columns)):
        return Sample(layout, columns)
    mark, first_line = None if delimiter == "," else delimiter, None if header else False
    return Sample("csv", columns, mark, first_line, "," if has_commas else None, repeated=repeated)


_COMMA = re.compile(r"^\s*([+-]?[0-9]+),([0-9]+)\s*$")
_OFFSET = re.compile(r"(Z|[+-][0-9]{2}:?[0-9]{2})$")
_POINT = re.compile(r"^\s*[+-]?[0-9]+\.[0-9]+\s*$")


def _has_decimal_commas(rows: Sequence[Sequence[str]]) -> bool:
    """Says whether numbers with a fraction have commas: at least one in most rows, and none with a point."""
    some = rows[:_LOOKED_AT]
    with_comma = sum(any(_COMMA.match(cell) for cell in row) for row in some)
    return 2 * with_comma > len(some) and not any(_POINT.match(cell) for row in some for cell in row)


def _have_offsets(times: Sequence[Any]) -> bool:
    given = [text for text in times if isinstance(text, str) and text]
    return sum(bool(_OFFSET.search(text)) for text in given) > len(given) / 2


def _fields(lines: Sequence[str], mark: str) -> list[list[str]]:
    """Reads each line by itself, as a release does: a lone quote takes no other line with it."""
    return [row for line in lines for row in csv.reader([line], delimiter=mark)]


def _agreement(lines: Sequence[str], mark: str) -> tuple[float, int]:
    """Counts which part of the lines has the usual number of fields, and that number."""
    widths = Counter(map(len, _fields(lines, mark)))
    width, times = widths.most_common(1)[0] if widths else (1, 0)
    return (times / len(lines) if width >= 4 else 0.0, width)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
