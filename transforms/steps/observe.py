"""The steps from files to events by slot and vehicle shard. Each is wiring around a pure function."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import apache_beam as beam
from apache_beam.pvalue import DoOutputsTuple, PCollection

from transforms import counters, tasks, wire
from transforms.errors import StepError
from transforms.failpoints import failpoint
from transforms.layouts import Layout, UnreadableFile
from transforms.layouts.base import RawBatch
from transforms.observe import hexagons
from transforms.observe.events import locate
from transforms.observe.parse import Rules, parse
from transforms.places.ground import Ground
from transforms.records import (
    REFUSED,
    Observations,
    PackedEvents,
    Refused,
)
from transforms.steps.metrics import count
from transforms.steps.side_outputs import Parting, Refusal, dead_letters


@dataclass
class Read(Parting[PCollection[bytes]]):
    """PCollection[path, as the file system has it] -> main: RawBatch; refused: Refused."""

    layout: Layout

    def expand(self, paths: PCollection[bytes]) -> DoOutputsTuple:
        return paths | "read files" >> beam.ParDo(_Read(self.layout)).with_outputs(REFUSED, main="batches")


def counted(batches: Iterable[RawBatch]) -> Iterator[RawBatch | Refusal]:
    """The batches of a file, counted, each after what was refused of it."""
    for batch in batches:
        count(counters.ROWS, batch.rows)
        yield from dead_letters("read", batch.refused)
        yield batch
        failpoint("read")


class _Read(beam.DoFn):
    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def process(self, path: bytes) -> Iterator[RawBatch | Refusal]:
        try:
            yield from counted(tasks.read(self._layout, os.fsdecode(path)))
        except UnreadableFile as error:
            raise StepError(str(error)) from None


@dataclass
class Parse(Parting[PCollection[RawBatch]]):
    """PCollection[RawBatch] -> main: Observations; refused: Refused."""

    rules: Rules

    def expand(self, batches: PCollection[RawBatch]) -> DoOutputsTuple:
        return batches | "check rows" >> beam.ParDo(_Parse(self.rules)).with_outputs(REFUSED, main="observations")


class _Parse(beam.DoFn):
    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def process(self, batch: RawBatch) -> Iterator[Observations | Refusal]:
        observations, refused = parse(batch.table, self._rules)
        yield from dead_letters("parse", refused)
        failpoint("parse")
        yield observations


@dataclass
class Assign(Parting[PCollection[Observations]]):
    """PCollection[Observations] -> main: PackedEvents by (slot, vehicle shard); refused: Refused.

    pane_s: length of a pane; None: a slot is one. dense: whether events are packed for engines, not for a file.
    """

    ground: Ground
    vehicle_shards: int
    pane_s: int | None
    dense: bool = True

    def expand(self, observations: PCollection[Observations]) -> DoOutputsTuple:
        fn = _Assign(self.ground, self.vehicle_shards, self.pane_s, self.dense)
        return observations | "find cells" >> beam.ParDo(fn).with_outputs(REFUSED, main="events")


class _Assign(beam.DoFn):
    def __init__(self, ground: Ground, shards: int, pane_s: int | None, dense: bool) -> None:
        self._ground, self._shards, self._pane_s, self._dense = ground, shards, pane_s, dense

    def process(self, observations: Observations) -> Iterator[PackedEvents | Refusal]:
        located = locate(observations, self._ground)
        yield from dead_letters("assign", {hexagons.OUTSIDE_REGION: located.outside})
        failpoint("assign")
        packing = wire.DENSE if self._dense else wire.FAST
        for part in wire.split(located.observations, located.cell, self._shards, self._pane_s, packing):
            yield PackedEvents((part.slot_s, part.shard), part.data, part.rows, part.pane_s)


@dataclass
class CountRefused(beam.PTransform[PCollection[Refused], PCollection[None]]):
    """Dead letters -> counters `refused/<stage>/<reason>`; nothing else of them is kept."""

    def expand(self, refused: PCollection[Refused]) -> PCollection[None]:
        return refused | "count" >> beam.ParDo(_CountRefused())


class _CountRefused(beam.DoFn):
    def process(self, refused: Refused) -> None:
        count(counters.refused(refused.stage, refused.reason), refused.rows)
