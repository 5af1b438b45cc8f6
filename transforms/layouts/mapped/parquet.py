"""Parquet: the needed columns as they are typed, after a look at how far the file would expand."""

import os
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from transforms.layouts.base import (
    BATCH_ROWS,
    WHOLE,
    MappedLayout,
    RawBatch,
    Share,
    UnreadableFile,
    raw_batch,
    without_zone,
)
from transforms.layouts.columns import is_text
from transforms.layouts.parquet_pages import BadPage, Page, pages

FOOTER_BYTES = 16 << 20
PAGE_BYTES = 32 << 20
SMALL_BYTES, EXPANSION = 64 << 20, 100
SMALL_ROWS, ROWS_PER_BYTE = 1 << 20, 4
SPEED_BYTES = 128 << 20
VALUE_BYTES = 256

_DELTA_BYTE_ARRAY = 7
_LENGTHS = "DELTA_LENGTH_BYTE_ARRAY"
_TRAILER_BYTES = 8
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}
_LEVEL_BYTES = 2  # more than whether a value is there takes, and any encoding above the plain one
_PAGE_OVERHEAD = 1 << 16


class ParquetTable(MappedLayout):
    """Columns of a file, by their names."""

    def read(self, path: str) -> Iterator[RawBatch]:
        return self.read_share(path, WHOLE)

    def read_share(self, path: str, share: Share) -> Iterator[RawBatch]:
        with open(path, "rb") as file:
            _refuse_big_footer(path, file)
            try:
                parquet = _open(path, self.columns, self.units.zone)
                groups = share.among(parquet.metadata.num_row_groups)
                _refuse_bomb(path, file, parquet, self.columns, groups)
                yield from _batches(parquet, groups, self.columns, self.fields)
            except (pa.ArrowException, OSError, BadPage, UnicodeDecodeError):
                raise UnreadableFile(path, "not a Parquet file that can be decoded") from None


LAYOUT = ParquetTable


def _batches(
    parquet: pq.ParquetFile, groups: range, columns: tuple[str, ...], fields: tuple[str, ...]
) -> Iterator[RawBatch]:
    needed = list(dict.fromkeys(columns))
    for batch in parquet.iter_batches(BATCH_ROWS, row_groups=list(groups), columns=needed, use_threads=False):
        yield raw_batch({name: batch.column(column) for name, column in zip(fields, columns, strict=True)}, {})


def _open(path: str, columns: tuple[str, ...], zone: str | None) -> pq.ParquetFile:
    """Opens a file. Texts stay dictionaries, so that a short file cannot repeat a long value in memory.

    Not where Arrow cannot make one: in pages of lengths and bytes, every text has its own bytes.
    """
    parquet = pq.ParquetFile(_source(path), pre_buffer=False)
    schema = parquet.schema_arrow
    for column in columns:
        _refuse_column(path, column, schema, zone)
    texts = [
        column
        for column in dict.fromkeys(columns)
        if is_text(schema.field(column).type) and not _has_lengths(parquet, column)
    ]
    return pq.ParquetFile(_source(path), read_dictionary=texts, pre_buffer=False, buffer_size=1 << 20)


def _has_lengths(parquet: pq.ParquetFile, column: str) -> bool:
    groups = range(parquet.metadata.num_row_groups)
    return any(_LENGTHS in chunk.column.encodings for chunk in _chunks(parquet, {column}, groups))


def _source(path: str) -> pa.OSFile:
    """Opens a file by the bytes of its name: Arrow takes no text for one that is not UTF-8."""
    return pa.OSFile(os.fsencode(path), "rb")


def _refuse_column(path: str, column: str, schema: pa.Schema, zone: str | None) -> None:
    """Refuses a column that cannot be read. zone: of times that say none."""
    indices = schema.get_all_field_indices(column)
    if len(indices) != 1:
        raise UnreadableFile(path, f"column {column!r} is {'there more than once' if indices else 'missing'}")
    kind = schema.field(column).type
    if pa.types.is_nested(kind):
        raise UnreadableFile(path, f"column {column!r} is nested")
    if pa.types.is_timestamp(kind) and kind.tz is None and zone is None:
        raise UnreadableFile(path, without_zone(column))
    if pa.types.is_fixed_size_binary(kind) and kind.byte_width > VALUE_BYTES:
        raise UnreadableFile(path, f"column {column!r} has values of more than {VALUE_BYTES} bytes")


def _refuse_big_footer(path: str, file: BinaryIO) -> None:
    size = file.seek(0, 2)
    file.seek(max(0, size - _TRAILER_BYTES))
    if int.from_bytes(file.read(4), "little") > min(size, FOOTER_BYTES):
        raise UnreadableFile(path, f"the footer is of more than {FOOTER_BYTES >> 20} MiB or longer than the file")


class _Chunk(NamedTuple):
    """A column's part of a row group of so many rows. is_read: whether it is in the share that is read."""

    is_read: bool
    rows: int
    column: Any


def _refuse_bomb(path: str, file: BinaryIO, parquet: pq.ParquetFile, columns: tuple[str, ...], groups: range) -> None:
    """Refuses a file that would expand to too much: rows and bytes against the size of the needed columns but speed.

    groups: those that are read; of the others the footer is believed, for who reads them looks at their pages. How well
    speeds are compressed follows from their values, so it must not decide whether a file is read.
    """
    *others, speed = columns
    chunks = _chunks(parquet, set(others), groups)
    size = _covered([_span(chunk.column) for chunk in chunks], file.seek(0, 2))
    rows = (parquet.metadata.row_group(group).num_rows for group in range(parquet.metadata.num_row_groups))
    if max(parquet.metadata.num_rows, sum(rows)) > max(SMALL_ROWS, ROWS_PER_BYTE * size):
        raise UnreadableFile(path, f"expands to more than {ROWS_PER_BYTE} rows per byte of vehicles, times and places")
    _refuse_expanding(path, file, chunks, size)
    speeds = _chunks(parquet, {speed}, groups)
    kind = parquet.schema.column(_leaves(parquet, {speed})[0])
    width = kind.length if kind.physical_type == "FIXED_LEN_BYTE_ARRAY" else _WIDTHS.get(kind.physical_type)
    if width is None:
        _refuse_expanding(path, file, speeds, size)
        return
    for chunk in speeds:
        _refuse_big_speeds(path, file, chunk, width)


def _leaves(parquet: pq.ParquetFile, columns: set[str]) -> list[int]:
    return [i for i in range(len(parquet.schema)) if parquet.schema.column(i).path in columns]


def _chunks(parquet: pq.ParquetFile, columns: set[str], read: range) -> list[_Chunk]:
    """Lists the chunks of these columns in all row groups."""
    leaves, numbers = _leaves(parquet, columns), range(parquet.metadata.num_row_groups)
    groups = [(number in read, parquet.metadata.row_group(number)) for number in numbers]
    return [_Chunk(is_read, group.num_rows, group.column(leaf)) for is_read, group in groups for leaf in leaves]


def _span(chunk: Any) -> tuple[int, int]:
    """Finds where a column's pages lie. An offset of 0 is none: a chunk without rows has no page of data."""
    dictionary = chunk.dictionary_page_offset if chunk.has_dictionary_page else 0
    start = min((offset for offset in (chunk.data_page_offset, dictionary) if offset), default=0)
    return start, start + chunk.total_compressed_size


def _covered(spans: list[tuple[int, int]], size: int) -> int:
    """Counts the bytes of a file of `size` that lie in any of the spans; those in several count once."""
    covered = reached = 0
    for start, end in sorted(spans):
        covered += max(0, min(end, size) - max(start, reached))
        reached = max(reached, min(end, size))
    return covered


def _refuse_expanding(path: str, file: BinaryIO, chunks: list[_Chunk], size: int) -> None:
    expanded = 0
    for chunk in chunks:
        held = 0
        for page in _pages(path, file, chunk):
            held += page.uncompressed
            if page.uncompressed > PAGE_BYTES:
                raise UnreadableFile(path, f"a page expands to more than {PAGE_BYTES >> 20} MiB")
        expanded += max(chunk.column.total_uncompressed_size, held)
        if expanded > max(SMALL_BYTES, EXPANSION * size):
            raise UnreadableFile(path, f"expands to more than {EXPANSION} times its size")


def _refuse_big_speeds(path: str, file: BinaryIO, chunk: _Chunk, width: int) -> None:
    """Holds speeds to limits that no values reach: the number of rows decides, and pages of more bytes than any
    encoding takes."""
    if chunk.rows * width > SPEED_BYTES:
        raise UnreadableFile(path, f"a row group of more than {SPEED_BYTES // width} rows: write smaller ones")
    most = chunk.rows * (width + _LEVEL_BYTES) + _PAGE_OVERHEAD
    left = 2 * most  # a dictionary and the pages that point into it
    for page in _pages(path, file, chunk):
        left += _PAGE_OVERHEAD - page.uncompressed
        if page.uncompressed > most or left < 0:
            raise UnreadableFile(path, "pages of speeds expand to more than their rows")


def _pages(path: str, file: BinaryIO, chunk: _Chunk) -> Iterator[Page]:
    if not chunk.is_read:
        return
    for page in pages(file, *_span(chunk.column)):
        if page.encoding == _DELTA_BYTE_ARRAY:
            raise UnreadableFile(path, "encoded as DELTA_BYTE_ARRAY, which expands without bound")
        yield page
