"""Estimates how many rows an input has before it is read: a total for progress, and for how work is cut."""

import os
from collections.abc import Sequence
from pathlib import Path

from transforms.layouts.parquet_pages import footer_rows

SAMPLE_BYTES = 1 << 18
PROBED_FILES = 8
"""Text files of one input are alike: so many are looked into."""
_LINES = (".csv", ".tsv", ".txt", ".jsonl", ".ndjson")


def rows_about(paths: Sequence[str]) -> int | None:
    """Estimates rows from the footers of Parquet files and the first lines of texts; None where a file tells
    neither."""
    total = 0.0
    line_bytes: dict[str, list[float]] = {}
    for path in paths:
        kind = os.path.splitext(path)[1].lower()
        try:
            if kind == ".parquet":
                rows: float | None = footer_rows(path)
            elif kind in _LINES:
                rows = _lines(path, line_bytes.setdefault(kind, []))
            else:
                return None
        except OSError:
            return None
        if rows is None:
            return None
        total += rows
    return round(total)


def _lines(path: str, sizes: list[float]) -> float | None:
    """Estimates a file's lines. sizes: bytes of a line in its kind, added to until PROBED_FILES were looked into."""
    if len(sizes) < PROBED_FILES and Path(path).is_file():
        with open(path, "rb") as file:
            start = file.read(SAMPLE_BYTES)
        if newlines := start.count(b"\n"):
            sizes.append((start.rindex(b"\n") + 1) / newlines)
    return os.path.getsize(path) * len(sizes) / sum(sizes) if sizes else None
