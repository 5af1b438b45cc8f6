"""Parses a fusion's specification, and checks rows of reports by it.

`_need(holds, field, rule, value)` raises SpecificationError unless the rule holds. `vehicle_ids(column)` reads any
texts: distinct `ids`, each row's index `code` among them, and masks of `missing` and `bad` ones.
"""

import hashlib
import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple
from zoneinfo import ZoneInfo, available_timezones

import h3.api.basic_int as h3
import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hatstream.api import SpecificationError, layout, read_tables, vehicle_ids
from hatstream_local.mechanisms.aggregate import MOST_BUCKETS
from hatstream_local.mechanisms.estimates import Method
from hatstream_local.mechanisms.mechanism import LOCAL_MECHANISMS, Float64s, Int64s, Service

Bools = NDArray[np.bool_]
LAYOUTS = ("avro", "csv", "json", "jsonl", "parquet")  # forms of reports: all whose columns are named
NAME_LETTERS = 200
FUSED = "all"  # the service of a fused row; the rows of single services stand beside it for comparison
GRID_STEPS = 1_000_000
"""Speeds of telemetry are read on a grid of so many steps up to upper_kmh, finer than the mechanisms' own."""
NEEDED = ("user", "service", "epsilon", "mechanism")  # then come `time` and `cell`, if asked for, and last `report`
_QUARTER_S = 900


class ServiceTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Service with its mechanism and epsilon."""

    name: str
    mechanism: str
    epsilon: float


class FusionSlot(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Slots of reports."""

    minutes: int
    timezone: str


class FusionCells(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """H3 cells of reports."""

    resolution: int


class FusionTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Methods of fusion, and their outputs."""

    mean: Method = "fixed"
    distribution: Literal["ems", "em", "none"] = "ems"
    buckets: int = 64


class TableTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Layout of report files."""

    layout: str
    columns: dict[str, str] | None = None
    time_unit: str | None = None
    speed_unit: str | None = None


class FusionDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Specification of a fusion, as written."""

    name: str
    upper_kmh: float
    service: list[ServiceTable]
    input: TableTable
    slot: FusionSlot | None = None
    cells: FusionCells | None = None
    fusion: FusionTable = FusionTable()
    telemetry: TableTable | None = None


@dataclass(frozen=True)
class Hours:
    """Slots that divide an hour in a time zone."""

    zone: str
    slot_s: int

    def starts_us(self, event_us: Int64s) -> Int64s:
        """Computes the start of each time's local slot, (rows,), us since 1970 UTC.

        Since 2000 all offsets from UTC are whole quarters of an hour, so one is looked up for each quarter.
        """
        quarter, quarter_of_row = np.unique(event_us // (_QUARTER_S * 1_000_000), return_inverse=True)
        zone = ZoneInfo(self.zone)
        offsets = [datetime.fromtimestamp(number * _QUARTER_S, zone).utcoffset() for number in quarter.tolist()]
        offset_s = np.array([int(offset.total_seconds()) if offset else 0 for offset in offsets], np.int64)
        local_us = event_us + offset_s[quarter_of_row] * 1_000_000
        return event_us - local_us % (self.slot_s * 1_000_000)


@dataclass(frozen=True, kw_only=True)
class FusionSpecification:
    """Checked specification of a fusion."""

    name: str
    spec_id: str
    services: Sequence[Service]
    upper_kmh: float
    mean: Method
    distribution: str
    buckets: int  # 0 without distribution
    hours: Hours | None  # None: all times are fused
    resolution: int | None  # None: all places are fused
    layout: Any  # of reports
    telemetry: Any  # layout of positions for `perturb`, or None

    @property
    def epsilon_of_all(self) -> float:
        """Epsilon of a user who answers every service."""
        return sum(service.mechanism.epsilon for service in self.services)


def _need(holds: bool, field: str, rule: str, value: object) -> None:
    """Raises SpecificationError, with field, rule and value, unless the rule holds."""
    if not holds:
        text = repr(value) if isinstance(value, str) else str(value)
        raise SpecificationError(f"{field} {rule}; it is {text[:300]}")


def _check_name(field: str, name: str) -> None:
    """Raises SpecificationError unless a name is printable and short enough."""
    fits = bool(name.strip()) and name.isprintable() and len(name) <= NAME_LETTERS
    _need(fits, field, f"must be 1 to {NAME_LETTERS} printable letters", name)


def load_fusion(path: Path) -> FusionSpecification:
    """Reads and checks a specification file. Raises SpecificationError.

    `spec_id` is a digest of all that decides results: neither of the name nor of the telemetry, which `perturb` reads.
    A service is one collector of locally perturbed reports, with an epsilon of its own.
    """
    document = read_tables(path, FusionDocument)
    _check_name("name", document.name)
    _need(0 < document.upper_kmh <= 100_000, "upper_kmh", "must be above 0, at most 100000", document.upper_kmh)
    services = [_service(table) for table in document.service]
    names = [service.name for service in services]
    _need(bool(names) and len(set(names)) == len(names), "service.name", "needs at least one, all different", names)
    services.sort(key=lambda service: service.name)
    fusion, table = document.fusion, document.input
    _need(2 <= fusion.buckets <= MOST_BUCKETS, "fusion.buckets", f"must be 2 to {MOST_BUCKETS}", fusion.buckets)
    buckets = 0 if fusion.distribution == "none" else fusion.buckets
    _need(table.layout in LAYOUTS, "input.layout", f"must be one of {', '.join(LAYOUTS)}", table.layout)
    _need(table.speed_unit is None, "input.speed_unit", "does not go with reports", table.speed_unit)
    decisive = msgspec.json.encode(msgspec.structs.replace(document, name="", telemetry=None), order="deterministic")
    hours, resolution = _hours(document.slot), None if document.cells is None else document.cells.resolution
    _need(resolution is None or 0 <= resolution <= 15, "cells.resolution", "must be between 0 and 15", resolution)
    fields = (*NEEDED, *(("time",) if hours else ()), *(() if resolution is None else ("cell",)), "report")
    return FusionSpecification(
        name=document.name,
        spec_id=hashlib.sha256(decisive).hexdigest()[:16],
        services=services,
        upper_kmh=document.upper_kmh,
        mean=fusion.mean,
        distribution=fusion.distribution,
        buckets=buckets,
        hours=hours,
        resolution=resolution,
        layout=_layout("input", table, fields),
        telemetry=None if document.telemetry is None else _layout("telemetry", document.telemetry),
    )


def _service(table: ServiceTable) -> Service:
    """Checks a service's name, mechanism and epsilon. Raises SpecificationError."""
    _check_name("service.name", table.name)
    _need(table.name != FUSED, "service.name", f"must be a name but {FUSED!r}", table.name)
    kinds = ", ".join(LOCAL_MECHANISMS)
    _need(table.mechanism in LOCAL_MECHANISMS, "service.mechanism", f"must be one of {kinds}", table.mechanism)
    try:
        return Service(table.name, LOCAL_MECHANISMS[table.mechanism](table.epsilon))
    except ValueError as error:
        raise SpecificationError(f"service.epsilon: {error}; it is {table.epsilon}") from None


def _hours(slot: FusionSlot | None) -> Hours | None:
    """Checks slots of a fusion, which divide an hour; None without. Raises SpecificationError."""
    if slot is None:
        return None
    _need(1 <= slot.minutes <= 60 and 60 % slot.minutes == 0, "slot.minutes", "must divide an hour", slot.minutes)
    zone, rule = slot.timezone, "must be a name like America/Chicago"
    # "localtime" would be another zone on every machine.
    _need(zone in available_timezones() and zone != "localtime", "slot.timezone", rule, zone)
    return Hours(zone, slot.minutes * 60)


def _layout(name: str, table: TableTable, fields: tuple[str, ...] | None = None) -> Any:
    """Makes a layout, of positions by default. Raises SpecificationError. name: of the table."""
    columns = dict(zip(fields, fields, strict=True)) if fields and table.columns is None else table.columns
    try:
        return layout(table.layout, columns, table.time_unit, table.speed_unit, fields=fields)
    except ValueError as error:
        raise SpecificationError(f"{name}: {error}") from None


FROM_US, TO_US = 946_684_800_000_000, 4_102_444_800_000_000  # the years 2000 to 2099, UTC
_JOIN_KEY = b"hatstream fuse"
"""Users are joined by a hash of what the input calls them; it never leaves the job, so its key needs no secret."""
_ROUNDING_SHARE = 1e-9
"""Reports are decimal texts: one may lie beyond the end of its range by that share of it, and is clipped to it."""


class Reported(NamedTuple):
    """Columns of accepted reports, (reports,) each."""

    user: Int64s  # hash
    slot_s: Int64s  # start, since 1970 UTC; 0 without slots
    cell: Int64s  # H3; 0 without cells
    service: Int64s  # index in the rules
    event_us: Int64s  # since 1970 UTC; 0 without slots
    report: Float64s  # raw, in its mechanism's range

    def take(self, chosen: Bools | Int64s) -> "Reported":
        """Selects reports by mask or index."""
        return Reported._make(column[chosen] for column in self)


def parse_reports(table: pa.RecordBatch, rules: FusionSpecification) -> tuple[Reported, dict[str, int]]:
    """Returns accepted rows, and the number of refused ones by their first reason."""
    users = vehicle_ids(table.column("user"))
    hashes = np.array([_hash(user) for user in users.ids or [b""]], np.int64)  # code is 0 where there is no id at all
    service = _indices(table.column("service"), [receiver.name for receiver in rules.services])
    failures = {"missing-user": users.missing, "bad-user": users.bad, "unknown-service": service < 0}  # masks, (rows,)
    service = np.maximum(service, 0)  # refused rows are checked by the first service, and not counted again
    names = sorted({receiver.mechanism.name for receiver in rules.services})
    mechanism = np.array([names.index(receiver.mechanism.name) for receiver in rules.services], np.int64)[service]
    failures["other-mechanism"] = _indices(table.column("mechanism"), names) != mechanism
    epsilon = rules.layout.units.numbers(table.column("epsilon"))
    declared = np.array([receiver.mechanism.epsilon for receiver in rules.services])[service]
    failures["other-epsilon"] = ~epsilon.valid | (epsilon.values != declared)
    slot_s, event_us = np.zeros_like(service), np.zeros_like(service)
    if rules.hours is not None:
        time = rules.layout.units.instants(table.column("time"))
        failures |= {"missing-time": time.missing, "bad-time": ~time.valid}
        failures["implausible-time"] = (time.us < FROM_US) | (time.us >= TO_US)
        event_us, slot_s = time.us, rules.hours.starts_us(np.clip(time.us, FROM_US, TO_US)) // 1_000_000
    cell = _numbers_of_texts(table.column("cell"), _cell) if rules.resolution is not None else np.zeros_like(service)
    reported = rules.layout.units.numbers(table.column("report"))
    report, outside = _in_range(reported.values, rules, service)  # clipped, and a mask beyond rounding errors
    failures |= {"bad-cell": cell < 0, "missing-report": reported.missing, "bad-report": ~reported.valid}
    failures["outside-range"] = outside
    accepted, refused = np.ones(table.num_rows, np.bool_), dict[str, int]()
    for reason, failed in failures.items():
        if count := int((failed & accepted).sum()):
            refused[reason] = count
        accepted &= ~failed
    return Reported(hashes[users.code], slot_s, cell, service, event_us, report).take(accepted), refused


def _in_range(values: Float64s, rules: FusionSpecification, service: Int64s) -> tuple[Float64s, Bools]:
    """Clips reports, (rows,), to their service's range; marks those beyond rounding errors."""
    mechanisms = [receiver.mechanism for receiver in rules.services]
    low, high = np.array([[mechanism.low, mechanism.high] for mechanism in mechanisms]).T[:, service]
    has_two_values = np.array([mechanism.name == "sr" for mechanism in mechanisms])[service]  # the two ends alone
    slack = _ROUNDING_SHARE * (high - low)
    is_between = (values > low + slack) & (values < high - slack)
    outside = (values < low - slack) | (values > high + slack) | (has_two_values & is_between)
    return np.clip(values, low, high), outside


def _hash(user: bytes) -> int:
    """Hashes a user to 63 bits, which an int64 holds."""
    # The prefix is part of the hash, by which rows are sorted: results keep their last digits.
    return int.from_bytes(hmac.digest(_JOIN_KEY, b"\0\0" + user, "sha256")[:8], "big") & (1 << 63) - 1


def _indices(column: pa.Array, names: Sequence[str]) -> Int64s:
    """Finds each row's text in `names`, (rows,); -1 if unknown or missing."""
    index_of = {name.encode(): index for index, name in enumerate(names)}
    return _numbers_of_texts(column, lambda text: index_of.get(text, -1))


def _numbers_of_texts(column: pa.Array, number: Callable[[bytes], int]) -> Int64s:
    """Applies `number` to each row's text, (rows,); -1 where it is unusable."""
    read = vehicle_ids(column)
    numbers = np.array([number(text) for text in read.ids or [b""]], np.int64)  # code is 0 where no text is usable
    return np.where(read.missing | read.bad, -1, numbers[read.code])


def _cell(value: bytes) -> int:
    """Parses an H3 cell's hexadecimal text; -1 if invalid."""
    try:
        cell = int(value, 16)
    except ValueError:
        return -1
    # The highest of an H3 index's 64 bits is 0.
    return cell if 0 < cell < 1 << 63 and h3.is_valid_cell(cell) else -1
