"""From a recorded live slot, and all entries before it, to an estimate of each of its HATs: post-processing."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

from transforms.recorded.stage_plan import plan_of
from transforms.recorded.units import Sequenced
from transforms.records import SlotEstimates
from transforms.releases.periods.publish import HatEstimates, estimates_of_slot
from transforms.releases.periods.stages import LevelsPolicy
from transforms.releases.slots import SlotFacts

MECHANISM = "levels-live"

LiveEstimator = Callable[[Sequence[Sequenced], Sequence[Sequenced], LevelsPolicy], HatEstimates]
"""(stages of whole earlier periods; live slots of the period up to the one that is estimated; policy) -> its HATs,
(cells, 1). Both in the order of the ledger, and all recorded before the slot: so it can be made again."""


def live_estimates(
    entry: Sequenced, stages: Sequence[Sequenced], live: Sequence[Sequenced], facts: SlotFacts, policy: LevelsPolicy,
    estimator: LiveEstimator,
) -> SlotEstimates:  # fmt: skip
    """One estimate for every cell of the region. stages, live: what is recorded before the entry, and it."""
    found = estimates_of_slot(estimator(stages, live, policy), 0, facts, entry.unit.unit, policy)
    spent = _epsilon(entry, policy)
    size = len(found.hats.cell)
    hats = replace(found.hats, mechanism=[MECHANISM] * size, epsilon_slot=[spent] * size)
    return found._replace(hats=hats, is_live=True)


def _epsilon(entry: Sequenced, policy: LevelsPolicy) -> str:
    """What a vehicle spends in the slot, as rows say it: of zCDP what it comes to at the specification's delta."""
    return str(plan_of(entry.unit).claim.approx(policy.delta or Fraction(0)).epsilon)
