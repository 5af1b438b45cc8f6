"""JSON lines: one object a line, found by dotted paths."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Self

import numpy as np

from transforms.layouts.base import MappedLayout, RawBatch, Units
from transforms.layouts.lines import LINE_BYTES, RETURN, Chunk, letters_of, lines_of, read_chunks
from transforms.layouts.open_file import opened_text
from transforms.layouts.records import Paths, refuse_indexed_objects, table_of_lines, table_of_records


class JsonLines(MappedLayout):
    """columns: dotted paths; a part that is a number indexes an array."""

    @classmethod
    def of(cls, units: Units, columns: tuple[str, ...], fields: tuple[str, ...], options: Mapping[str, Any]) -> Self:
        refuse_indexed_objects(fields, columns)
        return super().of(units, columns, fields, options)

    def read(self, path: str) -> Iterator[RawBatch]:
        with opened_text(path) as file:
            yield from read_json_lines(file, Paths.dotted(self.columns, self.fields))

    def from_messages(self, payloads: Sequence[bytes]) -> Iterator[RawBatch]:
        yield batch_of_messages(payloads, Paths.dotted(self.columns, self.fields))


LAYOUT = JsonLines


def read_json_lines(file: BinaryIO, paths: Paths) -> Iterator[RawBatch]:
    """Reads a file of JSON lines in batches, blank lines left out."""
    for chunk in read_chunks(file):
        yield _batch(chunk, paths)


def batch_of_messages(payloads: Sequence[bytes], paths: Paths) -> RawBatch:
    """Reads one JSON object a message. An empty message is malformed; a line end inside of one ends nothing."""
    data = b"\n".join(payloads)
    records, strict = _count(data)
    one_a_line = records == len(payloads) == data.count(b"\n") + 1
    if strict and one_a_line and max(map(len, payloads)) <= LINE_BYTES:
        fast = table_of_lines(data, records, strict, paths)
        if fast is not None:
            return fast
    return table_of_records(payloads, paths, {})


def _batch(chunk: Chunk, paths: Paths) -> RawBatch:
    records, strict = _count(chunk.data)
    fast = None if chunk.too_long else table_of_lines(chunk.data, records, strict, paths)
    if fast is not None:
        return fast
    texts = [line.removesuffix(b"\r") for line in chunk.data.split(b"\n") if line.strip()]
    return table_of_records(texts, paths, {"too-long": chunk.too_long})


def _count(data: bytes) -> tuple[int, bool]:
    """Counts the lines that are not empty, and says whether each of them begins with { and ends with }.

    Then no record runs over a line end, for `}`, a line end and `{` never follow one another inside JSON.
    """
    lines, letters = lines_of(data), letters_of(data)
    full = lines.end > lines.start
    start, end = lines.start[full], lines.end[full]
    braced = bool(np.all(letters[start] == ord("{")) and np.all(letters[end - 1] == ord("}"))) if len(start) else True
    has_lone_returns = b"\r" in data and np.count_nonzero(letters == RETURN) > len(lines.start)
    return len(start), braced and not has_lone_returns
