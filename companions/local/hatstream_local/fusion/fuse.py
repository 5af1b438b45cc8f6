"""Fuses files of reports into statistics; makes such reports of telemetry.

A group is a slot and a cell, for which users' reports are fused; services are the recipients of reports. Users are
joined in shards, one after another. `changes` marks rows that differ from the row before. A user's leakage is the sum
of the epsilons of all its reports.
read -> parse -> join per user -> fuse per group -> one file per format, written atomically
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import pairwise, repeat
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import h3.api.basic_int as h3
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpops import Noise
from hatstream.api import InputError, UsageError, input_paths, read_batches, read_positions, write_rows
from hatstream_local.mechanisms.aggregate import ReportRows, aggregate
from hatstream_local.mechanisms.estimates import Distribution, fused_mean, maximum_likelihood, smoothed
from hatstream_local.mechanisms.mechanism import Float64s, Int64s, Laplace, Reports, Service
from hatstream_local.specification import FUSED, GRID_STEPS, FusionSpecification, Reported, parse_reports

Row = dict[str, Any]
Progress = Callable[[str, int, int | None], None]  # called with a phase, the number done, and the total if known
_DISTRIBUTION_CACHE: dict[tuple[object, ...], Distribution] = {}
"""Distributions of groups with at most _CACHED_ROWS distinct likelihoods: many groups of one or two users are equal."""
_CACHED_ROWS, _MOST_CACHED = 2, 4096
_MAY_BE_NONE = ("from_kmh", "to_kmh", "lower95", "upper95")
_TYPES = {"users": pa.int64()} | dict.fromkeys((*_MAY_BE_NONE, "value", "epsilon_user"), pa.float64())
_ROW_COLUMNS = (
    *("spec_id", "slot_start", "slot_end", "cell", "statistic", "service", "from_kmh", "to_kmh", "value", "unit"),
    *("lower95", "upper95", "users", "epsilon_user", "status"),
)
SCHEMA = pa.schema(
    pa.field(name, _TYPES.get(name, pa.string()), nullable=name in _MAY_BE_NONE) for name in _ROW_COLUMNS
)
Group = tuple[int, int]  # start of the slot in s since 1970 UTC, and cell; 0 for what the specification lacks


class GroupReports(NamedTuple):
    """A group's users, (users,), and raw reports, (services, users), NaN where missing."""

    user: Int64s
    reports: Float64s


class Joined(NamedTuple):
    """Reports by group, one for each user and service."""

    groups: list[tuple[Group, GroupReports]]
    repeated: int  # exact copies
    second: int  # further reports of a user, group and service
    users: int
    leakage: float  # largest epsilon that a user spent over all reports


def changes(*columns: Int64s | Float64s) -> NDArray[np.bool_]:
    """Marks the first row, and each that differs from the row before."""
    differs = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return np.append(True, differs)[: columns[0].size]


def join(parts: Sequence[Reported], services: Sequence[Service]) -> Joined:
    """Joins users' reports into a table for each group.

    Of several reports of one user, group and service the earliest and smallest counts; all but exact copies leak.
    """
    rows = Reported(*map(np.concatenate, zip(*parts, strict=True)))
    rows = rows.take(np.lexsort((rows.report, rows.event_us, rows.service, rows.user, rows.cell, rows.slot_s)))
    is_further = ~changes(rows.slot_s, rows.cell, rows.user, rows.service)  # all but the first that a service has
    is_copy = is_further & ~changes(rows.event_us, rows.report)  # of the row before: same time and report
    users, number = np.unique(rows.user, return_inverse=True)
    epsilons = np.array([service.mechanism.epsilon for service in services])
    spent = np.bincount(number, epsilons[rows.service] * ~is_copy, users.size)
    second = int((is_further & ~is_copy).sum())
    rows = rows.take(~is_further)
    is_new = changes(rows.slot_s, rows.cell, rows.user)  # the first report of a user in a group
    reports = np.full((len(services), int(is_new.sum())), np.nan)
    reports[rows.service, np.cumsum(is_new) - 1] = rows.report
    rows = rows.take(is_new)  # one for each column of `reports`
    groups = []
    for start, end in pairwise([*np.flatnonzero(changes(rows.slot_s, rows.cell)).tolist(), rows.user.size]):
        group = int(rows.slot_s[start]), int(rows.cell[start])
        groups.append((group, GroupReports(rows.user[start:end], reports[:, start:end])))
    return Joined(groups, int(is_copy.sum()), second, users.size, leakage=float(spent.max(initial=0.0)))


def fuse(parts: Sequence[GroupReports], rules: FusionSpecification) -> list[Row]:
    """Fuses one group's reports, a part of each shard, into rows: means and shares."""
    # Sorted by user, sums have the same bits whatever the order of the input.
    order = np.argsort(np.concatenate([part.user for part in parts]), kind="stable")
    reports = Reports(rules.services, np.concatenate([part.reports for part in parts], axis=1)[:, order])
    rows = [_mean_row(reports, rules, FUSED)]  # FUSED: stands for a service's name
    for service, values in zip(reports.services, reports.values, strict=True):
        if not np.isnan(values).all():
            rows.append(_mean_row(Reports([service], values[None]), rules, service.name))
    # Shares of users by bucket of values: without Laplace reports, which may be any number; `aggregate` omits them.
    is_used = [not isinstance(service.mechanism, Laplace) for service in reports.services]
    users = int((~np.isnan(reports.values[is_used])).any(axis=0).sum())
    if rules.buckets and users:
        shares = _distribution(aggregate(reports, rules.buckets), rules.distribution)
        shared = _row("share", FUSED, reports, users, unit="1")
        shared |= {"status": "ok" if shares.converged else "not-converged"}
        edges = [round(edge, 6) for edge in np.linspace(0, rules.upper_kmh, rules.buckets + 1).tolist()]
        for share, (low, high) in zip(shares.shares.tolist(), pairwise(edges), strict=True):
            rows.append(shared | {"value": round(share, 9), "from_kmh": low, "to_kmh": high})
    return rows


def _mean_row(reports: Reports, rules: FusionSpecification, name: str) -> Row:
    """Estimates a group's mean in km/h, clipped to 0..upper_kmh, with its interval."""
    fused = fused_mean(reports, rules.mean)
    upper = float(rules.upper_kmh)
    value = min(max((fused.value + 1) / 2 * upper, 0.0), upper)  # from [-1, 1] to km/h
    half = 2 * fused.standard_error * upper / 2  # two standard errors, in km/h: [-1, 1] is 2 long
    ends = {"lower95": round(max(value - half, 0.0), 6), "upper95": round(min(value + half, upper), 6)}
    return _row("mean", name, reports, fused.users, unit="km/h") | {"value": round(value, 9)} | ends


def _distribution(rows: ReportRows, method: str) -> Distribution:
    """Estimates a distribution, with a cache for small groups."""
    estimate = smoothed if method == "ems" else maximum_likelihood
    if rows.counts.size > _CACHED_ROWS:
        return estimate(rows)
    key = method, rows.buckets, *(column.tobytes() for column in (rows.curves, rows.edges, rows.levels, rows.counts))
    if key not in _DISTRIBUTION_CACHE:
        if len(_DISTRIBUTION_CACHE) >= _MOST_CACHED:
            _DISTRIBUTION_CACHE.clear()
        _DISTRIBUTION_CACHE[key] = estimate(rows)
    return _DISTRIBUTION_CACHE[key]


def _row(statistic: str, service: str, reports: Reports, users: int, unit: str) -> Row:
    """Makes a row of SCHEMA, but for its value and its group's columns."""
    texts = {"statistic": statistic, "service": service, "unit": unit, "status": "ok"}
    # A user's epsilons of several services add up: the most of one user here.
    return dict.fromkeys(_MAY_BE_NONE) | texts | {"users": users, "epsilon_user": reports.leakage()}


USER_SHARDS = 8  # users are joined in so many parts, one after another, to bound the memory; changes no result


@dataclass
class Fused:
    """Result of a fusion; leakage: a user's largest epsilon."""

    rows: list[Row] = field(default_factory=list)
    read: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    users: int = 0
    leakage: float = 0.0
    files: tuple[Path, ...] = ()

    def refuse(self, stage: str, reasons: Mapping[str, int]) -> None:
        """Adds a stage's refused rows by reason to the counts."""
        self.refused.update({f"{stage}/{reason}": rows for reason, rows in reasons.items() if rows})


def fuse_files(
    spec: FusionSpecification, pattern: str, output: Path, formats: Sequence[str], progress: Progress
) -> Fused:
    """Fuses all matching files, and writes each group's rows. Raises UsageError or InputError."""
    if "geojson" in formats and spec.resolution is None:
        raise UsageError("--formats geojson draws cells: the specification needs [cells]")
    paths = input_paths(pattern)
    output.mkdir(parents=True, exist_ok=True)
    fused, parts_of_group = Fused(), defaultdict[Group, list[GroupReports]](list)
    for shard in _read_shards(paths, spec, fused, progress):
        joined = join(shard, spec.services)
        fused.refuse("join", {"repeated": joined.repeated, "second-report": joined.second})
        fused.users += joined.users
        fused.leakage = max(fused.leakage, joined.leakage)
        for group, reports in joined.groups:
            parts_of_group[group].append(reports)
    if not parts_of_group:
        raise InputError(nothing_usable("report", fused.read, fused.refused, "[input]"))
    for number, (slot_s, cell) in enumerate(sorted(parts_of_group), 1):  # each is 0 if the specification has none
        start = end = ""
        if spec.hours is not None:
            begin = datetime.fromtimestamp(slot_s, ZoneInfo(spec.hours.zone))
            start = begin.isoformat()
            later = begin.astimezone(UTC) + timedelta(seconds=spec.hours.slot_s)  # in UTC: clocks may change
            end = later.astimezone(begin.tzinfo).isoformat()
        shared = {"spec_id": spec.spec_id, "slot_start": start, "slot_end": end, "cell": f"{cell:x}" if cell else ""}
        fused.rows += [shared | row for row in fuse(parts_of_group[slot_s, cell], spec)]
        progress("fuse groups", number, len(parts_of_group))
    fused.files = tuple(output / f"fused-{spec.spec_id}.{kind}" for kind in formats)
    for path in fused.files:
        write_rows(path, fused.rows, SCHEMA)
    return fused


def _read_shards(
    paths: Sequence[str], spec: FusionSpecification, fused: Fused, progress: Progress
) -> Iterator[Sequence[Reported]]:
    """Yields all reports by shard of users; counts rows in `fused`."""
    shards: list[list[Reported]] = [[] for _ in range(USER_SHARDS)]
    for path in paths:
        for batch in read_batches(spec.layout, path):
            reported, refused = parse_reports(batch.table, spec)
            fused.read += batch.rows
            fused.refuse("read", batch.refused)
            fused.refuse("parse", refused)
            progress("read rows", fused.read, None)  # None: their total is not known before
            shard_of_report = reported.user % USER_SHARDS
            for number, shard in enumerate(shards):
                batch_of_shard = reported.take(shard_of_report == number)
                if batch_of_shard.user.size:
                    shard.append(batch_of_shard)
    while shards:  # popped, so that a shard's memory is free once it is joined
        if shard := shards.pop():
            yield shard


def nothing_usable(noun: str, read: int, refusals: Mapping[str, int], table: str) -> str:
    """Explains why no row is usable. table: the specification's about the input."""
    why = "; ".join(f"{rows:,} refused: {reason}" for reason, rows in sorted(refusals.items())) or "there are none"
    return f"no {noun} is usable, of {read:,} rows ({why}): does {table} of the specification fit these files?"


REPORT_SCHEMA = pa.schema(
    pa.field(name, pa.float64() if name in ("epsilon", "report") else pa.string(), nullable=False)
    for name in ("user", "service", "epsilon", "mechanism", "time", "cell", "report")
)


def perturb(
    vehicle: Int64s, slot_us: Int64s, cell: Int64s, values: Float64s, services: Sequence[Service], noise: Noise
) -> list[Row]:
    """Perturbs each vehicle's mean of a slot and cell, once for each service.

    vehicle, slot_us, cell, values: (positions,); cell 0: without cells; values on [-1, 1]. Each row spends its
    service's epsilon, and a vehicle's rows add up.
    """
    order = np.lexsort((vehicle, cell, slot_us))
    key, values = np.stack([slot_us, cell, vehicle])[:, order], values[order]
    starts = np.flatnonzero(changes(*key))  # of each mean's values
    sums = np.add.reduceat(values, starts) if starts.size else values  # np.add.reduceat takes no empty list of starts
    means = sums / np.diff(np.append(starts, values.size))
    slots, cells, vehicles = key[:, starts]
    times = [f"{instant}Z" for instant in np.datetime_as_string(slots.view("datetime64[us]"), unit="s").tolist()]
    rows: list[Row] = []
    for service in services:
        reports = service.mechanism.sample(means, noise)
        spent = {"service": service.name, "epsilon": service.mechanism.epsilon, "mechanism": service.mechanism.name}
        for time, cell_id, user, report in zip(times, cells.tolist(), vehicles.tolist(), reports.tolist(), strict=True):
            labels = {"user": f"{user:016x}", "time": time, "cell": f"{cell_id:x}" if cell_id else ""}
            rows.append(labels | spent | {"report": report})
    return rows


READABLE = ("parquet", "avro", "csv", "jsonl")  # what `hatstream fuse` reads, of what can be written


@dataclass(frozen=True)
class Perturbed:
    """Result of perturbing; leakage: a vehicle's largest epsilon."""

    reports: int
    vehicles: int
    leakage: float
    read: int
    refused: dict[str, int]


def perturb_files(spec: FusionSpecification, pattern: str, output: Path, key: Path, progress: Progress) -> Perturbed:
    """Writes the reports of telemetry to `output`. Raises UsageError or InputError."""
    if output.suffix.removeprefix(".") not in READABLE:
        raise UsageError(f"--output must end in one of {', '.join(READABLE)}; it is {output.name!r}")
    observed, values, refused = read_telemetry(spec, pattern, key, progress)
    read = values.size + sum(refused.values())
    if not values.size:
        raise InputError(nothing_usable("row of the telemetry", read, refused, "[telemetry]"))
    slot_us = cell = np.zeros_like(observed.vehicle)  # one group of all
    if spec.hours is not None:
        slot_us = spec.hours.starts_us(observed.event_us)
    if spec.resolution is not None:
        lats, lons = (observed.lat_e7 / 1e7).tolist(), (observed.lon_e7 / 1e7).tolist()
        cell = np.fromiter(map(h3.latlng_to_cell, lats, lons, repeat(spec.resolution)), np.int64, len(lats))
    rows = perturb(observed.vehicle, slot_us, cell, values, spec.services, Noise())
    rows_of_user = Counter(row["user"] for row in rows)
    leakage = max(rows_of_user.values()) / len(spec.services) * spec.epsilon_of_all  # each mean is a row per service
    output.parent.mkdir(parents=True, exist_ok=True)
    write_rows(output, rows, REPORT_SCHEMA, mode=0o600)  # a user's own reports, which only the services are to have
    return Perturbed(reports=len(rows), vehicles=len(rows_of_user), leakage=leakage, read=read, refused=refused)


def read_telemetry(
    spec: FusionSpecification, pattern: str, key: Path | None, progress: Progress
) -> tuple[Any, Float64s, dict[str, int]]:
    """Reads telemetry: accepted positions, speeds on [-1, 1], refused rows by reason. Raises UsageError."""
    if spec.telemetry is None:
        raise UsageError("the specification needs a [telemetry] table: the layout of the raw positions")
    step = Fraction(spec.upper_kmh) / GRID_STEPS  # of the grid of speeds, in km/h
    observed, refused = read_positions(spec.telemetry, pattern, key, step=step, steps=GRID_STEPS, report=progress)
    return observed, 2 * observed.value / GRID_STEPS - 1, refused  # from steps of 0..upper_kmh
