"""Days of telemetry counted by vehicle, once, as a release would read them. Not private: these are true values."""

import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from dpops.statistics import SUMS, Column, Histogram
from dpops.types import Int64s
from pipelines.assembly import asked_of
from pipelines.errors import InputError
from pipelines.input_files import paths_of
from pipelines.progress import Report, unheard
from pipelines.ranges import range_of
from pipelines.specification import Specification
from transforms import wire
from transforms.count.tally import derived_events, tally
from transforms.ledger.recording import LedgerAccount
from transforms.observe.events import events_of
from transforms.observe.parse import FROM_US, TO_US
from transforms.observe.vehicle_ids import Secret
from transforms.places.ground import Pieces
from transforms.places.hexagons import cell_text
from transforms.releases.base import ReleaseKind
from transforms.releases.registry import KINDS
from transforms.time.calendar import Calendar


def count_days(
    spec: Specification,
    pattern: str,
    dates: tuple[str, str] | None = None,
    *,
    bins: int = 0,
    report: Report = unheard,
) -> pa.Table:
    """Counts what every vehicle did, once, as a release would read it. Not private.

    Args:
        spec: Of the feed, and of the cells or places under which reports are counted.
        pattern: Files, such as `feed/*.csv`.
        dates: First and last local day or time; all days of the files if None.
        bins: So many equally wide bins of values are counted too, in the column `histograms`.
        report: Told how many files are read.

    Returns:
        A row for each vehicle in a slot and cell (or piece of one): `period`, `slot` (its number in the period, from
        0), `cell` (hexadecimal), `place` (null where there is none), `vehicle`, `reports` (that a cap of the
        specification keeps), `sums` (of values, in steps of the grid), and what else its release counts.

    Raises:
        InputError: No row of the input became an observation, or a file cannot be decoded.
    """
    paths = paths_of(pattern)
    when = _calendar(spec, paths, dates)
    rules = spec.rules(when, os.urandom(32))
    parts: dict[int, list[bytes]] = {}
    for done, path in enumerate(paths):
        for batch in spec.input.layout.read(path):
            for slot_s, packed in events_of(batch.table, rules, spec.ground):
                parts.setdefault(slot_s, []).append(packed)
        report("files read", done + 1, len(paths))
    numbers = _numbers(when)
    periods: dict[str, dict[int, wire.Events]] = {}
    for slot in when.slots:
        if slot.start_s in parts:
            periods.setdefault(slot.period, {})[slot.start_s] = wire.unpack_events(parts[slot.start_s])
    columns, cap = counted_columns(spec, bins), _release_of(spec).cap
    tables = []
    for period, slots in periods.items():
        if rules.need_whole_periods:
            slots = derived_events(slots, rules, spec.ground).ordered.by_slot()
        for slot_s, events in slots.items():
            counted = tally(events, slot_s, cap, columns).tally
            tables.append(_table(spec, period, numbers[slot_s], counted))
    if not tables:
        raise InputError("no row of the input became an observation")
    return pa.concat_tables(tables)


def int64s(column: pa.Array) -> Int64s:
    """Reads a column of integers, (rows,), or of lists equally long, (rows, K)."""
    if pa.types.is_fixed_size_list(column.type):
        return np.asarray(column.flatten().to_numpy(), np.int64).reshape(len(column), -1)
    return np.asarray(column.to_numpy(zero_copy_only=False), np.int64)


def counted_columns(spec: Specification, bins: int) -> tuple[Column, ...]:
    """Lists what is added up of values: sums, and what a release of the specification needs."""
    release = _release_of(spec)
    further = [Histogram(bins, spec.value.grid.upper_steps)] if bins else []
    return tuple({column.name: column for column in (SUMS, *release.columns, *further)}.values())


def _release_of(spec: Specification) -> ReleaseKind:
    account = LedgerAccount("", Path("none"), spec.account.name, spec.account.limit, spec.name, spec.text)
    return KINDS[spec.kind].of(asked_of(spec, {}, Secret(b""), account))


def _table(spec: Specification, period: str, slot: int, counted: wire.Tally) -> pa.Table:
    """Writes a slot's tally as rows of `count_days`."""
    size, places = counted.vehicle.size, spec.places
    if places is None:
        cell, place = counted.cell, None
    else:
        pieces = places.pieces
        cell, place = pieces.region[pieces.cell[counted.cell]], pieces.place[counted.cell]
    columns: dict[str, Any] = {
        "period": [period] * size,
        "slot": np.full(size, slot),
        "cell": [cell_text(one) for one in cell.tolist()],
        "place": pa.nulls(size, pa.string()) if places is None or place is None else _named(places.pieces, place),
        "vehicle": counted.vehicle,
        "reports": counted.kept,
    }
    for name, column in counted.sums.items():
        columns[name] = (
            column if column.ndim == 1 else pa.FixedSizeListArray.from_arrays(column.ravel(), column.shape[1])
        )
    return pa.table(columns)


def _named(pieces: Pieces, place: Int64s) -> pa.Array:
    return pa.array([None if one < 0 else pieces.places.names[one] for one in place.tolist()], pa.string())


def keys_of(spec: Specification, counted: pa.Table) -> Int64s:
    """Finds what each row is counted under; below 0 for those outside of the region."""
    cells = counted["cell"].combine_chunks().dictionary_encode()
    of_cell = np.array([int(cell, 16) for cell in cells.dictionary.to_pylist()], np.int64)
    if spec.places is None:
        of_row: Int64s = spec.ground.keys(of_cell)[cells.indices.to_numpy()]
        return of_row
    pieces = spec.places.pieces
    index = {name: number for number, name in enumerate(pieces.places.names)} | {None: -1}
    place = np.array([index[name] for name in counted["place"].to_pylist()], np.int64)
    row = np.searchsorted(pieces.region, of_cell)
    inside = (row < pieces.region.size) & (pieces.region[np.minimum(row, pieces.region.size - 1)] == of_cell)
    cell = np.where(inside, row, -1)[cells.indices.to_numpy()]
    names = pieces.cell * (len(index) + 1) + pieces.place + 1
    order = np.argsort(names)
    wanted = cell * (len(index) + 1) + place + 1
    found_at = order[np.minimum(np.searchsorted(names[order], wanted), order.size - 1)]
    return np.where((cell >= 0) & (names[found_at] == wanted), found_at, -1)


def _numbers(when: Calendar) -> dict[int, int]:
    """Numbers the slots of each period from 0."""
    numbers, periods = {}, dict[str, int]()
    for slot in when.slots:
        numbers[slot.start_s] = periods.setdefault(slot.period, 0)
        periods[slot.period] += 1
    return numbers


def _calendar(spec: Specification, paths: Sequence[str], dates: tuple[str, str] | None) -> Calendar:
    """Lays out the dates, or all local days from the first to the last plausible time in the files."""
    if dates is not None:
        return range_of(spec.timetable, *dates)
    first, last, units = TO_US, FROM_US, spec.input.layout.units
    for path in paths:
        for batch in spec.input.layout.read(path):
            time = units.instants(batch.table.column("time"))
            us = time.us[time.valid & (time.us >= FROM_US) & (time.us < TO_US)]
            if us.size:
                first, last = min(first, int(us.min())), max(last, int(us.max()))
    if first > last:
        raise InputError("no row of the input has a plausible time")
    zone = ZoneInfo(spec.timetable.zone)
    ends = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us) for us in (first, last))
    return range_of(spec.timetable, *(time.astimezone(zone).date().isoformat() for time in ends))
