"""Reads a static GTFS feed: a public timetable's tables and lines.

`trip`, `stop`, `route` are rows of their tables, -1 for an id without one. A line is the polyline of a shape, or of a
trip's stops: of all lines' points, the rows `starts[line]` to `starts[line + 1]`. Seconds count from noon less 12
hours, midnight but for changes of clocks, and may exceed a day.
Source: GTFS Schedule Reference, https://gtfs.org/documentation/schedule/reference/
"""

import codecs
import csv
import io
import lzma
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from hatstream.api import InputError
from hatstream_city.timetable.positions import FAR_M, Floats, Int64s, are_plausible, cells_at, distance_m

MOST_BYTES = 4 << 30  # of one table, expanded
SMALL_BYTES, EXPANSION = 64 << 20, 100
"""A table of a zip that is larger may expand to so many times what it takes there: real ones do to 20."""
WEEKDAYS = tuple(f"{day}day" for day in ("mon", "tues", "wednes", "thurs", "fri", "satur", "sun"))
_COLUMNS_BY_TABLE: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {  # those that every feed has, and others
    "agency": (("agency_timezone",), ()),
    "stops": (("stop_id", "stop_lat", "stop_lon"), ("stop_name",)),
    "routes": (("route_id",), ("route_short_name", "route_long_name", "route_color")),
    "trips": (("trip_id", "route_id", "service_id"), ("shape_id", "block_id", "direction_id")),
    "stop_times": (("trip_id", "stop_id"), ("stop_sequence", "arrival_time", "departure_time")),
    "shapes": ((), ("shape_id", "shape_pt_sequence", "shape_pt_lat", "shape_pt_lon")),
    "calendar": ((), ("service_id", "start_date", "end_date", *WEEKDAYS)),
    "calendar_dates": ((), ("service_id", "date", "exception_type")),
    "frequencies": ((), ("trip_id", "start_time", "end_time", "headway_secs")),
}
MOST_SERVICE_S = 4 * 86_400  # a frequency ends within so long after midnight
_DAMAGE_ERRORS = (  # what reading a damaged feed raises
    *(OSError, EOFError, csv.Error, lzma.LZMAError, pa.ArrowException, StopIteration, UnicodeDecodeError),
    *(zipfile.BadZipFile, zlib.error),
    RuntimeError,  # of an encrypted zip; NotImplementedError, of a method that nobody knows, is one too
)


@dataclass(frozen=True)
class StopTimes:
    """Stops of trips, (stops,), ascending by trip, then in the trip's order."""

    trip: Int64s
    stop: Int64s
    s: Int64s  # of arrival, else departure


@dataclass(frozen=True)
class Lines:
    """Lines of shapes, or of a trip's stops."""

    starts: Int64s  # first position of each line, and the end of the last one
    lat: Floats
    lon: Floats  # continues across the antimeridian
    of_trip: Int64s  # line of each trip, -1 for none


@dataclass(frozen=True)
class Gtfs:
    """Tables of text columns by name; positions are (lat, lon), (rows,), NaN if unknown."""

    tables: Mapping[str, pa.Table]
    skipped: int  # rows with more or fewer fields than their header

    def numbers(self, table: str, column: str) -> Floats:
        """Reads a column as numbers, (rows,); NaN where missing or no decimal number."""
        texts = pc.utf8_trim_whitespace(self.tables[table][column])
        is_number = pc.match_substring_regex(texts, r"^[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?$")
        return np.asarray(pc.if_else(is_number, texts, None).cast(pa.float64()).to_numpy())

    def seconds(self, table: str, column: str) -> Floats:
        """Reads times like "25:30:00" as seconds, (rows,); NaN where missing."""
        parts = pc.extract_regex(self.tables[table][column], r"^\s*(?P<h>\d{1,3}):(?P<m>\d\d):(?P<s>\d\d)\s*$")
        h, m, s = (pc.struct_field(parts, part).cast(pa.float64()).to_numpy() for part in "hms")
        return np.asarray(3_600.0 * h + 60.0 * m + s)

    def rows_of(self, table: str, column: str, referenced: str) -> Int64s:
        """Finds each id's row in table `referenced`, (rows,); -1 for none."""
        rows = pc.index_in(self.tables[table][column], self.tables[referenced][column].combine_chunks())
        return np.asarray(pc.fill_null(rows, -1).to_numpy().astype(np.int64))

    @cached_property
    def stop_positions(self) -> tuple[Floats, Floats]:
        """Latitude and longitude of each stop; NaN where missing."""
        return self._positions("stops", "stop_lat", "stop_lon")

    @cached_property
    def shape_positions(self) -> tuple[Floats, Floats]:
        """Latitude and longitude of each point of a shape."""
        return self._positions("shapes", "shape_pt_lat", "shape_pt_lon")

    def _positions(self, table: str, *columns: str) -> tuple[Floats, Floats]:
        """Reads two columns of degrees, NaN where far from the middle of all stops."""
        lat, lon = (self.numbers(table, column) for column in columns)
        fits = are_plausible(lat, lon, *(self.numbers("stops", column) for column in ("stop_lat", "stop_lon")))
        return np.where(fits, lat, np.nan), np.where(fits, lon, np.nan)

    @cached_property
    def stop_times(self) -> StopTimes:
        """Stop times by trip and sequence, with missing ones interpolated."""
        trip, stop = (self.rows_of("stop_times", f"{name}_id", f"{name}s") for name in ("trip", "stop"))
        arrival, departure = (self.seconds("stop_times", f"{name}_time") for name in ("arrival", "departure"))
        s = np.where(np.isnan(arrival), departure, arrival)  # of arrival, else of departure
        order = np.lexsort((self.numbers("stop_times", "stop_sequence"), trip))
        order = order[(trip[order] >= 0) & (stop[order] >= 0)]  # without ids that have no row
        trip, stop, s = trip[order], stop[order], s[order]
        # Missing times lie evenly between the known ones around them; before and after these they stay NaN.
        is_known, rows = ~np.isnan(s), np.arange(s.size)
        low = np.maximum.accumulate(np.where(is_known, rows, 0))  # the last known row until here
        high = np.minimum.accumulate(np.where(is_known, rows, s.size - 1)[::-1])[::-1]  # the first one from here on
        is_on_trip = (trip[low] == trip) & (trip[high] == trip)
        s = np.where(is_on_trip, s[low] + (rows - low) / np.maximum(high - low, 1) * (s[high] - s[low]), s)
        is_known = ~np.isnan(s)
        return StopTimes(trip[is_known], stop[is_known], s[is_known].astype(np.int64))

    @cached_property
    def are_frequencies(self) -> NDArray[np.bool_]:
        """Mask of usable rows of frequencies.txt, (rows,)."""
        start, end = self.seconds("frequencies", "start_time"), self.seconds("frequencies", "end_time")
        headway, trip = self.numbers("frequencies", "headway_secs"), self.rows_of("frequencies", "trip_id", "trips")
        return np.asarray((trip >= 0) & (headway >= 1) & (start < end) & (end <= MOST_SERVICE_S))  # trip: -1 for none

    @cached_property
    def lines(self) -> Lines:
        """Lines of shapes; of a trip without one, the line from stop to stop."""
        shapes = self.tables["shapes"]
        ids = pc.unique(shapes["shape_id"]).drop_null()
        shape_of_point = pc.fill_null(pc.index_in(shapes["shape_id"], ids), -1).to_numpy()
        lat, lon = self.shape_positions
        order = np.lexsort((self.numbers("shapes", "shape_pt_sequence"), shape_of_point))
        order = order[(shape_of_point[order] >= 0) & ~np.isnan(lat[order])]  # -1: no shape_id
        shape_of_trip = pc.fill_null(pc.index_in(self.tables["trips"]["shape_id"], ids), -1).to_numpy().astype(np.int64)
        # Lines are numbered: shapes by `ids`, then trips that have no shape of two points or more.
        number, lat, lon = shape_of_point[order].astype(np.int64), lat[order], lon[order]  # of each point's line
        point_counts = np.append(np.bincount(number, minlength=len(ids)), 0)  # by shape; -1, no shape, picks the last
        has_no_shape = point_counts[shape_of_trip] < 2  # (trips,)
        stop_lat, stop_lon = self.stop_positions
        times = self.stop_times
        rows = np.flatnonzero(has_no_shape[times.trip] & ~np.isnan(stop_lat[times.stop]))  # stop times of such trips
        number = np.concatenate([number, len(ids) + times.trip[rows]])  # ascending, as stop times are by trip
        lat, lon = np.concatenate([lat, stop_lat[times.stop[rows]]]), np.concatenate([lon, stop_lon[times.stop[rows]]])
        numbers, starts = np.unique(number, return_index=True)  # of lines that have points, with their first ones
        # Where a line crosses the antimeridian, it goes on beyond 180 degrees.
        lon = np.concatenate([lon[:0], *(np.unwrap(line, period=360) for line in np.split(lon, starts[1:]))])
        line_of_number = np.full(len(ids) + len(shape_of_trip), -1)  # index in `starts`; -1: it has no point
        line_of_number[numbers] = np.arange(numbers.size)
        number_of_trip = np.where(has_no_shape, len(ids) + np.arange(shape_of_trip.size), shape_of_trip)
        return Lines(np.append(starts, number.size), lat, lon, line_of_number[number_of_trip])


def read_gtfs(path: Path) -> Gtfs:
    """Reads a feed, a zip or a folder. Raises InputError."""
    tables, skipped = {}, 0
    for name, (needed, others) in _COLUMNS_BY_TABLE.items():
        try:
            with _opened(path, f"{name}.txt") as file:
                line = file.readline(1 << 16).decode("utf-8-sig")
                file.seek(0)
                table, bad_rows = _table(_Utf8(file), next(csv.reader([line])), needed + others)  # raises if not UTF-8
        except FileNotFoundError:
            if needed:
                raise InputError(f"{path} is no GTFS feed: it has no {name}.txt") from None
            table, bad_rows = pa.table({column: pa.array([], pa.string()) for column in others}), 0
        except _DAMAGE_ERRORS:
            rule = "cannot be read as GTFS has it, a zip or folder of CSV files in UTF-8"
            raise InputError(f"{path}: {name}.txt {rule}") from None
        for column in needed:
            if table.num_rows == 0:
                suffix = " with as many columns as its header" if bad_rows else ""
                raise InputError(f"{path}: {name}.txt has no row{suffix}")
            if table[column].null_count == table.num_rows:
                raise InputError(f"{path}: {name}.txt has no {column}, which GTFS needs; commas are between columns")
        tables[name], skipped = table, skipped + bad_rows
    return Gtfs(tables, skipped)


class _Utf8(io.RawIOBase):
    """Bytes of a file; raises UnicodeDecodeError unless all are UTF-8."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__()
        self._file, self._decoder = file, codecs.getincrementaldecoder("utf-8")()

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        piece = self._file.read(size)
        self._decoder.decode(piece, final=not piece)  # only to check: Arrow decodes the bytes itself
        return piece


def _opened(path: Path, name: str) -> IO[bytes]:
    """Opens a feed's file `name`, in a folder or a zip, as bytes.

    Raises FileNotFoundError without it, InputError where a zip holds several, other OSError and BadZipFile.
    """
    file = path / name if path.is_dir() else path
    if file.exists() and not file.is_file():
        raise InputError(f"{file} is not a regular file")
    if path.is_dir():
        return file.open("rb")
    with zipfile.ZipFile(path) as archive:
        members = [member for member in archive.infolist() if member.filename.rpartition("/")[2] == name]
        if not members:
            raise FileNotFoundError(name)
        if members[1:]:
            raise InputError(f"{path} holds more than one {name}: unpack it, and name the folder of one feed")
        if members[0].file_size > min(MOST_BYTES, max(SMALL_BYTES, EXPANSION * members[0].compress_size)):
            raise zipfile.BadZipFile(f"{name} expands to too much")
        return archive.open(members[0])


def _table(file: IO[bytes] | io.RawIOBase, header: Sequence[str], columns: Sequence[str]) -> tuple[pa.Table, int]:
    """Reads a CSV file's columns as text, null where missing; counts rows skipped.

    header: names as the file spells them, in any case, quoted or spaced. columns: names in GTFS, of the result.
    """
    skipped = []

    def skip(row: object) -> str:
        skipped.append(row)
        return "skip"

    spelling_of = {name.strip(' "').lower(): name for name in header}
    spellings = [spelling_of.get(column, column) for column in columns]
    table = pyarrow.csv.read_csv(
        file,
        read_options=pyarrow.csv.ReadOptions(block_size=8 << 20),  # bytes: no row may be longer
        parse_options=pyarrow.csv.ParseOptions(invalid_row_handler=skip, newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(spellings, pa.string()),
            include_columns=spellings,
            include_missing_columns=True,
            strings_can_be_null=True,
            null_values=[""],
        ),
    )
    return table.rename_columns(list(columns)), len(skipped)


SAMPLE_M = 150.0  # between two positions of a line that cells are looked up for


class Passages(NamedTuple):
    """Stretches of lines within a cell, (stretches,), ascending by line and start."""

    line: Int64s
    cell: Int64s
    start: Floats  # part of the line's length, 0 to 1
    end: Floats


def cells_of_lines(feed: Gtfs, resolution: int) -> Passages:
    """Finds the cells that lines pass, from which part of their length to which."""
    lines = feed.lines
    line = np.repeat(np.arange(lines.starts.size - 1), np.diff(lines.starts))  # of each point
    has_next = np.append(line[1:] == line[:-1], False)
    following = np.roll(lines.lat, -1), np.roll(lines.lon, -1)
    step_m = np.where(has_next, distance_m(lines.lat, lines.lon, *following), 0.0)
    # Samples after each point, up to SAMPLE_M apart; a step beyond FAR_M is a feed's error, and must not fill memory.
    steps = np.maximum(1, np.ceil(np.minimum(step_m, FAR_M) / SAMPLE_M)).astype(np.int64)
    row = np.repeat(np.arange(line.size), steps)  # each sample's: the point at or before it
    fraction = (np.arange(row.size) - np.repeat(np.cumsum(steps) - steps, steps)) / steps[row]  # of the step, 0 to 1
    degrees = zip((lines.lat, lines.lon), following, strict=True)
    lat, lon = (start[row] + fraction * (end - start)[row] for start, end in degrees)
    cell, sample_line = cells_at(lat, lon, resolution), line[row]
    before_m = np.cumsum(step_m) - step_m
    along_m = (before_m[row] + fraction * step_m[row]) - before_m[lines.starts[sample_line]]
    length_m = np.maximum(before_m[lines.starts[1:] - 1] - before_m[lines.starts[:-1]], 1e-9)  # no 0 / 0
    # A passage begins at each sample in another cell, or on another line, than the sample before.
    starts = np.flatnonzero(np.append(True, (np.diff(cell) != 0) | (np.diff(sample_line) != 0))[: row.size])
    passage_line, start = sample_line[starts], along_m[starts] / length_m[sample_line[starts]]  # start: 0 to 1
    is_last = np.append(np.diff(passage_line) != 0, True)[: starts.size]  # of a line; cut, as there may be none
    return Passages(passage_line, cell[starts], start, np.where(is_last, 1.0, np.roll(start, -1)))  # ends: next starts
