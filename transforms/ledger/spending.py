"""Accounts and spending: limits in force, excess, totals.

A Debit is a unit's key and claim; of a slot's shards, or a period's stages, the largest counts (`_sum`). A limit has
spans, shortest first: one of 1 day limits a period, longer ones so many consecutive days, which are the periods then.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from fractions import Fraction
from functools import reduce
from itertools import groupby
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa

from dpops.accountant import Accountant, Limit, Span, limit_of, sums_over
from dpops.claims import claim_of
from transforms.ledger import chain
from transforms.ledger.chain import ENTRY, text_of
from transforms.ledger.head import LedgerError
from transforms.recorded.units import Debit, Unit, debits_by_slot, key_of


class AccountRefusal(Exception):
    """Refusal by an account, saying who spent what when."""

    _tagged_with_step = True  # Beam would add its step's name to the message


class LimitExceeded(AccountRefusal):
    """Refusal of a period whose debits exceed the limit."""


class PeriodClosed(AccountRefusal):
    """Refusal of a live slot after its period's release."""


@dataclass(frozen=True)
class Account:
    """An account: what its budget protects, and how long."""

    name: str
    unit: str
    since: str | None
    until: str | None
    timezone: str
    adjacency: str
    limit: str  # text, see `dpops.accountant.limit_of`
    key_check: str  # recognises a wrong key file, gives nothing away


def find_account(db: sa.Connection, name: str) -> Account | None:
    """Reads an account with its lowest limit so far, or None."""
    if not chain.has_table(db):
        return None
    of_account = sa.select(ENTRY.c.body, ENTRY.c.epsilon).where(ENTRY.c.account == name).order_by(ENTRY.c.seq)
    body = db.execute(of_account.where(ENTRY.c.kind == "account")).scalar()
    if body is None:
        return None
    account = msgspec.json.decode(body, type=Account)
    # An entry `limit` has the lowered limit, as text, in the column `epsilon`.
    lowered = [limit_of(text_of(row.epsilon)) for row in db.execute(of_account.where(ENTRY.c.kind == "limit"))]
    return replace(account, limit=str(reduce(_lower, lowered, limit_of(account.limit))))


def known_account(db: sa.Connection, name: str) -> Account:
    """Reads an account. Raises AccountRefusal if missing."""
    account = find_account(db, name)
    if account is None:
        raise AccountRefusal(f"the ledger has no account {name!r}: run `hatstream init` first")
    return account


def limit_in_force(db: sa.Connection, account: str, requested: Limit | None = None) -> Limit:
    """Returns the lower of recorded and requested limit."""
    recorded = limit_of(known_account(db, account).limit)
    return recorded if requested is None else _lower(recorded, requested)


def _lower(recorded: Limit, requested: Limit) -> Limit:
    return requested if requested.lowers(recorded) else recorded


def check_match(recorded: Account, requested: Account) -> None:
    """Raises AccountRefusal where an account's terms differ."""
    for name in ("unit", "since", "until", "timezone", "adjacency"):
        if getattr(recorded, name) != getattr(requested, name):
            raise AccountRefusal(
                f"account {recorded.name!r} has {name} = {getattr(recorded, name)!r}, the specification says "
                f"{getattr(requested, name)!r}: an account keeps what it was opened with; change the specification back"
            )
    if recorded.key_check != requested.key_check:
        raise AccountRefusal(f"account {recorded.name!r} was opened with another key file")
    limit, wanted = limit_of(recorded.limit), limit_of(requested.limit)
    if not wanted.lowers(limit):
        raise AccountRefusal(
            f"account {recorded.name!r} has the limit {limit.describe_fully()}, the specification says "
            f"{wanted.describe_fully()}: a limit may be lowered, never raised, and a delta, a pure part or an "
            f"accounting stays as it was set; write the limit {limit.describe_fully()} under [account]"
        )


class Spent(NamedTuple):
    """Debits of one specification in one period."""

    period: str
    spec_id: str
    spec_name: str
    slots: int  # covered by the debits: a stage's is one for all slots of a period
    units: int  # debits, one a slot or one for a period
    debited: Accountant
    first_at: str
    last_at: str

    @property
    def epsilon(self) -> Fraction:
        """Epsilon of pure claims, which are all claims if the limit has no delta."""
        return self.debited.pure


def periods_over(db: sa.Connection, account: str, limit: Limit, wanted: Mapping[str, Sequence[Debit]]) -> list[str]:
    """Lists periods whose new debits exceed the limit, or the account's if lower.

    wanted: debits by period; those of recorded units count already. In order: a period that fits counts for the next.
    """
    limit = limit_in_force(db, account, limit)
    debits = _debits_of(db, account, _around(wanted, limit.spans[-1].days))  # also of days in one span with them
    refused = []
    for period, period_debits in wanted.items():
        debited = {debit.unit for debit in debits[period]}
        increased = {**debits, period: debits[period] + [debit for debit in period_debits if debit.unit not in debited]}
        # What debits nothing more is accepted, though the limit may have been lowered below what is spent.
        if _sum(increased[period]) != _sum(debits[period]) and not _fits(increased, limit, period):
            refused.append(period)
        else:
            debits = increased
    return refused


def _fits(debits: Mapping[str, Sequence[Debit]], limit: Limit, period: str) -> bool:
    """Checks all spans of days that contain the period."""
    return all(
        span.limit.fits(window)
        for span in limit.spans
        for window in sums_over([_sum(debits[day]) for day in _around([period], span.days)], span.days)
    )


def _around(periods: Iterable[str], days: int) -> list[str]:
    """Lists the days that share a span of `days` with one of `periods`."""
    if days == 1:
        return list(periods)
    near = {date.fromisoformat(period) + timedelta(days=step) for period in periods for step in range(1 - days, days)}
    return [day.isoformat() for day in sorted(near)]


def _sum(debits: Sequence[Debit]) -> Accountant:
    return sum(debits_by_slot(debits).values(), Accountant())


class SpanSpent(NamedTuple):
    """Largest debit of spans around a day, with dates."""

    span: Span
    first: str
    last: str
    spent: Accountant


def spent_in_spans(db: sa.Connection, account: str, limit: Limit, period: str) -> list[SpanSpent]:
    """Lists each span's fullest stretch of days that contains a period, with its debits."""
    spans = []
    for span in limit_in_force(db, account, limit).spans:
        days = _around([period], span.days)  # all that share such a span with the period
        sums = sums_over([_sum(debits) for debits in _debits_of(db, account, days).values()], span.days)
        # Largest by rho, then by pure epsilon, then by epsilon with a delta: debits are of one kind as a rule.
        first = sums.index(max(sums, key=lambda spent: (spent.concentrated, spent.pure, spent.epsilon)))
        spans.append(SpanSpent(span, days[first], days[first + span.days - 1], sums[first]))
    return spans


class SpanUse(NamedTuple):
    """Consecutive days whose fullest spans have spent the same fraction of the limit."""

    days: int  # length of the spans
    first: str
    last: str
    part: float  # of the limit, 0 to 1


def uses_of_spans(db: sa.Connection, account: str) -> list[SpanUse]:
    """Computes by day how far the fullest span that contains it is spent."""
    spans, uses = limit_in_force(db, account).spans, []
    sums = debited(db, account) if spans[-1].days > 1 else {}  # by day
    for span in spans:
        if not sums or span.days == 1:  # one day is a period, whose spending is shown by itself
            continue
        # By window, of which one begins on each day, from `days - 1` days before the first debit on.
        fractions = [span.limit.fraction(spent) for spent in windows(sums, span.days).values()]
        # Day i after the first debit lies in windows i to i + span.days - 1; windows go on beyond the last debit.
        fullest = [max(fractions[start : start + span.days]) for start in range(len(fractions))]
        first = date.fromisoformat(next(iter(sums)))
        for part, group in groupby(range(len(fullest)), key=fullest.__getitem__):  # days in a row with an equal part
            days = [(first + timedelta(days=index)).isoformat() for index in group]
            uses.append(SpanUse(span.days, days[0], days[-1], part))
    return uses


def windows(sums: Mapping[str, Accountant], days: int) -> dict[str, Accountant]:
    """Sums debits over `days` consecutive periods, by first period."""
    if days == 1 or not sums:
        return {**sums}
    first, last = (date.fromisoformat(day) for day in (min(sums), max(sums)))
    # All windows that hold a debit: from `days - 1` dates before the first debit to as many after the last one.
    dates = [(first + timedelta(days=step)).isoformat() for step in range(1 - days, (last - first).days + days)]
    window_sums = sums_over([sums.get(day, Accountant()) for day in dates], days)
    return dict(zip(dates, window_sums, strict=False))  # the last `days - 1` dates begin no window


def debited(db: sa.Connection, account: str) -> dict[str, Accountant]:
    """Sums debits over specifications, by sorted period."""
    query = sa.select(ENTRY.c.period).where(ENTRY.c.kind == "release", ENTRY.c.account == account).distinct()
    periods = sorted(db.execute(query).scalars())
    return {period: _sum(debits) for period, debits in _debits_of(db, account, periods).items()}


def _debits_of(
    db: sa.Connection, account: str, periods: Sequence[str], *criteria: sa.ColumnElement[bool]
) -> dict[str, list[Debit]]:
    """Reads the debits of each period, empty lists included; criteria select ledger entries."""
    debits: dict[str, list[Debit]] = {period: [] for period in periods}
    columns = (ENTRY.c.period, ENTRY.c.spec_id, ENTRY.c.slot_s, ENTRY.c.shard, ENTRY.c.epsilon)
    query = sa.select(*columns).where(ENTRY.c.kind == "release", ENTRY.c.account == account, *criteria)
    # Column `epsilon` has a debit's claim of any kind, as text; `shard` also a stage's number, or a live slot's mark.
    for row in db.execute(query.where(ENTRY.c.period.in_(periods))):
        debits[row.period].append(Debit(key_of(row.spec_id, row.slot_s, row.shard), claim_of(text_of(row.epsilon))))
    return debits


def spent_by_specification(db: sa.Connection, account: str, period: str | None) -> list[Spent]:
    """Lists specifications' spending, oldest period first."""
    specs = {
        spec_id: msgspec.json.decode(body, type=_Spec)
        for spec_id, body in db.execute(
            sa.select(ENTRY.c.spec_id, ENTRY.c.body).where(ENTRY.c.kind == "spec", ENTRY.c.account == account)
        )
    }
    times_and_newest = sa.func.min(ENTRY.c.at), sa.func.max(ENTRY.c.at), sa.func.max(ENTRY.c.seq)
    query = (
        sa.select(ENTRY.c.period, ENTRY.c.spec_id, *times_and_newest)
        .where(ENTRY.c.kind == "release", ENTRY.c.account == account)
        .group_by(ENTRY.c.period, ENTRY.c.spec_id)
        .order_by(ENTRY.c.period, sa.func.min(ENTRY.c.seq))
    )
    if period is not None:
        query = query.where(ENTRY.c.period == period)
    spent = []
    for of_period, spec_id, first_at, last_at, newest_sequence in db.execute(query).all():
        by_slot = debits_by_slot(_debits_of(db, account, [of_period], ENTRY.c.spec_id == spec_id)[of_period])
        total, spec = sum(by_slot.values(), Accountant()), specs[spec_id]
        unit = db.execute(sa.select(ENTRY.c.body).where(ENTRY.c.seq == newest_sequence)).scalar_one()
        try:  # one debit may pay for many slots: a stage's unit spans those of its period
            span: Any = msgspec.json.decode(unit, type=_SlotSpan)
            minutes: int = msgspec.json.decode(spec.spec, type=_SpecText).slot.minutes  # type: ignore[attr-defined]
            slots = max(len(by_slot), round((span.slot_end - span.slot_start).total_seconds() / 60 / minutes))
        except msgspec.MsgspecError:  # of what cannot be read
            slots = len(by_slot)
        spent.append(Spent(of_period, spec_id, spec.name, slots, len(by_slot), total, first_at, last_at))
    return spent


class _Spec(msgspec.Struct):
    """Entry of a specification: its name, and its text."""

    name: str
    spec: str


# Of a specification's text and of a unit: what gives the number of slots.
_SpecText = msgspec.defstruct("_SpecText", [("slot", msgspec.defstruct("_SlotMinutes", [("minutes", int)]))])
_SlotSpan = msgspec.defstruct("_SlotSpan", [("slot_start", datetime), ("slot_end", datetime)])


def check_total(db: sa.Connection, account: str, units: Sequence[Unit]) -> None:
    """Raises LedgerError if a specification's recorded debits of a period exceed its total."""
    unit = units[0]
    if unit.total is None:
        return
    spent = _sum(_debits_of(db, account, [unit.period], ENTRY.c.spec_id == unit.spec_id)[unit.period])
    if not Accountant().compose([unit.total]).covers(spent):
        raise LedgerError(f"period {unit.period}: the slots would spend more than the total that the plan divides")
