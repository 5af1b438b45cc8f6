"""How far a Parquet column expands, from its own page headers: a footer can say less than the pages hold. And its rows.

Source: parquet-format, parquet.thrift (PageHeader) and the Thrift compact protocol.
"""

import os
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

HEADER_BYTES = 1 << 20

_STOP, _TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(13)
_TYPE, _UNCOMPRESSED, _COMPRESSED = 1, 2, 3
_DATA_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_V2 = 5, 7, 8
_ENCODING_FIELD = {_DATA_PAGE: 2, _DICTIONARY_PAGE: 2, _DATA_PAGE_V2: 4}
_DEPTH = 8
_ROWS = 3
"""The field of FileMetaData that says how many rows there are."""
_TRAILER_BYTES = 8


class Page(NamedTuple):
    """Bytes of one page, and the number of its encoding."""

    compressed: int
    uncompressed: int
    encoding: int


class BadPage(Exception):
    """The bytes at this place are no page header."""


def pages(file: BinaryIO, start: int, end: int) -> Iterator[Page]:
    """Yields the pages of a column chunk that lies in [start, end). Raises BadPage."""
    while start < end:
        header, used = _page_header(file, start)
        page = _page(header)
        yield page
        start += used + page.compressed


def footer_rows(path: str) -> int | None:
    """Reads how many rows a file's footer says it has; None where that cannot be read. May raise OSError."""
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - _TRAILER_BYTES, 0))
        length = int.from_bytes(file.read(4), "little")
        if file.read(4) != b"PAR1" or not 0 < length <= min(HEADER_BYTES, size - _TRAILER_BYTES):
            return None
        file.seek(size - _TRAILER_BYTES - length)
        try:
            rows = _Compact(file.read(length)).struct(_DEPTH).get(_ROWS)
        except (IndexError, BadPage):
            return None
    return rows if isinstance(rows, int) and rows >= 0 else None


def _page(header: dict[int, Any]) -> Page:
    encodings = [
        header[kind].get(field, -1) for kind, field in _ENCODING_FIELD.items() if isinstance(header.get(kind), dict)
    ]
    sizes = header.get(_COMPRESSED), header.get(_UNCOMPRESSED)
    if len(encodings) > 1 or not all(isinstance(size, int) and size >= 0 for size in sizes):
        raise BadPage
    return Page(header[_COMPRESSED], header[_UNCOMPRESSED], encodings[0] if encodings else -1)


def _page_header(file: BinaryIO, start: int) -> tuple[dict[int, Any], int]:
    for size in (512, HEADER_BYTES):
        file.seek(start)
        reader = _Compact(file.read(size))
        try:
            return reader.struct(_DEPTH), reader.at
        except IndexError:
            continue
    raise BadPage


class _Compact:
    """A reader of Thrift's compact protocol. IndexError: the bytes end too early."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def byte(self) -> int:
        value = self.data[self.at]
        self.at += 1
        return value

    def varint(self) -> int:
        value = shift = 0
        while shift < 64:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
        raise BadPage

    def zigzag(self) -> int:
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def skip(self, size: int) -> None:
        self.at += size
        if self.at > len(self.data):
            raise IndexError

    def struct(self, depth: int) -> dict[int, Any]:
        fields: dict[int, Any] = {}
        number = 0
        while (head := self.byte()) != _STOP:
            number = number + (head >> 4) if head >> 4 else self.zigzag()
            fields[number] = self.value(head & 15, depth - 1)
        return fields

    def value(self, kind: int, depth: int, in_list: bool = False) -> Any:
        if depth < 0:
            raise BadPage
        if kind in (_TRUE, _FALSE):
            return self.byte() == _TRUE if in_list else kind == _TRUE
        if kind in (_I16, _I32, _I64):
            return self.zigzag()
        if kind == _STRUCT:
            return self.struct(depth)
        if kind in (_LIST, _SET):
            return self.list(depth)
        if kind not in (_BYTE, _DOUBLE, _BINARY):
            raise BadPage
        self.skip(self.varint() if kind == _BINARY else 1 if kind == _BYTE else 8)
        return None

    def list(self, depth: int) -> None:
        head = self.byte()
        size = head >> 4 if head >> 4 != 15 else self.varint()
        for _ in range(size):
            self.value(head & 15, depth - 1, in_list=True)
