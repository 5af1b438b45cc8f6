"""How large an input is before it is read: rows, a total for progress; bytes, for the pieces that it is read in."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from transforms.layouts import UnreadableFile
from transforms.layouts.base import Layout, Share, SplitLayout
from transforms.layouts.decoder_process import read_apart

SHARE_BYTES = 16 << 20
"""About the size of a share of a large file."""
SMALL_BYTES, SMALL_FILES = 1 << 17, 64
"""So many files that are not larger are read as one: each by itself takes some milliseconds, whatever it holds."""
SAMPLE_BYTES = 1 << 18
PROBED_FILES = 8
"""Text files of one input are alike: so many are looked into."""
_LINES = (".csv", ".tsv", ".txt", ".jsonl", ".ndjson")


class Piece(NamedTuple):
    """A share of a file. path: as the file system has it. more: further small files, read as if they were one."""

    path: bytes
    number: int
    shares: int
    more: tuple[bytes, ...] = ()

    @property
    def share(self) -> Share:
        return Share(self.number, self.shares)


def pieces_of(layout: Layout, paths: Sequence[str]) -> list[Piece]:
    """Lists the files, large ones in shares and small ones together, largest first."""
    pieces: list[tuple[float, Piece]] = []
    small: list[tuple[int, bytes]] = []
    for path in paths:
        size = os.path.getsize(path) if os.path.exists(path) else 0
        shares = max(1, size // SHARE_BYTES) if isinstance(layout, SplitLayout) else 1
        if 0 < size <= SMALL_BYTES:
            small.append((size, os.fsencode(path)))
        else:
            pieces += [(size / shares, Piece(os.fsencode(path), number, shares)) for number in range(shares)]
    many = max(1, min(SMALL_FILES, len(small) // PROBED_FILES))
    for start in range(0, len(small), many):
        (_, first), *others = group = small[start : start + many]
        size = sum(size for size, _ in group)
        pieces.append((size, Piece(first, 0, 1, tuple(path for _, path in others))))
    return [piece for _, piece in sorted(pieces, key=lambda sized: -sized[0])]


def rows_about(paths: Sequence[str]) -> int | None:
    """Estimates rows from the footers of Parquet files and the first lines of texts; None where a file tells
    neither."""
    total = 0.0
    line_bytes: dict[str, list[float]] = {}
    for path in paths:
        kind = os.path.splitext(path)[1].lower()
        try:
            if kind == ".parquet":
                rows: float | None = _footer_rows(path)
            elif kind in _LINES:
                rows = _lines(path, line_bytes.setdefault(kind, []))
            else:
                return None
        except (OSError, UnreadableFile):
            return None
        if rows is None:
            return None
        total += rows
    return round(total)


def _footer_rows(path: str) -> float:
    """Reads a footer, in a process apart as all that may be hostile. Raises UnreadableFile."""
    from transforms.layouts.mapped.parquet import ParquetFooter

    (batch,) = read_apart(ParquetFooter(), path)
    rows: int = batch.table.column("rows")[0].as_py()
    return max(rows, 0)


def _lines(path: str, sizes: list[float]) -> float | None:
    """Estimates a file's lines. sizes: bytes of a line in its kind, added to until PROBED_FILES were looked into."""
    if len(sizes) < PROBED_FILES and Path(path).is_file():
        with open(path, "rb") as file:
            start = file.read(SAMPLE_BYTES)
        if newlines := start.count(b"\n"):
            sizes.append((start.rindex(b"\n") + 1) / newlines)
    return os.path.getsize(path) * len(sizes) / sum(sizes) if sizes else None
