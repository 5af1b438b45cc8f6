"""Lines of files in constant memory; bad ones refused."""

from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpops.types import Int64s

LINE_BYTES = 65_536  # longer lines are refused: no honest report is as long
CHUNK_BYTES = 2 << 20  # read at a time

NEWLINE, RETURN, QUOTE = ord("\n"), ord("\r"), ord('"')
BOM = b"\xef\xbb\xbf"


Chunk = tuple[bytes, int]  # whole lines (the last one may lack its end), and how many were left out as too long


class TextLines(NamedTuple):
    """Starts and ends of a chunk's lines, without breaks."""

    start: Int64s
    end: Int64s


def read_chunks(file: BinaryIO) -> Iterator[Chunk]:
    """Reads chunks of about CHUNK_BYTES, skipping lines above LINE_BYTES."""
    remainder, skipping = file.read(len(BOM)).removeprefix(BOM), False
    while block := file.read(CHUNK_BYTES):
        if skipping:
            after_line = block.find(b"\n") + 1  # the rest of a line too long ends here
            if not after_line:
                continue
            block, skipping = block[after_line:], False
        data = remainder + block
        cut = data.rfind(b"\n") + 1
        remainder = data[cut:]
        skipping = len(remainder) > LINE_BYTES + 1  # one more, for this may end in \r
        if skipping:
            remainder = b""
        yield _without_long_lines(data[:cut], int(skipping))
    if remainder:
        yield _without_long_lines(remainder, skipped=0)


def lines_of(data: bytes) -> TextLines:
    """Finds where a chunk's lines start and end, empty ones included."""
    letters = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(letters == NEWLINE)
    if data and not data.endswith(b"\n"):
        ends = np.append(ends, len(data))
    starts = np.concatenate([np.zeros(min(1, len(ends)), np.int64), ends[:-1] + 1])  # the first at 0, if there is any
    has_return = (ends > starts) & (letters[np.maximum(ends - 1, 0)] == RETURN) if len(data) else np.zeros(0, np.bool_)
    return TextLines(starts, ends - has_return)  # a line that ends in \r\n ends before the \r


def without(data: bytes, lines: TextLines, dropped: NDArray[np.bool_]) -> bytes:
    """Cuts the dropped lines out of a chunk."""
    pieces, start = [], 0
    for i in np.flatnonzero(dropped).tolist():
        pieces.append(data[start : lines.start[i]])
        start = int(lines.start[i + 1]) if i + 1 < len(lines.start) else len(data)
    pieces.append(data[start:])
    return b"".join(pieces)


def _without_long_lines(data: bytes, skipped: int) -> Chunk:
    """Cuts long lines out of a chunk, counting them beside those skipped before."""
    lines = lines_of(data)
    long = lines.end - lines.start > LINE_BYTES
    if not long.any():
        return data, skipped
    return without(data, lines, long), skipped + int(np.count_nonzero(long))


def refuse_not_utf8(columns: Mapping[str, Any], source: bytes) -> tuple[dict[str, Any], int]:
    """Drops and counts rows of columns, parsed from `source`, that are not UTF-8."""
    if is_utf8(source):  # checks all rows at once
        return dict(columns), 0
    rows = len(next(iter(columns.values())))
    is_utf8_row = np.ones(rows, np.bool_)
    for column in columns.values():
        is_utf8_row &= np.fromiter((value is None or is_utf8(value) for value in column.to_pylist()), np.bool_, rows)
    mask = pa.array(is_utf8_row)
    return {name: column.filter(mask) for name, column in columns.items()}, rows - int(np.count_nonzero(is_utf8_row))


def is_utf8(data: bytes) -> bool:
    """Checks for valid UTF-8."""
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
