"""Which stage of a period comes next, and around what: decided by the ledger's entries, never by data."""

from collections.abc import Callable, Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

from dpops.levels import Stage
from dpops.types import Int64s
from transforms.public import EntryNumber
from transforms.recorded.stage_plan import numbers_of, stage_of
from transforms.recorded.units import StageEntry
from transforms.releases.periods.stages import LevelsPolicy, first_centres, laid_stage

CentresOf = Callable[[Sequence[StageEntry], LevelsPolicy, Sequence[int]], Int64s]
"""(recorded stages in the order of the ledger, at least one; policy; hours of a period) -> (cells, slots), int64."""


def hours_of(slots: Sequence[int], zone: str) -> list[int]:
    """The local hour in which each slot begins."""
    return [datetime.fromtimestamp(at, ZoneInfo(zone)).hour for at in slots]


def of_period(entries: Sequence[StageEntry], period: str) -> list[StageEntry]:
    """A period's recorded stages, in order."""
    return sorted((entry for entry in entries if entry.unit.period == period), key=lambda entry: entry.unit.stage)


def is_complete(entries: Sequence[StageEntry], period: str) -> bool:
    mine = of_period(entries, period)
    return bool(mine) and len(mine) == numbers_of(mine[0].unit).stages


def plan_for(
    entries: Sequence[StageEntry],
    period: str,
    stage: int,
    hours: Sequence[int],
    policy: LevelsPolicy,
    centres_of: CentresOf,
) -> Stage:
    """The plan of a period's stage: the recorded one, or what follows from all that is recorded of the specification.

    entries: in the order of the ledger. The first recorded stage of a period decides how many there are; a period
    before which no other is recorded whole has those of a first day. Of a period that waits for its later stage only
    that stage learns: what it knows is no forecast of another day.
    """
    mine = of_period(entries, period)
    if stage < len(mine):
        return stage_of(mine[stage].unit, policy.region)
    known = [entry for entry in entries if entry.unit.period == period or is_complete(entries, entry.unit.period)]
    is_first = numbers_of(mine[0].unit).stages == len(policy.first) if mine else not known
    stages = policy.first if is_first else policy.later
    if not known:
        return laid_stage(policy, stages, stage, hours, first_centres(len(policy.region), len(hours)), EntryNumber(0))
    return laid_stage(policy, stages, stage, hours, centres_of(known, policy, hours), known[-1].sequence)
