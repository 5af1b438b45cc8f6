"""The road's PTransforms. Each is wiring around a pure function; what crosses between them is typed."""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Final, Literal, NamedTuple

import apache_beam as beam
import msgspec
import numpy as np
from apache_beam.metrics.metric import Metrics
from apache_beam.pvalue import DoOutputsTuple, PCollection, TaggedOutput

from dpops.mechanism import PlanError
from dpops.noise import Noise
from dpops.statistics import Column
from dpops.types import Int64s
from transforms.count import wire
from transforms.count.tally import Cap, tally
from transforms.failpoints import failpoint
from transforms.layouts import Layout, UnreadableFile
from transforms.layouts.apart import read_apart
from transforms.ledger import Ledger, LimitExceeded
from transforms.observe import hexagons
from transforms.observe.parse import Rules, parse
from transforms.records import Observations, RawBatch
from transforms.release.by_hexagon import seal
from transforms.release.policy import Policy, SlotFacts, release_shard
from transforms.release.recorded import Sealed
from transforms.sinks.files import publish_slot
from transforms.sinks.published import OtherValues

NAMESPACE = "hatstream"

SlotShard = tuple[int, int]
"""A group-by key: start of the slot (or of the first slot of a plan) in seconds since 1970 UTC, and a vehicle shard or
a release shard."""


Together = Literal["period", "slot"]
"""What the ledger records in one transaction."""


class StepError(Exception):
    """A step cannot go on with a file; the message names the file and what is wrong, and shows nothing of its content.

    Beam makes a RuntimeError of other exceptions of input and output, and adds its step's name to their messages.
    """

    _tagged_with_step = True  # Beam leaves it alone


class Refused(NamedTuple):
    """Dead letters: how many rows, at which stage, for which reason. Never the rows."""

    stage: str
    reason: str
    rows: int


class PackedEvents(NamedTuple):
    """Observations of one slot and vehicle shard on their way to a group-by."""

    key: SlotShard
    data: bytes
    rows: int


Refusal = TaggedOutput[Literal["refused"], Refused]

Exposed = TaggedOutput[Literal["exposure"], tuple[int, bytes]]

REFUSED: Final = "refused"
EXPOSURE: Final = "exposure"


def _dead_letters(stage: str, reasons: Mapping[str, int]) -> Iterator[Refusal]:
    for reason, rows in reasons.items():
        if rows:
            yield TaggedOutput(REFUSED, Refused(stage, reason, rows))


@dataclass
class Read(beam.PTransform[PCollection[bytes], DoOutputsTuple]):
    """PCollection[path, as the file system has it] -> main: RawBatch; refused: Refused."""

    layout: Layout

    def expand(self, paths: PCollection[bytes]) -> DoOutputsTuple:
        return paths | beam.ParDo(_Read(self.layout)).with_outputs(REFUSED, main="batches")


def batches_of(layout: Layout, path: str) -> Iterator[RawBatch | Refusal]:
    """The batches of one file, counted, each after what was refused of it. Raises UnreadableFile or OSError."""
    for batch in read_apart(layout, path):
        Metrics.counter(NAMESPACE, "rows").inc(batch.rows)
        yield from _dead_letters("read", batch.refused)
        yield batch
        failpoint("read")


class _Read(beam.DoFn):
    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def process(self, found: bytes) -> Iterator[RawBatch | Refusal]:
        path = os.fsdecode(found)
        try:
            yield from batches_of(self._layout, path)
        except UnreadableFile as error:
            raise StepError(str(error)) from None
        except OSError as error:
            raise StepError(f"{path}: {reason_of(error)}") from None


@dataclass
class Parse(beam.PTransform[PCollection[RawBatch], DoOutputsTuple]):
    """PCollection[RawBatch] -> main: Observations; refused: Refused."""

    rules: Rules

    def expand(self, batches: PCollection[RawBatch]) -> DoOutputsTuple:
        return batches | beam.ParDo(_Parse(self.rules)).with_outputs(REFUSED, main="observations")


class _Parse(beam.DoFn):
    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def process(self, batch: RawBatch) -> Iterator[Observations | Refusal]:
        observations, refused = parse(batch.table, self._rules)
        yield from _dead_letters("parse", refused)
        failpoint("parse")
        yield observations


@dataclass
class Assign(beam.PTransform[PCollection[Observations], DoOutputsTuple]):
    """PCollection[Observations] -> main: PackedEvents by (slot, vehicle shard); refused: Refused.

    region: the only cells that are released, or None for all.
    """

    resolution: int
    region: tuple[int, ...] | None
    vehicle_shards: int

    def expand(self, observations: PCollection[Observations]) -> DoOutputsTuple:
        region = None if self.region is None else np.array(self.region, np.int64)
        fn = _Assign(self.resolution, region, self.vehicle_shards)
        return observations | beam.ParDo(fn).with_outputs(REFUSED, main="events")


class _Assign(beam.DoFn):
    def __init__(self, resolution: int, region: Int64s | None, shards: int) -> None:
        self._resolution, self._region, self._shards = resolution, region, shards

    def process(self, observations: Observations) -> Iterator[PackedEvents | Refusal]:
        cell = hexagons.cells_of(observations, self._resolution)
        if self._region is not None:
            inside = np.isin(cell, self._region)
            yield from _dead_letters("assign", {hexagons.OUTSIDE_REGION: int((~inside).sum())})
            observations, cell = observations.take(inside), cell[inside]
        failpoint("assign")
        for key, data, rows in wire.split(observations, cell, self._shards):
            yield PackedEvents(key, data, rows)


@dataclass
class ByVehicle(beam.PTransform[PCollection[tuple[SlotShard, bytes]], PCollection[tuple[SlotShard, bytes]]]):
    """Grouped events -> ((plan, release shard), packed Tally)."""

    cap: Cap | None
    columns: tuple[Column, ...]
    release_shards: int
    slots: Mapping[int, SlotFacts]

    def expand(self, events: PCollection[tuple[SlotShard, bytes]]) -> PCollection[tuple[SlotShard, bytes]]:
        grouped = events | "group" >> beam.GroupByKey()
        fn = _ByVehicle(self.cap, self.columns, self.release_shards, self.slots)
        return grouped | "tally" >> beam.ParDo(fn).with_output_types(tuple[SlotShard, bytes])


class _ByVehicle(beam.DoFn):
    def __init__(
        self, cap: Cap | None, columns: tuple[Column, ...], release_shards: int, slots: Mapping[int, SlotFacts]
    ) -> None:
        self._cap, self._columns, self._shards, self._slots = cap, columns, release_shards, slots

    def process(self, group: tuple[SlotShard, Iterable[bytes]]) -> Iterator[tuple[SlotShard, bytes]]:
        (slot_s, _), parts = group
        table, duplicates = tally(wire.unpack_events(parts), slot_s, self._cap, self._columns)
        Metrics.counter(NAMESPACE, "duplicates").inc(duplicates)
        Metrics.counter(NAMESPACE, "capped").inc(int(table.dropped.sum()))
        shard = release_shard(table.cell, self._shards)
        failpoint("tally")
        for chosen in np.unique(shard).tolist():
            yield (self._slots[slot_s].plan[0], chosen), wire.pack_tally(table.take(shard == chosen))


@dataclass
class ByHexagon(beam.PTransform[PCollection[tuple[SlotShard, bytes]], DoOutputsTuple]):
    """Tallies and heartbeats of ((plan, release shard), packed Tally or b"") -> main: (key, encoded Sealed);
    exposure: (slot, packed Exposure). The key says what is recorded together."""

    policy: Policy
    slots: Mapping[int, SlotFacts]
    together: Together

    def expand(self, tallies: PCollection[tuple[SlotShard, bytes]]) -> DoOutputsTuple:
        grouped = tallies | "group" >> beam.GroupByKey()
        return grouped | "seal" >> beam.ParDo(_ByHexagon(self.policy, self.slots, self.together)).with_outputs(
            EXPOSURE, main="sealed"
        ).with_output_types(tuple[str, bytes])


class _ByHexagon(beam.DoFn):
    def __init__(self, policy: Policy, slots: Mapping[int, SlotFacts], together: Together) -> None:
        self._policy, self._slots, self._together = policy, slots, together

    def process(self, group: tuple[SlotShard, Iterable[bytes]]) -> Iterator[tuple[str, bytes] | Exposed]:
        (plan_s, shard), parts = group
        table = wire.unpack_tally((part for part in parts if part), self._policy.columns)
        failpoint("before-noise")
        try:
            done = seal(plan_s, shard, table, self._slots, self._policy, Noise())
        except PlanError as error:
            raise StepError(f"a HAT cannot be released: {error}") from None
        failpoint("after-noise")
        for unit, exposure in done:
            yield TaggedOutput(EXPOSURE, (unit.slot_s, wire.pack(exposure)))
            yield unit.period if self._together == "period" else str(unit.slot_s), msgspec.json.encode(unit)


@dataclass(frozen=True)
class Book:
    """Where and under which account a specification's slots are recorded."""

    url: str = field(repr=False)  # may hold a password
    head: Path
    account: str
    limit: Fraction
    spec_name: str
    spec_text: str

    def open(self) -> Ledger:
        return Ledger(self.url, self.head)


@dataclass
class Record(beam.PTransform[PCollection[tuple[str, bytes]], PCollection[list[Sealed]]]):
    """(key, encoded Sealed) -> list[Sealed] of one slot, as the ledger returned them. One transaction a key."""

    book: Book

    def expand(self, units: PCollection[tuple[str, bytes]]) -> PCollection[list[Sealed]]:
        grouped = units | "group" >> beam.GroupByKey()
        return grouped | "record" >> beam.ParDo(_Record(self.book))


class _Record(beam.DoFn):
    def __init__(self, book: Book) -> None:
        self._book = book

    def process(self, group: tuple[str, Iterable[bytes]]) -> Iterator[list[Sealed]]:
        book = self._book
        units = sorted((msgspec.json.decode(u, type=Sealed) for u in group[1]), key=lambda u: (u.slot_s, u.shard))
        try:
            done = book.open().record(book.account, book.limit, book.spec_name, book.spec_text, units)
        except LimitExceeded:
            Metrics.counter(NAMESPACE, "units lost to the limit").inc(len(units))
            return
        except OSError as error:  # only the head file is written without the database, and after it
            raise _recorded_but(error, book.head) from None
        Metrics.counter(NAMESPACE, f"new/{units[0].period}").inc(done.new)
        Metrics.counter(NAMESPACE, "units changed").inc(done.changed)
        Metrics.counter(NAMESPACE, "units redrawn").inc(done.redrawn)
        by_slot: dict[int, list[Sealed]] = {}
        for unit in done.sealed:
            by_slot.setdefault(unit.slot_s, []).append(unit)
        yield from by_slot.values()


@dataclass
class Publish(beam.PTransform[PCollection[list[Sealed]], PCollection[None]]):
    """list[Sealed] of one slot -> files."""

    folder: Path
    formats: tuple[str, ...]

    def expand(self, slots: PCollection[list[Sealed]]) -> PCollection[None]:
        return slots | beam.ParDo(_Publish(self.folder, self.formats))


class _Publish(beam.DoFn):
    def __init__(self, folder: Path, formats: tuple[str, ...]) -> None:
        self._folder, self._formats = folder, formats

    def process(self, units: list[Sealed]) -> None:
        try:
            publish_slot(units, self._folder, self._formats)
        except OtherValues as error:
            raise StepError(str(error)) from None
        except OSError as error:
            raise _recorded_but(error, self._folder) from None


def _recorded_but(error: OSError, path: Path) -> StepError:
    return recorded_but(f"{error.filename or path}: {reason_of(error)}")


def recorded_but(what: str) -> StepError:
    """What failed, after the ledger's commit."""
    return StepError(f"{what}. The release is recorded; running the same command again publishes it.")


def reason_of(error: OSError) -> str:
    """What the operating system says, without the file's name."""
    return error.strerror or type(error).__name__


@dataclass
class CountRefused(beam.PTransform[PCollection[Refused], PCollection[None]]):
    """Dead letters -> counters `refused/<stage>/<reason>`; nothing else of them is kept."""

    def expand(self, refused: PCollection[Refused]) -> PCollection[None]:
        return refused | beam.ParDo(_CountRefused())


class _CountRefused(beam.DoFn):
    def process(self, refused: Refused) -> None:
        Metrics.counter(NAMESPACE, f"refused/{refused.stage}/{refused.reason}").inc(refused.rows)
