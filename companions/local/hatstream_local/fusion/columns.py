"""Checks rows strictly; a refused row has one reason."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple
from zoneinfo import ZoneInfo

import h3.api.basic_int as h3
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hatstream.api import vehicle_ids
from hatstream_local.mechanisms.mechanism import Float64s, Int64s

if TYPE_CHECKING:
    from hatstream_local.specification import FusionSpecification

Bools = NDArray[np.bool_]
Refuse = Callable[[str, Bools], None]
"""Refuses the rows that failed a check, for a reason."""

FROM_US, TO_US = 946_684_800_000_000, 4_102_444_800_000_000
"""The years 2000 to 2099, UTC."""
NEEDED = ("user", "service", "epsilon", "mechanism")
"""Fields of a row of reports; then come `time` and `cell`, if asked for, and last `report`."""

REASONS = (
    *("missing-user", "bad-user", "unknown-service", "other-mechanism", "other-epsilon"),
    *("missing-time", "bad-time", "implausible-time", "bad-cell", "missing-report", "bad-report", "outside-range"),
)
"""In the order of the checks: the first that fails is the row's reason."""

_JOIN_KEY = b"hatstream fuse"
"""Users are joined by a hash of what the input calls them; it never leaves the job, so its key needs no secret."""

_QUARTER_US = 900_000_000
_ROUNDING = 1e-9
"""Reports are decimal texts: one may lie beyond the end of its range by that share of it, and is held there."""


@dataclass(frozen=True)
class Hours:
    """Slots that divide an hour in a time zone."""

    zone: str
    slot_s: int

    def starts_us(self, event_us: Int64s) -> Int64s:
        """Computes each slot's start; zones lie quarters of an hour from UTC since 2000."""
        quarter, place = np.unique(event_us // _QUARTER_US, return_inverse=True)
        zone = ZoneInfo(self.zone)
        offsets = [datetime.fromtimestamp(q * 900, zone).utcoffset() for q in quarter.tolist()]
        shift = np.array([0 if offset is None else int(offset.total_seconds()) for offset in offsets], np.int64)[place]
        local = event_us + shift * 1_000_000
        return event_us - local % (self.slot_s * 1_000_000)


class Reported(NamedTuple):
    """Accepted reports, one entry each; 0 where unused.

    user: hash. service: index in the rules. event_us: 0 without a time. report: raw, in its mechanism's range.
    """

    user: Int64s
    slot_s: Int64s
    cell: Int64s
    service: Int64s
    event_us: Int64s
    report: Float64s

    def take(self, chosen: Bools | Int64s) -> Reported:
        """Selects entries by mask or index."""
        user, slot_s, cell, service, event_us = (column[chosen] for column in self[:5])
        return Reported(user, slot_s, cell, service, event_us, self.report[chosen])

    def packed(self) -> bytes:
        """Packs the columns as 8-byte values."""
        return np.stack([*self[:5], self.report.view(np.int64)]).tobytes()

    @classmethod
    def unpacked(cls, data: bytes) -> Reported:
        """Restores columns from `packed` bytes."""
        user, slot_s, cell, service, event_us, report = np.frombuffer(data, np.int64).reshape(6, -1)
        return cls(user, slot_s, cell, service, event_us, report.view(np.float64))


def parse_reports(table: pa.RecordBatch, rules: FusionSpecification) -> tuple[Reported, dict[str, int]]:
    """Splits rows into accepted reports and counted refusals.

    table: the columns NEEDED, report, and time and cell where the rules have slots and cells. Each row is counted once.
    """
    code = np.zeros(table.num_rows, np.uint8)

    def refuse(reason: str, failed: Bools) -> None:
        code[failed & (code == 0)] = REASONS.index(reason) + 1

    column = table.column("user")
    users = vehicle_ids(column)
    hashes = np.array([_hash(user) for user in users.ids or [b""]], np.int64)
    user, missing, bad = hashes[users.code], users.missing, users.bad
    refuse("missing-user", missing)
    refuse("bad-user", bad)
    service = _indices(table.column("service"), {receiver.name: i for i, receiver in enumerate(rules.services)})
    refuse("unknown-service", service < 0)
    _check_declared(table, rules, np.maximum(service, 0), refuse)
    slot_s, event_us = np.zeros_like(service), np.zeros_like(service)
    if rules.hours is not None:
        time = rules.layout.units.instants(table.column("time"))
        refuse("missing-time", time.missing)
        refuse("bad-time", ~time.valid)
        refuse("implausible-time", (time.us < FROM_US) | (time.us >= TO_US))
        event_us, slot_s = time.us, rules.hours.starts_us(np.clip(time.us, FROM_US, TO_US)) // 1_000_000
    cell = _each(table.column("cell"), _cell) if rules.resolution is not None else np.zeros_like(service)
    refuse("bad-cell", cell < 0)
    reported = rules.layout.units.numbers(table.column("report"))
    refuse("missing-report", reported.missing)
    refuse("bad-report", ~reported.valid)
    report, outside = _in_range(reported.values, rules, np.maximum(service, 0))
    refuse("outside-range", outside)
    counts = np.bincount(code, minlength=len(REASONS) + 1)[1:].tolist()
    refused = {reason: count for reason, count in zip(REASONS, counts, strict=True) if count}
    return Reported(user, slot_s, cell, service, event_us, report).take(code == 0), refused


def _check_declared(table: pa.RecordBatch, rules: FusionSpecification, service: Int64s, refuse: Refuse) -> None:
    """Refuses rows that contradict their service's declaration."""
    names = sorted({receiver.mechanism.name for receiver in rules.services})
    declared = np.array([names.index(receiver.mechanism.name) for receiver in rules.services], np.int64)
    indices = _indices(table.column("mechanism"), {name: i for i, name in enumerate(names)})
    refuse("other-mechanism", indices != declared[service])
    epsilons = np.array([receiver.mechanism.epsilon for receiver in rules.services])
    epsilon = rules.layout.units.numbers(table.column("epsilon"))
    refuse("other-epsilon", ~epsilon.valid | (epsilon.values != epsilons[service]))


def _in_range(values: Float64s, rules: FusionSpecification, service: Int64s) -> tuple[Float64s, Bools]:
    """Clips reports, (rows,), to their service's range; marks those beyond rounding errors.

    service: (rows,), index of each report's service.
    """
    report = values.copy()
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


def _hash(user: bytes) -> int:
    return int.from_bytes(hmac.digest(_JOIN_KEY, b"\0\0" + user, "sha256")[:8], "big") & (1 << 63) - 1


def _indices(column: pa.Array, index_of: Mapping[str, int]) -> Int64s:
    """Numbers each row's text; -1 if unknown."""
    numbered = {name.encode(): number for name, number in index_of.items()}
    return _each(column, lambda text: numbered.get(text, -1))


def _each(column: pa.Array, number: Callable[[bytes], int]) -> Int64s:
    """Numbers each row's text as an id; -1 without."""
    read = vehicle_ids(column)
    numbers = np.array([number(text) for text in read.ids or [b""]], np.int64)
    return np.where(read.missing | read.bad, -1, numbers[read.code])


def _cell(value: bytes) -> int:
    """Parses an H3 cell's hexadecimal text; -1 if invalid."""
    try:
        cell = int(value, 16)
    except ValueError:
        return -1
    return cell if 0 < cell < 1 << 63 and h3.is_valid_cell(cell) else -1
