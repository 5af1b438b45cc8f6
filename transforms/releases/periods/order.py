"""Which stage of a period comes next, and around what: decided by the ledger's entries, never by data."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from dpops.levels import Stage
from dpops.types import Int64s
from transforms.public import EntryNumber
from transforms.recorded.stage_plan import counts_vehicles, is_complete, numbers_of, of_period, stage_of
from transforms.recorded.units import StageEntry
from transforms.releases.periods.learned_places import learned_differences
from transforms.releases.periods.stages import LevelsPolicy, first_centres, laid_stage

CentresOf = Callable[[Sequence[StageEntry], LevelsPolicy, Sequence[int]], Int64s]
"""(recorded stages in the ledger's order, at least one; policy; hours, see `days_off`) -> (cells, slots), int64."""


class PlannedStage(NamedTuple):
    """A stage that is laid on its period. is_first: nothing of the specification was recorded before the period."""

    stage: Stage
    is_first: bool


def plan_for(
    entries: Sequence[StageEntry],
    period: str,
    number: int,
    hours: Sequence[int],
    policy: LevelsPolicy,
    centres_of: CentresOf,
) -> PlannedStage:
    """Plans a period's stage: the recorded one, or what follows from all that is recorded of the specification.

    entries: in the order of the ledger. The first recorded stage of a period decides which there are; a period before
    which no other is recorded whole has those of a first day, and a later one counts vehicles first if the last one
    did. Of a period that waits for its later stage only that stage learns: what it knows is no forecast of another day.
    """
    recorded = of_period(entries, period)
    earlier = [entry for entry in entries if entry.unit.period != period and is_complete(entries, entry.unit.period)]
    before = recorded or of_period(earlier, earlier[-1].unit.period) if earlier or recorded else []
    counts = counts_vehicles(before) if before else policy.count is not None
    is_first = numbers_of(recorded[0].unit).stages - counts == len(policy.first) if recorded else not earlier
    if number < len(recorded):
        return PlannedStage(stage_of(recorded[number].unit, policy.region, policy.public_places), is_first)
    stages = policy.on(period).stages(is_first=is_first, counts=counts)
    taught_by = (
        earlier if counts and number == 1 else sorted([*earlier, *recorded], key=lambda entry: int(entry.sequence))
    )
    if not taught_by or stages[number].classes:
        centres, rests_on = first_centres(len(policy.region), len(hours)), EntryNumber(0)
    else:
        centres, rests_on = centres_of(taught_by, policy, hours), taught_by[-1].sequence
    differences = learned_differences(taught_by, policy) if stages[number].is_of_places else None
    return PlannedStage(laid_stage(policy, stages, number, hours, centres, rests_on, differences), is_first)
