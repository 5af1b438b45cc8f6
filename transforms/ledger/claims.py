"""What the stored plans of a release claim, compared with what was debited for them."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import msgspec
import sqlalchemy as sa

from dpops.accountant import Accountant, most_of
from dpops.claims import ZERO, Claim, PureDP, claim_of
from dpops.mechanism import Plan
from transforms.ledger.chain import ENTRY
from transforms.ledger.head import LedgerError
from transforms.release import levels
from transforms.release.recorded import Released, Sealed, debit_of

FREE = PureDP(ZERO)
"""Of a plan by which nothing is drawn."""

_Group = tuple[str, str, int | None, bool]
"""What one debit is of: specification, period, slot, and whether it is live.

The slot is None where a period was planned as a whole."""


def check_claims(units: Iterable[Sealed], counted: Fraction = ZERO) -> None:
    """Raises LedgerError for the first slot or period whose debit is below what its plans claim.

    units: all of each slot, or of each period that was planned as a whole. counted: what the plans of one vehicle's
    HATs claim together at most, where it is known which HATs these are.
    """
    groups: dict[_Group, _Claimed] = defaultdict(_Claimed)
    for unit in units:
        groups[group_of(unit)].add(unit)
    for (spec_id, period, slot_s, _), claimed in groups.items():
        where = f"period {period}" + ("" if slot_s is None else f", slot at {slot_s} s since 1970")
        claim = claimed.claim().largest(Accountant(pure=counted))
        if not claimed.debited.covers(claim):
            raise LedgerError(
                f"{where}: the plans of {spec_id} claim more than the account was debited for them "
                f"({_said(claim)} above {_said(claimed.debited)})"
            )
        if claimed.rate and claimed.dearest > claimed.rate:
            raise LedgerError(
                f"{where}: the plans of {spec_id} claim more of a HAT than it was given "
                f"({claimed.dearest} above {claimed.rate})"
            )


def check_all_claims(db: sa.Connection) -> None:
    """The same for all that was ever recorded. Raises LedgerError."""
    query = sa.select(ENTRY.c.body).where(ENTRY.c.kind == "release").order_by(ENTRY.c.seq)
    with closing(db.execution_options(yield_per=100).execute(query)) as found:
        check_claims(msgspec.json.decode(row.body, type=Sealed) for row in found)


def group_of(unit: Sealed) -> _Group:
    return unit.spec_id, unit.period, None if unit.is_of_whole_period else unit.slot_s, unit.is_live


@dataclass
class _Claimed:
    """The units of one debit, added up. hats: of how many HATs the plans claim the same."""

    debits: dict[int, Accountant] = field(default_factory=dict)
    hats: Counter[tuple[Claim, ...]] = field(default_factory=Counter)
    rates: set[Fraction] = field(default_factory=set)

    def add(self, unit: Sealed) -> None:
        debit = Accountant().compose([claim_of(debit_of(unit))])
        self.debits[unit.slot_s] = debit.largest(self.debits.get(unit.slot_s, Accountant()))
        self.hats.update(claims_by_hat(unit).values())
        rate = claim_of(unit.epsilon_hat)
        if isinstance(rate, PureDP) and not (unit.is_stage or unit.is_live):
            self.rates.add(rate.epsilon)

    @property
    def debited(self) -> Accountant:
        """A slot's shards share the largest debit; those of the slots of a period add up."""
        return sum(self.debits.values(), Accountant())

    @property
    def rate(self) -> Fraction:
        """The epsilon of a HAT, 0 where there is none."""
        return min(self.rates, default=ZERO)

    @property
    def dearest(self) -> Fraction:
        """What the plans of one HAT claim at most, of pure claims."""
        return max((Accountant().compose(claims).pure for claims in self.hats), default=ZERO)

    def claim(self) -> Accountant:
        """What the plans cost a vehicle: in as many HATs as were paid for, one at least, and in those that cost most.

        Where no epsilon of a HAT says how many these are, a vehicle is in all of them. Where of some HATs a part of the
        statistics is drawn and the others are constants, many may have been paid for a little: then it is in one.
        """
        hats: Counter[Accountant] = Counter()
        for claims, number in self.hats.items():
            hats[Accountant().compose(claims)] += number
        if not self.rate:
            return most_of(hats, hats.total())
        is_uneven = any(FREE in claims and {*claims} != {FREE} for claims in self.hats)
        return most_of(hats, 1 if is_uneven else max(math.ceil(self.debited.pure / self.rate), 1))


def claims_by_hat(unit: Sealed) -> dict[str, tuple[Claim, ...]]:
    """What the plans of each cell claim, one claim a statistic that has data. Raises LedgerError, or PlanError."""
    found: dict[str, tuple[Claim, ...]] = {}
    for each in unit.released:
        before = found.get(each.cell, ())
        found[each.cell] = before if each.plan is None else (*before, _claim(each, each.plan))
    return found


def _claim(released: Released, plan: dict[str, Any]) -> Claim:
    if released.mechanism == levels.MECHANISM:
        return msgspec.convert(plan, levels.StagePlan).claim
    claim = Plan.claim_of_stored(plan)
    if not claim.epsilon and released.integers != [plan["facts"].get("constant")]:
        raise LedgerError(f"a plan of {released.mechanism} claims nothing, but its constant is not what was released")
    return claim


def _said(sum_: Accountant) -> str:
    return " and ".join(str(claim) for claim in sum_.claims()) or "nothing"
