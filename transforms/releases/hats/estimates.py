"""Recorded slots -> estimates: what the ledger returned, read with its plans; post-processing of nothing else."""

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from dpops.estimate import Estimates
from dpops.registry import stored_estimates
from transforms.recorded.units import HatUnit, Released
from transforms.records import HatColumns, SlotEstimates

MISS = 0.05
"""An interval [lower95, upper95] misses the true value with at most this probability."""


def estimates_of(units: Sequence[HatUnit], statistics: Sequence[str]) -> SlotEstimates:
    """The estimates of one slot by cell and statistic, from its units. statistics: all of the specification's."""
    everything = [release for unit in units for release in unit.released]
    spent = [said for unit in units for said in [str(unit.spent)] * len(unit.released)]
    order = _order(everything)
    released = [everything[place] for place in order]
    counts = [_counts(release.plan) for release in released]
    hats = HatColumns(
        cell=[release.cell for release in released],
        statistic=[release.statistic for release in released],
        mechanism=[release.mechanism for release in released],
        epsilon_slot=[spent[place] for place in order],
        estimates=_estimates(released),
        vehicles=[vehicles for vehicles, _ in counts],
        reports=[reports for _, reports in counts],
    )
    slot = units[0]
    return SlotEstimates(slot.spec_id, slot.slot_start, slot.slot_end, slot.unit, tuple(statistics), hats)


def _order(released: Sequence[Released]) -> list[int]:
    """By cell, as a hexadecimal number, and statistic."""
    cells, statistics = [release.cell for release in released], [release.statistic for release in released]
    return [place for *_, place in sorted(zip(map(len, cells), cells, statistics, count(), strict=False))]


def _counts(plan: Mapping[str, Any] | None) -> tuple[int | None, int | None]:
    """Vehicles and reports. A plan that was made from counts has them among its facts: there they are public."""
    facts = {} if plan is None else plan.get("facts", {})
    if "users" not in facts or "samples" not in facts:
        return None, None
    return facts["users"], facts.get("reported", facts["samples"])


def _estimates(released: Sequence[Released]) -> Estimates:
    """In their order; those of one mechanism are read together."""
    given: dict[str, list[int]] = {}
    for index, release in enumerate(released):
        if release.plan is not None and release.integers is not None:
            given.setdefault(release.mechanism, []).append(index)
    parts = []
    for name, places in given.items():
        of_mechanism = [released[place] for place in places]
        integers, plans = (
            [release.integers or [] for release in of_mechanism],
            [release.plan or {} for release in of_mechanism],
        )
        parts.append((places, stored_estimates(name, integers, plans, MISS)))
    return Estimates.placed(len(released), parts)
