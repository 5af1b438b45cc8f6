"""The models fitted to a specification's recorded entries; the last fits are kept."""

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

from dpops.learning.learner import Learned, learned
from dpops.learning.state import RECENT
from transforms.recorded.units import StageEntry
from transforms.releases.periods.stages import LevelsPolicy
from transforms.releases.periods.states import StateSource, state_after

MARGIN_KMH = Fraction(3)
"""Centres stay so far from both ends of the grid."""


def learned_from(entries: Sequence[StageEntry], policy: LevelsPolicy, least_recent: int | None = RECENT) -> Learned:
    """Learns from all periods, in the order in which they were first recorded; that of the last entry comes last.

    What a period's estimates are made of, the next one's centres are too: so the last two fits are kept.
    """
    return _fitted(StateSource.of(entries, policy, least_recent))


@lru_cache(maxsize=2)
def _fitted(released: StateSource) -> Learned:
    return learned(state_after(released))
