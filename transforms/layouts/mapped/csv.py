"""CSV with one record a line, so that damage stays in its line."""

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from dpops.types import Int64s
from transforms.layouts import open_file
from transforms.layouts.base import MappedLayout, RawBatch, UnreadableFile, raw_batch
from transforms.layouts.open_file import TextLines, is_utf8, lines_of, opened_text, read_chunks, without_lines

BLANK = " "
DELIMITERS = (",", ";", "\t", "|", BLANK)

_BLANKS_PATTERN = re.compile(rb"^ ++| ++(?=\r?$)|(?<= ) ++", re.MULTILINE)
"""Blanks at either end of a line, and those that follow another blank."""
_SEPARATOR = re.compile(rb"\A(?:\xef\xbb\xbf)?\s*[Ss]ep=.[,;|\t]*\r?\n")  # what spreadsheets write before the header


@dataclass(frozen=True)
class CsvTable(MappedLayout):
    """CSV by header names, or by column numbers."""

    OPTIONS = ("delimiter", "header")

    delimiter: str = ","  # BLANK: any number of blanks
    header: bool = True

    def check(self) -> None:
        """Raises ValueError for an unknown delimiter."""
        if self.delimiter not in DELIMITERS:
            names = ", ".join(map(repr, DELIMITERS))
            raise ValueError(f"delimiter: must be one of {names}, got {self.delimiter[:20]!r}")

    def read(self, path: str) -> Iterator[RawBatch]:
        """Yields the batches of a file, chunk by chunk. Raises UnreadableFile."""
        header: tuple[int, list[int]] | None = None  # number of columns, and the index of each needed one
        with opened_text(path) as file:
            for data, too_long in read_chunks(file):
                if self.delimiter == BLANK:
                    data = _BLANKS_PATTERN.sub(b"", data)  # leaves one between fields, none at ends
                if header is None:
                    data = _SEPARATOR.sub(b"", data, count=1)  # spreadsheets write sep=; before the header
                    lines = lines_of(data)
                    filled = np.flatnonzero(lines.end > lines.start)
                    if too_long and not filled.size:
                        raise UnreadableFile(path, "the header is too long: lines must end in LF or CRLF")
                    if not filled.size:
                        continue
                    first = int(filled[0])  # the first line that is not empty
                    header = self._header(path, data[lines.start[first] : lines.end[first]])
                    if self.header:
                        data = data[lines.start[first + 1] :] if first + 1 < len(lines.start) else b""
                yield self._batch(data, *header, too_long)

    def _header(self, path: str, line: bytes) -> tuple[int, list[int]]:
        """Counts the first line's columns and finds the needed ones. Raises UnreadableFile."""
        try:
            names = next(csv.reader([line.decode()], delimiter=self.delimiter, strict=True))
        except (UnicodeDecodeError, csv.Error, StopIteration):
            rule = "the first line is not UTF-8 in fields as CSV has them, up to LF or CRLF"
            raise UnreadableFile(path, rule) from None
        if not self.header:
            names = [str(number) for number in range(1, len(names) + 1)]
        stripped = [name.strip(BLANK) for name in names]  # a column matches a name without blanks too
        indices: list[int] = []
        for column in self.columns:
            candidates = names if column in names else stripped
            if candidates.count(column) != 1:
                rule = "missing" if column not in candidates else "there more than once"
                raise UnreadableFile(path, f"column {column!r} is {rule}")
            indices.append(candidates.index(column))
        return len(names), indices

    def _batch(self, data: bytes, width: int, indices: list[int], too_long: int) -> RawBatch:
        """Reads columns `indices` of a chunk of lines, each of `width` fields.

        too_long: lines left out before. Lines with open quotes or a wrong number of fields are cut out first: else the
        reader would join them with others. Nonempty lines that gave no row count as malformed.
        """
        lines = lines_of(data)
        is_nonempty = lines.end > lines.start
        broken = is_nonempty & _broken(data, lines, width, self.delimiter)
        if broken.any():
            data = without_lines(data, lines, broken)
        arrays = [pa.array([], pa.binary()) for _ in indices]
        if data:
            names = [str(index) for index in range(width)]  # Arrow's columns are named by their index
            needed = [str(index) for index in indices]
            table = pyarrow.csv.read_csv(
                pa.BufferReader(data),
                pyarrow.csv.ReadOptions(column_names=names, use_threads=False, block_size=len(data) + 1),  # one block
                pyarrow.csv.ParseOptions(delimiter=self.delimiter),
                convert_options=pyarrow.csv.ConvertOptions(
                    include_columns=list(dict.fromkeys(needed)), column_types=dict.fromkeys(needed, pa.binary())
                ),
            )
            arrays = [table.column(name).combine_chunks() for name in needed]
        is_utf8_row = np.ones(len(arrays[0]), np.bool_)
        if not is_utf8(data):  # checks all rows at once
            for array in arrays:
                values = array.to_pylist()
                is_utf8_row &= np.fromiter((value is None or is_utf8(value) for value in values), np.bool_, len(values))
            arrays = [array.filter(pa.array(is_utf8_row)) for array in arrays]
        malformed = int(np.count_nonzero(is_nonempty)) - len(is_utf8_row)
        refusals = {"too-long": too_long, "malformed": malformed, "not-utf8": int(np.count_nonzero(~is_utf8_row))}
        return raw_batch(dict(zip(self.fields, arrays, strict=True)), refusals)


LAYOUTS = {"csv": CsvTable}


def _broken(data: bytes, lines: TextLines, width: int, delimiter: str) -> NDArray[np.bool_]:
    """Marks lines with invalid quotes or numbers of fields.

    Quotes other than RFC 4180's (around a field, doubled inside) would make a reader run on into following lines.
    """
    letters = np.frombuffer(data, np.uint8)
    broken = np.zeros(len(lines.start), np.bool_)
    mark = ord(delimiter)  # called comma below, whichever it is
    commas = np.flatnonzero(letters == mark)
    if b"\r" in data:  # inside a line (it may end with one) the reader would take \r for a line's end
        returns = np.flatnonzero(letters == open_file.RETURN)
        line = np.searchsorted(lines.start, returns, side="right") - 1
        broken[line[returns < lines.end[line]]] = True
    if b'"' in data:
        quotes = np.flatnonzero(letters == open_file.QUOTE)
        line_of_quote = np.searchsorted(lines.start, quotes, side="right") - 1
        is_opening = _line_quotes_before(quotes, quotes, lines) % 2 == 0  # even: opens, as the second of "" does
        previous_letter = letters[np.maximum(quotes - 1, 0)]
        next_letter = letters[np.minimum(quotes + 1, len(letters) - 1)]
        is_valid = np.where(
            is_opening,
            (quotes == lines.start[line_of_quote]) | (previous_letter == mark) | (previous_letter == open_file.QUOTE),
            (quotes + 1 == lines.end[line_of_quote]) | (next_letter == mark) | (next_letter == open_file.QUOTE),
        )
        broken |= np.bincount(line_of_quote, minlength=len(lines.start)) % 2 == 1  # a quote stays open
        broken[line_of_quote[~is_valid]] = True
        commas = commas[_line_quotes_before(commas, quotes, lines) % 2 == 0]  # others are inside quotes
    commas_in_line = np.diff(np.searchsorted(commas, lines.start), append=len(commas))
    broken |= commas_in_line != width - 1  # a line of `width` fields has one delimiter fewer
    return broken


def _line_quotes_before(offsets: Int64s, quotes: Int64s, lines: TextLines) -> Int64s:
    """Counts the quotes before each offset within its line."""
    line = np.searchsorted(lines.start, offsets, side="right") - 1
    return np.searchsorted(quotes, offsets) - np.searchsorted(quotes, lines.start)[line]
