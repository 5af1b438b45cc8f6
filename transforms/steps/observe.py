"""Steps from files to events by slot and shard."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import apache_beam as beam
from apache_beam.pvalue import DoOutputsTuple, PCollection

from transforms import counters, wire
from transforms.failpoints import failpoint
from transforms.layouts.base import RawBatch
from transforms.observe import hexagons
from transforms.observe.parse import Rules, locate, parse
from transforms.places.ground import Ground
from transforms.records import REFUSED, Observations, PackedEvents, Refused
from transforms.steps.metrics import Parting, Refusal, count, dead_letters


def counted(batches: Iterable[RawBatch]) -> Iterator[RawBatch | Refusal]:
    """Counts batches' rows; yields dead letters, then each batch."""
    for batch in batches:
        count(counters.ROWS, batch.rows)
        yield from dead_letters("read", batch.refused)
        yield batch
        failpoint("read")


def refused_file(reason: str) -> Iterator[Refusal]:
    """Yields a file's dead letter, counted as one row."""
    count(counters.ROWS)
    yield from dead_letters("read", {reason: 1})


@dataclass
class Parse(Parting[PCollection[RawBatch]]):
    """PCollection[RawBatch] -> main: Observations; refused: Refused."""

    rules: Rules

    def expand(self, batches: PCollection[RawBatch]) -> DoOutputsTuple:
        return batches | "check rows" >> beam.FlatMap(self.check).with_outputs(REFUSED, main="observations")

    def check(self, batch: RawBatch) -> Iterator[Observations | Refusal]:
        """Yields a batch's observations and refusals."""
        observations, refused = parse(batch.table, self.rules)
        yield from dead_letters("parse", refused)
        failpoint("parse")
        yield observations


@dataclass
class Assign(Parting[PCollection[Observations]]):
    """Observations packed by slot, shard and pane; others refused."""

    ground: Ground
    vehicle_shards: int
    pane_s: int | None

    def expand(self, observations: PCollection[Observations]) -> DoOutputsTuple:
        return observations | "find cells" >> beam.FlatMap(self.pack).with_outputs(REFUSED, main="events")

    def pack(self, observations: Observations) -> Iterator[PackedEvents | Refusal]:
        """Packs located observations; yields them and dead letters."""
        located = locate(observations, self.ground)
        yield from dead_letters("assign", {hexagons.OUTSIDE_REGION: located.outside})
        failpoint("assign")
        for part in wire.split(located.observations, located.cell, self.vehicle_shards, self.pane_s):
            yield PackedEvents((part.slot_s, part.shard), part.data, part.rows, part.pane_s)


@dataclass
class CountRefused(beam.PTransform[PCollection[Refused], PCollection[None]]):
    """Counts dead letters as `refused/<stage>/<reason>`."""

    def expand(self, refused: PCollection[Refused]) -> PCollection[None]:
        return refused | "count" >> beam.FlatMap(self._count)

    def _count(self, refused: Refused) -> None:
        count(counters.refused(refused.stage, refused.reason), refused.rows)
