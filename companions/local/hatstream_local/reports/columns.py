"""Strict checks on rows of reports: which are accepted, and for what one reason each other row is refused."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo

import h3.api.basic_int as h3
import numpy as np
import pyarrow as pa

from dpops.types import Int64s
from hatstream_local.mechanisms.reports import Service
from transforms.layouts.columns import Bools, Floats, Numbers, TimeUnit, as_binary, instants, is_text, numbers
from transforms.observe.parse import FROM_US, TO_US, RowVerdicts
from transforms.observe.vehicle_hash import vehicle_hashes
from transforms.observe.vehicle_ids import vehicle_ids
from transforms.time.calendar import Where

NEEDED = ("user", "service", "epsilon", "mechanism")
"""Fields of a row of reports; then come `time` and `cell`, if asked for, and last `report`."""

REASONS = (
    "missing-user",
    "bad-user",
    "unknown-service",
    "other-mechanism",
    "other-epsilon",
    "missing-time",
    "bad-time",
    "implausible-time",
    "bad-cell",
    "missing-report",
    "bad-report",
    "outside-range",
)
"""In the order of the checks: the first that fails is the row's reason."""

_JOIN_KEY = b"hatstream fuse"
"""Users are joined by a hash of what the input calls them; it never leaves the job, so its key needs no secret."""

_QUARTER_US = 900_000_000
_ROUNDING = 1e-9
"""Reports are decimal texts: one may lie beyond the end of its range by that share of it, and is held there."""


@dataclass(frozen=True)
class Hours:
    """Slots that divide an hour, on the clock of a time zone: they are found for any time without a calendar."""

    zone: str
    slot_s: int

    def starts_us(self, event_us: Int64s) -> Int64s:
        """Finds the start of each event's slot; all zones are whole quarters of an hour from UTC since 2000."""
        quarter, place = np.unique(event_us // _QUARTER_US, return_inverse=True)
        zone = ZoneInfo(self.zone)
        offsets = [datetime.fromtimestamp(q * 900, zone).utcoffset() for q in quarter.tolist()]
        shift = np.array([0 if offset is None else int(offset.total_seconds()) for offset in offsets], np.int64)[place]
        local = event_us + shift * 1_000_000
        return event_us - local % (self.slot_s * 1_000_000)

    def locate(self, event_us: Int64s) -> Where:
        """Locates times as a calendar without an end, all of it one period."""
        plausible = (event_us >= FROM_US) & (event_us < TO_US)
        start = self.starts_us(np.where(plausible, event_us, FROM_US))
        return Where(start, np.zeros(start.size, np.int64), plausible, plausible, ("",))


@dataclass(frozen=True)
class ReportRules:
    """What decides acceptance. hours: None where reports of all times are fused together."""

    services: Sequence[Service]
    hours: Hours | None
    has_cell: bool
    time_unit: TimeUnit

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of a row, in the order in which a layout reads them."""
        return (*NEEDED, *(("time",) if self.hours else ()), *(("cell",) if self.has_cell else ()), "report")


class Reported(NamedTuple):
    """Accepted reports, one entry each. user: hash. slot_s, cell: 0 where not asked for. service: index in the rules.

    event_us: 0 without a time. report: raw, in the range of its mechanism.
    """

    user: Int64s
    slot_s: Int64s
    cell: Int64s
    service: Int64s
    event_us: Int64s
    report: Floats

    def take(self, chosen: "Bools | Int64s") -> "Reported":
        user, slot_s, cell, service, event_us = (column[chosen] for column in self[:5])
        return Reported(user, slot_s, cell, service, event_us, self.report[chosen])

    def packed(self) -> bytes:
        return np.stack([*self[:5], self.report.view(np.int64)]).tobytes()

    @classmethod
    def unpacked(cls, data: bytes) -> "Reported":
        user, slot_s, cell, service, event_us, report = np.frombuffer(data, np.int64).reshape(6, -1)
        return cls(user, slot_s, cell, service, event_us, report.view(np.float64))


def parse_reports(table: pa.RecordBatch, rules: ReportRules) -> tuple[Reported, dict[str, int]]:
    """Keeps the accepted reports in their order, and counts how many rows were refused for each reason.

    table: the columns of `rules.fields`. table.num_rows == accepted + sum of the counts.
    """
    verdict = RowVerdicts(table.num_rows, REASONS)
    refuse = verdict.refuse
    user, missing, bad = _users(table.column("user"))
    refuse("missing-user", missing)
    refuse("bad-user", bad)
    service = _indices(table.column("service"), {receiver.name: i for i, receiver in enumerate(rules.services)})
    refuse("unknown-service", service < 0)
    _check_declared(table, rules, np.maximum(service, 0), verdict)
    slot_s, event_us = np.zeros_like(service), np.zeros_like(service)
    if rules.hours is not None:
        time = instants(table.column("time"), rules.time_unit)
        refuse("missing-time", time.missing)
        refuse("bad-time", ~time.valid)
        refuse("implausible-time", (time.us < FROM_US) | (time.us >= TO_US))
        event_us, slot_s = time.us, rules.hours.locate(time.us).slot_start_us // 1_000_000
    cell = _cells(table.column("cell")) if rules.has_cell else np.zeros_like(service)
    refuse("bad-cell", cell < 0)
    reported = numbers(table.column("report"))
    refuse("missing-report", reported.missing)
    refuse("bad-report", ~reported.valid)
    report, outside = _in_range(reported, rules, np.maximum(service, 0))
    refuse("outside-range", outside)
    return Reported(user, slot_s, cell, service, event_us, report).take(verdict.code == 0), verdict.refused()


def _check_declared(table: pa.RecordBatch, rules: ReportRules, service: Int64s, verdict: RowVerdicts) -> None:
    """Refuses rows that say of their mechanism and epsilon what the specification does not say of their service."""
    names = sorted({receiver.mechanism.name for receiver in rules.services})
    declared = np.array([names.index(receiver.mechanism.name) for receiver in rules.services], np.int64)
    said = _indices(table.column("mechanism"), {name: i for i, name in enumerate(names)})
    verdict.refuse("other-mechanism", said != declared[service])
    epsilons = np.array([receiver.mechanism.epsilon for receiver in rules.services])
    epsilon = numbers(table.column("epsilon"))
    verdict.refuse("other-epsilon", ~epsilon.valid | (epsilon.values != epsilons[service]))


def _in_range(numbers: Numbers, rules: ReportRules, service: Int64s) -> tuple[Floats, Bools]:
    """Rounds reports that have two values to these, and marks those that are none of their mechanism's."""
    report = numbers.values.copy()
    outside = np.zeros(report.size, np.bool_)
    for index, receiver in enumerate(rules.services):
        rows = service == index
        low, high = receiver.mechanism.low, receiver.mechanism.high
        slack = _ROUNDING * (high - low)
        values = report[rows]
        wrong = (values < low - slack) | (values > high + slack)
        if receiver.mechanism.name == "sr":
            wrong |= (values > low + slack) & (values < high - slack)
        outside[rows] = wrong
        report[rows] = np.clip(values, low, high)
    return report, outside


def _texts(column: pa.Array) -> tuple[list[bytes | None], Int64s]:
    """Lists the different values as bytes, None for what is no text and no integer, and which one each row has."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if not (is_text(kind) or pa.types.is_integer(kind)):
        return [None], np.zeros(len(column), np.int64)
    coded = (as_binary(column) if is_text(kind) else column).dictionary_encode()
    values = coded.dictionary.to_pylist()
    texts: list[bytes | None] = [value if isinstance(value, bytes) else str(value).encode() for value in values]
    index = coded.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False).astype(np.int64)
    return [*texts, None], index


def _users(column: pa.Array) -> tuple[Int64s, Bools, Bools]:
    """Hashes users, whose ids are read as those of vehicles, and marks rows that have none or a bad one."""
    users = vehicle_ids(column)
    ids = users.ids or [b""]
    return vehicle_hashes(_JOIN_KEY, [""] * len(ids), ids)[users.code], users.missing, users.bad


def _indices(column: pa.Array, index_of: Mapping[str, int]) -> Int64s:
    """Numbers each row's text, -1 for one that is not known."""
    values, index = _texts(column)
    numbered = {name.encode(): number for name, number in index_of.items()}
    return np.array([-1 if value is None else numbered.get(value, -1) for value in values], np.int64)[index]


def _cells(column: pa.Array) -> Int64s:
    """Reads H3 cells from their hexadecimal text, -1 for what is none."""
    values, index = _texts(column)
    return np.array([_cell(value) for value in values], np.int64)[index]


def _cell(value: bytes | None) -> int:
    try:
        cell = int(value or b"", 16)
    except ValueError:
        return -1
    return cell if 0 < cell < 1 << 63 and h3.is_valid_cell(cell) else -1
