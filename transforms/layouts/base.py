"""Interface of layouts: units, reading, paths into nested data, and errors."""

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from transforms.layouts.columns import DecimalMark, Instants, Numbers, TimeUnit, are_parts, instants, numbers
from transforms.layouts.time_format import TimeFormat
from transforms.value import SPEED

Path = tuple[str, ...]  # steps into nested data: a key of an object, an index of an array, EACH or ANY
EACH, ANY = "[]", "*"  # all elements of an array; all values of an object


def steps_of(text: str) -> Path:
    """Splits a dotted path into steps; a text without steps is one.

    >>> steps_of("Siri.Delivery[].Activity"), steps_of("location.coordinates.1")
    (('Siri', 'Delivery', '[]', 'Activity'), ('location', 'coordinates', '1'))
    """
    return tuple(step for step in text.replace(EACH, f".{EACH}").split(".") if step) or (text,)


def steps_of_records(text: str) -> Path:
    """Splits a path of JSON objects, to end with EACH or ANY. Raises ValueError."""
    if not re.fullmatch(r"[^.\[\]]+(\[\])?(\.[^.\[\]]+(\[\])?)*", text):
        raise ValueError(f"records: must be a path such as data.vehicles, a[].b or entity.*, got {text[:60]!r}")
    steps = steps_of(text)
    return steps if steps[-1] in (EACH, ANY) else (*steps, EACH)  # the path of an array names each of its objects


def refuse_steps(field: str, column: str) -> None:
    """Refuses a column of several values. Raises ValueError."""
    steps = steps_of(column)
    if EACH in steps or (ANY in steps and steps != (ANY,)):  # ANY alone is the key of a record
        raise ValueError(f"columns.{field}: {column[:60]!r} is of many values: [] and * stand in input.records")


FIELDS: tuple[str, ...] = ("vehicle", "time", "lat", "lon", SPEED)
"""Of a row of telemetry. A mapped layout reads rows of other fields too: the first is an id, the last is a number whose
values do not decide whether a file is read."""

LISTED = ("vehicle", "time", "lat", "lon")
"""Fields that several columns may hold together: parts of an id, date and clock, degrees and N, S, E or W.

The further ones are read as fields of their own, `vehicle.1`, and `raw_batch` puts them together in a struct."""


def are_times(field: str, fields: Sequence[str]) -> bool:
    """Checks whether a field's columns hold times."""
    return field.startswith("time") or (field.startswith(SPEED) and f"{SPEED}.1" in fields)  # .1: a second column


HEADING = "heading"  # a further field, before the last one, in degrees, where public places differ by direction

KEY = "key"
KEY_FIELDS = (KEY, f"{KEY}_within")  # the public key under which a row is counted, in the place of a position

BATCH_ROWS = 131_072  # most rows that are decoded and checked at a time


class RawBatch(NamedTuple):
    """Raw columns of rows, and unreadable rows by reason.

    table: any Arrow types, null for missing values. rows == table.num_rows + sum(refused.values()).
    """

    rows: int
    table: pa.RecordBatch
    refused: dict[str, int]


@dataclass(frozen=True)
class Units:
    """Units of a layout's columns."""

    time_unit: TimeUnit
    value_per_unit: Fraction  # one of the input's units of the value, in the specification's, such as 3.6 for m/s
    zone: str | None = None  # of times without offset
    time_format: TimeFormat | None = None  # of texts other than ISO 8601
    decimal: DecimalMark = "."

    def instants(self, column: pa.Array) -> Instants:
        """Reads a column of times."""
        parse = None if self.time_format is None else self.time_format.instants
        return instants(column, self.time_unit, self.zone, parse, self.decimal)

    def numbers(self, column: pa.Array) -> Numbers:
        """Reads a column of numbers, without conversion of units."""
        return numbers(column, self.decimal)

    def values(self, column: pa.Array) -> Numbers:
        """Reads numbers, or delays in seconds from a pair of actual and scheduled times."""
        if not are_parts(column.type):  # a single column
            return self.numbers(column)
        actual, scheduled = self.instants(column.field(0)), self.instants(column.field(1))
        valid = actual.valid & scheduled.valid
        seconds = (actual.us.astype(np.float64) - scheduled.us) / 1e6
        return Numbers(np.where(valid, seconds, 0.0), valid, actual.missing | scheduled.missing)

    def longitudes(self, column: pa.Array) -> Numbers:
        """Reads degrees east, converting (180, 360] to west.

        >>> Units("iso", Fraction(1)).longitudes(pa.array([202.25, 180, 360, 361])).values.tolist()
        [-157.75, 180.0, 0.0, 361.0]
        """
        degrees = self.numbers(column)
        is_western = (degrees.values > 180) & (degrees.values <= 360)
        return degrees._replace(values=np.where(is_western, degrees.values - 360, degrees.values))


def with_keys(columns: int) -> tuple[str, ...]:
    """Lists the fields of rows with a public key of 0 to 2 columns.

    >>> with_keys(2)
    ('vehicle', 'time', 'key', 'key_within', 'speed')
    """
    return (*FIELDS[:2], *KEY_FIELDS[:columns], SPEED)


def with_heading(fields: tuple[str, ...]) -> tuple[str, ...]:
    """Inserts a heading into the fields of rows.

    >>> with_heading(FIELDS)
    ('vehicle', 'time', 'lat', 'lon', 'heading', 'speed')
    """
    return (*fields[:4], HEADING, *fields[4:])


class Layout(Protocol):
    """One way in which files hold vehicle positions."""

    @property
    def units(self) -> Units:
        """Units of the layout's columns."""

    def read(self, path: str) -> Iterator[RawBatch]:
        """Yields batches in file order. Raises UnreadableFile without content."""


@dataclass(frozen=True)
class MappedLayout(ABC):
    """Base of layouts whose columns a specification names."""

    OPTIONS: ClassVar[tuple[str, ...]] = ()  # further attributes, which a specification may set in [input]

    units: Units
    columns: tuple[str, ...]  # names or paths in the file, one for each of `fields`
    fields: tuple[str, ...] = FIELDS

    def check(self) -> None:  # noqa: B027 - some have nothing to check
        """Raises ValueError for a specification's columns or options that the layout cannot have."""

    @abstractmethod
    def read(self, path: str) -> Iterator[RawBatch]:
        """Reads as `Layout` does."""


class Share(NamedTuple):
    """Share of a file; all shares partition its rows."""

    number: int  # from 0
    shares: int  # into which the file is divided


WHOLE = Share(number=0, shares=1)


@runtime_checkable
class SplitLayout(Layout, Protocol):
    """Layout whose files several readers can share."""

    def read_share(self, path: str, share: Share) -> Iterator[RawBatch]:
        """Reads a share, as `read` does a file."""


@runtime_checkable
class MessageLayout(Layout, Protocol):
    """Layout that also arrives as messages of a transport."""

    def from_messages(self, payloads: Sequence[bytes]) -> Iterator[RawBatch]:
        """Yields what `read` would give for these payloads.

        A payload that cannot be decoded is one refused row; it neither raises nor affects others.
        """


LINES, WHOLE_ARRAY = None, ""  # where JSON has its objects: one on each line, or the file is their array


@dataclass(frozen=True)
class OwnLayout:
    """Fixed layout with its columns and units, and what recognises its files.

    heading: column of headings, if there is one. choices: columns that a field may have, the default first; tables also
    take any column as key or value. known_by: columns that all such files have; `only`: they have no others. records:
    where JSON has its objects: LINES, WHOLE_ARRAY, or their path. units_of: units of columns of values but speeds.
    """

    layout: Layout
    heading: str | None = None
    form: Literal["csv", "json", "xml", "binary"] = "binary"
    known_by: AbstractSet[str] = frozenset()
    only: bool = False
    records: tuple[str | None, ...] = (LINES,)
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    units_of: Mapping[str, str] = field(default_factory=dict)
    has_positions: bool = True

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of a table's fields; other forms have columns named as the fields."""
        return self.layout.columns if isinstance(self.layout, MappedLayout) else FIELDS

    def fits(self, columns: Mapping[str, Sequence[Any]], records: str | None = LINES) -> bool:
        """Checks whether a file with these columns and `records` may have this layout."""
        names = columns.keys()
        return records in self.records and (names == self.known_by if self.only else names >= self.known_by)


class UnreadableFile(Exception):
    """File that cannot be decoded or lacks a column."""

    def __init__(self, path: str, rule: str) -> None:
        path = path.replace("\0", "/")  # a NUL divides an archive from its member
        super().__init__(path, rule)
        self.path, self.rule = path, rule

    def __str__(self) -> str:
        return f"{self.path}: {self.rule}"


def joined(batches: Iterable[RawBatch]) -> Iterator[RawBatch]:
    """Joins consecutive batches of equal column types while they fit half of BATCH_ROWS."""
    small: list[RawBatch] = []
    for batch in batches:
        rows = sum(earlier.rows for earlier in small) + batch.rows
        # A larger batch goes on alone: a copy would cost more than it saves.
        if small and (rows > BATCH_ROWS // 2 or small[0].table.schema != batch.table.schema):
            yield _as_one(small)
            small = []
        small.append(batch)
    if small:
        yield _as_one(small)


def _as_one(batches: Sequence[RawBatch]) -> RawBatch:
    """Concatenates batches' rows, as one Arrow batch, and adds up their refusals."""
    refused = sum((Counter(batch.refused) for batch in batches), Counter[str]())
    tables = pa.Table.from_batches([batch.table for batch in batches]).combine_chunks().to_batches()  # [] without rows
    return RawBatch(sum(batch.rows for batch in batches), tables[0] if tables else batches[0].table, dict(refused))


def raw_batch(columns: Mapping[str, Any], refusals: Mapping[str, int]) -> RawBatch:
    """Creates a batch from fields' Arrow arrays and numbers of refused rows by reason.

    The columns of a field, such as parts of an id (`vehicle`, `vehicle.1`), become one struct.
    """
    arrays_of_field: dict[str, list[Any]] = {}
    for name, array in columns.items():
        arrays_of_field.setdefault(name.partition(".")[0], []).append(array)
    arrays = [
        array if not more else pa.StructArray.from_arrays([array, *more], [*map(str, range(1 + len(more)))])
        for array, *more in arrays_of_field.values()
    ]
    table = pa.RecordBatch.from_arrays(arrays, names=list(arrays_of_field))
    counts = {reason: count for reason, count in refusals.items() if count}
    return RawBatch(table.num_rows + sum(counts.values()), table, counts)
