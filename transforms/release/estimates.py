"""Recorded slots -> estimates: what the ledger returned, read with its plans; post-processing of nothing else."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from dpops.estimate import NO_DATA, Estimate
from dpops.mechanism import Plan
from dpops.registry import registered
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
    found.sort(key=lambda hat: (int(hat.cell, 16), hat.statistic))
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
    given: dict[str, list[tuple[int, list[int], Plan]]] = {}
    plans: dict[tuple[str, bytes], Plan] = {}  # many HATs share one
    for at, each in enumerate(released):
        if each.plan is not None and each.integers is not None:
            key = each.mechanism, msgspec.json.encode(each.plan)
            if key not in plans:
                plans[key] = Plan.from_public(each.mechanism, each.plan)
            given.setdefault(each.mechanism, []).append((at, each.integers, plans[key]))
    for name, mine in given.items():
        places, integers, planned = zip(*mine, strict=True)
        for at, estimate in zip(places, registered()[name].estimates(integers, planned, MISS), strict=True):
            found[at] = estimate
    return found
