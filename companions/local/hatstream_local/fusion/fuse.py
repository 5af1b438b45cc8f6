"""Fuses files of reports into one table of statistics.

read -> parse -> join per user -> fuse per group -> one file per format, written atomically
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hatstream.api import InputError, UsageError, input_paths, read_batches, write_rows
from hatstream_local.fusion.columns import Reported, parse_reports
from hatstream_local.mechanisms.aggregate import ReportRows, aggregate
from hatstream_local.mechanisms.distributions import Distribution, maximum_likelihood, smoothed
from hatstream_local.mechanisms.kinds import Laplace
from hatstream_local.mechanisms.means import fused_mean
from hatstream_local.mechanisms.mechanism import Float64s, Int64s, Reports, Service

if TYPE_CHECKING:
    from hatstream_local.specification import FusionSpecification

Row = dict[str, Any]
Report = Callable[[str, int, int | None], None]
"""Called with a phase, what is done of it, and its whole if that is known."""

UNIT = "km/h"
FUSED = "all"
"""The service of a fused row; the rows of single services stand beside it for comparison."""

_REMEMBERED_ROWS, _MOST_REMEMBERED = 2, 4096
_REMEMBERED: dict[tuple[object, ...], Distribution] = {}

_NUMBERS = ("from_kmh", "to_kmh", "value", "lower95", "upper95", "epsilon_user")
_MAY_BE_NONE = ("from_kmh", "to_kmh", "lower95", "upper95")
_COLUMNS = (
    *("spec_id", "slot_start", "slot_end", "cell", "statistic", "service", "from_kmh", "to_kmh", "value", "unit"),
    *("lower95", "upper95", "users", "epsilon_user", "status"),
)
SCHEMA = pa.schema(
    pa.field(
        name,
        pa.int64() if name == "users" else pa.float64() if name in _NUMBERS else pa.string(),
        nullable=name in _MAY_BE_NONE,
    )
    for name in _COLUMNS
)

Group = tuple[int, int]
"""Start of the slot in seconds since 1970 UTC, and cell; 0 for what the specification does not ask for."""


class Joined(NamedTuple):
    """Users' reports, packed by group.

    repeated: number of exact copies. second: further reports of a user, group and service. leakage: largest epsilon
    that a user spent over all reports.
    """

    groups: list[tuple[Group, bytes]]
    repeated: int
    second: int
    users: int
    leakage: float


def changes(*columns: Int64s | Float64s) -> NDArray[np.bool_]:
    """Marks the first entry, and entries unlike their predecessor."""
    differs = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return np.append(True, differs)[: columns[0].size]


def join(parts: Sequence[bytes], services: Sequence[Service]) -> Joined:
    """Joins users' reports into a table for each group.

    Of several reports of one user, group and service the earliest and smallest counts; all but copies have leaked.
    """
    columns = [Reported.unpacked(part) for part in parts]
    rows = Reported(*(np.concatenate(column) for column in zip(*columns, strict=True)))
    rows = rows.take(np.lexsort((rows.report, rows.event_us, rows.service, rows.user, rows.cell, rows.slot_s)))
    later = ~changes(rows.slot_s, rows.cell, rows.user, rows.service)
    copy = later & ~changes(rows.event_us, rows.report)
    users, number = np.unique(rows.user, return_inverse=True)
    epsilons = np.array([service.mechanism.epsilon for service in services])
    spent = np.bincount(number, epsilons[rows.service] * ~copy, users.size)
    groups = list(_tables(rows.take(~later), len(services)))
    return Joined(groups, int(copy.sum()), int((later & ~copy).sum()), users.size, float(spent.max(initial=0.0)))


def _tables(reported: Reported, services: int) -> Iterator[tuple[Group, bytes]]:
    """Packs each group's users: their ids, then reports by service, as int64.

    A table is (1 + services, users); reports are float64 bits, NaN where a service has none.
    """
    new = changes(reported.slot_s, reported.cell, reported.user)
    row = np.cumsum(new) - 1
    table = np.full((services, int(new.sum())), np.nan)
    table[reported.service, row] = reported.report
    first = reported.take(new)
    starts = np.flatnonzero(changes(first.slot_s, first.cell)).tolist()
    for start, end in pairwise([*starts, first.user.size]):
        group = int(first.slot_s[start]), int(first.cell[start])
        packed = np.concatenate([first.user[None, start:end], table[:, start:end].view(np.int64)])
        yield group, packed.tobytes()


def fuse(parts: Sequence[bytes], rules: FusionSpecification) -> list[Row]:
    """Fuses one group's reports into rows: means, fused and by service, and shares.

    parts: tables of `_tables`, packed.
    """
    tables = [np.frombuffer(part, np.int64).reshape(len(rules.services) + 1, -1) for part in parts]
    table = np.concatenate(tables, axis=1)
    table = table[:, np.argsort(table[0], kind="stable")]
    reports = Reports(rules.services, table[1:].view(np.float64))
    leakage = reports.leakage()
    rows = [_mean_row(reports, rules, FUSED, leakage)]
    for index, service in enumerate(reports.services):
        single = Reports([service], reports.values[index : index + 1])
        if not np.isnan(single.values).all():
            rows.append(_mean_row(single, rules, service.name, single.leakage()))
    return rows + _share_rows(reports, rules, leakage)


def _mean_row(reports: Reports, rules: FusionSpecification, name: str, leakage: float) -> Row:
    """Clamps the mean into [0, U], with its interval."""
    fused = fused_mean(reports, rules.mean)
    upper = float(rules.upper_kmh)
    value = min(max((fused.value + 1) / 2 * upper, 0.0), upper)
    half = fused.standard_error * upper  # two of them, on a scale that is half as long
    row = _row("mean", name, value, UNIT, fused.users, leakage)
    return row | {"lower95": round(max(value - half, 0.0), 6), "upper95": round(min(value + half, upper), 6)}


def _share_rows(reports: Reports, rules: FusionSpecification, leakage: float) -> list[Row]:
    """Estimates shares of users by bucket of values; no rows without a telling report.

    leakage: the group's, shown in each row. Laplace reports alone tell no distribution.
    """
    telling = [not isinstance(service.mechanism, Laplace) for service in reports.services]
    values = reports.values[telling]
    users = int((~np.isnan(values)).any(axis=0).sum()) if len(values) else 0
    if not rules.buckets or not users:
        return []
    shares = _distribution(aggregate(reports, rules.buckets), rules.distribution)
    status = "ok" if shares.converged else "not-converged"
    edges = [round(edge, 6) for edge in np.linspace(0, rules.upper_kmh, rules.buckets + 1).tolist()]
    row = _row("share", FUSED, 0.0, "1", users, leakage) | {"status": status}
    return [
        row | {"value": round(share, 9), "from_kmh": low, "to_kmh": high}
        for share, (low, high) in zip(shares.shares.tolist(), pairwise(edges), strict=True)
    ]


def _distribution(rows: ReportRows, method: str) -> Distribution:
    """Estimates a distribution, with a cache for small groups."""
    find = smoothed if method == "ems" else maximum_likelihood
    if rows.counts.size > _REMEMBERED_ROWS:
        return find(rows)
    key = method, rows.buckets, *(column.tobytes() for column in (rows.curves, rows.edges, rows.levels, rows.counts))
    if key not in _REMEMBERED:
        if len(_REMEMBERED) >= _MOST_REMEMBERED:
            _REMEMBERED.clear()
        _REMEMBERED[key] = find(rows)
    return _REMEMBERED[key]


def _row(statistic: str, service: str, value: float, unit: str, users: int, leakage: float) -> Row:
    texts = {"statistic": statistic, "service": service, "unit": unit, "status": "ok"}
    return dict.fromkeys(_MAY_BE_NONE) | texts | {"value": round(value, 9), "users": users, "epsilon_user": leakage}


USER_SHARDS = 8
"""Joined one after another: bounds the memory of a join. Changes no result."""


@dataclass
class Fused:
    """Result of a fusion; leakage: a user's largest epsilon."""

    rows: list[Row] = field(default_factory=list)
    read: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    users: int = 0
    leakage: float = 0.0
    files: tuple[Path, ...] = ()

    @property
    def accepted(self) -> int:
        """Number of accepted rows."""
        return self.read - sum(self.refused.values())

    def refuse(self, stage: str, reasons: Mapping[str, int]) -> None:
        """Counts refused rows by stage and reason."""
        for reason, rows in reasons.items():
            if rows:
                name = f"{stage}/{reason}"
                self.refused[name] = self.refused.get(name, 0) + rows


def run(spec: FusionSpecification, pattern: str, output: Path, formats: Sequence[str], report: Report) -> Fused:
    """Fuses all matching files, and writes each group's rows. Raises UsageError or InputError."""
    if "geojson" in formats and spec.resolution is None:
        raise UsageError("--formats geojson draws cells: the specification needs [cells]")
    paths = input_paths(pattern)
    output.mkdir(parents=True, exist_ok=True)
    fused, tables = Fused(), defaultdict[Group, list[bytes]](list)
    for shard in _read_shards(paths, spec, fused, report):
        joined = join(shard, spec.services)
        fused.refuse("join", {"repeated": joined.repeated, "second-report": joined.second})
        fused.users += joined.users
        fused.leakage = max(fused.leakage, joined.leakage)
        for group, table in joined.groups:
            tables[group].append(table)
    if not tables:
        raise InputError(nothing_usable("report", fused.read, fused.refused, "[input]"))
    for number, (group, parts) in enumerate(sorted(tables.items()), 1):
        place = _place(group, spec)
        fused.rows += [place | row for row in fuse(parts, spec)]
        report("fuse groups", number, len(tables))
    fused.files = tuple(output / f"fused-{spec.spec_id}.{kind}" for kind in formats)
    for path in fused.files:
        write_rows(path, fused.rows, SCHEMA)
    return fused


def _read_shards(
    paths: Sequence[str], spec: FusionSpecification, fused: Fused, report: Report
) -> Iterator[Sequence[bytes]]:
    """Yields the packed reports of each shard of users."""
    shards: list[list[bytes]] = [[] for _ in range(USER_SHARDS)]
    for path in paths:
        for batch in read_batches(spec.layout, path):
            reported, refused = parse_reports(batch.table, spec)
            fused.read += batch.rows
            fused.refuse("read", batch.refused)
            fused.refuse("parse", refused)
            report("read rows", fused.read, None)
            shard_of_report = reported.user % USER_SHARDS
            for number, packed in enumerate(shards):
                part = reported.take(shard_of_report == number)
                if part.user.size:
                    packed.append(part.packed())
    while shards:
        if shard := shards.pop():
            yield shard


def _place(group: Group, spec: FusionSpecification) -> Row:
    """Returns a group's specification, slot and cell."""
    slot_s, cell = group
    start = end = ""
    if spec.hours is not None:
        begin = datetime.fromtimestamp(slot_s, ZoneInfo(spec.hours.zone))
        start = begin.isoformat()
        end = (begin.astimezone(UTC) + timedelta(seconds=spec.hours.slot_s)).astimezone(begin.tzinfo).isoformat()
    return {"spec_id": spec.spec_id, "slot_start": start, "slot_end": end, "cell": f"{cell:x}" if cell else ""}


def nothing_usable(noun: str, read: int, refused: Mapping[str, int], table: str) -> str:
    """Explains why no row is usable. table: the specification's about the input."""
    why = "; ".join(f"{rows:,} refused: {reason}" for reason, rows in sorted(refused.items())) or "there are none"
    return f"no {noun} is usable, of {read:,} rows ({why}): does {table} of the specification fit these files?"
