"""The release of whole periods by `levels`: stage by stage, each around what is recorded before it."""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Self

from dpops.levels import is_too_few
from dpops.noise import Noise
from dpops.statistics import Column
from dpops.types import Int64s
from transforms.failpoints import failpoint
from transforms.ledger.recording import LedgerAccount
from transforms.recorded.stage_plan import numbers_of
from transforms.recorded.units import Debit, StageEntry, StageUnit, UnitKey, all_of
from transforms.records import RecordedSlot, SlotEstimates, SlotShard
from transforms.releases.base import Asked, Before, DrawnUnit, Estimator, Tallies
from transforms.releases.periods.learned import learned_centres, learned_estimates
from transforms.releases.periods.order import plan_for
from transforms.releases.periods.publish import estimates_of_slot
from transforms.releases.periods.stages import LevelsPolicy, add_up, read_unit, seal_stage
from transforms.releases.slots import SlotFacts
from transforms.releases.state_file import StateFile
from transforms.time.days_off import hours_of


@dataclass(frozen=True)
class VectorRelease:
    """What releases of whole periods and of live slots have in common.

    slots: facts of every slot, whose `plan` is all slots of its period. zone: of local hours.
    """

    policy: LevelsPolicy
    slots: Mapping[int, SlotFacts]
    zone: str
    cap: None = None
    shards = 1
    shares: tuple[Fraction, ...] = ()
    learns = True
    keeps_late = False

    @classmethod
    def of(cls, asked: Asked) -> Self:
        policy = asked.options.policy(asked.spec_id, asked.region or (), asked.value, asked.digest_key)
        kept = StateFile.beside(asked.account.head, asked.spec_id, asked.account.signature)
        return cls(replace(policy, kept=kept), asked.slots, asked.zone)

    @property
    def spec_id(self) -> str:
        return self.policy.spec_id

    def continuing(self, _digest: str | None) -> Self:
        return self


@dataclass(frozen=True)
class PeriodRelease(VectorRelease):
    """run: names this run among all: what an engine tries again is the same run."""

    run: str = field(default_factory=partial(secrets.token_hex, 8), compare=False)
    in_order = True

    def claims(self, before: Before) -> dict[str, list[Debit]]:
        """Claims each period's share of the total: the specification's first period has another one than all others."""
        policy, claims = self.policy, dict[str, list[Debit]]()
        is_first = not before.stages(policy.spec_id)
        for period, plan in {facts.period: facts.plan for facts in self.slots.values()}.items():
            cost = policy.on(period).cost_of_period(is_first)
            claims[period], is_first = [Debit(UnitKey(policy.spec_id, plan[0], 0), cost)], False
        return claims

    @staticmethod
    def centres(entries: Sequence[StageEntry], policy: LevelsPolicy, hours: Sequence[int]) -> Int64s:
        """Finds the values around which a stage looks, from what is recorded."""
        return learned_centres(entries, policy, hours)

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.policy.columns

    def group(self, slot_s: int) -> int:
        return self.slots[slot_s].plan[0]

    def draw(self, groups: Mapping[SlotShard, Tallies], before: Before, noise: Noise) -> list[DrawnUnit]:
        """Draws a period's next stage, whoever recorded those before. Raises MustStop after one with few vehicles."""
        (((first_s, _), tallies),) = groups.items()
        number = len(before.recorded)
        if number and self._is_last(all_of(StageUnit, before.recorded[-1].units)[0], before):
            return []
        slots = self.slots[first_s].plan
        facts, hours = [self.slots[slot_s] for slot_s in slots], hours_of(slots, self.zone)
        entries = before.stages(self.policy.spec_id)
        laid, is_first = plan_for(entries, facts[0].period, number, hours, self.policy, self.centres)
        sums = add_up(tallies(), self.policy, slots, laid)
        failpoint("before-noise")
        unit = seal_stage(sums, laid, facts, first_s, self.policy, noise, is_first=is_first)
        failpoint("after-noise")
        return [DrawnUnit(unit)]

    def _is_last(self, unit: StageUnit, before: Before) -> bool:
        stage = numbers_of(unit)
        if stage.counts_vehicles and is_too_few(read_unit(unit, self.policy.region), self.policy.fleet.vehicles):
            before.stop_once(unit, self.run)
        return stage.number + 1 == stage.stages

    def estimator(self, account: LedgerAccount) -> Estimator:
        return _PeriodEstimator(self, account)


class _PeriodEstimator(Estimator):
    """Reads a period by its last recorded stage and what stands before it."""

    def __init__(self, release: PeriodRelease, account: LedgerAccount) -> None:
        self._release, self._account = release, account

    def of(self, recorded: RecordedSlot) -> Iterator[SlotEstimates]:
        (unit,), (sequence,) = recorded.units, recorded.sequences
        policy, slots = self._release.policy, self._release.slots
        stages = self._account.open().stages(self._account.name, unit.spec_id)
        facts = [slots[slot_s] for slot_s in slots[unit.slot_s].plan]
        estimates = learned_estimates([entry for entry in stages if entry.sequence <= sequence], policy, facts)
        for number, slot in enumerate(facts):
            yield estimates_of_slot(estimates, number, slot, policy)
        yield from estimates.products
