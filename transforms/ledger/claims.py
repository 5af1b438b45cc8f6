"""Comparison of stored plans' privacy claims with their debits.

A HAT has a list of claims, one per statistic with data; many HATs have equal lists, which are counted. A DebitGroup is
the units that share a debit: a slot's shards or a period's stages, whose largest debit counts, or a period's slots.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import compress
from typing import NamedTuple

import msgspec

from dpops.accountant import Accountant, most_of
from dpops.claims import ZERO, Claim, PureDP
from dpops.mechanism import Plan, claim_of_terms
from transforms.ledger.head import LedgerError
from transforms.recorded.units import DebitGroup, HatUnit, Unit

FREE = PureDP(ZERO)  # of a plan by which nothing is drawn


def check_claims(units: "Iterable[ClaimedUnit]", counted: Fraction = ZERO) -> None:
    """Raises LedgerError for a debit below its claims, or claims above a HAT's epsilon.

    units: all units of each slot or period. counted: the most that the HATs of any vehicle claim, where `units` are of
    one slot or period and the vehicles of its HATs are still at hand; else 0.
    """
    claimed_by_group: dict[DebitGroup, _Claimed] = defaultdict(_Claimed)
    for unit in units:
        claimed_by_group[DebitGroup.of(unit.unit)].add(unit)
    for (spec_id, period, slot_s, _), claimed in claimed_by_group.items():
        name = f"period {period}" + ("" if slot_s is None else f", slot at {slot_s} s since 1970")
        claim = claimed.claim().largest(Accountant(pure=counted))  # by plans alone, and by vehicles' HATs
        if not claimed.debited.covers(claim):
            raise LedgerError(
                f"{name}: the plans of {spec_id} claim more than the account was debited for them "
                f"({_claims_text(claim)} above {_claims_text(claimed.debited)})"
            )
        dearest = max((Accountant().compose(claims).pure for claims in claimed.hats), default=ZERO)  # of one HAT
        if claimed.per_hat and dearest > claimed.per_hat:
            raise LedgerError(
                f"{name}: the plans of {spec_id} claim more than a HAT's epsilon ({dearest} above {claimed.per_hat})"
            )


@dataclass
class _Claimed:
    """Units that share a debit; `debited`: sum of debits; `per_hat`: least epsilon, or 0."""

    debits: dict[int, Accountant] = field(default_factory=dict)  # largest shard's, by slot
    hats: Counter[tuple[Claim, ...]] = field(default_factory=Counter)  # number of HATs by their claims
    hat_epsilons: set[Fraction] = field(default_factory=set)  # distinct ones of units

    def add(self, claimed: "ClaimedUnit") -> None:
        """Counts a unit's HATs by claims; keeps the largest debit of shards."""
        unit, distinct, code_by_cell = claimed  # lists of claims; each cell's index of its list
        debit = Accountant().compose([unit.debit])
        self.debits[unit.slot_s] = debit.largest(self.debits.get(unit.slot_s, Accountant()))
        for code, number in Counter(code_by_cell.values()).items():
            self.hats[distinct[code]] += number
        if isinstance(unit, HatUnit):
            self.hat_epsilons.add(unit.per_hat.epsilon)

    @property
    def debited(self) -> Accountant:
        """Sum over slots of the largest shard's debit."""
        return sum(self.debits.values(), Accountant())

    @property
    def per_hat(self) -> Fraction:
        """Least epsilon of a HAT among the units, or 0 without any."""
        return min(self.hat_epsilons, default=ZERO)

    def claim(self) -> Accountant:
        """Adds up a vehicle's claims in the dearest HATs that the debit pays.

        So many as the debit over a HAT's epsilon; all, where HATs have no epsilon of their own. If a HAT draws some of
        its statistics only, the debit does not tell how many it paid for: it is compared with one, a weaker check.
        """
        hats: Counter[Accountant] = Counter()  # number of HATs by what one costs
        for claims, number in self.hats.items():
            hats[Accountant().compose(claims)] += number
        if not self.per_hat:  # no epsilon per HAT
            return most_of(hats, hats.total())  # most_of: the sum of so many dearest HATs
        is_uneven = any(FREE in claims and {*claims} != {FREE} for claims in self.hats)  # draws some of its statistics
        return most_of(hats, 1 if is_uneven else max(math.ceil(self.debited.pure / self.per_hat), 1))


class ClaimedUnit(NamedTuple):
    """A unit, its HATs' distinct claims, and which each cell has."""

    unit: Unit
    distinct: list[tuple[Claim, ...]]  # one claim per statistic with data
    code_by_cell: dict[str, int]  # index in `distinct`


def claims_of(unit: Unit) -> ClaimedUnit:
    """Reads plans' claims. Raises LedgerError or PlanError."""
    try:
        if isinstance(unit, HatUnit):
            return _claims_of_hats(unit)
        from transforms.recorded.stage_plan import bare_stage  # a release of HATs needs nothing of it

        return ClaimedUnit(unit, distinct=[(bare_stage(unit).claim,)], code_by_cell={"": 0})  # one vector, no cells
    except (TypeError, AttributeError, ArithmeticError, msgspec.MsgspecError):  # of values that no plan has: not shown
        raise LedgerError(f"damaged ledger: period {unit.period}: a plan of {unit.spec_id} cannot be read") from None


def _claims_of_hats(unit: HatUnit) -> ClaimedUnit:
    """Reads HATs' claims; raises LedgerError for a plan without claim that is no constant.

    Each cell gets the code, an index into `distinct`, of its list of claims. A HAT without a plan was not drawn.
    """
    plans = [item.plan for item in unit.released]
    drawn = unit.released if all(plans) else [item for item in unit.released if item.plan is not None]
    terms = Plan.claim_terms([plan for plan in plans if plan is not None])  # hashable, one for each of `drawn`
    code_of_terms = {plan_terms: code for code, plan_terms in enumerate(dict.fromkeys(terms))}
    codes = list(map(code_of_terms.__getitem__, terms))  # of each of `drawn`: index into `claims`
    claims = [claim_of_terms(*plan_terms) for plan_terms in code_of_terms]
    free = {code for code, claim in enumerate(claims) if claim == FREE}
    for hat in compress(drawn, [code in free for code in codes]) if free else ():
        if hat.plan is None or hat.integers != [hat.plan["facts"].get("constant")]:
            raise LedgerError(f"a plan of {hat.mechanism} claims nothing, but its constant is not what was released")
    by_cell: dict[str, tuple[int, ...]] = dict.fromkeys([item.cell for item in unit.released], ())  # codes of claims
    if len(by_cell) == len(codes) == len(unit.released):  # one statistic, and every HAT was drawn
        return ClaimedUnit(unit, [(claim,) for claim in claims], dict(zip(by_cell, codes, strict=True)))
    for released, code in zip(drawn, codes, strict=True):
        by_cell[released.cell] += (code,)
    distinct: dict[tuple[Claim, ...], int] = {}
    code_of = {
        codes_of_cell: distinct.setdefault(tuple(claims[code] for code in codes_of_cell), len(distinct))
        for codes_of_cell in dict.fromkeys(by_cell.values())
    }
    return ClaimedUnit(unit, list(distinct), {cell: code_of[codes_of_cell] for cell, codes_of_cell in by_cell.items()})


def _claims_text(sum_: Accountant) -> str:
    return " and ".join(str(claim) for claim in sum_.claims()) or "nothing"
