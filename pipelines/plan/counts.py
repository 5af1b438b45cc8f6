"""Report counts by vehicle, slot and cell, for planning.

A row is a vehicle in a HAT. Codes are numbers in place of names. Slots or vehicles are `named` if an equal code means
the same one. `parse` makes observations of rows, `locate` finds their cells; both drop and count refused ones.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from dpops.types import Int64s
from pipelines.errors import InputError, Report, raise_as
from pipelines.inputs import input_paths
from pipelines.plan.needs import TYPICAL_COUNTS
from pipelines.specification import Specification
from transforms import wire
from transforms.count.tally import tally
from transforms.errors import reason_of
from transforms.layouts import UnreadableFile
from transforms.layouts.base import FIELDS, Units
from transforms.layouts.decoder_process import read_apart
from transforms.observe.parse import FROM_US, OUTSIDE_REGION, TO_US, Rules, locate, parse
from transforms.places.ground import Hexagons
from transforms.records import Observations
from transforms.time.calendar import Calendar, CalendarError, StreamCalendar, Timetable, calendar
from transforms.value import PER_UNIT

MOST_SAMPLES = (1 << 31) - 1  # of a vehicle in a HAT, and of a HAT
_FIRST_S, _LAST_S = 10**8, 10**10  # slots named by a number between start then, in 1973 to 2286; others have no time
TYPICAL_VEHICLES = (1, 2, 5, 10, 20, 50)  # in HATs that are planned where no counts are given
_COUNT_RULE = f"a whole number from 1 to {MOST_SAMPLES}"
COLUMNS = ("hat", "slot", "cell", "vehicle", "count")


class SampleCounts(NamedTuple):
    """Numbers of reports, a row for each HAT and vehicle; columns, (rows,), of codes."""

    slot: Int64s
    place: Int64s  # HAT within its slot
    vehicle: Int64s
    samples: Int64s  # at least 1
    slots_named: bool  # if not, rows with one code may be of several slots
    vehicles_named: bool  # if not, rows with different codes may be of one vehicle
    origin: str  # in words, for the plan
    period: Int64s | None = None  # code of the row's period, an index of `days`
    days: tuple[int, ...] | None = None  # number of local days counted, per period

    def by_period(self) -> "list[SampleCounts]":
        """Splits the counts by period, if rows have one."""
        if self.period is None:
            return [self]
        counts_of_periods = []
        for index, days in enumerate(self.days or ()):
            columns = {name: getattr(self, name)[self.period == index] for name in self._fields[:4]}  # slot to samples
            counts_of_periods.append(self._replace(**columns, period=None, days=(days,)))
        return counts_of_periods


def typical_counts() -> SampleCounts:
    """Creates HATs of TYPICAL_VEHICLES, whose reports are spaced evenly by logarithm."""
    low, high = TYPICAL_COUNTS
    # n numbers between the two ends, which no vehicle has.
    count = np.concatenate([np.geomspace(low, high, n + 2)[1:-1].round().astype(np.int64) for n in TYPICAL_VEHICLES])
    hat = np.repeat(np.arange(len(TYPICAL_VEHICLES)), TYPICAL_VEHICLES)
    origin = (
        f"typical HATs of {', '.join(map(str, TYPICAL_VEHICLES))} vehicles, each vehicle with {low} to {high} reports; "
        "--counts takes your own, --synthetic a made-up fleet"
    )
    slot, vehicle = np.zeros(count.size, np.int64), np.arange(count.size)  # unknown: of one slot, all different
    return SampleCounts(slot, hat, vehicle, count, slots_named=False, vehicles_named=False, origin=origin)


def sample_counts(sample: tuple[pa.Table, date, int], spec: Specification) -> SampleCounts:
    """Counts a simulated day's reports by cell and slot; no bounding box applies."""
    table, day, vehicles = sample  # reports, their local day, and their number of vehicles
    slots = _slots_of(spec, day, days=1)
    units, key = Units("us", PER_UNIT["km/h"]), b"made-up vehicles have no secrets"
    rules = Rules(spec.value.grid, units, bbox=None, calendar=slots, vehicle_key=key)
    observations, _refused = parse(table.rename_columns([*FIELDS]).combine_chunks().to_batches()[0], rules)
    error = "the made-up fleet does not drive within slot.service; give your own --counts"
    return _counts_of(observations, slots, spec, f"one day of {vehicles} made-up buses in a made-up town", error)


def _slots_of(spec: Specification, first: date, days: int) -> Calendar:
    """Lays a specification's slots on some local days. Raises InputError for impossible slots."""
    table = spec.timetable
    with raise_as(InputError, CalendarError):
        return calendar(table, table.midnight(first), table.midnight(first + timedelta(days=days)))


def _counts_of(observed: Observations, slots: Calendar, spec: Specification, origin: str, error: str) -> SampleCounts:
    """Counts a period's observations. Raises InputError(error) if none is in service."""
    placed = slots.locate(observed.event_us)
    in_slots = observed._replace(slot_start_us=placed.slot_start_us).take(placed.in_service)
    located, cell, _ = locate(in_slots, Hexagons(spec.cells.resolution, region=None))  # everywhere: none is outside
    # Tallies as in a release, but in one shard, without cap or sums. key: (slot, shard). [0]: the tally itself.
    by_slot = wire.split(located, cell, shards=1)
    tallies = [tally(wire.unpack_events([events.data]), events.key[0], cap=None, columns=())[0] for events in by_slot]
    if not tallies:
        raise InputError(error)
    rows = wire.joined(tallies)
    days = {*map(spec.timetable.day_of, np.unique(rows.slot_s).tolist())}
    # Vehicles are numbers in place of hashes.
    columns = (rows.slot_s, rows.cell, np.unique(rows.vehicle, return_inverse=True)[1], rows.kept)
    return SampleCounts(*columns, slots_named=True, vehicles_named=True, origin=origin, days=(len(days),))


def read_counts(path: Path, timetable: Timetable) -> SampleCounts:
    """Reads a file of counts. Raises InputError.

    .json: a list of integers, or an object with it under "counts": the vehicles of one HAT. .csv, .jsonl, .parquet: a
    table with the column `count` and either `hat`, or `slot` and `cell`; optionally `vehicle`. Periods are the
    timetable's, if every slot is named by its start.
    """
    if not path.is_file():
        raise InputError(f"there is no file of counts at {path}")
    table = _table(path)  # a row per vehicle and HAT, with some of COLUMNS; without `vehicle` these are unlinked
    names = set(table.column_names)
    if "count" not in names or not ({"hat"} <= names or {"slot", "cell"} <= names):
        raise InputError(
            f"{path} needs the columns `count`, and `hat` or both `slot` and `cell`; "
            f"it has {', '.join(name for name in COLUMNS if name in names) or 'none of them'}"
        )
    try:
        if pa.types.is_boolean(table.column("count").type):
            raise pa.ArrowInvalid("no numbers")
        count: Int64s = pc.cast(table.column("count"), pa.int64()).combine_chunks().to_numpy(zero_copy_only=False)
    except pa.ArrowException:
        raise InputError(f"{path}: every count must be {_COUNT_RULE}") from None
    wrong = np.flatnonzero((count < 1) | (count > MOST_SAMPLES))
    if wrong.size:
        raise InputError(f"{path}: the count in row {wrong[0] + 1} must be {_COUNT_RULE}")
    slots_named, vehicles_named = "slot" in names, "vehicle" in names
    slot = _codes(path, table, "slot") if slots_named else np.zeros(count.size, np.int64)
    cell = _codes(path, table, "hat" if "hat" in names else "cell")
    vehicle = _codes(path, table, "vehicle") if vehicles_named else np.arange(count.size)
    hat = np.unique(slot * (int(cell.max()) + 1) + cell, return_inverse=True)[1]  # a code of each pair
    if np.unique(hat * (int(vehicle.max()) + 1) + vehicle).size < count.size:
        raise InputError(f"{path}: a vehicle has more than one row in the same HAT")
    # Counts are far below 2**31 and rows fit into memory: the float sum is near enough to find what is too large.
    if int(np.bincount(hat, count).max()) > MOST_SAMPLES:
        raise InputError(f"{path}: a HAT has more than {MOST_SAMPLES} samples")
    origin = f"one HAT from {path}" if path.suffix == ".json" else str(path)
    counts = SampleCounts(slot, cell, vehicle, count, slots_named, vehicles_named, origin)
    days = _days(table.column("slot"), slot, timetable) if slots_named else None
    if days is None:
        return counts
    periods, codes = np.unique([timetable.period_of(day) for day in days], return_inverse=True)  # by code of slot
    days_of = Counter(map(timetable.period_of, {*days}))
    return counts._replace(period=codes[counts.slot], days=tuple(days_of[period] for period in periods.tolist()))


def _table(path: Path) -> pa.Table:
    """Reads the known, nonempty columns of a file of counts. Raises InputError."""
    try:
        if path.suffix == ".json":
            counts = _listed(path)
            table = pa.table({"hat": [0] * len(counts), "count": counts})
        elif path.suffix == ".csv":
            options = pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(COLUMNS, pa.string()),
                include_columns=list(COLUMNS),
                include_missing_columns=True,
                strings_can_be_null=True,
                null_values=[""],
            )
            table = pyarrow.csv.read_csv(path, convert_options=options)
        elif path.suffix in (".jsonl", ".ndjson"):
            table = pyarrow.json.read_json(path)
        elif path.suffix == ".parquet":
            table = pq.read_table(path, columns=[name for name in pq.read_schema(path).names if name in COLUMNS])
        else:
            raise InputError(f"counts come from .json, .csv, .jsonl or .parquet files; this is {path}")
    except (pa.ArrowException, KeyError):
        raise InputError(f"{path} cannot be read as {path.suffix[1:]}") from None
    if not table.num_rows:
        raise InputError(f"{path} holds no rows")
    columns = {name: table.column(name) for name in COLUMNS if name in table.column_names}
    nonempty = {name: column.combine_chunks() for name, column in columns.items() if column.null_count < len(column)}
    for name, column in nonempty.items():
        if column.null_count:
            row = pc.index(pc.is_null(column), True).as_py() + 1
            raise InputError(f"{path}: column {name!r} is empty in row {row}")
    return pa.table(nonempty)


def _listed(path: Path) -> list[int]:
    """Reads and checks JSON counts. Raises InputError."""
    try:
        document = msgspec.json.decode(path.read_bytes())
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise InputError(f"{path} is not JSON") from None
    counts = document.get("counts") if isinstance(document, dict) else document
    if not isinstance(counts, list) or not counts:
        raise InputError(f'{path} must hold a list of counts, or an object with such a list under "counts"')
    for number, count in enumerate(counts, 1):
        if type(count) is not int or not 1 <= count <= MOST_SAMPLES:  # True is no count
            raise InputError(f"{path}: count number {number} of the list must be {_COUNT_RULE}")
    return counts


def _days(column: Any, slot: Int64s, timetable: Timetable) -> list[date] | None:
    """Finds slots' local days, by code; None if a name is no start.

    column: slots' names by row. slot: their codes. A start is ISO 8601, local without an offset, or seconds since 1970.
    """
    zone, days = ZoneInfo(timetable.zone), []
    rows = np.unique(slot, return_index=True)[1]  # the first row of each code
    for name in column.take(pa.array(rows)).to_pylist():
        try:
            if isinstance(name, str):
                name = int(name) if name.isdecimal() else datetime.fromisoformat(name)
            if isinstance(name, int) and _FIRST_S <= name < _LAST_S:
                name = datetime.fromtimestamp(name, zone)
        except (ValueError, OverflowError):  # no time at all, or beyond all calendars
            return None
        if not isinstance(name, datetime):
            return None
        days.append((name if name.tzinfo is None else name.astimezone(zone)).date())
    return days


def _codes(path: Path, table: pa.Table, name: str) -> Int64s:
    """Numbers a column's distinct values by first appearance."""
    try:
        column = pc.dictionary_encode(table.column(name)).combine_chunks()
    except pa.ArrowException:
        raise InputError(f"{path}: column {name!r} must hold text or numbers") from None
    return np.asarray(column.indices.to_numpy(zero_copy_only=False), np.int64)


def fullest_period(spec: Specification, pattern: str, progress: Report) -> Callable[[Specification], SampleCounts]:
    """Reads the input's period with most observations. Raises InputError, which hides content.

    Returns a function that counts them in a specification's cells and slots.
    """
    edge_s = int(spec.timetable.midnight(date(2000, 1, 2)).timestamp())  # a midnight, as any edge of a slot would do
    slots = StreamCalendar(spec.timetable, edge_s, FROM_US // 1_000_000, TO_US // 1_000_000)  # of all days
    rules = spec.rules(slots, b"counted, and then forgotten")  # any key: hashes of vehicles are only compared here
    by_period: dict[str, list[Observations]] = {}
    refused, rows = Counter[str](), 0
    for path in input_paths(pattern):
        try:
            for batch in read_apart(spec.input.layout, path):  # in a process apart, if its format may crash
                parsed, reasons = parse(batch.table, rules)
                observed, _, outside = locate(parsed, spec.cells.ground)
                refused += Counter(reasons) + Counter(batch.refused) + Counter({OUTSIDE_REGION: outside})
                periods = slots.locate(observed.event_us)  # `period`: of each row, an index into `periods`
                for index in np.unique(periods.period).tolist() if observed.event_us.size else ():
                    of_period = observed.take(periods.period == index)
                    by_period.setdefault(periods.periods[index], []).append(of_period)
                    rows += of_period.event_us.size
                progress("observations read", rows, None)  # None: their total is not known before
        except UnreadableFile as error:
            raise InputError(str(error)) from None
        except OSError as error:
            raise InputError(f"{path}: {reason_of(error)}") from None
    if not by_period:
        reasons_text = "; ".join(f"{number:,} refused: {reason}" for reason, number in refused.most_common(3))
        raise InputError(f"no row of the input is usable{': ' + reasons_text if reasons_text else ''}")
    period = max(by_period, key=lambda name: sum(of_period.event_us.size for of_period in by_period[name]))
    fullest = Observations(*map(np.concatenate, zip(*by_period[period], strict=True)))
    days = [spec.timetable.day_of(int(fullest.event_us[0]) // 1_000_000)]
    with suppress(CalendarError):  # of an account without a first or last day
        days = list(spec.timetable.period_days(days[0], spec.account.since, spec.account.until))
    no_row = "no row of the input lies in slot.service: check it, and account.timezone"
    origin = f"{period}, the fullest of {len(by_period):,} periods of the input"
    return lambda spec: _counts_of(fullest, _slots_of(spec, days[0], len(days)), spec, origin, no_row)
