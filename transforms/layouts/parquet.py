"""Parquet: the needed columns as they are typed, after a look at how far the file would expand."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from transforms.columns import is_text
from transforms.layouts.base import BATCH_ROWS, FIELDS, Units, UnreadableFile, raw_batch
from transforms.layouts.parquet_pages import BadPage, pages
from transforms.schema import RawBatch

FOOTER_BYTES = 16 << 20
PAGE_BYTES = 32 << 20
SMALL_BYTES, EXPANSION = 64 << 20, 100
SMALL_ROWS, ROWS_PER_BYTE = 1 << 20, 4
VALUE_BYTES = 256

_DELTA_BYTE_ARRAY = 7
_TRAILER_BYTES = 8


@dataclass(frozen=True)
class ParquetTable:
    """columns: the file's column for each of FIELDS, in that order."""

    units: Units
    columns: tuple[str, ...]

    def read(self, path: str) -> Iterator[RawBatch]:
        with open(path, "rb") as file:
            _refuse_big_footer(path, file)
            try:
                parquet = _open(path, self.columns)
                _refuse_bomb(path, file, parquet, _leaves(parquet, set(self.columns)))
                yield from _batches(parquet, self.columns)
            except (pa.ArrowException, OSError, BadPage, UnicodeDecodeError):
                raise UnreadableFile(path, "not a Parquet file that can be decoded") from None


def _batches(parquet: pq.ParquetFile, columns: tuple[str, ...]) -> Iterator[RawBatch]:
    needed = list(dict.fromkeys(columns))
    for batch in parquet.iter_batches(BATCH_ROWS, columns=needed, use_threads=False):
        yield raw_batch({name: batch.column(column) for name, column in zip(FIELDS, columns, strict=True)}, {})


def _open(path: str, columns: tuple[str, ...]) -> pq.ParquetFile:
    """Texts stay dictionaries, so that a short file cannot repeat a long value in memory."""
    schema = pq.ParquetFile(path, pre_buffer=False).schema_arrow
    for column in columns:
        _refuse_column(path, column, schema)
    texts = [column for column in dict.fromkeys(columns) if is_text(schema.field(column).type)]
    return pq.ParquetFile(path, read_dictionary=texts, pre_buffer=False, buffer_size=1 << 20)


def _refuse_column(path: str, column: str, schema: pa.Schema) -> None:
    found = schema.get_all_field_indices(column)
    if len(found) != 1:
        raise UnreadableFile(path, f"column {column!r} is {'there more than once' if found else 'missing'}")
    kind = schema.field(column).type
    if pa.types.is_nested(kind):
        raise UnreadableFile(path, f"column {column!r} is nested")
    if pa.types.is_timestamp(kind) and kind.tz is None:
        raise UnreadableFile(path, f"column {column!r} has no time zone")
    if pa.types.is_fixed_size_binary(kind) and kind.byte_width > VALUE_BYTES:
        raise UnreadableFile(path, f"column {column!r} has values of more than {VALUE_BYTES} bytes")


def _leaves(parquet: pq.ParquetFile, columns: set[str]) -> list[int]:
    return [i for i in range(len(parquet.schema)) if parquet.schema.column(i).path in columns]


def _refuse_big_footer(path: str, file: BinaryIO) -> None:
    size = file.seek(0, 2)
    file.seek(max(0, size - _TRAILER_BYTES))
    if int.from_bytes(file.read(4), "little") > min(size, FOOTER_BYTES):
        raise UnreadableFile(path, f"the footer is of more than {FOOTER_BYTES >> 20} MiB or longer than the file")


def _refuse_bomb(path: str, file: BinaryIO, parquet: pq.ParquetFile, leaves: list[int]) -> None:
    """The rows and the bytes that the needed columns would expand to, against the size of the file."""
    size = file.seek(0, 2)
    if parquet.metadata.num_rows > max(SMALL_ROWS, ROWS_PER_BYTE * size):
        raise UnreadableFile(path, f"expands to more than {ROWS_PER_BYTE} rows per byte")
    expanded = 0
    for group in range(parquet.metadata.num_row_groups):
        for leaf in leaves:
            chunk = parquet.metadata.row_group(group).column(leaf)
            expanded += max(chunk.total_uncompressed_size, _expanded(path, file, chunk))
            if expanded > max(SMALL_BYTES, EXPANSION * size):
                raise UnreadableFile(path, f"expands to more than {EXPANSION} times its size")


def _expanded(path: str, file: BinaryIO, chunk: Any) -> int:
    start = chunk.data_page_offset
    if chunk.has_dictionary_page:
        start = min(start, chunk.dictionary_page_offset)
    expanded = 0
    for page in pages(file, start, start + chunk.total_compressed_size):
        expanded += page.uncompressed
        if page.uncompressed > PAGE_BYTES:
            raise UnreadableFile(path, f"a page expands to more than {PAGE_BYTES >> 20} MiB")
        if page.encoding == _DELTA_BYTE_ARRAY:
            raise UnreadableFile(path, "encoded as DELTA_BYTE_ARRAY, which expands without bound")
    return expanded
