"""Releases of live slots, centred on earlier periods.

A slot's plan is a function of earlier periods' entries; its estimates also of the period's slots up to it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from dpops.learning import live as estimate_live
from dpops.learning import published
from dpops.learning.field import rounded
from dpops.levels.bounded import Sums
from dpops.levels.parts import of_slot
from dpops.levels.stages import Stage, StageHats
from dpops.noise import Noise
from dpops.statistics import Column
from dpops.types import Int64s
from transforms.failpoints import failpoint
from transforms.places.ground import hats_of
from transforms.public import EntryNumber
from transforms.recorded.stage_plan import stage_of
from transforms.recorded.units import Debit, LiveEntry, LiveUnit, StageEntry
from transforms.records import RecordedSlot, SlotEstimates, SlotShard
from transforms.releases import SlotFacts
from transforms.releases.base import DrawnUnit, History, Tallies
from transforms.releases.periods.learned import hat_estimates, learned_centres
from transforms.releases.periods.publish import LEANS_COLUMN, estimates_of_slot
from transforms.releases.periods.release import VectorRelease, known_before
from transforms.releases.periods.stages import COLUMNS, LevelsPolicy, add_up, drawn_facts, read_part
from transforms.releases.periods.states import learned_from, stage_values
from transforms.time.calendar import hours_of


@dataclass(frozen=True)
class LiveRelease(VectorRelease):
    """Release of live slots, before their period's is recorded."""

    draws_in_order = False

    @staticmethod
    def why_no_stream(_allocation: object, options: Any) -> str | None:
        """Explains why slots cannot be released singly, or None."""
        if options.live is not None:
            return None
        return (
            "live is needed to stream statistics by 'levels': [live] says which part of the total slots get before "
            "their period ends; without it use `hatstream release`"
        )

    def claims(self, _history: History) -> dict[str, list[Debit]] | None:
        """Returns None: debits depend on recorded slots."""
        return None

    @property
    def columns(self) -> tuple[Column, ...]:
        """Columns of tallies."""
        return COLUMNS

    def group(self, slot_s: int) -> int:
        """Returns the slot itself: each is drawn alone."""
        return slot_s

    def draw(self, groups: Mapping[SlotShard, Tallies], history: History, noise: Noise) -> list[DrawnUnit]:
        """Draws a live slot that is not recorded yet."""
        (((slot_s, _), tallies),) = groups.items()
        facts = self.slots[slot_s]
        stage = None if history.recorded else self._stage(slot_s, facts, history)
        if stage is None:  # already recorded, or no earlier period has learned centres
            return []
        sums = add_up(tallies(), self.policy, (slot_s,), stage)  # `tallies` is a call that reads them
        failpoint("before-noise")
        unit = draw_live(sums, stage, facts, slot_s, self.policy, noise)
        failpoint("after-noise")
        return [DrawnUnit(unit)]

    def estimates(self, recorded: RecordedSlot, history: History) -> Iterator[SlotEstimates]:
        """Estimates a live slot from earlier entries, reproducibly."""
        (unit,), (sequence,) = recorded.units, recorded.sequences
        stages = known_before(history.stages(unit.spec_id), unit.period, sequence)
        live = [entry for entry in history.live(unit.spec_id, unit.period) if entry.sequence <= sequence]
        yield live_estimates(stages, live, self.slots[unit.slot_s], self.policy)

    def _stage(self, slot_s: int, facts: SlotFacts, history: History) -> Stage | None:
        """Reads a slot's recorded stage, or plans one; None if neither is possible."""
        stages = history.stages(self.policy.spec_id)
        stage = recorded_stage(history.live(self.policy.spec_id, facts.period), slot_s, self.policy.region)
        entries = known_before(stages, facts.period)
        is_closed = any(entry.unit.period == facts.period for entry in stages)  # a stage ends a period's slots
        if stage is not None or not entries or is_closed:  # too late, or no centres
            return stage
        (hour,), policy = hours_of([slot_s], self.zone), self.policy.on(facts.period)
        centres = learned_centres(entries, policy, [hour])
        return live_slot(policy, len(facts.joint_slots_s), hour, centres, entries[-1].sequence)  # joint: of its period


def live_slot(policy: LevelsPolicy, slots: int, hour: int, centres: Int64s, rests_on: EntryNumber) -> Stage:
    """Plans a live slot around centres from earlier entries.

    slots: how many share `policy.live` equally. hour: local, of the slot. centres: int64 (cells, 1). rests_on: the
    newest entry behind them. Raises ValueError where the policy has no live slots.
    """
    if policy.live is None:
        raise ValueError("the specification has no live slots")
    hats = hats_of(policy.region, [hour])
    return replace(of_slot(policy.live, slots), around=StageHats(hats, centres, policy.value.standard.step, rests_on))


def recorded_stage(live: Sequence[LiveEntry], slot_s: int, region: Sequence[int]) -> Stage | None:
    """Reads a live slot's recorded stage, or None."""
    return next((stage_of(entry.unit, region) for entry in live if entry.unit.slot_s == slot_s), None)


def draw_live(sums: Sums, stage: Stage, facts: SlotFacts, slot_s: int, policy: LevelsPolicy, noise: Noise) -> LiveUnit:
    """Draws a live slot's noise."""
    return LiveUnit(**drawn_facts(sums, stage, [facts], slot_s, policy, noise, "live"), debit=stage.claim)


def live_estimates(
    stages: Sequence[StageEntry], live: Sequence[LiveEntry], facts: SlotFacts, policy: LevelsPolicy
) -> SlotEstimates:
    """Estimates a region's cells in the last live slot.

    stages: of complete earlier periods. live: the period's slots up to it, recorded by then: estimates can be repeated.
    """
    released, hours = zip(*read_part(live, policy, "means"), strict=True)  # each of one slot, so of one hour
    slots = {index: stage_values(read, policy.fleet, is_live=True) for index, read in enumerate(released)}
    today = estimate_live(learned_from(stages, policy), np.array(hours, np.int64).ravel(), slots)
    numbers = published(today.field, float(policy.value.standard.upper))
    # leans: how far an estimate rests on live slots, 0 to 1: the part of its forecast's variance that they removed.
    of_slots = hat_estimates(numbers).with_columns([LEANS_COLUMN], [rounded(today.leans)])
    estimates = estimates_of_slot(of_slots, -1, facts, policy)  # -1: the last live slot
    # Gaussian noise has an epsilon at the specification's delta only.
    spent = str(released[-1].stage.claim.approx(policy.delta or Fraction(0)).epsilon)
    size = len(estimates.hats.cell)
    hats = replace(estimates.hats, mechanism=["levels-live"] * size, epsilon_slot=[spent] * size)
    return estimates._replace(hats=hats, is_live=True)
