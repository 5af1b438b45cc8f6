"""Accounts: whom a budget protects, what an account was opened with, and the limit in force."""

from dataclasses import dataclass, replace
from functools import reduce

import msgspec
import sqlalchemy as sa

from dpops.accountant import Limit, limit_of
from transforms.ledger import chain
from transforms.ledger.chain import ENTRY


class AccountRefusal(Exception):
    """The account does not allow it; the message says what was spent, when, and by which specification."""

    _tagged_with_step = True  # Beam would add its step's name to the message


class LimitExceeded(AccountRefusal):
    """The period's debits would exceed the limit in force; other periods may still be recorded."""


class PeriodClosed(AccountRefusal):
    """A live slot came when its period was released already: it is missed for ever, and nothing is spent on it."""


@dataclass(frozen=True)
class Account:
    """Whom a budget protects. limit: text, see `dpops.accountant.limit_of`. key_check: tells a wrong
    key file, gives nothing away."""

    name: str
    unit: str
    since: str | None
    until: str | None
    timezone: str
    adjacency: str
    limit: str
    key_check: str


def find_account(db: sa.Connection, name: str) -> Account | None:
    if not chain.has_table(db):
        return None
    of_account = sa.select(ENTRY.c.body, ENTRY.c.epsilon).where(ENTRY.c.account == name).order_by(ENTRY.c.seq)
    body = db.execute(of_account.where(ENTRY.c.kind == "account")).scalar()
    if body is None:
        return None
    account = msgspec.json.decode(body, type=Account)
    lowered = [limit_of(chain.text_of(row.epsilon)) for row in db.execute(of_account.where(ENTRY.c.kind == "limit"))]
    return replace(account, limit=str(reduce(_lower, lowered, limit_of(account.limit))))


def known_account(db: sa.Connection, name: str) -> Account:
    account = find_account(db, name)
    if account is None:
        raise AccountRefusal(f"the ledger has no account {name!r}: run `hatstream init` first")
    return account


def limit_in_force(db: sa.Connection, account: str, asked: Limit | None) -> Limit:
    """Gives the account's limit, or the one that a specification asks for where that is lower."""
    recorded = limit_of(known_account(db, account).limit)
    return recorded if asked is None else _lower(recorded, asked)


def _lower(recorded: Limit, asked: Limit) -> Limit:
    return asked if asked.lowers(recorded) else recorded


def check_match(recorded: Account, asked: Account) -> None:
    for name in ("unit", "since", "until", "timezone", "adjacency"):
        if getattr(recorded, name) != getattr(asked, name):
            raise AccountRefusal(
                f"account {recorded.name!r} has {name} = {getattr(recorded, name)!r}, the specification says "
                f"{getattr(asked, name)!r}: an account keeps what it was opened with"
            )
    if recorded.key_check != asked.key_check:
        raise AccountRefusal(f"account {recorded.name!r} was opened with another key file")
    limit, wanted = limit_of(recorded.limit), limit_of(asked.limit)
    if not wanted.lowers(limit):
        raise AccountRefusal(
            f"account {recorded.name!r} has the limit {limit.said_in_full()}, the specification says "
            f"{wanted.said_in_full()}: a limit may be lowered, never raised, and a delta, a pure part or an accounting "
            f"stays as it was set; write the limit {limit.said_in_full()} under [account]"
        )
