"""Recorded slots -> estimates: what the ledger returned, read with its plans; post-processing of nothing else."""

from collections.abc import Sequence
from typing import NamedTuple

from dpops.estimate import NO_DATA, Estimate
from dpops.mechanism import Plan
from dpops.registry import registered
from transforms.release.recorded import Released, Sealed

MISS = 0.05
"""An interval [lower95, upper95] misses the true value with at most this probability."""


class RecordedSlot(NamedTuple):
    """One slot as the ledger returned it: its units, one per release shard, and the sequence number of each entry."""

    units: list[Sealed]
    sequences: list[int]


class HatEstimate(NamedTuple):
    """One statistic of one HAT. epsilon_slot: rational text, the most that a vehicle spends in the slot."""

    cell: str
    statistic: str
    mechanism: str
    epsilon_slot: str
    estimate: Estimate


class SlotEstimates(NamedTuple):
    """All estimates of a slot. slot_start, slot_end: ISO 8601. unit: of a speed. statistics: those asked for."""

    spec_id: str
    slot_start: str
    slot_end: str
    unit: str
    statistics: tuple[str, ...]
    hats: list[HatEstimate]


def estimates_of(units: Sequence[Sealed], statistics: Sequence[str]) -> SlotEstimates:
    """The estimates of one slot by cell and statistic, from its units. statistics: all of the specification's."""
    released = [(unit, each) for unit in units for each in unit.released]
    estimates = _estimates([each for _, each in released])
    found = [
        HatEstimate(each.cell, each.statistic, each.mechanism, unit.epsilon_slot, estimate)
        for (unit, each), estimate in zip(released, estimates, strict=True)
    ]
    found.sort(key=lambda hat: (int(hat.cell, 16), hat.statistic))
    slot = units[0]
    return SlotEstimates(slot.spec_id, slot.slot_start, slot.slot_end, slot.unit, tuple(statistics), found)


def _estimates(released: Sequence[Released]) -> list[Estimate]:
    """In their order; those of one mechanism are read together."""
    found = [NO_DATA] * len(released)
    given: dict[str, list[tuple[int, list[int], Plan]]] = {}
    for at, each in enumerate(released):
        if each.plan is not None and each.integers is not None:
            plan = Plan.from_public(each.mechanism, each.plan)
            given.setdefault(each.mechanism, []).append((at, each.integers, plan))
    for name, mine in given.items():
        places, integers, plans = zip(*mine, strict=True)
        for at, estimate in zip(places, registered()[name].estimates(integers, plans, MISS), strict=True):
            found[at] = estimate
    return found
