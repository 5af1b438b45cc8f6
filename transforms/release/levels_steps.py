"""The steps of a `levels` release: tallies of a period by vehicle, their vectors added up, noise, rows."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import apache_beam as beam
import msgspec
import numpy as np
from apache_beam.metrics.metric import Metrics
from apache_beam.pvalue import PCollection

from dpops.levels import Sums, sum_up
from dpops.noise import Noise
from dpops.statistics import SUMS
from transforms.count import wire
from transforms.count.tally import tally
from transforms.failpoints import failpoint
from transforms.release.levels import LevelsPolicy, StagePlan, plan_of, rows_of, seal_stage
from transforms.release.levels_order import up_to
from transforms.release.levels_publish import Estimator, rows_of_slot
from transforms.release.policy import SlotFacts
from transforms.release.recorded import Sealed
from transforms.sinks.files import file_stem, write_rows
from transforms.steps import NAMESPACE, Book, SlotShard, reason_of, recorded_but

COLUMNS = (SUMS,)
"""What a tally carries beside counts."""


@dataclass
class TallyVehicles(beam.PTransform[PCollection[tuple[SlotShard, bytes]], PCollection[tuple[SlotShard, bytes]]]):
    """((slot, vehicle shard), packed events) -> ((first slot of the period, vehicle shard), packed Tally)."""

    slots: Mapping[int, SlotFacts]

    def expand(self, events: PCollection[tuple[SlotShard, bytes]]) -> PCollection[tuple[SlotShard, bytes]]:
        grouped = events | "group" >> beam.GroupByKey()
        return grouped | "tally" >> beam.ParDo(_TallyVehicles(self.slots)).with_output_types(tuple[SlotShard, bytes])


class _TallyVehicles(beam.DoFn):
    def __init__(self, slots: Mapping[int, SlotFacts]) -> None:
        self._slots = slots

    def process(self, group: tuple[SlotShard, Iterable[bytes]]) -> Iterator[tuple[SlotShard, bytes]]:
        (slot_s, shard), parts = group
        table, duplicates = tally(wire.unpack_events(parts), slot_s, None, COLUMNS)
        Metrics.counter(NAMESPACE, "duplicates").inc(duplicates)
        failpoint("tally")
        yield (self._slots[slot_s].plan[0], shard), wire.pack_tally(table)


@dataclass
class AddUpVectors(beam.PTransform[PCollection[tuple[SlotShard, bytes]], PCollection[tuple[int, bytes]]]):
    """((first slot, vehicle shard), packed Tally) -> (first slot, the sum of its vehicles' integers).

    Here a vehicle-day becomes a bounded vector: after it nothing of a single vehicle is left.
    """

    policy: LevelsPolicy
    slots: Mapping[int, SlotFacts]
    plans: Mapping[int, StagePlan]

    def expand(self, tallies: PCollection[tuple[SlotShard, bytes]]) -> PCollection[tuple[int, bytes]]:
        grouped = tallies | "group" >> beam.GroupByKey()
        fn = _AddUpVectors(self.policy, self.slots, self.plans)
        return grouped | "add up" >> beam.ParDo(fn).with_output_types(tuple[int, bytes])


class _AddUpVectors(beam.DoFn):
    def __init__(self, policy: LevelsPolicy, slots: Mapping[int, SlotFacts], plans: Mapping[int, StagePlan]) -> None:
        self._policy, self._slots, self._plans = policy, slots, plans

    def process(self, group: tuple[SlotShard, Iterable[bytes]]) -> Iterator[tuple[int, bytes]]:
        (first_s, _), parts = group
        rows = rows_of(wire.unpack_tally(parts, COLUMNS), self._policy.region, self._slots[first_s].plan)
        failpoint("vectors")
        yield first_s, _packed(sum_up(rows, self._plans[first_s].read(self._policy.region)))


@dataclass
class ReleaseStage(beam.PTransform[PCollection[tuple[int, bytes]], PCollection[tuple[str, bytes]]]):
    """(first slot, sums or b"") -> (period, encoded Sealed). b"" is the heartbeat: a day may be empty."""

    policy: LevelsPolicy
    slots: Mapping[int, SlotFacts]
    plans: Mapping[int, StagePlan]

    def expand(self, sums: PCollection[tuple[int, bytes]]) -> PCollection[tuple[str, bytes]]:
        grouped = sums | "group" >> beam.GroupByKey()
        fn = _ReleaseStage(self.policy, self.slots, self.plans)
        return grouped | "noise" >> beam.ParDo(fn).with_output_types(tuple[str, bytes])


class _ReleaseStage(beam.DoFn):
    def __init__(self, policy: LevelsPolicy, slots: Mapping[int, SlotFacts], plans: Mapping[int, StagePlan]) -> None:
        self._policy, self._slots, self._plans = policy, slots, plans

    def process(self, group: tuple[int, Iterable[bytes]]) -> Iterator[tuple[str, bytes]]:
        first_s, parts = group
        plan = self._plans[first_s]
        facts = [self._slots[at] for at in self._slots[first_s].plan]
        whole = _added(parts, plan.read(self._policy.region).groups)
        failpoint("before-noise")
        unit = seal_stage(whole, plan, facts, first_s, self._policy, Noise())
        failpoint("after-noise")
        yield unit.period, msgspec.json.encode(unit)


def _packed(sums: Sums) -> bytes:
    return np.concatenate(sums).astype("<i8").tobytes()


def _added(parts: Iterable[bytes], groups: int) -> Sums:
    whole = np.zeros(2 * groups, np.int64)
    for part in parts:
        if part:
            whole += np.frombuffer(part, "<i8")
    return Sums(whole[:groups], whole[groups:])


@dataclass
class PublishPeriod(beam.PTransform[PCollection[list[Sealed]], PCollection[None]]):
    """A period's last recorded stage -> files with a row for every cell and slot. Other stages publish nothing."""

    book: Book
    policy: LevelsPolicy
    slots: Mapping[int, SlotFacts]
    estimator: Estimator
    folder: Path
    formats: tuple[str, ...]

    def expand(self, recorded: PCollection[list[Sealed]]) -> PCollection[None]:
        return recorded | "rows and files" >> beam.ParDo(_PublishPeriod(self))


class _PublishPeriod(beam.DoFn):
    def __init__(self, of: PublishPeriod) -> None:
        self._of = of

    def process(self, units: list[Sealed]) -> None:
        of, (unit,) = self._of, units
        plan = plan_of(unit)
        if plan.stage + 1 < plan.stages:
            return
        entries = up_to(of.book.open().stages(of.book.account, unit.spec_id), unit)
        estimates = of.estimator(entries, of.policy, plan.hours)
        epsilon = float(of.policy.epsilon)
        for at, slot_s in enumerate(of.slots[unit.slot_s].plan):
            facts = of.slots[slot_s]
            rows = rows_of_slot(estimates, at, facts.start, facts.end, epsilon, of.policy)
            try:
                write_rows(rows, file_stem(unit.spec_id, facts.start), of.folder, of.formats)
            except OSError as error:
                raise recorded_but(f"{error.filename or of.folder}: {reason_of(error)}") from None
