"""The road's PTransforms. Each is wiring around a pure function; what crosses between them is typed."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import msgspec
import numpy as np
from apache_beam.metrics.metric import Metrics
from apache_beam.pvalue import DoOutputsTuple, PCollection, TaggedOutput
from apache_beam.transforms.window import TimestampedValue

from dpops.statistics import Column
from dpops.types import Int64s
from transforms import counters
from transforms.count import wire
from transforms.count.tally import ContributionBound, admit_late, heard, merge_panes, tally, tally_pane
from transforms.errors import StepError, reason_of
from transforms.failpoints import failpoint
from transforms.layouts import Layout, UnreadableFile
from transforms.layouts.decoder_process import read_apart
from transforms.ledger.ledger_account import LedgerAccount
from transforms.observe import hexagons
from transforms.observe.events import locate
from transforms.observe.parse import Rules, parse
from transforms.records import (
    CONSENT,
    EXPOSURE,
    REFUSED,
    EventBytes,
    KeyedEvents,
    KeyedPane,
    KeyedPartial,
    KeyedTally,
    KeyedUnit,
    Observations,
    PackedEvents,
    PaneShard,
    PartialBytes,
    RawBatch,
    RecordedSlot,
    Refused,
    SlotEstimates,
    SlotShard,
    TallyBytes,
    UnitBytes,
)
from transforms.release.estimates import estimates_of
from transforms.release.policy import Policy, SlotFacts, release_shard
from transforms.release.recorded import Sealed, Transaction
from transforms.release.recording import decoded, record_units
from transforms.release.seal import sealed_releases
from transforms.side_outputs import Exposed, Refusal, dead_letters
from transforms.time.lateness import LATE

_LATE = counters.refused("lateness", LATE)


@dataclass
class Read(beam.PTransform[PCollection[bytes], DoOutputsTuple]):
    """PCollection[path, as the file system has it] -> main: RawBatch; refused: Refused."""

    layout: Layout

    def expand(self, paths: PCollection[bytes]) -> DoOutputsTuple:
        return paths | "read files" >> beam.ParDo(_Read(self.layout)).with_outputs(REFUSED, main="batches")


def batches_of(layout: Layout, path: str) -> Iterator[RawBatch | Refusal]:
    """The batches of one file, counted, each after what was refused of it. Raises UnreadableFile or OSError."""
    for batch in read_apart(layout, path):
        Metrics.counter(counters.NAMESPACE, counters.ROWS).inc(batch.rows)
        yield from dead_letters("read", batch.refused)
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
class Assign(beam.PTransform[PCollection[Observations], DoOutputsTuple]):
    """PCollection[Observations] -> main: PackedEvents by (slot, vehicle shard); refused: Refused.

    region: the only cells that are released, or None for all. pane_s: length of a pane; None: a slot is one.
    """

    resolution: int
    region: tuple[int, ...] | None
    vehicle_shards: int
    pane_s: int | None

    def expand(self, observations: PCollection[Observations]) -> DoOutputsTuple:
        region = None if self.region is None else np.array(self.region, np.int64)
        fn = _Assign(self.resolution, region, self.vehicle_shards, self.pane_s)
        return observations | "find cells" >> beam.ParDo(fn).with_outputs(REFUSED, main="events")


class _Assign(beam.DoFn):
    def __init__(self, resolution: int, region: Int64s | None, shards: int, pane_s: int | None) -> None:
        self._resolution, self._region, self._shards, self._pane_s = resolution, region, shards, pane_s

    def process(self, observations: Observations) -> Iterator[PackedEvents | Refusal]:
        found = locate(observations, self._resolution, self._region)
        yield from dead_letters("assign", {hexagons.OUTSIDE_REGION: found.outside})
        failpoint("assign")
        for part in wire.split(found.observations, found.cell, self._shards, self._pane_s):
            yield PackedEvents((part.slot_s, part.shard), part.data, part.rows, part.pane_s)


@dataclass
class ByVehicle(beam.PTransform[PCollection[KeyedEvents | KeyedPartial], PCollection[KeyedTally]]):
    """By (slot, vehicle shard): events, or partial tallies of panes -> ((plan, release shard), packed Tally)."""

    cap: ContributionBound | None
    columns: tuple[Column, ...]
    release_shards: int
    slots: Mapping[int, SlotFacts]
    in_panes: bool = False

    def expand(self, events: PCollection[KeyedEvents | KeyedPartial]) -> PCollection[KeyedTally]:
        grouped = events | "group" >> beam.GroupByKey()
        fn = _ByVehicle(self.cap, self.columns, self.release_shards, self.slots, self.in_panes)
        return grouped | "tally" >> beam.ParDo(fn).with_output_types(KeyedTally)


@dataclass
class InPanes(beam.PTransform[PCollection[KeyedPane], PCollection[KeyedPartial]]):
    """Events by ((slot, vehicle shard), pane) -> their partial tallies by (slot, vehicle shard)."""

    cap: ContributionBound | None
    columns: tuple[Column, ...]

    def expand(self, events: PCollection[KeyedPane]) -> PCollection[KeyedPartial]:
        grouped = events | "group" >> beam.GroupByKey()
        fn = _InPanes(self.cap, self.columns)
        return grouped | "tally the pane" >> beam.ParDo(fn).with_output_types(KeyedPartial)


class _InPanes(beam.DoFn):
    def __init__(self, cap: ContributionBound | None, columns: tuple[Column, ...]) -> None:
        self._cap, self._columns = cap, columns

    def process(self, group: tuple[PaneShard, Iterable[EventBytes]]) -> Iterator[KeyedPartial]:
        (slot_shard, _), parts = group
        events = wire.unpack_events(parts)
        partial, duplicates = tally_pane(events, self._cap, self._columns)
        Metrics.counter(counters.NAMESPACE, counters.DUPLICATES).inc(duplicates)
        failpoint("tally")
        yield slot_shard, wire.pack_partial(partial._replace(heard=heard(events)))


@dataclass
class LateForPanes(beam.PTransform[PCollection[PackedEvents], PCollection[KeyedPartial]]):
    """Events of panes that are over, in slots that are not -> the same by (slot, vehicle shard), for the merge."""

    cap: ContributionBound | None
    columns: tuple[Column, ...]

    def expand(self, events: PCollection[PackedEvents]) -> PCollection[KeyedPartial]:
        fn = _LateForPanes(self.cap, self.columns)
        return events | "keep for the slot" >> beam.ParDo(fn).with_output_types(KeyedPartial)


class _LateForPanes(beam.DoFn):
    def __init__(self, cap: ContributionBound | None, columns: tuple[Column, ...]) -> None:
        self._cap, self._columns = cap, columns

    def process(self, packed: PackedEvents) -> Iterator[TimestampedValue[KeyedPartial]]:
        nothing = tally_pane(wire.NO_EVENTS, self._cap, self._columns).partial
        part = nothing._replace(late=wire.unpack_events([packed.data]))
        yield TimestampedValue((packed.key, wire.pack_partial(part)), packed.key[0])


class _ByVehicle(beam.DoFn):
    """in_panes: whether what comes are partial tallies of panes, not events."""

    def __init__(
        self,
        cap: ContributionBound | None,
        columns: tuple[Column, ...],
        release_shards: int,
        slots: Mapping[int, SlotFacts],
        in_panes: bool,
    ) -> None:
        self._cap, self._columns, self._shards, self._slots = cap, columns, release_shards, slots
        self._in_panes = in_panes

    def process(self, group: tuple[SlotShard, Iterable[Any]]) -> Iterator[KeyedTally]:
        (slot_s, _), parts = group
        table = self._merged(slot_s, parts) if self._in_panes else self._tallied(slot_s, parts)
        Metrics.counter(counters.NAMESPACE, counters.CAPPED).inc(int(table.dropped.sum()))
        shard = release_shard(table.cell, self._shards)
        failpoint("tally")
        for chosen in np.unique(shard).tolist():
            yield (self._slots[slot_s].plan[0], chosen), wire.pack_tally(table.take(shard == chosen))

    def _tallied(self, slot_s: int, parts: Iterable[EventBytes]) -> wire.Tally:
        table, duplicates = tally(wire.unpack_events(parts), slot_s, self._cap, self._columns)
        Metrics.counter(counters.NAMESPACE, counters.DUPLICATES).inc(duplicates)
        return table

    def _merged(self, slot_s: int, parts: Iterable[PartialBytes]) -> wire.Tally:
        packed_sums = () if self._cap else self._columns
        panes = [wire.unpack_partial(part, packed_sums) for part in parts]
        found = admit_late(panes, self._cap, self._columns)
        for name, rows in ((counters.DUPLICATES, found.duplicates), (_LATE, found.refused)):
            if rows:  # a counter is told as soon as it is there
                Metrics.counter(counters.NAMESPACE, name).inc(rows)
        return merge_panes(found.partials, slot_s, self._cap, self._columns)


@dataclass
class ByHexagon(beam.PTransform[PCollection[KeyedTally], DoOutputsTuple]):
    """Tallies and heartbeats of ((plan, release shard), packed Tally or b"") -> main: (key, encoded Sealed);
    exposure: (slot, packed Exposure). The key says what is recorded together."""

    policy: Policy
    slots: Mapping[int, SlotFacts]
    transaction: Transaction

    def expand(self, tallies: PCollection[KeyedTally]) -> DoOutputsTuple:
        grouped = tallies | "group" >> beam.GroupByKey()
        return grouped | "seal" >> beam.ParDo(_ByHexagon(self.policy, self.slots, self.transaction)).with_outputs(
            EXPOSURE, main="sealed"
        ).with_output_types(KeyedUnit)


class _ByHexagon(beam.DoFn):
    def __init__(self, policy: Policy, slots: Mapping[int, SlotFacts], transaction: Transaction) -> None:
        self._policy, self._slots, self._transaction = policy, slots, transaction

    def process(self, group: tuple[SlotShard, Iterable[TallyBytes]]) -> Iterator[KeyedUnit | Exposed]:
        (plan_s, shard), parts = group
        table = wire.unpack_tally((part for part in parts if part), self._policy.columns)
        for unit, exposure in sealed_releases(plan_s, shard, table, self._slots, self._policy):
            yield TaggedOutput(EXPOSURE, (unit.slot_s, wire.pack_exposure(exposure)))
            yield (
                unit.period if self._transaction == "period" else str(unit.slot_s),
                UnitBytes(msgspec.json.encode(unit)),
            )


@dataclass
class Record(beam.PTransform[PCollection[KeyedUnit], PCollection[RecordedSlot]]):
    """(key, encoded Sealed) -> RecordedSlot, as the ledger returned it. One transaction a key.

    needs_rows: a key of which no HAT has data, which a wrong input makes, is an error and is not recorded.
    may_lose: what the account's limit refuses is counted and left out; else it is an error.
    needs_consent: a key is recorded only if CONSENT is among its units.
    """

    account: LedgerAccount
    needs_rows: bool = False
    may_lose: bool = True
    needs_consent: bool = False

    def expand(self, units: PCollection[KeyedUnit]) -> PCollection[RecordedSlot]:
        grouped = units | "group" >> beam.GroupByKey()
        return grouped | "record" >> beam.ParDo(_Record(self))


class _Record(beam.DoFn):
    def __init__(self, of: Record) -> None:
        self._account, self._needs_rows, self._may_lose = of.account, of.needs_rows, of.may_lose
        self._needs_consent = of.needs_consent

    def process(self, group: tuple[str, Iterable[UnitBytes]]) -> Iterator[RecordedSlot]:
        encoded = list(group[1])
        if self._needs_consent and CONSENT not in encoded:
            return
        units = decoded(unit for unit in encoded if unit != CONSENT)
        if self._needs_rows and not any(found.plan is not None for unit in units for found in unit.released):
            raise StepError(f"of the input no row is of {units[0].period}: nothing was recorded and nothing was spent")
        done = recorded(units, self._account)
        if not done and not self._may_lose:
            raise StepError(f"account {self._account.name!r} refuses {units[0].period}: its limit would be exceeded")
        yield from done


def recorded(units: Sequence[Sealed], account: LedgerAccount) -> list[RecordedSlot]:
    """What the ledger returned for units of one transaction, by slot; none where it refused them, which is counted."""
    done = record_units(units, account)
    for name, number in done.counts.items():
        Metrics.counter(counters.NAMESPACE, name).inc(number)
    return done.slots


@dataclass
class Estimate(beam.PTransform[PCollection[RecordedSlot], PCollection[SlotEstimates]]):
    """RecordedSlot -> its estimates. statistics: the names of all that the specification asks for."""

    statistics: tuple[str, ...]

    def expand(self, slots: PCollection[RecordedSlot]) -> PCollection[SlotEstimates]:
        return slots | "read integers" >> beam.ParDo(_Estimate(self.statistics))


class _Estimate(beam.DoFn):
    def __init__(self, statistics: tuple[str, ...]) -> None:
        self._statistics = statistics

    def process(self, slot: RecordedSlot) -> Iterator[SlotEstimates]:
        yield estimates_of(slot.units, self._statistics)


@dataclass
class CountRefused(beam.PTransform[PCollection[Refused], PCollection[None]]):
    """Dead letters -> counters `refused/<stage>/<reason>`; nothing else of them is kept."""

    def expand(self, refused: PCollection[Refused]) -> PCollection[None]:
        return refused | "count" >> beam.ParDo(_CountRefused())


class _CountRefused(beam.DoFn):
    def process(self, refused: Refused) -> None:
        Metrics.counter(counters.NAMESPACE, counters.refused(refused.stage, refused.reason)).inc(refused.rows)
