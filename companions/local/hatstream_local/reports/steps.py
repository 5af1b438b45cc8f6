"""The PTransforms of the road of a report. Each is wiring around a pure function."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import apache_beam as beam
from apache_beam.metrics.metric import Metrics
from apache_beam.pvalue import DoOutputsTuple, PCollection, TaggedOutput

from hatstream_local.reports.columns import ReportRules, parse_reports
from hatstream_local.reports.fuse import FusionRules, Group, fuse, join
from transforms import counters
from transforms.layouts.base import RawBatch
from transforms.records import REFUSED
from transforms.sinks.rows import Row
from transforms.steps.side_outputs import Parting, Refusal, dead_letters

SPENT: Final = "spent"


class UserLoss(NamedTuple):
    """What some users spent: their number, and the most epsilon that one of them gave away over all its reports."""

    users: int
    leakage: float


Told = TaggedOutput[Literal["spent"], UserLoss]


@dataclass
class ParseReports(Parting[PCollection[RawBatch]]):
    """PCollection[RawBatch] -> main: (user shard, packed Reported); refused: Refused."""

    rules: ReportRules
    shards: int

    def expand(self, batches: PCollection[RawBatch]) -> DoOutputsTuple:
        return batches | "parse" >> beam.FlatMap(self._parsed).with_outputs(REFUSED, main="reports")

    def _parsed(self, batch: RawBatch) -> Iterator[tuple[int, bytes] | Refusal]:
        reported, refused = parse_reports(batch.table, self.rules)
        yield from dead_letters("parse", refused)
        shard = reported.user % self.shards
        for number in range(self.shards):
            part = reported.take(shard == number)
            if part.user.size:
                yield number, part.packed()


@dataclass
class JoinUsers(Parting[PCollection[tuple[int, bytes]]]):
    """(user shard, packed Reported) -> main: (group, packed table); refused: Refused; spent: Spent."""

    rules: ReportRules

    def expand(self, reports: PCollection[tuple[int, bytes]]) -> DoOutputsTuple:
        shards = reports | "by user" >> beam.GroupByKey()
        return shards | "join" >> beam.FlatMap(self._joined).with_outputs(REFUSED, SPENT, main="groups")

    def _joined(self, shard: tuple[int, Iterable[bytes]]) -> Iterator[tuple[Group, bytes] | Refusal | Told]:
        joined = join(list(shard[1]), self.rules.services)
        yield from dead_letters("join", {"repeated": joined.repeated, "second-report": joined.second})
        told: Told = TaggedOutput(SPENT, UserLoss(joined.users, joined.leakage))
        yield told
        yield from joined.groups


@dataclass
class FuseGroups(beam.PTransform[PCollection[tuple[Group, bytes]], PCollection[tuple[Group, list[Row]]]]):
    """(group, packed table of some of its users) -> (group, its rows)."""

    rules: FusionRules

    def expand(self, groups: PCollection[tuple[Group, bytes]]) -> PCollection[tuple[Group, list[Row]]]:
        return groups | "by group" >> beam.GroupByKey() | "fuse" >> beam.Map(self._fused)

    def _fused(self, group: tuple[Group, Iterable[bytes]]) -> tuple[Group, list[Row]]:
        Metrics.counter(counters.NAMESPACE, "groups").inc()
        return group[0], fuse(list(group[1]), self.rules)
