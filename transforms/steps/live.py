"""The steps of a live slot: what a slot's vehicles did, their vectors added up, noise; and, once recorded, rows."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import apache_beam as beam
import msgspec
from apache_beam.pvalue import PCollection

from dpops.levels import sum_up
from dpops.noise import Noise
from transforms import wire
from transforms.failpoints import failpoint
from transforms.ledger.ledger_account import LedgerAccount
from transforms.records import KeyedTally, KeyedUnit, RecordedSlot, SlotEstimates, SlotShard, TallyBytes, UnitBytes
from transforms.releases.live.publish import LiveEstimator, live_estimates
from transforms.releases.live.slot import is_closed, known_before, live_plan, recorded_plan, seal_live
from transforms.releases.periods.order import CentresOf, hours_of
from transforms.releases.periods.stages import COLUMNS, LevelsPolicy, rows_of
from transforms.releases.slots import SlotFacts
from transforms.steps.release import is_over


@dataclass(frozen=True)
class LivePolicy:
    """How live slots are released. periods: facts of every slot, whose `plan` is all slots of its period. zone: of
    local hours. centres_of, estimator: what is learned of recorded entries, as vectors and rows need it."""

    levels: LevelsPolicy
    periods: Mapping[int, SlotFacts]
    zone: str
    centres_of: CentresOf
    estimator: LiveEstimator


@dataclass
class ReleaseLive(beam.PTransform[PCollection[KeyedTally], PCollection[KeyedUnit]]):
    """((slot, 0), packed Tally or the heartbeat's b"") -> (slot, encoded Sealed).

    Whether a slot is released, and around what, follows from recorded entries alone: none before the first whole
    period, and none of a period that is released already.
    """

    account: LedgerAccount
    policy: LivePolicy

    def expand(self, tallies: PCollection[KeyedTally]) -> PCollection[KeyedUnit]:
        grouped = tallies | "group" >> beam.GroupByKey()
        released: PCollection[KeyedUnit] = grouped | "noise" >> beam.ParDo(_ReleaseLive(self)).with_output_types(
            KeyedUnit
        )
        return released


class _ReleaseLive(beam.DoFn):
    def __init__(self, of: ReleaseLive) -> None:
        self._account, self._policy = of.account, of.policy

    def process(self, group: tuple[SlotShard, Iterable[TallyBytes]]) -> Iterator[KeyedUnit]:
        (slot_s, _), encoded = group
        parts = list(encoded)
        if not is_over(parts):
            return
        policy, facts = self._policy.levels, self._policy.periods[slot_s]
        ledger = self._account.open()
        stages = ledger.stages(self._account.name, policy.spec_id)
        plan = recorded_plan(ledger.live(self._account.name, policy.spec_id, facts.period), slot_s)
        if plan is None:
            known = known_before(stages, facts.period)
            if not known or is_closed(stages, facts.period):
                return
            (hour,) = hours_of([slot_s], self._policy.zone)
            plan = live_plan(known, len(facts.plan), hour, policy, self._policy.centres_of)
        stage = plan.read(policy.region)
        rows = rows_of(wire.unpack_tally((part for part in parts if part), COLUMNS), policy.region, (slot_s,))
        failpoint("before-noise")
        unit = seal_live(sum_up(rows, stage), plan, stage, facts, slot_s, policy, Noise())
        failpoint("after-noise")
        yield str(slot_s), UnitBytes(msgspec.json.encode(unit))


@dataclass
class EstimateLive(beam.PTransform[PCollection[RecordedSlot], PCollection[SlotEstimates]]):
    """A recorded live slot -> its estimates, from what stands before it in the ledger, whenever they are made."""

    account: LedgerAccount
    policy: LivePolicy

    def expand(self, recorded: PCollection[RecordedSlot]) -> PCollection[SlotEstimates]:
        estimates: PCollection[SlotEstimates] = recorded | "learn" >> beam.ParDo(_EstimateLive(self))
        return estimates


class _EstimateLive(beam.DoFn):
    def __init__(self, of: EstimateLive) -> None:
        self._account, self._policy = of.account, of.policy

    def process(self, recorded: RecordedSlot) -> Iterator[SlotEstimates]:
        (unit,), (sequence,) = recorded.units, recorded.sequences
        ledger, policy = self._account.open(), self._policy.levels
        known = known_before(ledger.stages(self._account.name, unit.spec_id), unit.period, sequence)
        live = [
            each for each in ledger.live(self._account.name, unit.spec_id, unit.period) if each.sequence <= sequence
        ]
        facts = self._policy.periods[unit.slot_s]
        yield live_estimates(live[-1], known, live, facts, policy, self._policy.estimator)
