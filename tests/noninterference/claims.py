"""Whether what was offered to the ledger in two worlds differs by no more than its plans claim."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import msgspec

from dpops.claims import PureDP
from dpops.levels.stages import UNIT
from dpops.mechanism import Plan
from dpops.mechanisms import registered
from transforms.recorded.units import VECTOR, Released, Stored

CHOOSING = frozenset(name for name, kind in registered().items() if kind.chooses)
"""Mechanisms that choose a bin or a bound in private first: with frozen draws another one may be chosen, and no norm of
the integers says how likely that was. `tests/dpops/mechanisms/test_private_choices.py` audits their laws."""


def beyond(one: Sequence[Stored], other: Sequence[Stored]) -> Iterator[str]:
    """What of the offered units says more of a vehicle than the plans claim. Units of two worlds, each in order."""
    if [_place(unit) for unit in one] != [_place(unit) for unit in other]:
        yield "the units that were offered to the ledger"
        return
    seen: set[Any] = set()
    shares: dict[tuple[str, str], Fraction] = defaultdict(Fraction)
    for unit, same in zip(one, other, strict=True):
        if _place(unit) in seen:
            continue  # drawn again; what was recorded first stands
        seen.add(_place(unit))
        if _plans(unit) != _plans(same):
            yield f"the plans of {_said(unit)}"
            continue
        for released, also in zip(unit.released, same.released, strict=True):
            if not (_is_bounded if released.mechanism == VECTOR else _is_within)(released, also):
                yield f"the integers of {_said(unit)}, {released.cell} {released.statistic}"
            if released.mechanism == VECTOR:
                shares[unit.spec_id, unit.period] += Fraction((released.plan or {})["share"])
    yield from (f"the shares of period {period}" for (_, period), share in shares.items() if share > 1)


def spent_by_levels(one: Sequence[Stored], other: Sequence[Stored]) -> Fraction:
    """The rho by which all sums with Gaussian noise together tell two worlds apart, over periods and specifications.

    A unit that was drawn again counts once, as it was recorded first.
    """
    first = {_place(unit): (unit, same) for unit, same in reversed(list(zip(one, other, strict=True)))}
    pairs = [pair for unit, same in first.values() for pair in zip(unit.released, same.released, strict=True)]
    return sum(
        (
            Fraction(sum(difference * difference for difference in _differences(released, also)))
            / (2 * Fraction((released.plan or {})["spread"]))
            for released, also in pairs
            if released.mechanism == VECTOR
        ),
        Fraction(0),
    )


def _place(unit: Stored) -> tuple[Any, ...]:
    return unit.spec_id, unit.slot_s, unit.shard, unit.scope


def _said(unit: Stored) -> str:
    return f"{unit.scope} {unit.slot_start}, shard {unit.shard}"


def _plans(unit: Stored) -> Stored:
    """The unit without what may differ: integers, the keyed digest, and places in the chain."""
    released = [
        msgspec.structs.replace(
            release,
            integers=None if release.integers is None else [len(release.integers)],
            plan=None if release.plan is None else {**release.plan, "rests_on": 0},
        )
        for release in unit.released
    ]
    return msgspec.structs.replace(unit, released=released, digest="")


def _differences(released: Released, also: Released) -> list[int]:
    return [abs(a - b) for a, b in zip(released.integers or [], also.integers or [], strict=True)]


def _is_bounded(released: Released, also: Released) -> bool:
    """Whether one stage or live slot, of which the noise was the same, moved by no more than its share of UNIT.

    The shares of a period's stages and live slots add up to 1 at most, see `beyond`.
    """
    differences, plan = _differences(released, also), released.plan or {}
    share = Fraction(plan["share"])
    if plan["counts_public"] and any(differences[: len(differences) // 2]):
        return False  # exact weights may not follow from speeds at all
    if plan["kind"] == "gaussian":
        return sum(difference * difference for difference in differences) <= share * UNIT * UNIT
    return sum(differences) <= share * UNIT


def _is_within(released: Released, also: Released) -> bool:
    """Whether the noise of one statistic of a HAT hides the difference at the epsilon that its plan claims."""
    differences = _differences(released, also)
    if not any(differences) or released.mechanism in CHOOSING:
        return True
    plan = Plan.from_public(released.mechanism, released.plan or {})
    claim = plan.claim()
    assert isinstance(claim, PureDP)
    return plan.scale > 0 and sum(differences) <= claim.epsilon * plan.scale
