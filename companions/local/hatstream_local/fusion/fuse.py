"""The road of a report, from files to one table of fused statistics, as a bounded pipeline.

read -> parse -> join per user -> fuse per group -> one file per format, written whole or not at all
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from operator import itemgetter
from pathlib import Path
from zoneinfo import ZoneInfo

import apache_beam as beam
import msgspec
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner

from hatstream_local.fusion.perturb import nothing_usable
from hatstream_local.reports.fuse import SCHEMA, Group
from hatstream_local.reports.steps import SPENT, FuseGroups, JoinUsers, ParseReports, UserLoss
from hatstream_local.specification import FusionSpecification
from pipelines.errors import InputError, UsageError
from pipelines.input_files import paths_of
from pipelines.outcome import reporting
from pipelines.output_folder import make_writable
from pipelines.progress import Report
from pipelines.runs.beam.results import finished
from pipelines.runs.spool import Spool
from transforms import counters
from transforms.atomic_files import write_whole
from transforms.layouts.base import RawBatch
from transforms.records import REFUSED
from transforms.sinks.files import FORMATS
from transforms.sinks.rows import Row, columns_in
from transforms.steps.observe import CountRefused, Read

_GROUPS, _ROWS = "groups", "rows"

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


def run(spec: FusionSpecification, pattern: str, output: Path, formats: Sequence[str], report: Report) -> Fused:
    """Fuses the reports of all files that match. report: told of rows read and groups fused.

    Raises UsageError for maps without cells, InputError if no row is usable, StepError for a bad file.
    """
    if "geojson" in formats and spec.resolution is None:
        raise UsageError("--formats geojson draws cells: the specification needs [cells]")
    paths = paths_of(pattern)
    make_writable(output)
    with Spool() as kept:
        with reporting(partial(_tell, kept, report)):
            fused = _run(spec, paths, kept)
        groups = [msgspec.json.decode(data, type=tuple[Group, list[Row]]) for data in kept.read(_GROUPS)]
        spent = [msgspec.json.decode(data, type=UserLoss) for data in kept.read(SPENT)]
    if not groups:
        raise InputError(nothing_usable("report", fused.read, fused.refused, "[input]"))
    fused.users, fused.leakage = sum(users.users for users in spent), max(users.leakage for users in spent)
    placed = ((_place(group, spec), rows) for group, rows in sorted(groups, key=itemgetter(0)))
    fused.rows = [place | row for place, rows in placed for row in rows]
    stem = f"fused-{spec.spec_id}"
    for kind in formats:
        path = output / f"{stem}.{kind}"
        write_whole(path, FORMATS[kind](columns_in(fused.rows, SCHEMA), SCHEMA, stem))
        fused.files += (path,)
    return fused


def _run(spec: FusionSpecification, paths: Sequence[str], kept: Spool) -> Fused:
    with beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([])) as p:
        names = beam.Create([os.fsencode(path) for path in paths], reshuffle=False).with_output_types(bytes)
        read = p | "files" >> names | "read" >> Read(spec.layout)  # RawBatch
        _ = read.batches | "count rows" >> beam.Map(_count_rows, kept)
        parsed = read.batches | "parse" >> ParseReports(spec.reports, USER_SHARDS)  # (shard, packed Reported)
        joined = parsed.reports | "join per user" >> JoinUsers(spec.reports)  # (group, packed table)
        fused = joined.groups | "fuse" >> FuseGroups(spec.fusion)  # (group, rows)
        _ = (read[REFUSED], parsed[REFUSED], joined[REFUSED]) | "all refused" >> beam.Flatten() | CountRefused()
        _ = fused | "keep groups" >> beam.Map(_keep, _GROUPS, kept)
        _ = joined[SPENT] | "keep spent" >> beam.Map(_keep, SPENT, kept)
    counts, prefix = finished(p.result).counts, counters.REFUSED
    refused = {name.removeprefix(prefix): rows for name, rows in counts.items() if name.startswith(prefix)}
    return Fused(read=counts.get(counters.ROWS, 0), refused=refused)


def _count_rows(batch: RawBatch, kept: Spool) -> None:
    kept.append(_ROWS, b"", rows=batch.rows)


def _tell(kept: Spool, report: Report) -> None:
    """Says how far the pipeline is: its runner does not."""
    for phase, key in (("read rows", _ROWS), ("fuse groups", _GROUPS)):
        if kept.rows(key):
            report(phase, kept.rows(key), None)


def _keep(element: tuple[Group, list[Row]] | UserLoss, key: str, kept: Spool) -> None:
    kept.append(key, msgspec.json.encode(element))


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
