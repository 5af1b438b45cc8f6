"""Counts vehicles and cells in complete files, and samples folders of files.

Where each file of a folder is of one vehicle, its name is the vehicle's id, and stands in a column FILE. `sample.own`:
the layout with fixed columns that a sample has, or None. Of drafted columns `missing` are fields without one, and
`is_doubtful` says that the rows of an id do not look like one vehicle's. `vehicle_ids` reads distinct `ids`, each row's
`code` among them, and masks of `missing` and `bad` ones.
"""

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import h3
import numpy as np

from hatstream.api import InputError, MergedIds, layout, read_batches, vehicle_ids
from hatstream_city.draft.columns import DraftedColumns, find_columns, names_in
from hatstream_city.draft.motion import array_of, arrays_of, codes_of, track_of
from hatstream_city.draft.notation import FIELDS, merged
from hatstream_city.draft.sample import ROWS, Sample, read_sample
from hatstream_city.timetable.positions import Int64s, cells_at

RESOLUTION = 7  # of the H3 cells of a draft, about 2.4 km wide
MOST_ROWS, MOST_FILES = 2_000_000, 60
"""Of one file so many rows are looked at; of a folder so many files, and the first rows of each."""
FILE = "{file}"  # stands in a specification where a column of vehicles would be named
_DAY_US = 86_400_000_000


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Numbers of what a release takes of files.

    is_cut: rows remain uncounted. errors: of files that no release reads.
    """

    usable: float = 0.0  # share of the first rows
    malformed: int = 0  # of the first rows
    ids: MergedIds  # those that differ in spelling merged
    vehicles: int  # on the busiest day
    cells: tuple[str, ...]
    is_cut: bool
    errors: tuple[str, ...] = ()

    @property
    def about_malformed(self) -> str:
        """Sentence on malformed rows; empty for none."""
        rule = "of CSV each line must have as many fields as the first, and no line break between quotes"
        return f"{self.malformed:,} of the first rows are malformed, and refused: {rule}." if self.malformed else ""


def counted(paths: Sequence[str], sample: Sample, columns: DraftedColumns, zone: str) -> Counts:
    """Counts a complete file, or the first rows of several.

    zone: of days, on each of which a vehicle counts once. Raises InputError if no release reads the first file.
    """
    errors: list[str] = []
    ids_of_day, cells, rows = dict[int, set[bytes]](), np.empty(0, np.int64), 0  # ids by local day since 1970
    usable, malformed, is_cut = 0.0, 0, len(paths) > MOST_FILES
    source = layout(sample.layout, **layout_options(sample, columns))
    for path in paths[:: -(-len(paths) // MOST_FILES)]:  # rounded up: at most MOST_FILES
        rows_before = rows
        try:  # only its sample was read before: it may be damaged behind that
            for batch in read_batches(source, path):
                if rows_before < rows and len(paths) > 1:  # of several files only the first batch with rows
                    is_cut = True
                    break
                ids, *fields = (batch.table.column(name) for name in FIELDS[:4])  # vehicle, time, lat and lon
                vehicles, track = vehicle_ids(ids), track_of(source.units, *fields)
                fits = track.fits & ~(vehicles.missing | vehicles.bad)
                if not rows and batch.rows:  # the first rows stand for all
                    usable, malformed = float(fits.mean()), batch.refused.get("malformed", 0)
                days = _local_days(track.us[fits], zone)
                for day, code in np.unique(np.stack([days, vehicles.code[fits]]), axis=1).T.tolist():
                    ids_of_day.setdefault(day, set()).add(vehicles.ids[code])
                cells = np.union1d(cells, cells_at(track.lat[fits], track.lon[fits], RESOLUTION))
                rows += batch.rows
                if rows >= MOST_ROWS:
                    break
        except (InputError, OSError) as error:
            if not rows:
                raise
            errors.append(str(error))
            is_cut = True
    return Counts(
        usable=usable,
        malformed=malformed,
        ids=merged(set[bytes]().union(*ids_of_day.values())),
        vehicles=len(paths) if FILE in sample.columns else max(map(len, ids_of_day.values()), default=0),
        cells=tuple(map(h3.int_to_str, cells.tolist())),
        is_cut=is_cut or rows >= MOST_ROWS,
        errors=tuple(errors),
    )


def _local_days(us: Int64s, zone: str) -> Int64s:
    """Numbers instants' days since 1970, by the zone's offset at the median one."""
    median_s = float(np.median(us)) / 1e6 if us.size else 0.0
    offset = datetime.fromtimestamp(median_s, ZoneInfo(zone)).utcoffset() or timedelta()
    return (us + offset // timedelta(microseconds=1)) // _DAY_US


def layout_options(sample: Sample, columns: DraftedColumns) -> Mapping[str, Any]:
    """Builds the arguments of `layout`; UTC stands for an unknown zone."""
    if sample.own:
        return {"columns": None, **columns.options}  # a layout that has fixed columns takes none
    form = next(iter(columns.time_formats), None)  # a second one fits the sample as well: any will do
    return {
        "columns": columns.names,
        "time_unit": None if form else columns.time_unit,
        "time_zone": "UTC" if columns.time_unit in ("iso", "excel") else None,
        "time_format": form,
        "with_value": "speed" in columns.names,
        **sample.options,
    }


SAMPLED_FILES, NEIGHBOURS = 20, 13
"""Files of a folder that are sampled, and of these the first ones in a row: if each is a snapshot of all vehicles,
these tell how long lies between two reports of one."""
_LATE_HEADER = "the header is in line {}, blank lines aside: remove the lines above it"
_OTHER_WIDTH = "the first line has not as many fields as most others: bring all lines to one number of fields"
_DATE_IN_NAME = re.compile(r"(19|20)\d\d[-_.]?[01]\d[-_.]?[0-3]\d")
_RUNNING_PART = re.compile("[-_ .][0-9]+$")


def read_folder(paths: Sequence[str]) -> Sample:
    """Samples several files, with column FILE if each is of one vehicle. Raises InputError."""
    first = read_sample(paths[0])
    if first.top:  # lines stand above the header or the first row; a release would take them for it
        rule = _OTHER_WIDTH if "header" in first.options else _LATE_HEADER.format(first.top + 1)
        raise InputError(f"{paths[0]}: {rule}".replace("\0", "/"))
    names = [_vehicle_of(path) for path in paths]  # ids of vehicles, if each file is of one
    stems = {_RUNNING_PART.sub("", name) for name in names}  # 4100 of 4100_06 and 4100_07: files are of hours
    is_running = 1 < len(stems) < len(set(names))  # of one stem alone, such as bus_1 and bus_2, names are ids
    if first.own or len(set(names)) < 2 or is_running or any(map(_DATE_IN_NAME.search, names)):
        return _with_more_rows(first, paths)  # rows name vehicles, as our own layouts' do, or files are of days
    columns = find_columns(first.columns)
    if columns.has_ids and np.ptp(codes_of(array_of(arrays_of(first.columns), columns.names["vehicle"]))):
        return _with_more_rows(first, paths)  # the first file has several vehicles
    every = -(-len(paths) // SAMPLED_FILES)  # rounded up: at most SAMPLED_FILES
    samples = [first, *(read_sample(path) for path in paths[every::every])]  # paths[0] is `first`
    if any(sample.columns.keys() != first.columns.keys() for sample in samples):
        return first  # the others are of something else
    heads = [{name: values[: ROWS // len(samples)] for name, values in sample.columns.items()} for sample in samples]
    row_counts = (len(next(iter(head.values()), ())) for head in heads)
    files = [name for name, count in zip(names[::every], row_counts, strict=True) for _ in range(count)]
    without_file = {name: [value for head in heads for value in head[name]] for name in first.columns}
    by_file = find_columns({**without_file, FILE: files}, FILE)
    # Columns of no field yet: all if one is missing, as then all names are guesses.
    free = without_file.keys() - (() if by_file.missing else names_in(by_file.names.values()))
    if any(_is_id_of(files, without_file[name]) for name in free):
        return replace(first, columns=without_file)  # a column of the files names vehicles itself
    if by_file.missing or by_file.is_doubtful or find_columns(without_file).has_ids:
        return _with_more_rows(first, paths)  # files are not of vehicles
    return replace(first, columns={**without_file, FILE: files})


def _is_id_of(files: Sequence[str], values: Sequence[Any]) -> bool:
    """Checks for a column with one value in each file, different in all."""
    pairs = {(file, str(value)) for file, value in zip(files, values, strict=True) if value is not None}
    return len(pairs) == len(set(files)) == len({value for _, value in pairs})


def _vehicle_of(path: str) -> str:
    """Strips a path of folders, suffixes, and the archive before a NUL."""
    stem, suffix = os.path.splitext(os.path.basename(path.rpartition("\0")[2]))
    return os.path.splitext(stem)[0] if suffix in (".gz", ".zst", ".zip") else stem


def _with_more_rows(first: Sample, paths: Sequence[str]) -> Sample:
    """Adds rows of further files with the same columns, up to ROWS."""
    columns = {name: list(values) for name, values in first.columns.items()}
    every = -(-len(paths) // (SAMPLED_FILES - NEIGHBOURS))  # rounded up: at most SAMPLED_FILES
    for path in (*paths[1:NEIGHBOURS], *paths[NEIGHBOURS::every]):  # snapshots in a row tell how often one reports
        if len(next(iter(columns.values()), [])) >= ROWS:
            break
        with suppress(InputError):
            sample = read_sample(path)
            if (sample.layout, sample.columns.keys()) == (first.layout, columns.keys()):
                columns = {name: values + list(sample.columns[name]) for name, values in columns.items()}
    return replace(first, columns={name: values[:ROWS] for name, values in columns.items()})
