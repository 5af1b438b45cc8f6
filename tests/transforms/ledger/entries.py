"""A ledger with one account, and entries for it."""

from dataclasses import replace
from datetime import date, timedelta
from fractions import Fraction

import sqlalchemy as sa
from msgspec import structs
from sqlalchemy.pool import NullPool

from dpops.accountant import PureLimit
from dpops.claims import PureDP, claim_of
from transforms.ledger.head import Head
from transforms.ledger.ledger import Ledger
from transforms.ledger.spending import Account
from transforms.recorded.stage_plan import as_stored
from transforms.recorded.units import HatUnit, Released, StageUnit

ACCOUNT = Account(
    name="city",
    unit="vehicle-day",
    since=None,
    until=None,
    timezone="UTC",
    adjacency="counts-public",
    limit="3",
    key_check="00",
)
PLAN = {"epsilon": "1", "step": "1/100", "scale": "6500", "upper": "65", "bias_bound": 0.0, "facts": {}}

FIRST_DAY = date(2028, 2, 20)  # nine days later comes a leap day


def day(number: int) -> str:
    return (FIRST_DAY + timedelta(days=number)).isoformat()


def opened(url, head, *, limit="3", signature=None):
    """A new ledger with its account and its head file."""
    Head(head, signature).write({})
    book = Ledger(url, head, signature)
    book.create()
    book.open_account(replace(ACCOUNT, limit=limit))
    return book


def tamper(book, statement, **values):
    """Changes a ledger behind its back."""
    engine = sa.create_engine(sa.make_url(book.url).set(drivername=DRIVERS[book.url[:6]]), poolclass=NullPool)
    with engine.begin() as db:
        db.execute(sa.text(statement), values)


DRIVERS = {"sqlite": "sqlite", "postgr": "postgresql+psycopg"}


def unit(slot_s=0, *, epsilon="1", integer=7, digest="d", spec_id="a", period="day 1", shard=0, plan=PLAN):
    cost = claim_of(epsilon)
    return HatUnit(
        spec_id=spec_id,
        period=period,
        slot_s=slot_s,
        slot_start="2026-01-01T00:00:00+00:00",
        slot_end="2026-01-01T01:00:00+00:00",
        shard=shard,
        per_hat=PureDP(Fraction(1)),
        spent=cost if isinstance(cost, PureDP) else PureDP(Fraction(1)),
        debit=cost,
        unit="km/h",
        released=[Released("872830828ffffff", "mean", "baseline", plan, [integer])],
        digest=digest,
    )


def stage_unit(stage, *, debit, total):
    """A stage's unit. stage: laid on HATs."""
    return StageUnit(
        spec_id="a",
        period="day 1",
        slot_s=0,
        slot_start="2026-01-01T00:00:00+00:00",
        slot_end="2026-01-02T00:00:00+00:00",
        unit="km/h",
        digest="d",
        debit=debit,
        total=total,
        stage=stage.number,
        plan=as_stored(stage),
        integers=[7],
    )


def record(book, *units, limit=3):
    return book.record("city", PureLimit(Fraction(limit)), "name", "{}", units)


def whole(*slots, epsilon="2", total=None):
    """Units of a period that is planned as a whole: the first slot is debited for all."""
    return [
        structs.replace(
            unit(slot_s),
            is_of_whole_period=True,
            debit=PureDP(Fraction(epsilon if i == 0 else 0)),
            total=None if total is None else PureDP(Fraction(total)),
        )
        for i, slot_s in enumerate(slots)
    ]


def files_of(folder):
    return {path.name: (path.stat().st_mode, path.read_bytes()) for path in folder.iterdir()}


def look_at(folder, url=None):
    book = Ledger(url or f"sqlite:///{folder / 'ledger.sqlite'}", folder / "key.head", read_only=True)
    return book.verify().entries, [account.name for account in book.accounts()], [s.epsilon for s in book.spent("city")]
