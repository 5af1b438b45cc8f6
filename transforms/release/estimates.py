"""Recorded slots -> estimates: what the ledger returned, read with its plans; post-processing of nothing else."""

from collections.abc import Sequence

from dpops.estimate import NO_DATA, Estimate
from dpops.mechanism import Plan
from dpops.registry import registered
from transforms.records import HatEstimate, SlotEstimates
from transforms.release.recorded import Released, Sealed

MISS = 0.05
"""An interval [lower95, upper95] misses the true value with at most this probability."""


def estimates_of(units: Sequence[Sealed], statistics: Sequence[str]) -> SlotEstimates:
    """The estimates of one slot by cell and statistic, from its units. statistics: all of the specification's."""
    found = [
        HatEstimate(each.cell, each.statistic, each.mechanism, unit.epsilon_slot, _estimate(each))
        for unit in units
        for each in unit.released
    ]
    found.sort(key=lambda hat: (int(hat.cell, 16), hat.statistic))
    slot = units[0]
    return SlotEstimates(slot.spec_id, slot.slot_start, slot.slot_end, slot.unit, tuple(statistics), found)


def _estimate(released: Released) -> Estimate:
    if released.plan is None or released.integers is None:
        return NO_DATA
    plan = Plan.from_public(released.mechanism, released.plan)
    return registered()[released.mechanism].estimate(released.integers, plan, MISS)
