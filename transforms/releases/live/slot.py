"""A live slot: its plan from what is recorded of earlier periods, and the unit that the ledger keeps of it."""

from collections.abc import Sequence

from dpops.levels import Stage, Sums
from dpops.levels.live import of_slot
from dpops.noise import Noise
from transforms.places.hierarchy import hats_of
from transforms.recorded.stage_plan import is_complete, stage_of
from transforms.recorded.units import LiveEntry, LiveUnit, StageEntry
from transforms.releases.periods.order import CentresOf
from transforms.releases.periods.stages import LevelsPolicy, drawn_facts
from transforms.releases.slots import SlotFacts


def known_before(stages: Sequence[StageEntry], period: str, sequence: int | None = None) -> list[StageEntry]:
    """Lists the stages that a live slot rests on: those of other periods that are whole, in the order of the ledger.

    sequence: of the recorded slot: only what stood before it.
    """
    before = [entry for entry in stages if sequence is None or entry.sequence < sequence]
    whole = {name for name in {entry.unit.period for entry in before} if is_complete(before, name)}
    return [entry for entry in before if entry.unit.period in whole - {period}]


def is_closed(stages: Sequence[StageEntry], period: str) -> bool:
    """Says whether a period's first stage is recorded: its live slots that are not recorded are missed."""
    return any(entry.unit.period == period for entry in stages)


def live_slot(
    entries: Sequence[StageEntry], slots: int, hour: int, policy: LevelsPolicy, centres_of: CentresOf
) -> Stage:
    """Plans one of a period's slots, which begins in this local hour.

    entries: from `known_before`, not empty. policy: of the period.
    """
    if policy.live is None:
        raise ValueError("the specification has no live slots")
    centres = centres_of(entries, policy, [hour])
    return of_slot(policy.live, slots).on(
        hats_of(policy.region, [hour]), centres, policy.value.grid.step, entries[-1].sequence
    )


def recorded_stage(live: Sequence[LiveEntry], slot_s: int, region: Sequence[int]) -> Stage | None:
    """Finds the stage of a slot that is recorded already: what is made again is made as it was."""
    return next((stage_of(entry.unit, region) for entry in live if entry.unit.slot_s == slot_s), None)


def seal_live(sums: Sums, stage: Stage, facts: SlotFacts, slot_s: int, policy: LevelsPolicy, noise: Noise) -> LiveUnit:
    """Draws a live slot's noise."""
    return LiveUnit(**drawn_facts(sums, stage, [facts], slot_s, policy, noise, "live"), debit=stage.claim)
