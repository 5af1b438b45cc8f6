"""Reads a file's first rows as named columns.

A path in JSON (`steps`, or as text `records`) leads to the objects that are rows: keys, EACH for the elements of an
array, ANY for the values of an object whose keys are data; LINES where each line is an object, WHOLE_ARRAY where the
file is their array. Our own layouts have fixed columns; `choices` are by field the columns that may hold it. `_flat`
names inner values by their path, such as "a.b.0".
"""

import codecs
import csv
import io
import json
import re
import struct
import zipfile
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, cast

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from hatstream.api import InputError, layout, open_input, own_layouts, read_batches
from hatstream_city.draft.columns import find_columns
from hatstream_city.draft.notation import FIELDS, LOOKED_AT, has_values, is_mostly_digits, with_points

HEADING = "heading"
HEADED = (*FIELDS[:4], HEADING, *FIELDS[4:])  # fields of rows with a heading, in the order of a specification
BLANK = " "
DELIMITERS = (",", ";", "\t", "|")
LINES, WHOLE_ARRAY = None, ""  # values of `records`
ROWS = 20_000
LOOK_BYTES = 16 << 20  # of a file so much is looked at, decompressed
_MOST_NESTED = 200  # keys of an object that are looked at
EACH, ANY = "[]", "*"  # steps of a path in JSON
_MORE_THAN_ARRAY = re.compile(r"\]\s*\S")  # where an array ends
_PATH_MARKS = re.compile(r"[.\[\]*]")
_POINTS, _POINT_BYTES = (b"\1\1\0\0\0", b"\0\0\0\0\1"), 21
"""Head of a point in well-known binary (byte order, kind), and its length: the head, then x and y as doubles."""
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_LEAST_FIELDS, _LINES_LOOKED_AT = 4, 200
_RULES = (  # of files that cannot be read, by their first bytes
    (rb"BZh|\xfd7zXZ|7z\xbc\xaf", "its compression is not read: bring it into gzip, zstd or zip"),
    (rb"(?s).{0,200}openxmlformats", "a workbook is not read: save its sheet as CSV"),
    (rb"\[[^{]*\Z", "this array of JSON has no object, and so no vehicle"),
    (rb"[\[{]", "this is no single document of JSON: write one object a line, or one array of all"),
    (rb"", "this is no CSV, JSON, XML of SIRI-VM, Parquet, Avro or GTFS-realtime file that can be read"),
)
_UTC_OFFSET = re.compile(r"(Z|[+-][0-9]{2}:?[0-9]{2})$")


@dataclass(frozen=True)
class Sample:
    """Rows of a sample as columns; None where missing."""

    layout: str  # name
    columns: Mapping[str, Sequence[Any]]
    options: Mapping[str, Any] = field(default_factory=dict)  # of `layout`, where they are not its defaults
    repeated: tuple[str, ...] = ()  # names of several columns each, which cannot be read
    top: int = 0  # index of the header or first row among lines of CSV; a release takes line 0

    @property
    def own(self) -> Any:
        """The built-in layout with fixed columns, an entry of `own_layouts`, or None."""
        return own_layouts().get(self.layout)


def read_sample(path: str) -> Sample:
    """Reads a file's first rows. Raises InputError, without content."""
    with open_input(path) as file:
        data = file.read(LOOK_BYTES)
    shown = path.replace("\0", "/")  # a NUL divides an archive from its member
    if not data.strip():
        raise InputError(f"{shown}: it is empty")
    if data.startswith(_UTF16_MARKS) and b"<" not in data[:4]:  # XML names its encoding itself
        raise InputError(f"{shown}: the text is UTF-16: save it as UTF-8")
    line, line_end, _ = data.partition(b"\n")
    try:  # Latin-1 takes all bytes: of binary files, and of a line that may be cut within a letter
        line.decode("utf-8" if line_end and _is_text(data) else "latin-1")
    except UnicodeDecodeError:
        raise InputError(f"{shown}: the first line is not UTF-8: save it as UTF-8") from None
    try:
        sample = _sample(path, data)  # the decimal mark of our own layouts is a point
        columns, decimal = (sample.columns, None) if sample.own else with_points(sample.columns)
        return replace(sample, columns=columns, options={**sample.options, **({"decimal": decimal} if decimal else {})})
    except (ValueError, RecursionError, pa.ArrowException, EOFError, LookupError, OSError, csv.Error, InputError):
        # _RULES: what to say, by a pattern of the first bytes; the last one fits all.
        rule = next(rule for pattern, rule in _RULES if re.match(pattern, data.removeprefix(codecs.BOM_UTF8).lstrip()))
        raise InputError(f"{shown}: {rule}") from None


def is_timetable(path: Path) -> bool:
    """Checks whether a zip holds GTFS tables."""
    with suppress(zipfile.BadZipFile, OSError), zipfile.ZipFile(path) as archive:
        return {"stops.txt", "trips.txt"} <= {name.rpartition("/")[2] for name in archive.namelist()}
    return False


def _sample(path: str, data: bytes) -> Sample:
    """Reads first rows in the format of `data`, the file's first bytes."""
    if data.startswith((b"PAR1", b"Obj\x01")):
        with open(path.partition("\0")[0], "rb") as outer, open_input(path) as stream:
            is_plain = outer.peek(4)[:4] == data[:4]  # else it is compressed or in an archive, and has no random access
            file: Any = outer if is_plain else io.BytesIO(stream.read())
            if data.startswith(b"PAR1"):
                return _parquet_sample(file)
            layout("avro", {field: field for field in FIELDS}, "s")  # makes fastavro read all codecs, within bounds
            return Sample("avro", _columns(cast(Any, islice(fastavro.reader(file), ROWS))))
    start = data.removeprefix(codecs.BOM_UTF8).lstrip()[:1]
    if start in (b"[", b"{"):
        return _json(data.decode("utf-8-sig", errors="replace"), is_array=start == b"[")
    if start == b"<" or data.startswith(_UTF16_MARKS):  # other texts in UTF-16 were refused
        return _sample_by_layout("xml", path)
    return _csv(data.decode("utf-8-sig", errors="replace")) if _is_text(data) else _sample_by_layout("binary", path)


def _sample_by_layout(form: str, path: str) -> Sample:
    """Reads a file by the first layout of its form that can. Raises InputError.

    form: "xml" or "binary". Columns are all that may name the vehicle, and the feed's time if no report has one.
    """
    for layout_name, own in own_layouts().items():
        if own.form != form or not own.has_positions:
            continue
        vehicle_columns = own.choices.get("vehicle", ())  # all that may name it; headed: with a column HEADING
        with suppress(InputError):
            reader = layout(layout_name, columns=None, vehicle=vehicle_columns, headed=own.heading is not None)
            tables = [batch.table for batch in read_batches(reader, path)]
            names = tables[0].schema.names if tables else FIELDS
            columns = {name: [value for rows in tables for value in rows[name].to_pylist()][:ROWS] for name in names}
            structs = columns.pop("vehicle")  # a member for each of `vehicle_columns`, named by its number
            ids = {name: [struct[str(number)] for struct in structs] for number, name in enumerate(vehicle_columns)}
            if not any(columns.get(HEADING, ())):  # no report has one
                columns.pop(HEADING, None)
            if tables and not any(columns["time"]):
                header_time = own.choices["time"][1]  # the first choice is a report's own
                batches = read_batches(layout(layout_name, columns=None, time=header_time), path)
                columns[header_time] = [time for batch in batches for time in batch.table["time"].to_pylist()][:ROWS]
            return Sample(layout_name, {**ids, **columns})
    raise InputError(f"{path}: no layout reads it as {form}")


def _parquet_sample(file: Any) -> Sample:
    """Reads the first ROWS rows of a Parquet file; nested columns are flattened."""
    parquet = pq.ParquetFile(file)
    rows = next(parquet.iter_batches(ROWS), parquet.schema_arrow.empty_table())
    may_be_nested = (pa.types.is_nested, pa.types.is_binary, pa.types.is_large_binary)  # binary ones may be points
    nested = [field.name for field in rows.schema if any(holds(field.type) for holds in may_be_nested)]
    plain = {name: rows.column(name).to_pylist() for name in rows.schema.names if name not in nested}
    inside = _columns(rows.select(nested).to_pylist()) if nested else {}
    return Sample("parquet", plain | inside)


def _layout_of(form: str, columns: Mapping[str, Sequence[Any]], records: str | None = LINES) -> str | None:
    """Names the built-in layout that fits, if any. records: path of JSON's objects."""
    for name, own in own_layouts().items():
        if own.form == form and own.has_positions and own.fits(columns, records):
            _, time_column, *_ = own.columns  # in the order of fields: vehicle, time, lat, lon, value
            texts = [text for text in columns[time_column] if isinstance(text, str) and text]
            offsets = sum(bool(_UTC_OFFSET.search(text)) for text in texts)
            if own.layout.units.time_unit != "iso" or offsets > len(texts) / 2:  # else the draft must name a zone
                return name
    return None


def _is_text(data: bytes) -> bool:
    """Checks that first bytes have no NUL, and hardly control characters but white space."""
    head = data[:4096]
    return b"\0" not in head and sum(byte < 9 or 13 < byte < 32 for byte in head) < len(head) / 100 + 1


def _json(text: str, *, is_array: bool) -> Sample:
    """Samples JSON documents, or objects in them if these alone look like reports."""
    records = _array_start(text) if is_array else _documents(text)
    columns = _columns(records)
    if name := _layout_of("json", columns, WHOLE_ARRAY if is_array else LINES):
        return Sample(name, columns)
    samples = []  # of objects inside
    # A single document may hold the reports inside. [0]: the columns; [1] is their decimal mark.
    if len(records) == 1 or find_columns(with_points(columns)[0]).missing:
        for steps in _paths_of_objects(records)[:6]:  # the likeliest
            inside, records_path = _columns(islice(_objects_under(records, steps), ROWS)), path_of(steps)
            name = _layout_of("json", inside, records_path)  # built in: it knows the path itself
            samples.append(Sample(name, inside) if name else Sample("json", inside, {"records": records_path}))
    return max(samples, key=_rank, default=Sample("json" if is_array else "jsonl", columns))


def _rank(sample: Sample) -> tuple[int, ...]:
    """Ranks objects: the most complete ones first, then by path's name, motion and speeds."""
    drafted = find_columns(with_points({name: values[:LOOKED_AT] for name, values in sample.columns.items()})[0])
    key = (sample.options.get("records") or "").rstrip("[]*.").lower()
    is_named = sample.own is not None or re.search("(vehicle|position|activit(y|ie)|buse?|fleet)s?(data|list)?$", key)
    return (-len(drafted.missing), bool(is_named), drafted.moves, "speed" in drafted.names)


def path_of(steps: tuple[str, ...]) -> str:
    """Writes a path in JSON for a specification, ending in EACH only behind ANY.

    >>> path_of(("a", "[]", "b", "[]")), path_of(("entity", "*")), path_of(("*", "[]"))
    ('a[].b', 'entity.*', '*[]')
    """
    steps = steps[:-1] if steps[-1] == EACH and steps[-2:-1] not in ((), (ANY,)) else steps
    return ".".join(steps).replace(f".{EACH}", EACH)


def _documents(text: str) -> list[dict[str, Any]]:
    """Reads a text's single object, or one per line. Raises ValueError without any."""
    for parts in ([text], text.splitlines()[: ROWS + 1]):
        values = []
        for part in parts:
            with suppress(json.JSONDecodeError):
                values.append(json.loads(part))
        if records := [value for value in values if isinstance(value, dict)]:
            return records
    raise ValueError("no object on one line")


def _paths_of_objects(records: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """Lists paths of objects in arrays or under data keys, the likeliest first."""
    counts: Counter[tuple[str, ...]] = Counter()  # objects by path
    # Each record has one key, its kind: {"VP": {..}}.
    are_of_kinds = len(set().union(*records[:LOOKED_AT])) > 1 == max(map(len, records))
    for record in records[:LOOKED_AT]:
        stack: list[tuple[tuple[str, ...], Any]] = [((), record)]  # values to search, with their paths
        while stack:
            path, value = stack.pop()
            if len(path) > 10:  # no feed is as deep
                continue
            if isinstance(value, list) or _is_keyed(value) or (are_of_kinds and not path):
                items = value if isinstance(value, list) else value.values()
                kinds = dict if isinstance(value, list) else (dict, list)  # no path leads into an array of arrays
                inside = [inner for inner in items if isinstance(inner, kinds)]
                path = (*path, EACH if isinstance(value, list) else ANY)
                counts[path] += sum(isinstance(inner, dict) for inner in inside)
                stack += [(path, inner) for inner in inside[:20]]  # they are alike
            elif isinstance(value, dict):  # a key with a mark of paths would be read as several
                keys = [key for key in islice(value, _MOST_NESTED) if key and not _PATH_MARKS.search(key)]
                stack += [((*path, key), value[key]) for key in keys if isinstance(value[key], dict | list)]
    # Paths of several objects come first, then those under the fewest arrays, then those of the most objects.
    paths = [path for path, count in counts.items() if count]
    return sorted(paths, key=lambda path: (counts[path] < 2, path.count(EACH) + path.count(ANY), -counts[path]))


def _is_keyed(value: Any) -> bool:
    """Checks whether keys are data: most values are objects, or lists of objects, alike.

    One or two keys may as well be names, unless they have digits as ids have.
    """
    if not isinstance(value, dict) or (len(value) < 3 and not all(map(is_mostly_digits, value))):
        return False
    firsts = (inner[0] if isinstance(inner, list) and inner else inner for inner in value.values())
    keys = Counter(frozenset(inner) for inner in islice(firsts, _MOST_NESTED) if isinstance(inner, dict))
    return max(keys.values(), default=0) > min(len(value), _MOST_NESTED) / 2


def _objects_under(records: Sequence[Any], steps: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """Yields the objects at a path's end, with the key that ANY matched last."""
    inside: list[tuple[str | None, Any]] = [(None, record) for record in records]  # values so far, each with that key
    for number, step in enumerate(steps, 1):
        outside, inside = inside, []
        for key, value in outside:
            if step == EACH:
                is_single = number < len(steps) and isinstance(value, dict)  # one object stands for an array of one
                inside += [(key, item) for item in (value if isinstance(value, list) else [value] * is_single)]
            elif isinstance(value, dict):
                inside += value.items() if step == ANY else [(key, value.get(step))]
    return ({ANY: key, **value} if key is not None else value for key, value in inside if isinstance(value, dict))


def _array_start(text: str) -> list[dict[str, Any]]:
    """Reads objects of an array that may be cut. Raises ValueError without any."""
    objects: list[dict[str, Any]] = []
    decoder, index = json.JSONDecoder(), text.index("[") + 1
    while len(objects) < ROWS:
        while index < len(text) and text[index] in " \t\r\n,":
            index += 1
        try:
            record, index = decoder.raw_decode(text, index)
        except json.JSONDecodeError:  # the array's end, or the cut
            break
        if isinstance(record, dict):
            objects.append(record)
    if not objects or _MORE_THAN_ARRAY.match(text, index):
        raise ValueError("an array without objects, or not alone")
    return objects


def _flat(record: Mapping[str, Any]) -> dict[str, Any]:
    """Flattens an object, with its arrays and WKB points, to values by path."""
    flat: dict[str, Any] = {}
    queue: deque[tuple[str, Any]] = deque(islice(record.items(), _MOST_NESTED))  # outer values come first
    while queue and len(flat) < _MOST_NESTED:
        name, value = queue.popleft()
        if isinstance(value, dict):
            queue += [(f"{name}.{key}", inner) for key, inner in islice(value.items(), _MOST_NESTED)]
        elif isinstance(value, list):
            elements = enumerate(value[:4])  # of coordinates, and a few more
            queue += [(f"{name}.{index}", inner) for index, inner in elements if not isinstance(inner, dict | list)]
        elif isinstance(value, bytes) and value[:5] in _POINTS and len(value) >= _POINT_BYTES:
            order = "<" if value[0] else ">"  # WKB: a byte for the order, four for the type, then x and y
            flat |= {f"{name}.{axis}": x for axis, x in enumerate(struct.unpack(f"{order}2d", value[5:21]))}
        else:
            flat[name] = value
    return flat


def _columns(records: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Flattens records to columns, None where a record lacks a key."""
    flat_records = list(map(_flat, records))
    names = dict.fromkeys(name for record in flat_records for name in record)
    return {name: [record.get(name) for record in flat_records] for name in names}


def _csv(text: str) -> Sample:
    """Reads a text as CSV; guesses delimiter and header line. Raises ValueError."""
    lines = [line for line in text.splitlines()[: ROWS + 2] if line.strip()]  # 2: "sep=;" and the header
    if lines and re.fullmatch("sep=.", lines[0].strip(), re.IGNORECASE):
        del lines[0]  # a spreadsheet's word on the delimiter
    agreements = {mark: _agreement(lines[:_LINES_LOOKED_AT], mark) for mark in DELIMITERS}
    delimiter = max(DELIMITERS, key=agreements.__getitem__)
    if agreements[delimiter][0] < 0.5:  # share of lines with equally many fields; tried last: any text has blanks
        delimiter, lines = BLANK, [" ".join(filter(None, line.split(BLANK))) for line in lines]
    rows = _fields(lines, delimiter)
    width = Counter(map(len, rows)).most_common(1)[0][0]
    if width < _LEAST_FIELDS:
        raise ValueError("fewer than four fields")
    top = next(number for number, row in enumerate(rows) if len(row) == width)  # rows above the table, of other widths
    rows = [row for row in rows if len(row) == width]
    # One name may be empty, as of row numbers, but then no other is repeated.
    header = not has_values(rows[:_LINES_LOOKED_AT]) and ("" not in rows[0] or len(set(rows[0])) == width)
    names = [name.strip(BLANK) for name in rows[0]] if header else [str(index + 1) for index in range(width)]
    values = rows[1:] if header else rows
    repeated = tuple(name for name, count in Counter(names).items() if count > 1)
    indices = {name: index for index, name in enumerate(names) if name not in repeated}
    columns = {name: [row[index] or None for row in values] for name, index in indices.items()}  # empty cells: missing
    if delimiter == "," and header and (name := _layout_of("csv", columns)):
        return Sample(name, columns, top=top)
    options = ({} if delimiter == "," else {"delimiter": delimiter}) | ({} if header else {"header": False})
    return Sample("csv", columns, options, repeated=repeated, top=top)


def _fields(lines: Sequence[str], mark: str) -> list[list[str]]:
    """Splits each line separately; quotes cannot swallow lines."""
    return [row for line in lines for row in csv.reader([line], delimiter=mark)]


def _agreement(lines: Sequence[str], mark: str) -> tuple[float, int]:
    """Computes the share of lines with the commonest number of fields, and this number."""
    widths = Counter(map(len, _fields(lines, mark)))
    width, times = widths.most_common(1)[0] if widths else (1, 0)
    return (times / len(lines) if width >= _LEAST_FIELDS else 0.0, width)  # 0: too few fields
