"""A folder of files of one vehicle each, whose id is no column but the file's name: `vehicle = "{file}"`."""

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from hatstream.api import InputError, own_layouts
from hatstream_city.draft.columns import DraftedColumns, find_columns
from hatstream_city.draft.sample import ROWS, Sample, read_sample

FILE = "{file}"
"""Stands in a specification where a column of vehicles would be named."""
MOST_FILES, NEIGHBOURS = 20, 13
"""Of a folder so many are looked at, and of these so many that follow one another: as snapshots they tell how long lies
between two reports of a vehicle."""
BEWARE = (
    "Each file seems to be of one vehicle, and its name the id. Which files there are is public, so that a vehicle "
    "drove is not hidden: bring the reports together in files of a day or an hour first, with a column for the vehicle."
)
_DATE = re.compile(r"(19|20)\d\d[-_.]?[01]\d[-_.]?[0-3]\d")


def read_folder(paths: Sequence[str]) -> Sample:
    """Reads rows of the first file, and of others where it has few; with their names as a column FILE, where each is of
    one vehicle."""
    first = read_sample(paths[0])
    names = [_vehicle_of(path) for path in paths]
    if first.layout in own_layouts() or len(set(names)) < 2 or any(map(_DATE.search, names)):
        return _with_others(first, paths)
    columns = find_columns(first.columns)
    if columns and _has_ids(columns) and not columns.is_of_one(first.columns):
        return _with_others(first, paths)
    every = -(-len(paths) // MOST_FILES)
    samples = [first, *(read_sample(path) for path in paths[every::every])]
    if any(other.columns.keys() != first.columns.keys() for other in samples):
        return first
    parts = [_part(sample, name, ROWS // len(samples)) for sample, name in zip(samples, names[::every], strict=True)]
    joined = {column: [value for part in parts for value in part[column]] for column in parts[0]}
    with_name = replace(first, columns=joined)
    if is_by_file(with_name):
        return with_name
    by_column = {column: values for column, values in joined.items() if column != FILE}
    return replace(first, columns=by_column) if _ids_beside(with_name) else first


def _vehicle_of(path: str) -> str:
    """Strips a file's name of what says its form, as a release does."""
    stem, suffix = os.path.splitext(os.path.basename(path))
    return os.path.splitext(stem)[0] if suffix in (".gz", ".zst", ".zip") else stem


def _with_others(first: Sample, paths: Sequence[str]) -> Sample:
    """Adds rows of further files of the same columns, up to ROWS; of a snapshot alone little could be said."""
    columns = {name: list(values) for name, values in first.columns.items()}
    every = -(-len(paths) // (MOST_FILES - NEIGHBOURS))
    for path in (*paths[1:NEIGHBOURS], *paths[NEIGHBOURS::every]):
        if len(next(iter(columns.values()), [])) >= ROWS:
            break
        with suppress(InputError):
            other = read_sample(path)
            if (other.layout, other.columns.keys()) == (first.layout, columns.keys()):
                columns = {name: values + list(other.columns[name]) for name, values in columns.items()}
    return replace(first, columns={name: values[:ROWS] for name, values in columns.items()})


def is_by_file(sample: Sample) -> bool:
    """Says whether the files' names, and no column, tell the vehicles: rows of each file are those of one."""
    if FILE not in sample.columns:
        return False
    columns = {name: values for name, values in sample.columns.items() if name != FILE}
    by_name = find_by_file(sample.columns)
    if by_name is None or by_name.is_doubtful or _ids_beside(sample):
        return False
    return not _has_ids(find_columns(columns))


def find_by_file(columns: Mapping[str, Sequence[Any]]) -> DraftedColumns | None:
    """Finds the columns of the fields but for the vehicle, which files name; None where one is missing."""
    return find_columns(columns, vehicle=FILE)


def advice(missing: Sequence[str]) -> str:
    """Advises what to do where no column of vehicles was found, and all others."""
    if list(missing) != ["vehicle"]:
        return ""
    return f'; where each file is of one vehicle and named by it, vehicle = "{FILE}", or give the folder as --sample'


def _has_ids(columns: DraftedColumns | None) -> bool:
    return columns is not None and "vehicle" not in columns.guessed and not columns.is_doubtful


def _part(sample: Sample, name: str, rows: int) -> dict[str, list[Any]]:
    part = {column: list(values[:rows]) for column, values in sample.columns.items()}
    return part | {FILE: [name] * len(next(iter(part.values()), []))}


def _ids_beside(sample: Sample) -> bool:
    """Says whether a column that is no other field tells the files apart."""
    by_name = find_by_file(sample.columns)
    taken = set(by_name.parts) if by_name else {FILE}
    others = (values for name, values in sample.columns.items() if name not in taken)
    return any(_tells_files_apart(values, sample.columns[FILE]) for values in others)


def _tells_files_apart(values: Sequence[Any], names: Sequence[Any]) -> bool:
    """Says whether a column has one value in each file, and another in each: it is the id, and may be named."""
    pairs = {(name, str(value)) for name, value in zip(names, values, strict=True) if value is not None}
    files, values_held = len(set(names)), len({value for _, value in pairs})
    return len(pairs) == files == values_held
