"""Recorded slots -> estimates: what the ledger returned, read with its plans; post-processing of nothing else."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from dpops.claims import ZERO
from dpops.estimate import Estimates
from dpops.mechanisms import stored_estimates
from dpops.statistics import VALUE, named
from transforms.recorded.units import HatUnit, Released
from transforms.records import HatColumns, SlotEstimates

MISS = 0.05
"""An interval [lower95, upper95] misses the true value with at most this probability."""

_NO_FACTS: Mapping[str, int] = {}


def estimates_of(units: Sequence[HatUnit], statistics: Sequence[str], lower: Fraction = ZERO) -> SlotEstimates:
    """Reads the estimates of one slot by cell and statistic, from its units. statistics: all of the specification's.
    lower: where its values begin."""
    everything = [release for unit in units for release in unit.released]
    spent = [said for unit in units for said in [str(unit.spent)] * len(unit.released)]
    order = _order(everything)
    released = [everything[place] for place in order]
    vehicles, reports = counts_of([release.plan for release in released])
    estimates = _estimates(released)
    if lower:
        estimates = _moved(estimates, [release.statistic for release in released], float(lower))
    hats = HatColumns(
        cell=[release.cell for release in released],
        statistic=[release.statistic for release in released],
        mechanism=[release.mechanism for release in released],
        epsilon_slot=[spent[place] for place in order],
        estimates=estimates,
        vehicles=vehicles,
        reports=reports,
    )
    slot = units[0]
    return SlotEstimates(slot.spec_id, slot.slot_start, slot.slot_end, slot.unit, tuple(statistics), hats)


def _order(released: Sequence[Released]) -> list[int]:
    """Sorts by cell, as a hexadecimal number, and statistic."""
    cells, statistics = [release.cell for release in released], [release.statistic for release in released]
    lengths = list(map(len, cells))
    alike = len({*lengths}) == len({*statistics}) == 1
    keys: Sequence[Any] = cells if alike else list(zip(lengths, cells, statistics, strict=True))
    return sorted(range(len(cells)), key=keys.__getitem__)


def _moved(estimates: Estimates, statistics: Sequence[str], lower: float) -> Estimates:
    """Adds where values begin to all numbers that are values: not to squares of differences. statistics: of each."""
    numbers = estimates.numbers.copy()
    for hat, name in enumerate(statistics):
        outputs = [output for output in named(name).outputs if not output.is_list]
        numbers[[place for place, output in enumerate(outputs) if output.unit == VALUE], :, hat] += lower
    return replace(estimates, numbers=numbers)


def counts_of(plans: Sequence[Mapping[str, Any] | None]) -> tuple[list[int | None], list[int | None]]:
    """Reads vehicles and reports. A plan made from counts has them among its facts: there they are public."""
    facts = [_NO_FACTS if plan is None else plan.get("facts", _NO_FACTS) for plan in plans]
    public = [its if "users" in its and "samples" in its else _NO_FACTS for its in facts]
    return [its.get("users") for its in public], [its.get("reported", its.get("samples")) for its in public]


def _estimates(released: Sequence[Released]) -> Estimates:
    """Reads the estimates in the order of what was released; those of one mechanism are read together."""
    given: dict[str, list[int]] = {}
    for index, release in enumerate(released):
        if release.plan is not None and release.integers is not None:
            given.setdefault(release.mechanism, []).append(index)
    parts: list[tuple[list[int], Estimates]] = []
    for name, places in given.items():
        of_mechanism = [released[place] for place in places]
        integers, plans = (
            [release.integers or [] for release in of_mechanism],
            [release.plan or {} for release in of_mechanism],
        )
        parts.append((places, stored_estimates(name, integers, plans, MISS)))
    if len(parts) == 1 and len(parts[0][0]) == len(released):
        return parts[0][1]
    return Estimates.placed(len(released), parts)
