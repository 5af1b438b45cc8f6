"""Vehicles and cells of a whole file, of which the first rows said what its columns hold."""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from hatstream.api import InputError, MergedIds, layout, own_layouts, read_batches, vehicle_ids
from hatstream_city.draft.columns import DraftedColumns
from hatstream_city.draft.sample import Sample
from hatstream_city.draft.units import are_positions, cells_in, merged
from hatstream_city.timetable.positions import Int64s

MOST_ROWS = 2_000_000


class WholeFile(NamedTuple):
    """ids: those beside a position, by their spellings. cells: of positions, sorted. is_cut: it has more rows."""

    ids: MergedIds
    cells: Int64s
    is_cut: bool


def usable_share(path: str, sample: Sample, columns: DraftedColumns) -> float:
    """Computes which part of a file's first rows has a vehicle, a time and a position as a release reads them.

    Raises InputError where it cannot read the file at all, and says why.
    """
    source = _layout(sample, columns)
    batch = next(read_batches(source, path), None)
    if batch is None or not batch.rows:
        return 0.0
    vehicle, time, lat, lon = (batch.table.column(field) for field in ("vehicle", "time", "lat", "lon"))
    fits = are_positions(source.units.numbers(lat), source.units.longitudes(lon)) & source.units.instants(time).valid
    ids = vehicle_ids(vehicle)
    return float((fits & ~(ids.missing | ids.bad)).sum() / batch.rows)


def counted(path: str, sample: Sample, columns: DraftedColumns, resolution: int) -> WholeFile | None:
    """Counts in all rows, or some more than MOST_ROWS; None where the file cannot be read so far."""
    ids, cells, rows = set[bytes](), np.empty(0, np.int64), 0
    source = _layout(sample, columns)
    try:
        for batch in read_batches(source, path):  # further than the sample it was not read: it may be damaged there
            lat = source.units.numbers(batch.table.column("lat"))
            lon = source.units.longitudes(batch.table.column("lon"))
            fits = are_positions(lat, lon)
            ids.update(vehicle_ids(batch.table.column("vehicle").filter(pa.array(fits))).ids)
            cells = np.union1d(cells, cells_in(lat.values[fits], lon.values[fits], resolution))
            rows += batch.rows
            if rows >= MOST_ROWS:
                break
    except (InputError, OSError):
        return None
    return WholeFile(merged(ids), cells, rows >= MOST_ROWS)


def _layout(sample: Sample, columns: DraftedColumns) -> Any:
    if own := own_layouts().get(sample.layout):
        return own.layout
    form = next(iter(columns.time_formats), None)
    return layout(
        sample.layout,
        columns.names,
        None if form else columns.time_unit,
        decimal=sample.decimal,
        delimiter=sample.delimiter,
        header=sample.header,
        records=sample.records,
        time_zone="UTC" if columns.time_unit == "iso" else None,  # of local times any will do
        time_format=form,
        with_value="speed" in columns.names,
    )
