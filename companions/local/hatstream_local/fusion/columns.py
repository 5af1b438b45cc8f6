"""Checks rows of reports; a refused row has one reason."""

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

FROM_US, TO_US = 946_684_800_000_000, 4_102_444_800_000_000  # the years 2000 to 2099, UTC
NEEDED = ("user", "service", "epsilon", "mechanism")
"""Fields of a row of reports; then come `time` and `cell`, if asked for, and last `report`."""

_JOIN_KEY = b"hatstream fuse"
"""Users are joined by a hash of what the input calls them; it never leaves the job, so its key needs no secret."""

_QUARTER_S = 900
_ROUNDING_SHARE = 1e-9
"""Reports are decimal texts: one may lie beyond the end of its range by that share of it, and is clipped to it."""


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


class Reported(NamedTuple):
    """Columns of accepted reports, (reports,) each."""

    user: Int64s  # hash
    slot_s: Int64s  # start, since 1970 UTC; 0 without slots
    cell: Int64s  # H3; 0 without cells
    service: Int64s  # index in the rules
    event_us: Int64s  # since 1970 UTC; 0 without slots
    report: Float64s  # raw, in its mechanism's range

    def take(self, chosen: Bools | Int64s) -> Reported:
        """Selects reports by mask or index."""
        return Reported._make(column[chosen] for column in self)


def parse_reports(table: pa.RecordBatch, rules: FusionSpecification) -> tuple[Reported, dict[str, int]]:
    """Returns accepted rows, and the number of refused ones by their first reason."""
    users = vehicle_ids(table.column("user"))
    hashes = np.array([_hash(user) for user in users.ids or [b""]], np.int64)  # code is 0 where there is no id at all
    service = _indices(table.column("service"), {receiver.name: i for i, receiver in enumerate(rules.services)})
    failures = {"missing-user": users.missing, "bad-user": users.bad, "unknown-service": service < 0}  # masks, (rows,)
    service = np.maximum(service, 0)  # refused rows are checked by the first service, and not counted again
    names = sorted({receiver.mechanism.name for receiver in rules.services})
    mechanism = np.array([names.index(receiver.mechanism.name) for receiver in rules.services], np.int64)[service]
    failures["other-mechanism"] = _indices(table.column("mechanism"), {n: i for i, n in enumerate(names)}) != mechanism
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
    report, outside = _in_range(reported.values, rules, service)
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
    report = values.copy()
    outside = np.zeros(report.size, np.bool_)
    for index, receiver in enumerate(rules.services):
        rows = service == index
        low, high = receiver.mechanism.low, receiver.mechanism.high
        slack = _ROUNDING_SHARE * (high - low)
        raw = report[rows]
        outside[rows] = (raw < low - slack) | (raw > high + slack)
        if receiver.mechanism.name == "sr":  # stochastic rounding reports the two ends alone
            outside[rows] |= (raw > low + slack) & (raw < high - slack)
        report[rows] = np.clip(raw, low, high)
    return report, outside


def _hash(user: bytes) -> int:
    """Hashes a user to 63 bits, which an int64 holds."""
    # The prefix is part of the hash, by which rows are sorted: results keep their last digits.
    return int.from_bytes(hmac.digest(_JOIN_KEY, b"\0\0" + user, "sha256")[:8], "big") & (1 << 63) - 1


def _indices(column: pa.Array, index_of: Mapping[str, int]) -> Int64s:
    """Looks up each row's text in `index_of`, (rows,); -1 if unknown or missing."""
    numbered = {name.encode(): number for name, number in index_of.items()}
    return _numbers_of_texts(column, lambda text: numbered.get(text, -1))


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
