"""The release of live slots: one at a time while its period lasts, around what earlier periods taught."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dpops.levels import Stage
from dpops.noise import Noise
from dpops.statistics import Column
from transforms.failpoints import failpoint
from transforms.ledger.ledger_account import LedgerAccount
from transforms.recorded.units import Debit
from transforms.records import RecordedSlot, SlotEstimates, SlotShard
from transforms.releases.base import Before, DrawnUnit, Estimator, Tallies
from transforms.releases.live.publish import live_estimates
from transforms.releases.live.slot import is_closed, known_before, live_slot, recorded_stage, seal_live
from transforms.releases.periods.learned import learned_centres
from transforms.releases.periods.release import VectorRelease
from transforms.releases.periods.stages import COLUMNS, add_up
from transforms.releases.slots import SlotFacts
from transforms.time.days_off import hours_of


@dataclass(frozen=True)
class LiveRelease(VectorRelease):
    """Draws no slot before a whole period is recorded, and none of a period that is released already."""

    in_order = False

    @staticmethod
    def why_no_stream(_asked: object, options: Any) -> str | None:
        """Tells as a sentence why slots cannot be released one by one; None where they can."""
        if options.live is not None:
            return None
        return (
            "live is needed to stream statistics by 'levels': [live] says which part of the total slots get before "
            "their period ends; without it use `hatstream release`"
        )

    def claims(self, _before: Before) -> dict[str, list[Debit]] | None:
        return None

    @property
    def columns(self) -> tuple[Column, ...]:
        return COLUMNS

    def group(self, slot_s: int) -> int:
        return slot_s

    def draw(self, groups: Mapping[SlotShard, Tallies], before: Before, noise: Noise) -> list[DrawnUnit]:
        (((slot_s, _), tallies),) = groups.items()
        facts = self.slots[slot_s]
        stage = None if before.recorded else self._stage(slot_s, facts, before)
        if stage is None:
            return []
        sums = add_up(tallies(), self.policy, (slot_s,), stage)
        failpoint("before-noise")
        unit = seal_live(sums, stage, facts, slot_s, self.policy, noise)
        failpoint("after-noise")
        return [DrawnUnit(unit)]

    def estimator(self, account: LedgerAccount) -> Estimator:
        return _LiveEstimator(self, account)

    def _stage(self, slot_s: int, facts: SlotFacts, before: Before) -> Stage | None:
        """Finds the recorded stage, or what follows from recorded entries alone; None if the slot is not released."""
        stages = before.stages(self.policy.spec_id)
        stage = recorded_stage(before.live(self.policy.spec_id, facts.period), slot_s, self.policy.region)
        entries = known_before(stages, facts.period)
        if stage is not None or not entries or is_closed(stages, facts.period):
            return stage
        (hour,) = hours_of([slot_s], self.zone)
        return live_slot(entries, len(facts.plan), hour, self.policy.on(facts.period), learned_centres)


class _LiveEstimator(Estimator):
    """Reads a live slot by what stands before it in the ledger, whenever that is done."""

    def __init__(self, release: LiveRelease, account: LedgerAccount) -> None:
        self._release, self._account = release, account

    def of(self, recorded: RecordedSlot) -> Iterator[SlotEstimates]:
        (unit,), (sequence,) = recorded.units, recorded.sequences
        ledger, account = self._account.open(), self._account.name
        stages = known_before(ledger.stages(account, unit.spec_id), unit.period, sequence)
        live = [entry for entry in ledger.live(account, unit.spec_id, unit.period) if entry.sequence <= sequence]
        facts = self._release.slots[unit.slot_s]
        yield live_estimates(stages, live, facts, self._release.policy)
