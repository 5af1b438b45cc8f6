"""The end of a period in a stream: what its vehicles did, brought together at one time, and released stage by stage."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection
from apache_beam.transforms.window import TimestampedValue

from dpops.levels import Rows, sum_up
from dpops.noise import Noise
from transforms.count import wire
from transforms.failpoints import failpoint
from transforms.ledger.used import LedgerAccount
from transforms.records import KeyedTally, RecordedSlot, SlotEstimates, SlotShard, TallyBytes
from transforms.release.levels import LevelsPolicy, plan_of, rows_of, seal_stage
from transforms.release.levels_order import CentresOf, hours_of, plan_for
from transforms.release.levels_publish import Estimator
from transforms.release.levels_steps import COLUMNS, estimates_of_period
from transforms.release.policy import SlotFacts
from transforms.steps import recorded
from transforms.time.lateness import windows


@dataclass
class IntoPeriods(beam.PTransform[PCollection[KeyedTally], PCollection[KeyedTally]]):
    """((slot, 0), packed Tally or heartbeat) -> the same by the first slot of its period.

    In a window that ends `more_s` after the period.

    Periods have no fixed length (days of 23 and 25 hours, weeks), windows have: all of a period is given one time, its
    end. Left out are periods that began before the stream, `start_s`: it has not seen them whole.
    """

    periods: Mapping[int, SlotFacts]
    slot_s: int
    start_s: int
    more_s: int

    def expand(self, tallies: PCollection[KeyedTally]) -> PCollection[KeyedTally]:
        stamped = tallies | "stamp" >> beam.FlatMap(self._stamped).with_output_types(KeyedTally)
        into = beam.WindowInto(windows(self.slot_s, self.start_s + self.more_s))
        windowed: PCollection[KeyedTally] = stamped | "window" >> into
        return windowed

    def _stamped(self, element: KeyedTally) -> Iterator[Any]:
        (slot_s, shard), data = element
        slots = self.periods[slot_s].plan
        if slots[0] >= self.start_s:
            yield TimestampedValue(((slots[0], shard), data), slots[-1] + self.slot_s + self.more_s - 0.001)


@dataclass(frozen=True)
class PeriodPolicy:
    """How periods are released. periods: facts of every slot, whose `plan` is all slots of its period. zone: of local
    hours. centres_of, estimator: what is learned of recorded stages, as vectors and rows need it."""

    levels: LevelsPolicy
    periods: Mapping[int, SlotFacts]
    zone: str
    centres_of: CentresOf
    estimator: Estimator


@dataclass
class ReleasePeriod(beam.PTransform[PCollection[KeyedTally], PCollection[SlotEstimates]]):
    """((first slot, 0), packed Tally or heartbeat) -> the estimates of the period's slots, once the ledger has it."""

    account: LedgerAccount
    policy: PeriodPolicy

    def expand(self, tallies: PCollection[KeyedTally]) -> PCollection[SlotEstimates]:
        grouped = tallies | "group" >> beam.GroupByKey()
        estimates: PCollection[SlotEstimates] = grouped | "release" >> beam.ParDo(_ReleasePeriod(self))
        return estimates


class _ReleasePeriod(beam.DoFn):
    def __init__(self, of: ReleasePeriod) -> None:
        self._account, self._policy = of.account, of.policy

    def process(self, group: tuple[SlotShard, Iterable[TallyBytes]]) -> Iterator[SlotEstimates]:
        (first_s, _), parts = group
        yield from released(first_s, parts, self._account, self._policy)


def released(
    first_s: int, parts: Iterable[TallyBytes], account: LedgerAccount, policy: PeriodPolicy
) -> Iterator[SlotEstimates]:
    """A period's estimates, once the ledger has it; none where the account's limit refuses it. parts: of its tally."""
    tally = wire.unpack_tally((part for part in parts if part), COLUMNS)
    rows = rows_of(tally, policy.levels.region, policy.periods[first_s].plan)
    done = release_period(rows, first_s, account, policy)
    if done is not None:
        yield from estimates_of_period(done, account, policy.levels, policy.periods, policy.estimator)


def release_period(rows: Rows, first_s: int, account: LedgerAccount, policy: PeriodPolicy) -> RecordedSlot | None:
    """The period's last stage as it is recorded; None where the account's limit refuses it.

    Stage after stage, each around what the ones before recorded, whoever recorded them.
    """
    slots = policy.periods[first_s].plan
    facts, hours = [policy.periods[at] for at in slots], hours_of(slots, policy.zone)
    ledger, stage, stages, done = account.open(), 0, 1, None
    while stage < stages:
        entries = ledger.stages(account.name, policy.levels.spec_id)
        plan = plan_for(entries, facts[0].period, stage, hours, policy.levels, policy.centres_of)
        failpoint("before-noise")
        unit = seal_stage(sum_up(rows, plan.read(policy.levels.region)), plan, facts, first_s, policy.levels, Noise())
        failpoint("after-noise")
        found = recorded([unit], account)
        if not found:
            return None
        done = found[0]
        stage, stages = stage + 1, plan_of(done.units[0]).stages
    return done
