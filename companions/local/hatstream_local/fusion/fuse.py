"""The road of a report, from files to one table of fused statistics, as a bounded pipeline.

read -> parse -> join per user -> fuse per group -> one file per format, written whole or not at all
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from operator import itemgetter
from pathlib import Path
from zoneinfo import ZoneInfo

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner

from hatstream.api import InputError, UsageError, input_paths, read_batches, write_rows
from hatstream_local.fusion.perturb import Report, nothing_usable
from hatstream_local.reports.columns import parse_reports
from hatstream_local.reports.fuse import SCHEMA, Group, Row, fuse, join
from hatstream_local.specification import FusionSpecification

USER_SHARDS = 8
"""Joined one after another: bounds the memory of a join. Changes no result."""


@dataclass
class Fused:
    """What a fusion found. leakage: the most epsilon that one user gave away over all its accepted reports."""

    rows: list[Row] = field(default_factory=list)
    read: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    users: int = 0
    leakage: float = 0.0
    files: tuple[Path, ...] = ()

    @property
    def accepted(self) -> int:
        return self.read - sum(self.refused.values())


@dataclass
class _Run:
    """What the steps of a run tell, all of them in this process; the runner does no work twice."""

    spec: FusionSpecification
    report: Report
    fused: Fused = field(default_factory=Fused)
    groups: list[tuple[Group, list[Row]]] = field(default_factory=list)

    def refuse(self, stage: str, reasons: Mapping[str, int]) -> None:
        for reason, rows in reasons.items():
            if rows:
                name = f"{stage}/{reason}"
                self.fused.refused[name] = self.fused.refused.get(name, 0) + rows


_RUNS: dict[int, _Run] = {}
"""By number, for steps are copied: they take their run's number with them."""
_NUMBERS = count()


def run(spec: FusionSpecification, pattern: str, output: Path, formats: Sequence[str], report: Report) -> Fused:
    """Fuses the reports of all files that match. report: told of rows read and groups fused.

    Raises UsageError for maps without cells, InputError for a bad file or if no row is usable.
    """
    if "geojson" in formats and spec.resolution is None:
        raise UsageError("--formats geojson draws cells: the specification needs [cells]")
    paths = input_paths(pattern)
    output.mkdir(parents=True, exist_ok=True)
    number, state = next(_NUMBERS), _Run(spec, report)
    _RUNS[number] = state
    try:
        with beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([])) as p:
            reports = p | beam.Create(paths, reshuffle=False) | "read and parse" >> beam.FlatMap(_reports, number)
            groups = reports | "by user" >> beam.GroupByKey() | "join per user" >> beam.FlatMap(_joined, number)
            _ = groups | "by group" >> beam.GroupByKey() | "fuse" >> beam.Map(_fuse, number)
    finally:
        del _RUNS[number]
    fused = state.fused
    if not state.groups:
        raise InputError(nothing_usable("report", fused.read, fused.refused, "[input]"))
    placed = ((_place(group, spec), rows) for group, rows in sorted(state.groups, key=itemgetter(0)))
    fused.rows = [place | row for place, rows in placed for row in rows]
    fused.files = tuple(output / f"fused-{spec.spec_id}.{kind}" for kind in formats)
    for path in fused.files:
        write_rows(path, fused.rows, SCHEMA)
    return fused


def _reports(path: str, number: int) -> Iterator[tuple[int, bytes]]:
    """Yields the accepted reports of a file by user shard, packed."""
    state = _RUNS[number]
    for batch in read_batches(state.spec.layout, path):
        reported, refused = parse_reports(batch.table, state.spec.reports)
        state.fused.read += batch.rows
        state.refuse("read", batch.refused)
        state.refuse("parse", refused)
        state.report("read rows", state.fused.read, None)
        shard = reported.user % USER_SHARDS
        for chosen in range(USER_SHARDS):
            part = reported.take(shard == chosen)
            if part.user.size:
                yield chosen, part.packed()


def _joined(shard: tuple[int, Iterable[bytes]], number: int) -> Iterator[tuple[Group, bytes]]:
    """Yields the packed tables of some users, by group."""
    state = _RUNS[number]
    joined = join(list(shard[1]), state.spec.fusion.services)
    state.refuse("join", {"repeated": joined.repeated, "second-report": joined.second})
    state.fused.users += joined.users
    state.fused.leakage = max(state.fused.leakage, joined.leakage)
    yield from joined.groups


def _fuse(group: tuple[Group, Iterable[bytes]], number: int) -> None:
    state = _RUNS[number]
    state.groups.append((group[0], fuse(list(group[1]), state.spec.fusion)))
    state.report("fuse groups", len(state.groups), None)


def _place(group: Group, spec: FusionSpecification) -> Row:
    """Tells specification, slot and cell of a group's rows; empty texts for what is not asked for."""
    slot_s, cell = group
    start = end = ""
    if spec.reports.hours is not None:
        begin = datetime.fromtimestamp(slot_s, ZoneInfo(spec.reports.hours.zone))
        start = begin.isoformat()
        end = (
            (begin.astimezone(UTC) + timedelta(seconds=spec.reports.hours.slot_s)).astimezone(begin.tzinfo).isoformat()
        )
    return {"spec_id": spec.spec_id, "slot_start": start, "slot_end": end, "cell": f"{cell:x}" if cell else ""}
