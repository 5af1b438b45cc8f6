"""Vehicles and cells of whole files, of which the first rows said what their columns hold."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from hatstream.api import InputError, MergedIds, layout, own_layouts, read_batches, vehicle_ids
from hatstream_city.draft.columns import DraftedColumns
from hatstream_city.draft.sample import Sample
from hatstream_city.draft.times import in_century
from hatstream_city.draft.units import are_positions, cells_in, merged
from hatstream_city.timetable.positions import Int64s

MOST_ROWS, MOST_FILES = 2_000_000, 60
"""Of one file so many rows are looked at; of a folder so many files, and the first rows of each."""
_DAY_US = 86_400_000_000


class WholeFile(NamedTuple):
    """ids: those beside a position, by their spellings. a_day: on the day that has most. cells: of positions, sorted.

    is_cut: there are more rows. days: on how many days of all an id comes, on average, as a share.
    """

    ids: MergedIds
    a_day: int
    cells: Int64s
    is_cut: bool


def usable_share(path: str, sample: Sample, columns: DraftedColumns) -> float:
    """Computes which part of a file's first rows a release takes: with a vehicle, a time and a position.

    Raises InputError where it cannot read the file at all, and says why.
    """
    source = layout(sample.layout, **layout_options(sample, columns))
    batch = next((batch for batch in read_batches(source, path) if batch.rows), None)
    return 0.0 if batch is None else float(_usable(source, batch.table)[0].sum() / batch.rows)


def counted(
    paths: Sequence[str], sample: Sample, columns: DraftedColumns, resolution: int, zone: str
) -> WholeFile | None:
    """Counts in all rows, or some more than MOST_ROWS; of many files in some of each. None where none can be read.

    zone: of days, on each of which a vehicle counts once.
    """
    ids, days, cells, rows = set[bytes](), dict[int, set[bytes]](), np.empty(0, np.int64), 0
    source = layout(sample.layout, **layout_options(sample, columns))
    some = paths[:: -(-len(paths) // MOST_FILES)]
    for path in some:
        try:
            for batch in read_batches(source, path):  # further than the sample it was not read: it may be damaged there
                fits, day, lat, lon = _usable(source, batch.table, zone)
                read = vehicle_ids(batch.table.column("vehicle"))
                pairs = np.unique(day[fits] * max(len(read.ids), 1) + read.code[fits])
                for number, code in zip(*map(np.ndarray.tolist, np.divmod(pairs, max(len(read.ids), 1))), strict=True):
                    days.setdefault(number, set()).add(read.ids[code])
                cells = np.union1d(cells, cells_in(lat[fits], lon[fits], resolution))
                rows += batch.rows
                if rows >= MOST_ROWS or len(paths) > 1:
                    break
        except (InputError, OSError):
            if len(paths) == 1:
                return None
    ids = set().union(*days.values()) if days else ids
    a_day = max(map(len, days.values()), default=0)
    return WholeFile(merged(ids), a_day, cells, rows >= MOST_ROWS or len(some) < len(paths))


def _usable(source: Any, table: pa.RecordBatch, zone: str = "UTC") -> tuple[Any, Int64s, Any, Any]:
    """Marks the rows that a release takes; and reads days in the zone, and degrees."""
    lat, lon = source.units.numbers(table.column("lat")), source.units.longitudes(table.column("lon"))
    time, ids = source.units.instants(table.column("time")), vehicle_ids(table.column("vehicle"))
    fits = are_positions(lat, lon) & in_century(time) & ~(ids.missing | ids.bad)
    middle_s = float(np.median(time.us[fits])) / 1e6 if fits.any() else 0.0
    offset = datetime.fromtimestamp(middle_s, UTC).astimezone(ZoneInfo(zone)).utcoffset()
    ahead_us = int(offset.total_seconds() * 1e6) if offset else 0
    return fits, (time.us + ahead_us) // _DAY_US, lat.values, lon.values


def layout_options(sample: Sample, columns: DraftedColumns) -> Mapping[str, Any]:
    """Writes the arguments of `layout` that make what a draft describes; of local times any zone will do."""
    if sample.layout in own_layouts():
        return {"columns": None, **columns.options}
    form = next(iter(columns.time_formats), None)
    return {
        "columns": columns.names,
        "time_unit": None if form else columns.time_unit,
        "decimal": sample.decimal,
        "delimiter": sample.delimiter,
        "header": sample.header,
        "records": sample.records,
        "time_zone": "UTC" if columns.time_unit in ("iso", "excel") else None,
        "time_format": form,
        "with_value": "speed" in columns.names,
    }
