"""How much work an Avro file may be: counted in values and bytes, against the observations found, never in seconds.

A compressed file can hold any number of rows in a few bytes, but only if they repeat one another: an honest row has a
vehicle and a time of its own. So what is decoded may be many times what such rows are worth, and no speed decides it.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from transforms.layouts.avro_blocks import AvroBlock
from transforms.layouts.base import UnreadableFile

SMALL_WORK = 1 << 20
OWN_WORK = 1 << 14
"""Units of work that any file may be, and that many for each vehicle and time: 100 times a row of 100 fields. A unit
takes about a tenth of a microsecond."""
SCHEMA_VALUES = 1 << 16

_ROW_WORK = 16
_BYTES_A_UNIT = 4

Row = tuple[Any, ...]


class SchemaSize(NamedTuple):
    """values: of a row, outside of arrays and maps. for_a_byte: the most that one more byte of data can bring."""

    values: int
    for_a_byte: int


class Work:
    """What was decoded of one file so far, and what it was worth."""

    def __init__(self, path: str, shape: SchemaSize) -> None:
        self._path, self._shape = path, shape
        self._done = self._row_work = 0.0
        self._own = 0

    def begin(self, blocks: list[AvroBlock]) -> None:
        """Raises UnreadableFile for blocks that are too much work even if each of their rows is one of its own."""
        rows, size = sum(block.rows for block in blocks), sum(len(block.data) for block in blocks)
        work = rows * (_ROW_WORK + self._shape.values) + size * self._shape.for_a_byte / _BYTES_A_UNIT
        self._row_work = work / max(rows, 1)
        self._check(self._done + work, self._own + rows)

    def add(self, rows: list[Row]) -> None:
        """Counts decoded rows of the blocks that were begun. Raises UnreadableFile where they hold too little."""
        self._done += self._row_work * len(rows)
        self._own += own_rows(rows)
        self._check(self._done, self._own)

    def _check(self, done: float, own: int) -> None:
        if done > max(SMALL_WORK, OWN_WORK * own):
            raise UnreadableFile(self._path, "expands too far for the few vehicles and times in it")


def own_rows(rows: Iterable[Row]) -> int:
    """Counts the distinct pairs of vehicle and time, the first two values. What is not equal to itself is none."""
    return len({row[:2] for row in rows if row[0] == row[0] and row[1] == row[1]})


def shape(path: str, schema: Any) -> SchemaSize:
    """Sizes the records of a schema as fastavro parsed it. Raises UnreadableFile for one that would never end."""
    sizes = _Sizes(path)
    return SchemaSize(sizes.of(schema).values, sizes.for_a_byte)


class _Size(NamedTuple):
    """Size of one value of a type. values: it and what lies in it. is_empty: whether it may take no bytes."""

    values: int
    is_empty: bool


class _Sizes:
    """The size of each type of a schema. An item of an array or a map, and a record in itself, takes a byte or more."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._named: dict[str, _Size] = {}
        self._open: dict[str, bool] = {}
        self.for_a_byte = 1

    def of(self, schema: Any) -> _Size:
        if isinstance(schema, str):
            self._open.update({schema: True} if schema in self._open else {})
            return self._named.get(schema, _Size(1, schema == "null"))
        if isinstance(schema, list):
            return _Size(1 + max((self.of(branch).values for branch in schema), default=0), False)
        if "fields" in schema:
            return self._record(schema)
        kind = schema["type"]
        if kind in ("array", "map"):
            item = self.of(schema["items" if kind == "array" else "values"])
            if kind == "array" and item.is_empty:
                raise UnreadableFile(self._path, "has arrays of values without size")
            self.for_a_byte = max(self.for_a_byte, item.values)
            return _Size(1, False)
        if kind in ("enum", "fixed"):
            self._named[schema["name"]] = _Size(1, kind == "fixed" and schema["size"] == 0)
            return self._named[schema["name"]]
        return self.of(kind)

    def _record(self, schema: Any) -> _Size:
        name = schema["name"]
        self._open[name] = False
        parts = [self.of(field["type"]) for field in schema["fields"]]
        size = _Size(1 + sum(part.values for part in parts), all(part.is_empty for part in parts))
        if size.values > SCHEMA_VALUES:
            raise UnreadableFile(self._path, f"has rows of more than {SCHEMA_VALUES:,} values")
        if self._open.pop(name):  # it lies in itself
            self.for_a_byte = max(self.for_a_byte, size.values)
        self._named[name] = size
        return size
