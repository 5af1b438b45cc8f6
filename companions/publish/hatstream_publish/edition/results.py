"""Reads a growing folder's result files, each file once.

A stamp is one version of a file. A fault is the reason why a version has no tables; a contradiction, why its rows are
left out beside older files' rows of the same slots.
"""

import glob
import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from hatstream.api import InputError, Specification, read_results
from hatstream_publish.pages.places import NamedPlaces
from hatstream_publish.pages.rows import CITY, check_origin

FORMATS = ("parquet", "csv", "jsonl", "avro", "geojson")  # of result files; of one name the first is read
_DAMAGE_ERRORS = (ValueError, LookupError, TypeError, ArithmeticError, AttributeError, MemoryError, pa.ArrowException)


class Stamp(NamedTuple):
    """What tells a file's version from another: a changed file has another stamp."""

    path: str
    changed_ns: int
    size: int
    inode: int


@dataclass
class ResultFiles:
    """Result files that a pattern matches, each read once."""

    pattern: str
    spec: Specification
    places: NamedPlaces  # files with other places are refused, unless these are H3 cells
    skipped: dict[str, str] = field(default_factory=dict)  # reason of each file that is left out, by path
    _tables: dict[Stamp, Mapping[str, pa.Table]] = field(default_factory=dict)
    _faults: dict[Stamp, str] = field(default_factory=dict)  # of files without tables

    def look(self) -> bool:
        """Reads new and forgets deleted files; True after changes."""
        stamps = {_stamp(path) for path in self._paths()}
        if stamps == self._tables.keys() | self._faults.keys():
            return False
        self._tables = {stamp: tables for stamp, tables in self._tables.items() if stamp in stamps}
        self._faults = {stamp: fault for stamp, fault in self._faults.items() if stamp in stamps}
        for stamp in sorted(stamps - self._tables.keys() - self._faults.keys()):
            try:
                self._tables[stamp] = self._read(stamp)
            except InputError as error:
                self._faults[stamp] = str(error).removeprefix(f"{stamp.path} ").removeprefix(f"{stamp.path}: ")
            except OSError as error:
                self._faults[stamp] = error.strerror or type(error).__name__
            except _DAMAGE_ERRORS as error:
                self._faults[stamp] = f"is damaged ({type(error).__name__})"
        return True

    def results(self) -> dict[str, pa.Table]:
        """Joins files' rows by product, without files that contradict older ones."""
        contradictions: dict[Stamp, str] = {}
        try:
            joined = _joined(self._tables)
        except InputError:  # rare: only then are files compared one by one
            contradictions = _contradictions(self._tables)
            joined = _joined({stamp: rows for stamp, rows in self._tables.items() if stamp not in contradictions})
        self.skipped = {stamp.path: why for stamp, why in sorted((self._faults | contradictions).items())}
        return joined

    def stamps_of_days(self) -> dict[str, frozenset[Stamp]]:
        """Maps each local date to the stamps of the files with rows of it."""
        days: dict[str, set[Stamp]] = {}
        for stamp, tables in self._tables.items():
            for start in _starts(tables):
                days.setdefault(start[:10], set()).add(stamp)
        return {day: frozenset(stamps) for day, stamps in days.items()}

    def _paths(self) -> Iterable[str]:
        """Lists one path for each name without suffix, of its first format in FORMATS."""
        paths = [] if os.path.isdir(self.pattern) else glob.glob(self.pattern, recursive=True)
        for folder, inner, names in os.walk(self.pattern):  # of a folder all files but hidden ones
            inner[:] = [name for name in inner if not name.startswith(".")]
            paths += [os.path.join(folder, name) for name in names if not name.startswith(".")]
        path_of: dict[str, str] = {}
        for form in reversed(FORMATS):
            path_of |= {path.removesuffix(form): path for path in paths if path.endswith(f".{form}")}
        return path_of.values()

    def _read(self, stamp: Stamp) -> Mapping[str, pa.Table]:
        """Reads and validates a file. Raises InputError, OSError and _DAMAGE_ERRORS."""
        if not stat.S_ISREG(os.stat(stamp.path).st_mode):
            raise InputError("is not a regular file")
        tables = read_results([Path(stamp.path)])
        for rows in tables.values():
            check_origin(rows, self.spec.name, self.spec.spec_id)
            for name in ("slot_start", "slot_end"):
                for text in rows[name].unique().to_pylist():
                    if datetime.fromisoformat(text).tzinfo is None:
                        raise InputError(f"{name} must be a time with a UTC offset, like 2026-05-13T06:00:00-06:00")
            for cell in set(rows["cell"].unique().to_pylist()) - {CITY}:
                self.places.place(cell)  # raises without a shape
        return tables


def _stamp(path: str) -> Stamp:
    """Reads a file's stamp, zeros if it is gone: reading it will say so."""
    try:
        facts = os.stat(path)
    except OSError:
        return Stamp(path, changed_ns=0, size=0, inode=0)
    return Stamp(path, facts.st_mtime_ns, facts.st_size, facts.st_ino)


def _starts(tables: Mapping[str, pa.Table]) -> set[str]:
    """Lists the starts of a file's slots."""
    return {start for rows in tables.values() for start in rows["slot_start"].unique().to_pylist()}


def _joined(tables: Mapping[Stamp, Mapping[str, pa.Table]]) -> dict[str, pa.Table]:
    """Joins files' rows by product. Raises InputError where two files differ."""
    tables_of_files = [rows for stamp in sorted(tables) for rows in tables[stamp].values()]
    return read_results(tables_of_files) if tables_of_files else {}


def _contradictions(tables: Mapping[Stamp, Mapping[str, pa.Table]]) -> dict[Stamp, str]:
    """Finds files with other values than an older one; returns each file's reason."""
    agreed: dict[str, list[Stamp]] = {}  # files without contradiction, by start of a slot
    refused: dict[Stamp, str] = {}
    for stamp in sorted(tables, key=lambda stamp: (stamp.changed_ns, stamp.path)):
        starts = _starts(tables[stamp])
        rivals = {rival for start in starts for rival in agreed.get(start, ())}
        try:
            _joined({rival: tables[rival] for rival in (*rivals, stamp)})  # raises if values differ
        except InputError as error:
            refused[stamp] = str(error)
            continue
        for start in starts:
            agreed.setdefault(start, []).append(stamp)
    return refused
