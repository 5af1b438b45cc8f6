"""Spending: the debits of a period, whether new ones fit the limit, and what each specification has debited."""

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import msgspec
import sqlalchemy as sa

from dpops.accountant import Accountant, Limit
from dpops.claims import claim_of
from transforms.ledger.chain import ENTRY, text_of
from transforms.ledger.head import LedgerError
from transforms.recorded.units import Debit, Sealed, SpecSlot, debits_by_slot


class Spent(NamedTuple):
    """What one specification has debited in one period."""

    period: str
    spec_id: str
    spec_name: str
    slots: int
    debited: Accountant
    first_at: str
    last_at: str

    @property
    def epsilon(self) -> Fraction:
        """Of the pure claims, which are all claims where the limit names no delta."""
        return self.debited.pure


def is_over(db: sa.Connection, account: str, limit: Limit, period: str, wanted: Sequence[Debit]) -> bool:
    """Whether what is not recorded yet would raise the period's debits above the limit."""
    recorded = _debits(db, account, period)
    known = {debit.unit for debit in recorded}
    new = [debit for debit in wanted if debit.unit not in known]
    before, after = (sum(debits_by_slot(all_).values(), Accountant()) for all_ in (recorded, recorded + new))
    return after != before and not limit.fits(after)


def _slot_debits(db: sa.Connection, account: str, period: str) -> dict[SpecSlot, Accountant]:
    """Debit per (specification, slot) of a period; the shards of a slot share one."""
    return debits_by_slot(_debits(db, account, period))


def _debits(db: sa.Connection, account: str, period: str) -> list[Debit]:
    query = sa.select(ENTRY.c.spec_id, ENTRY.c.slot_s, ENTRY.c.shard, ENTRY.c.epsilon).where(
        ENTRY.c.kind == "release", ENTRY.c.account == account, ENTRY.c.period == period
    )
    return [Debit((row.spec_id, row.slot_s, row.shard), claim_of(text_of(row.epsilon))) for row in db.execute(query)]


def spent_by_specification(db: sa.Connection, account: str, period: str | None) -> list[Spent]:
    """Oldest period first."""
    names = {
        spec_id: str(msgspec.json.decode(body, type=dict[str, object])["name"])
        for spec_id, body in db.execute(
            sa.select(ENTRY.c.spec_id, ENTRY.c.body).where(ENTRY.c.kind == "spec", ENTRY.c.account == account)
        )
    }
    query = (
        sa.select(ENTRY.c.period, ENTRY.c.spec_id, sa.func.min(ENTRY.c.at), sa.func.max(ENTRY.c.at))
        .where(ENTRY.c.kind == "release", ENTRY.c.account == account)
        .group_by(ENTRY.c.period, ENTRY.c.spec_id)
        .order_by(ENTRY.c.period, sa.func.min(ENTRY.c.seq))
    )
    if period is not None:
        query = query.where(ENTRY.c.period == period)
    found = []
    for of_period, spec_id, first_at, last_at in db.execute(query).all():
        debits = [debit for (spec, *_), debit in _slot_debits(db, account, of_period).items() if spec == spec_id]
        total = sum(debits, Accountant())
        found.append(Spent(of_period, spec_id, names[spec_id], len(debits), total, first_at, last_at))
    return found


def check_total(db: sa.Connection, account: str, units: Sequence[Sealed]) -> None:
    """A plan that divides a total over a period never debits more than that, whatever the account allows."""
    unit = units[0]
    if unit.epsilon_total is None:
        return
    debits = _slot_debits(db, account, unit.period)
    spent = sum((debit for (spec_id, *_), debit in debits.items() if spec_id == unit.spec_id), Accountant())
    if not Accountant().compose([claim_of(unit.epsilon_total)]).covers(spent):
        raise LedgerError(f"period {unit.period}: the slots would spend more than the total that the plan divides")
