"""From a recorded live slot, and all entries before it, to an estimate of each of its HATs: post-processing."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from transforms.recorded.stage_plan import numbers_of
from transforms.recorded.units import LiveEntry, StageEntry
from transforms.records import SlotEstimates
from transforms.releases.periods.learned import learned_live
from transforms.releases.periods.publish import estimates_of_slot
from transforms.releases.periods.stages import LevelsPolicy
from transforms.releases.slots import SlotFacts

MECHANISM = "levels-live"


def live_estimates(
    stages: Sequence[StageEntry], live: Sequence[LiveEntry], facts: SlotFacts, policy: LevelsPolicy
) -> SlotEstimates:
    """Estimates every cell of the region in the last of some live slots.

    stages: of whole earlier periods. live: the slots of its own period up to it. Both are in the order of the ledger,
    and all were recorded before the slot or are it: so the estimates can be made again.
    """
    entry = live[-1]
    estimates = estimates_of_slot(learned_live(stages, live, policy), 0, facts, policy)
    # Of Gaussian noise, what it comes to at the specification's delta.
    spent = str(numbers_of(entry.unit).claim.approx(policy.delta or Fraction(0)).epsilon)
    size = len(estimates.hats.cell)
    hats = replace(estimates.hats, mechanism=[MECHANISM] * size, epsilon_slot=[spent] * size)
    return estimates._replace(hats=hats, is_live=True)
