"""The steps of a `levels` release: a period's tallies by vehicle become vectors, added up, noise, rows."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import apache_beam as beam
import msgspec
import numpy as np
from apache_beam.pvalue import PCollection

from dpops.levels import Sums, sum_up
from dpops.noise import Noise
from dpops.statistics import SUMS
from transforms.count import wire
from transforms.failpoints import failpoint
from transforms.ledger.used import LedgerAccount
from transforms.records import (
    KeyedSums,
    KeyedTally,
    KeyedUnit,
    RecordedSlot,
    SlotEstimates,
    SlotShard,
    SumBytes,
    TallyBytes,
    UnitBytes,
)
from transforms.release.levels import LevelsPolicy, StagePlan, plan_of, rows_of, seal_stage
from transforms.release.levels_publish import Estimator, estimates_of_slot
from transforms.release.policy import SlotFacts

COLUMNS = (SUMS,)
"""What a tally carries beside counts."""


@dataclass
class AddUpVectors(beam.PTransform[PCollection[KeyedTally], PCollection[KeyedSums]]):
    """((first slot, vehicle shard), packed Tally) -> (first slot, the sum of its vehicles' integers).

    Here a vehicle-day becomes a bounded vector: after it nothing of a single vehicle is left.
    """

    policy: LevelsPolicy
    slots: Mapping[int, SlotFacts]
    plans: Mapping[int, StagePlan]

    def expand(self, tallies: PCollection[KeyedTally]) -> PCollection[KeyedSums]:
        grouped = tallies | "group" >> beam.GroupByKey()
        fn = _AddUpVectors(self.policy, self.slots, self.plans)
        return grouped | "add up" >> beam.ParDo(fn).with_output_types(KeyedSums)


class _AddUpVectors(beam.DoFn):
    def __init__(self, policy: LevelsPolicy, slots: Mapping[int, SlotFacts], plans: Mapping[int, StagePlan]) -> None:
        self._policy, self._slots, self._plans = policy, slots, plans

    def process(self, group: tuple[SlotShard, Iterable[TallyBytes]]) -> Iterator[KeyedSums]:
        (first_s, _), parts = group
        rows = rows_of(wire.unpack_tally(parts, COLUMNS), self._policy.region, self._slots[first_s].plan)
        yield first_s, _packed(sum_up(rows, self._plans[first_s].read(self._policy.region)))


@dataclass
class ReleaseStage(beam.PTransform[PCollection[KeyedSums], PCollection[KeyedUnit]]):
    """(first slot, sums or b"") -> (period, encoded Sealed). b"" is the heartbeat: a day may be empty."""

    policy: LevelsPolicy
    slots: Mapping[int, SlotFacts]
    plans: Mapping[int, StagePlan]

    def expand(self, sums: PCollection[KeyedSums]) -> PCollection[KeyedUnit]:
        grouped = sums | "group" >> beam.GroupByKey()
        fn = _ReleaseStage(self.policy, self.slots, self.plans)
        return grouped | "noise" >> beam.ParDo(fn).with_output_types(KeyedUnit)


class _ReleaseStage(beam.DoFn):
    def __init__(self, policy: LevelsPolicy, slots: Mapping[int, SlotFacts], plans: Mapping[int, StagePlan]) -> None:
        self._policy, self._slots, self._plans = policy, slots, plans

    def process(self, group: tuple[int, Iterable[SumBytes]]) -> Iterator[KeyedUnit]:
        first_s, parts = group
        plan = self._plans[first_s]
        facts = [self._slots[at] for at in self._slots[first_s].plan]
        whole = _added(parts, plan.read(self._policy.region).groups)
        failpoint("before-noise")
        unit = seal_stage(whole, plan, facts, first_s, self._policy, Noise())
        failpoint("after-noise")
        yield unit.period, UnitBytes(msgspec.json.encode(unit))


def _packed(sums: Sums) -> SumBytes:
    return SumBytes(np.concatenate(sums).astype("<i8").tobytes())


def _added(parts: Iterable[SumBytes], groups: int) -> Sums:
    whole = np.zeros(2 * groups, np.int64)
    for part in parts:
        if part:
            whole += np.frombuffer(part, "<i8")
    return Sums(whole[:groups], whole[groups:])


@dataclass
class EstimatePeriod(beam.PTransform[PCollection[RecordedSlot], PCollection[SlotEstimates]]):
    """A period's last recorded stage -> the estimates of its slots. Of other stages nothing is published."""

    account: LedgerAccount
    policy: LevelsPolicy
    slots: Mapping[int, SlotFacts]
    estimator: Estimator

    def expand(self, recorded: PCollection[RecordedSlot]) -> PCollection[SlotEstimates]:
        return recorded | "learn" >> beam.ParDo(_EstimatePeriod(self))


class _EstimatePeriod(beam.DoFn):
    def __init__(self, of: EstimatePeriod) -> None:
        self._of = of

    def process(self, recorded: RecordedSlot) -> Iterator[SlotEstimates]:
        of = self._of
        yield from estimates_of_period(recorded, of.account, of.policy, of.slots, of.estimator)


def estimates_of_period(
    recorded: RecordedSlot,
    account: LedgerAccount,
    policy: LevelsPolicy,
    slots: Mapping[int, SlotFacts],
    estimator: Estimator,
) -> Iterator[SlotEstimates]:
    """The estimates of a period's slots, and its products, from its last recorded stage and what stands before it.

    Of other stages nothing.
    """
    (unit,), (sequence,) = recorded.units, recorded.sequences
    plan = plan_of(unit)
    if plan.stage + 1 < plan.stages:
        return
    stages = account.open().stages(account.name, unit.spec_id)
    facts = [slots[slot_s] for slot_s in slots[unit.slot_s].plan]
    estimates = estimator([entry for entry in stages if entry.sequence <= sequence], policy, facts)
    for at, each in enumerate(facts):
        yield estimates_of_slot(estimates, at, each, unit.unit, policy)
    yield from estimates.products
