"""Parquet columns with types, from files of bounded size.

A path leads from a column of the file, its head, by steps into nested data. A group is a row group; a leaf is a stored
column, of which a nested column has several; a chunk is a leaf's part in a group.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from transforms.layouts import base
from transforms.layouts.base import MappedLayout, Path, RawBatch, Share, Units, UnreadableFile
from transforms.layouts.columns import is_text
from transforms.layouts.open_file import unpacked

FILE_ROWS = 1 << 28
SPEED_BYTES = 128 << 20  # most bytes of a row group's speeds as they are in memory, which their number says alone
GROUP_BYTES = 256 << 20  # most of a row group's vehicles, times and places, expanded, as the footer says
VALUE_BYTES = 256

_DELTA_ENCODINGS = {"DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"}  # encodings that Arrow cannot read as a dictionary
_BYTES_BY_TYPE = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}  # bytes of a value
_GETTERS = {"0": "get_x", "x": "get_x", "1": "get_y", "y": "get_y"}  # shapely's function for a step into a point


class ParquetTable(MappedLayout):
    """Parquet columns by name, with dots into nested data."""

    def check(self) -> None:
        """Raises ValueError for columns of several values."""
        for field, column in zip(self.fields, self.columns, strict=True):
            base.refuse_steps(field, column)

    def read(self, path: str) -> Iterator[RawBatch]:
        """Yields the batches of all row groups."""
        return self.read_share(path, base.WHOLE)

    def read_share(self, path: str, share: Share) -> Iterator[RawBatch]:
        """Yields the batches of a share of row groups. Raises UnreadableFile."""
        with _source(path) as file:
            try:
                parquet = _open(path, file, self.columns, self.units.zone)
                _refuse_bomb(path, parquet, self.columns)
                heads_and_steps = [_path(column, parquet.schema_arrow) for column in self.columns]
                needed = list(dict.fromkeys(_stored(column, parquet.schema_arrow) for column in self.columns))
                (number, shares), groups = share, parquet.metadata.num_row_groups
                indices = list(range(number * groups // shares, (number + 1) * groups // shares))  # the share's groups
                for batch in parquet.iter_batches(base.BATCH_ROWS, indices, columns=needed, use_threads=False):
                    arrays = (_values_at(batch.column(head), steps) for head, steps in heads_and_steps)
                    yield base.raw_batch(dict(zip(self.fields, arrays, strict=True)), refusals={})
            except (pa.ArrowException, OSError, UnicodeDecodeError):
                raise UnreadableFile(path, "not a Parquet file that can be decoded") from None


LAYOUTS = {"parquet": ParquetTable}


class ParquetFooter:
    """Reads a file's number of rows as column `rows`."""

    units = Units("iso", Fraction(1))

    def read(self, path: str) -> Iterator[RawBatch]:
        """Yields a batch with the number of rows."""
        with _source(path) as file:
            yield base.raw_batch({"rows": pa.array([pq.read_metadata(file).num_rows])}, refusals={})


def _path(column: str, schema: pa.Schema) -> tuple[str, Path]:
    """Splits a column's name into the file's column and a path below it."""
    if schema.get_all_field_indices(column) or "." not in column:  # the name itself may have a dot
        return column, ()
    head, *steps = base.steps_of(column)
    return head, tuple(steps)


def _stored(column: str, schema: pa.Schema) -> str:
    """Names what to read of a column: down to the first array or point."""
    head, steps = _path(column, schema)
    length = next((number for number, step in enumerate(steps) if step.isdecimal() or step in ("x", "y")), len(steps))
    return ".".join((head, *steps[:length])) if steps else column


def _kind_at(kind: pa.DataType, steps: Path) -> pa.DataType | None:
    """Returns the Arrow type at a path below a column's type, or None."""
    for step in steps:
        if pa.types.is_struct(kind) and kind.get_field_index(step) >= 0:
            kind = kind.field(step).type
        elif _is_list(kind) and step.isdecimal():
            kind = kind.value_type
        elif is_text(kind) and step in _GETTERS:  # a coordinate of points in well-known binary
            kind = pa.float64()
        else:
            return None
    return kind


def _values_at(column: Any, steps: Path) -> Any:
    """Extracts each row's value at a path that `_kind_at` knows; null if absent."""
    for step in steps:
        if pa.types.is_struct(column.type):
            column = pc.struct_field(column, step)
        elif _is_list(column.type):
            # As a slice, padded with null: list_element alone fails where a list is too short.
            column = pc.list_element(pc.list_slice(column, int(step), int(step) + 1, return_fixed_size_list=True), 0)
        else:  # points in well-known binary (GeoParquet); null for bytes that are no point
            import shapely

            points = shapely.from_wkb(np.array(column.to_pylist(), object), on_invalid="ignore")
            degrees = getattr(shapely, _GETTERS[step])(points)  # by step: longitude x or latitude y
            column = pa.array(degrees, mask=np.isnan(degrees))
    if isinstance(column.type, pa.UuidType):  # their usual texts, as Avro has them
        coded = column.storage.dictionary_encode()  # each one once
        texts = [str(UUID(bytes=data)) for data in coded.dictionary.to_pylist()]
        column = pa.DictionaryArray.from_arrays(coded.indices, pa.array(texts, pa.string()))
    return column


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _open(path: str, file: pa.NativeFile, columns: tuple[str, ...], zone: str | None) -> pq.ParquetFile:
    """Opens a file, with texts as dictionaries to save memory. Raises UnreadableFile."""
    parquet = pq.ParquetFile(file, pre_buffer=False)
    schema = parquet.schema_arrow
    for column in columns:
        head, steps = _path(column, schema)
        indices = schema.get_all_field_indices(head)
        kind = _kind_at(schema.field(head).type, steps) if len(indices) == 1 else None
        if kind is None:
            raise UnreadableFile(path, f"column {column!r} is {'there more than once' if indices[1:] else 'missing'}")
        if pa.types.is_nested(kind):
            raise UnreadableFile(path, f"column {column!r} is nested")
        if pa.types.is_timestamp(kind) and kind.tz is None and zone is None:
            raise UnreadableFile(path, f"column {column!r} has no time zone: name it as input.time_zone")
        if pa.types.is_fixed_size_binary(kind) and kind.byte_width > VALUE_BYTES:
            raise UnreadableFile(path, f"column {column!r} has values of more than {VALUE_BYTES} bytes")
    texts = [  # not nested; read as dictionaries, which Arrow cannot where a chunk has an encoding by deltas
        column
        for column in dict.fromkeys(columns)
        if schema.get_field_index(column) >= 0
        and is_text(schema.field(column).type)
        and not any(_DELTA_ENCODINGS & {*chunk.encodings} for group in _groups(parquet, {column}) for chunk in group)
    ]
    return pq.ParquetFile(file, read_dictionary=texts, pre_buffer=False, buffer_size=1 << 20)  # 1 MiB at a time


@contextmanager
def _source(path: str) -> Iterator[pa.NativeFile]:
    """Opens a file by its name in bytes, as Arrow rejects non-UTF-8 names."""
    data = unpacked(path)
    with pa.OSFile(os.fsencode(path), "rb") if data is None else pa.BufferReader(data) as file:
        yield file


def _refuse_bomb(path: str, parquet: pq.ParquetFile, columns: tuple[str, ...]) -> None:
    """Refuses files whose footers exceed bounds on rows or row groups' bytes.

    A group's bytes are those of all columns but the value's, the last: values must not decide what is read, so of these
    the number of rows alone counts, at the width of their type. No compression ratio counts either.
    """
    metadata = parquet.metadata
    rows = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    if max(metadata.num_rows, sum(rows)) > FILE_ROWS:  # a forged footer's numbers may differ
        raise UnreadableFile(path, f"more than {FILE_ROWS:,} rows: write several files")
    *others, value_column = columns
    kind = parquet.schema.column(_leaves(parquet, {value_column})[0])
    is_fixed = kind.physical_type == "FIXED_LEN_BYTE_ARRAY"
    width = max(int(kind.length), 1) if is_fixed else _BYTES_BY_TYPE.get(kind.physical_type, 16)  # 16: of a text
    most_rows = SPEED_BYTES // width  # SPEED_BYTES: most of a group's values
    if max(rows, default=0) > most_rows:
        raise UnreadableFile(path, f"a row group of more than {most_rows} rows: write smaller ones")
    sizes = (sum(chunk.total_uncompressed_size for chunk in group) for group in _groups(parquet, {*others}))
    if max(sizes, default=0) > GROUP_BYTES:
        raise UnreadableFile(path, f"a row group expands to more than {GROUP_BYTES >> 20} MiB: write smaller ones")


def _leaves(parquet: pq.ParquetFile, columns: set[str]) -> list[int]:
    """Lists indices of the stored columns that hold `columns` or their parts."""
    named = {_stored(column, parquet.schema_arrow) for column in columns}
    paths = (parquet.schema.column(i).path for i in range(len(parquet.schema)))
    return [i for i, path in enumerate(paths) if any(path == name or path.startswith(f"{name}.") for name in named)]


def _groups(parquet: pq.ParquetFile, columns: set[str]) -> Iterator[list[Any]]:
    """Yields for each row group the metadata of these columns' chunks."""
    leaves = _leaves(parquet, columns)
    for group in map(parquet.metadata.row_group, range(parquet.metadata.num_row_groups)):
        yield [group.column(leaf) for leaf in leaves]
