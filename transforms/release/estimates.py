"""Recorded slots -> estimates: what the ledger returned, read with its plans; post-processing of nothing else."""

from collections.abc import Mapping, Sequence
from typing import Any

from dpops.estimate import NO_DATA, Estimate
from dpops.reading import stored_estimates
from transforms.records import HatCounts, HatEstimate, SlotEstimates
from transforms.release.recorded import Released, Sealed

MISS = 0.05
"""An interval [lower95, upper95] misses the true value with at most this probability."""


def estimates_of(units: Sequence[Sealed], statistics: Sequence[str]) -> SlotEstimates:
    """The estimates of one slot by cell and statistic, from its units. statistics: all of the specification's."""
    released = [(unit, each) for unit in units for each in unit.released]
    estimates = _estimates([each for _, each in released])
    found = [
        HatEstimate(each.cell, each.statistic, each.mechanism, unit.epsilon_slot, estimate, _counts(each.plan))
        for (unit, each), estimate in zip(released, estimates, strict=True)
    ]
    found.sort(key=lambda hat: (len(hat.cell), hat.cell, hat.statistic))  # of a cell's hexadecimal number
    slot = units[0]
    return SlotEstimates(slot.spec_id, slot.slot_start, slot.slot_end, slot.unit, tuple(statistics), found)


def _counts(plan: Mapping[str, Any] | None) -> HatCounts | None:
    """A plan that was made from counts has them among its facts: there they are public."""
    facts = {} if plan is None else plan.get("facts", {})
    if "users" not in facts or "samples" not in facts:
        return None
    return HatCounts(facts["users"], facts.get("reported", facts["samples"]))


def _estimates(released: Sequence[Released]) -> list[Estimate]:
    """In their order; those of one mechanism are read together."""
    found = [NO_DATA] * len(released)
    given: dict[str, list[tuple[int, list[int], dict[str, Any]]]] = {}
    for at, each in enumerate(released):
        if each.plan is not None and each.integers is not None:
            given.setdefault(each.mechanism, []).append((at, each.integers, each.plan))
    for name, mine in given.items():
        places, integers, plans = zip(*mine, strict=True)
        for at, estimate in zip(places, stored_estimates(name, integers, plans, MISS), strict=True):
            found[at] = estimate
    return found
