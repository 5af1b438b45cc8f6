"""Report counts by vehicle, slot and cell, for planning."""

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
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
from pipelines.errors import InputError, Report
from pipelines.inputs import input_paths
from pipelines.plan.needs import TYPICAL_COUNTS
from pipelines.specification import Specification
from transforms import wire
from transforms.count.tally import tally
from transforms.errors import reason_of
from transforms.layouts import UnreadableFile
from transforms.layouts.base import FIELDS, Units
from transforms.layouts.decoder_process import read_apart
from transforms.observe import hexagons
from transforms.observe.parse import FROM_US, TO_US, Rules, events_of, locate, parse
from transforms.places.ground import Hexagons
from transforms.records import Observations
from transforms.time.calendar import CalendarError, StreamCalendar, Timetable, calendar
from transforms.value import PER_UNIT

MOST_SAMPLES = (1 << 31) - 1
_FIRST_S, _LAST_S = 10**8, 10**10
"""Whole numbers between are seconds since 1970, from 1973 to 2286; others are mere names of slots."""
TYPICAL_VEHICLES = (1, 2, 5, 10, 20, 50)
_RULE = f"a whole number from 1 to {MOST_SAMPLES}"
COLUMNS = ("hat", "slot", "cell", "vehicle", "count")


class SampleCounts(NamedTuple):
    """Numbers of reports by HAT and vehicle, as codes."""

    slot: Int64s
    place: Int64s  # HAT within its slot
    vehicle: Int64s
    samples: Int64s  # at least 1
    slots_named: bool  # codes of slots mean anything, vehicles_named likewise
    vehicles_named: bool
    origin: str
    period: Int64s | None = None  # code by slot
    days: tuple[int, ...] | None = None  # local days counted per period

    def by_period(self) -> "list[SampleCounts]":
        """Splits the counts by period."""
        if self.period is None or self.days is None:
            return [self]
        parts = []
        for index, days in enumerate(self.days):
            chosen = self.period == index
            slot, place, vehicle, samples = (column[chosen] for column in self[:4])
            period = np.zeros(slot.size, np.int64)
            named = self.slots_named, self.vehicles_named
            parts.append(SampleCounts(slot, place, vehicle, samples, *named, self.origin, period, (days,)))
        return parts

    @classmethod
    def unnamed(cls, hats: list[Int64s], origin: str) -> "SampleCounts":
        """Makes counts of HATs with unknown slots and vehicles."""
        count = np.concatenate(hats)
        place = np.repeat(np.arange(len(hats)), [hat.size for hat in hats])
        return cls(np.zeros(count.size, np.int64), place, np.arange(count.size), count, False, False, origin)


def typical_counts() -> SampleCounts:
    """Creates HATs with 2 to 40 reports a vehicle."""
    low, high = TYPICAL_COUNTS
    spreads = [np.geomspace(low, high, n + 2)[1:-1].round().astype(np.int64) for n in TYPICAL_VEHICLES]
    origin = (
        f"typical HATs of {', '.join(map(str, TYPICAL_VEHICLES))} vehicles, each vehicle with {low} to {high} reports; "
        "--counts takes your own, --synthetic a made-up fleet"
    )
    return SampleCounts.unnamed(spreads, origin)


def sample_counts(sample: tuple[pa.Table, date, int], spec: Specification) -> SampleCounts:
    """Counts a simulated day by cell and slot.

    sample: reports of a local day, and its number of vehicles.
    """
    (table, day, vehicles), timetable = sample, spec.timetable
    slots = calendar(timetable, timetable.midnight(day), timetable.midnight(day + timedelta(days=1)))
    rules = Rules(
        grid=spec.value.grid,
        units=Units("us", PER_UNIT["km/h"]),
        bbox=None,
        calendar=slots,
        vehicle_key=b"made-up vehicles have no secrets",
    )
    reports = table.rename_columns([*FIELDS]).combine_chunks()
    parts = []
    for slot_s, packed in events_of(reports.to_batches()[0], rules, Hexagons(spec.cells.resolution, None)):
        parts.append(tally(wire.unpack_events([packed]), slot_s, None, ())[0])
    if not parts:
        raise InputError("the made-up fleet does not drive within slot.service; give your own --counts")
    return counts_of(wire.joined(parts), f"one day of {vehicles} made-up buses in a made-up town", 1)


def counts_of(tally: wire.Tally, origin: str, days: int) -> SampleCounts:
    """Counts a period's reports by slot, cell and vehicle."""
    vehicle = np.unique(tally.vehicle, return_inverse=True)[1]
    period = np.zeros(vehicle.size, np.int64)
    named = True, True  # slots, vehicles
    return SampleCounts(tally.slot_s, tally.cell, vehicle, tally.kept, *named, origin, period, (days,))


def read_counts(path: Path, timetable: Timetable) -> SampleCounts:
    """Reads a file of counts. Raises InputError.

    .json: a list of integers, or an object with it under "counts": the vehicles of one HAT. .csv, .jsonl, .parquet: a
    table with the column `count` and either `hat`, or `slot` and `cell`; optionally `vehicle`. Periods are the
    timetable's, if every slot is named by its start.
    """
    if not path.is_file():
        raise InputError(f"there is no file of counts at {path}")
    if path.suffix != ".json":
        return _tabled(path, _table(path), timetable)
    try:
        document = msgspec.json.decode(path.read_bytes())
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise InputError(f"{path} is not JSON") from None
    counts = document.get("counts") if isinstance(document, dict) else document
    if not isinstance(counts, list) or not counts:
        raise InputError(f'{path} must hold a list of counts, or an object with such a list under "counts"')
    for index, count in enumerate(counts):
        if type(count) is not int or not 1 <= count <= MOST_SAMPLES:
            raise InputError(f"{path}: count number {index + 1} of the list must be {_RULE}")
    if sum(counts) > MOST_SAMPLES:
        raise InputError(f"{path}: a HAT has more than {MOST_SAMPLES} samples")
    return SampleCounts.unnamed([np.array(counts, np.int64)], f"one HAT from {path}")


def _table(path: Path) -> pa.Table:
    """Reads a table's known nonempty columns."""
    try:
        if path.suffix == ".csv":
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
    held = {name: column.combine_chunks() for name, column in columns.items() if column.null_count < len(column)}
    for name, column in held.items():
        if column.null_count:
            row = pc.index(pc.is_null(column), True).as_py() + 1
            raise InputError(f"{path}: column {name!r} is empty in row {row}")
    return pa.table(held)


def _tabled(path: Path, table: pa.Table, timetable: Timetable) -> SampleCounts:
    names = set(table.column_names)
    if "count" not in names or not ({"hat"} <= names or {"slot", "cell"} <= names):
        raise InputError(
            f"{path} needs rows with the column `count`, and `hat` or else `slot` and `cell`; "
            f"it has {', '.join(name for name in COLUMNS if name in names) or 'none of them'}"
        )
    try:
        if pa.types.is_boolean(table.column("count").type):
            raise pa.ArrowInvalid("no numbers")
        count: Int64s = pc.cast(table.column("count"), pa.int64()).combine_chunks().to_numpy(zero_copy_only=False)
    except pa.ArrowException:
        raise InputError(f"{path}: every count must be {_RULE}") from None
    wrong = np.flatnonzero((count < 1) | (count > MOST_SAMPLES))
    if wrong.size:
        raise InputError(f"{path}: the count in row {wrong[0] + 1} must be {_RULE}")
    slot = _codes(path, table, "slot") if "slot" in names else np.zeros(count.size, np.int64)
    place = _codes(path, table, "hat" if "hat" in names else "cell")
    vehicle = _codes(path, table, "vehicle") if "vehicle" in names else np.arange(count.size)
    hat = np.unique(slot * (int(place.max()) + 1) + place, return_inverse=True)[1]
    if np.unique(hat * (int(vehicle.max()) + 1) + vehicle).size < count.size:
        raise InputError(f"{path}: a vehicle has more than one row in the same HAT")
    # Counts are far below 2**31 and rows fit into memory: the float sum is near enough to find what is too large.
    if int(np.bincount(hat, count).max()) > MOST_SAMPLES:
        raise InputError(f"{path}: a HAT has more than {MOST_SAMPLES} samples")
    counts = SampleCounts(slot, place, vehicle, count, "slot" in names, "vehicle" in names, str(path))
    days = _days(table.column("slot"), slot, timetable) if "slot" in names else None
    if days is None:
        return counts
    periods = [timetable.period_of(day) for day in days]  # of each code of a slot
    days_of: dict[str, set[date]] = {}
    for day, period in zip(days, periods, strict=True):
        days_of.setdefault(period, set()).add(day)
    codes = np.array([list(days_of).index(name) for name in periods], np.int64)
    return counts._replace(period=codes[counts.slot], days=tuple(map(len, days_of.values())))


def _days(column: Any, slot: Int64s, timetable: Timetable) -> list[date] | None:
    """Finds the local days of slots; None without starts.

    A start is ISO 8601, local without an offset, or seconds since 1970.
    """
    zone, days = ZoneInfo(timetable.zone), []
    first = np.unique(slot, return_index=True)[1]
    for name in column.take(pa.array(first)).to_pylist():
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
    column = table.column(name).combine_chunks()
    if not pa.types.is_dictionary(column.type):
        try:
            column = column.dictionary_encode()
        except pa.ArrowException:
            raise InputError(f"{path}: column {name!r} must hold text or numbers") from None
    codes: Int64s = column.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes


@dataclass(frozen=True)
class FeedPeriod:
    """Observations of a feed's fullest period."""

    period: str
    first_day: date
    days: int
    periods: int  # number in the feed
    observations: Observations
    refused: dict[str, int]  # rows of the feed by reason

    def counts(self, spec: Specification) -> SampleCounts:
        """Counts observations in a specification's cells and slots."""
        table = spec.timetable
        start = table.midnight(self.first_day)
        try:
            slots = calendar(table, start, table.midnight(self.first_day + timedelta(days=self.days)))
        except CalendarError as error:
            raise InputError(str(error)) from None
        placed = slots.locate(self.observations.event_us)
        inside = placed.in_service
        observations = self.observations._replace(slot_start_us=placed.slot_start_us).take(inside)
        located, cell, _ = locate(observations, Hexagons(spec.cells.resolution, None))
        slots_of = wire.split(located, cell, 1)
        parts = [tally(wire.unpack_events([part.data]), part.slot_s, None, ())[0] for part in slots_of]
        if not parts:
            raise InputError("no row of the input lies in slot.service: check it, and account.timezone")
        counted, zone = wire.joined(parts), ZoneInfo(table.zone)
        days = {datetime.fromtimestamp(slot_s, zone).date() for slot_s in np.unique(counted.slot_s).tolist()}
        return counts_of(counted, f"{self.period}, the fullest of {self.periods:,} periods of the input", len(days))


def fullest_period(spec: Specification, pattern: str, progress: Report) -> FeedPeriod:
    """Reads the fullest period. Raises InputError, which hides content."""
    edge_s, zone = int(spec.timetable.midnight(date(2000, 1, 2)).timestamp()), ZoneInfo(spec.timetable.zone)
    slots = StreamCalendar(spec.timetable, edge_s, FROM_US // 1_000_000, TO_US // 1_000_000)
    rules = spec.rules(slots, b"counted, and then forgotten")
    by_period: dict[str, list[Observations]] = {}
    refused, rows = Counter[str](), 0
    for path in input_paths(pattern):
        try:
            for batch in read_apart(spec.input.layout, path):
                parsed, reasons = parse(batch.table, rules)
                observed, _, outside = locate(parsed, spec.cells.ground)
                refused += Counter(reasons) + Counter(batch.refused) + Counter({hexagons.OUTSIDE_REGION: outside})
                periods = slots.locate(observed.event_us)
                for index in np.unique(periods.period).tolist() if observed.event_us.size else ():
                    part = observed.take(periods.period == index)
                    by_period.setdefault(periods.periods[index], []).append(part)
                    rows += part.event_us.size
                progress("observations read", rows, None)
        except UnreadableFile as error:
            raise InputError(str(error)) from None
        except OSError as error:
            raise InputError(f"{path}: {reason_of(error)}") from None
    if not by_period:
        reasons_text = "; ".join(f"{rows:,} refused: {reason}" for reason, rows in refused.most_common(3))
        raise InputError(f"no row of the input is usable{': ' + reasons_text if reasons_text else ''}")
    period = max(by_period, key=lambda name: sum(part.event_us.size for part in by_period[name]))
    fullest = Observations(*map(np.concatenate, zip(*by_period[period], strict=True)))
    days = [datetime.fromtimestamp(int(fullest.event_us[0]) / 1e6, zone).date()]
    with suppress(CalendarError):
        days = list(spec.timetable.period_days(days[0], spec.account.since, spec.account.until))
    return FeedPeriod(period, days[0], len(days), len(by_period), fullest, dict(refused))
