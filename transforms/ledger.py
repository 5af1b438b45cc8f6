"""The ledger: one append-only, hash-chained table in which every slot of every specification is written once.

Accounts, specifications, released slots (which are also the debits) and audit events are entries of one chain. The
head of the chain is kept outside the database too, so that a rolled-back copy is noticed.
"""

import hashlib
import os
import secrets
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec
import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from transforms.failpoints import failpoint
from transforms.head import Head, LedgerError
from transforms.seal import Sealed, SpecSlot, debit_of, debits_by_slot

METADATA = sa.MetaData()
ENTRY = sa.Table(
    "entry",
    METADATA,
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("at", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),  # account, limit, spec, release, changed
    sa.Column("account", sa.Text, nullable=False, index=True),
    sa.Column("spec_id", sa.Text),
    sa.Column("period", sa.Text),
    sa.Column("slot_s", sa.BigInteger),
    sa.Column("shard", sa.Integer),
    sa.Column("epsilon", sa.Text),  # of a release: the slot's debit
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("hash", sa.Text, nullable=False),
    # NULLs differ from one another, so this binds releases only: the first writer wins.
    sa.Column("release_id", sa.Text, unique=True),
)
_FIELDS = ("seq", "at", "kind", "account", "spec_id", "period", "slot_s", "shard", "epsilon", "body", "release_id")

UNKNOWN_TO_HEAD = "the head file beside the key file does not know this ledger"


class AccountRefusal(Exception):
    """The account does not allow it; the message says what was spent, when, and by which specification."""

    _tagged_with_step = True  # Beam would add its step's name to the message


@dataclass(frozen=True)
class Account:
    """Whom a budget protects. limit: rational text; key_check: tells a wrong key file, gives nothing away."""

    name: str
    unit: str
    since: str | None
    until: str | None
    timezone: str
    adjacency: str
    limit: str
    key_check: str


class Spent(NamedTuple):
    """What one specification has debited in one period."""

    period: str
    spec_id: str
    spec_name: str
    slots: int
    epsilon: Fraction
    first_at: str
    last_at: str


class Recorded(NamedTuple):
    """What the ledger returned for a period. changed: units whose input or code now differs from what was released."""

    sealed: list[Sealed]
    new: int
    changed: int


class Ledger:
    """One ledger database. Every public method is one transaction."""

    def __init__(self, url: str, head: Path, *, read_only: bool = False) -> None:
        """url: an SQLAlchemy URL of SQLite. head: the file that keeps the chain's head outside the database.

        read_only: looks at the ledger without writing to it or waiting for writers.
        """
        self.url, self._head = url, Head(head)
        self._path = database_of(url)
        self._engine = _reading_engine(self._path) if read_only else _engine(url)

    def exists(self) -> bool:
        return self._path.exists()

    def create(self) -> None:
        """Makes the database and its table where they are missing."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._transaction() as db:
            METADATA.create_all(db)

    def open_account(self, account: Account) -> str:
        """Writes the account once. Returns "created", "unchanged" or "limit lowered"; refuses any other change."""
        with self._transaction() as db:
            self._compare_with_head(db)
            self._home(db, account.name)
            known = _account(db, account.name)
            if known is None:
                body = asdict(account) | {"nonce": secrets.token_hex(16)}  # no two ledgers begin alike
                _append(db, kind="account", account=account.name, body=_json(body))
                outcome = "created"
            else:
                _match(known, account)
                if Fraction(account.limit) == Fraction(known.limit):
                    outcome = "unchanged"
                else:
                    _append(db, kind="limit", account=account.name, epsilon=account.limit, body="{}")
                    outcome = "limit lowered"
            tip = _tip(db)
        self._head.advance(*tip, account.name)
        return outcome

    def check_account(self, account: Account) -> None:
        """Refuses a release on an account that is not known here, or that does not match."""
        with self._transaction() as db:
            known, home = _known(db, account.name), self._home(db, account.name)
        if home is None:
            raise AccountRefusal(f"the head file knows no account {account.name!r}: run `hatstream init` first")
        _match(known, account)

    def limit(self, account: str, asked: Fraction) -> Fraction:
        """The limit in force now for a release that asks for one: the account's, which may have been lowered since."""
        with self._transaction() as db:
            return _limit(db, account, asked)

    def accounts(self) -> list[Account]:
        """All accounts with the limits now in force, oldest first."""
        names = sa.select(ENTRY.c.account).where(ENTRY.c.kind == "account").order_by(ENTRY.c.seq)
        with self._transaction() as db:
            found = [_account(db, name) for name in db.execute(names).scalars().all()]
        return [account for account in found if account is not None]

    def audit_events(self, account: str) -> int:
        """How often a later run met other input or other code than what was released."""
        query = sa.select(sa.func.count()).where(ENTRY.c.kind == "changed", ENTRY.c.account == account)
        with self._transaction() as db:
            return int(db.execute(query).scalar_one())

    def spent(self, account: str, period: str | None = None) -> list[Spent]:
        """Debits by period and specification, oldest period first."""
        with self._transaction() as db:
            return _spent(db, account, period)

    def excess(self, account: str, limit: Fraction, wanted: Mapping[str, Mapping[SpecSlot, Fraction]]) -> list[str]:
        """Periods in which the wanted debits do not fit any more, counting only slots not recorded yet."""
        with self._transaction() as db:
            in_force = _limit(db, account, limit)
            return [period for period, debits in wanted.items() if _over(db, account, in_force, period, debits)]

    def record(
        self, account: str, limit: Fraction, spec_name: str, spec_text: str, units: Sequence[Sealed]
    ) -> Recorded:
        """Seals what is missing of one period, whole or not at all; returns what is recorded, new or old.

        Raises AccountRefusal, writing nothing, if the period's debits would exceed the limit or the account's own.
        """
        period, spec_id = units[0].period, units[0].spec_id
        failpoint("before-record")
        with self._transaction() as db:
            if not self._compare_with_head(db):  # again, for another process may have used another copy meanwhile
                raise LedgerError(UNKNOWN_TO_HEAD)
            debits = debits_by_slot((unit.spec_id, unit.slot_s, debit_of(unit)) for unit in units)
            in_force = _limit(db, account, limit)
            if _over(db, account, in_force, period, debits):
                raise AccountRefusal(f"period {period}: the account's limit {float(in_force):g} would be exceeded")
            recorded = Recorded(*_seal_missing(db, account, period, spec_id, spec_name, spec_text, units))
            _check_total(db, account, units)
            tip = _tip(db)
            failpoint("before-commit")
        failpoint("after-commit")
        self._head.advance(*tip, account)
        self.check_head()  # of two copies that recorded at once, only the one that the head took is published
        return recorded

    def released(self, spec_id: str, period: str) -> list[Sealed]:
        """All that a specification has released in a period, by slot and shard."""
        with self._transaction() as db:
            stored = _stored(db, spec_id, period)
        return [stored[key] for key in sorted(stored)]

    def entries(self) -> Iterator[dict[str, Any]]:
        """All entries in the order of the chain."""
        with self._transaction() as db:
            for row in db.execution_options(yield_per=100).execute(sa.select(ENTRY).order_by(ENTRY.c.seq)).mappings():
                yield dict(row)

    def verify(self) -> int:
        """Walks the chain and compares its head; returns its length. Raises LedgerError where something is amiss."""
        length = self.verify_chain()
        self.check_head()
        return length

    def verify_chain(self) -> int:
        """Walks the chain; returns its length. Raises LedgerError at the first entry that does not fit."""
        before, expected = "", 1
        for entry in self.entries():
            if entry["seq"] != expected or entry["hash"] != _chain(before, entry):
                raise LedgerError(f"entry {expected} of the ledger is not what was written: it was tampered with")
            before, expected = entry["hash"], expected + 1
        return expected - 1

    def check_head(self) -> None:
        """Refuses a database that the head file does not know, or that has lost the entry it remembers."""
        with self._transaction() as db:
            if not self._compare_with_head(db):
                raise LedgerError(UNKNOWN_TO_HEAD)

    def _compare_with_head(self, db: sa.Connection) -> bool:
        """Whether the head file knows this ledger; refuses one without the entry that it remembers."""
        remembered = self._head.read(_genesis(db))
        if remembered is None:
            return False
        found = db.execute(sa.select(ENTRY.c.hash).where(ENTRY.c.seq == remembered.sequence)).scalar()
        if found != remembered.hash:
            raise LedgerError(
                f"the ledger was rolled back or replaced: entry {remembered.sequence}, seen before, is not in it"
            )
        return True

    def _home(self, db: sa.Connection, account: str) -> str | None:
        """The ledger that the head file knows the account in: this one or, before the first `init`, none."""
        home = self._head.home(account)
        if home not in (None, _genesis(db)):
            raise AccountRefusal(
                f"account {account!r} lives in another ledger that this key file was used with; "
                "a new ledger would be a new budget. Name that ledger with --ledger."
            )
        return home

    @contextmanager
    def _transaction(self) -> Iterator[sa.Connection]:
        """One transaction; database errors become LedgerError, without the statement or its parameters."""
        try:
            with self._engine.begin() as db:
                yield db
        except sa.exc.SQLAlchemyError as error:
            reason = getattr(error, "orig", None) or type(error).__name__
            raise LedgerError(f"the ledger {self._path} is not usable: {reason}") from None
        except (msgspec.MsgspecError, KeyError, ValueError):  # of an entry's text; it is not shown
            raise LedgerError(f"the ledger {self._path} is damaged: it holds an entry that cannot be read") from None


def database_of(url: str) -> Path:
    """The database file of a ledger's URL. Raises LedgerError for what is no URL, and for other databases."""
    try:
        parsed = sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):
        raise LedgerError("the ledger's URL is not one; sqlite:///path/to/ledger.sqlite is") from None
    if parsed.drivername not in ("sqlite", "sqlite+pysqlite"):
        raise LedgerError(f"a ledger on {parsed.drivername!r} is not supported yet; use sqlite:///path")
    if not parsed.database or parsed.database == ":memory:":
        raise LedgerError("a ledger must be a file that outlives the process")
    return Path(parsed.database)


def _reading_engine(path: Path) -> sa.Engine:
    engine = sa.create_engine("sqlite://", creator=lambda: _connect_to_read(path), poolclass=NullPool)

    @sa.event.listens_for(engine, "begin")
    def _on_begin(connection: sa.Connection) -> None:
        connection.exec_driver_sql("BEGIN")

    return engine


def _connect_to_read(path: Path) -> sqlite3.Connection:
    """A connection that cannot write.

    Beside a database in WAL mode even a reader makes files, with the database's permissions. Where nobody may write
    to it these would stand in the way of later writers, and nothing moves: there SQLite is told to take it as it is.
    """
    log = path.with_name(path.name + "-wal")
    settled = not log.exists() or log.stat().st_size == 0
    guarded = not (path.stat().st_mode & 0o222 and os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))
    options = "mode=ro&immutable=1" if settled and guarded else "mode=ro"
    address = f"file:{quote(str(path.absolute()))}?{options}"
    return sqlite3.connect(address, uri=True, timeout=60, isolation_level=None)


def _engine(url: str) -> sa.Engine:
    engine = sa.create_engine(url, poolclass=NullPool, connect_args={"timeout": 60})

    @sa.event.listens_for(engine, "connect")
    def _on_connect(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # we say BEGIN ourselves
        try:
            _refuse_unwritable(database_of(url))
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
        except BaseException:
            connection.close()  # the pool never saw it
            raise

    @sa.event.listens_for(engine, "begin")
    def _on_begin(connection: sa.Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")  # writers queue here, not in the middle of a transaction

    return engine


def _refuse_unwritable(path: Path) -> None:
    """Asked first, for SQLite would leave files beside the database that stand in the way of later writers."""
    if path.exists() and not os.access(path, os.W_OK):
        raise LedgerError(f"the ledger {path} is not usable: this user may not write to it")


def _seal_missing(
    db: sa.Connection,
    account: str,
    period: str,
    spec_id: str,
    spec_name: str,
    spec_text: str,
    units: Sequence[Sealed],
) -> tuple[list[Sealed], int, int]:
    is_known = sa.select(ENTRY.c.seq).where(ENTRY.c.kind == "spec", ENTRY.c.spec_id == spec_id)
    if db.execute(is_known.where(ENTRY.c.account == account)).first() is None:
        _append(db, kind="spec", account=account, spec_id=spec_id, body=_json({"name": spec_name, "spec": spec_text}))
    stored = _stored(db, spec_id, period)
    _check_whole(stored, units)
    kept, new, changed = [], 0, 0
    for unit in units:
        before = stored.get((unit.slot_s, unit.shard))
        if before is None:
            _append(
                db,
                kind="release",
                account=account,
                spec_id=spec_id,
                period=period,
                slot_s=unit.slot_s,
                shard=unit.shard,
                epsilon=debit_of(unit),
                body=msgspec.json.encode(unit).decode(),
                release_id=_release_id(unit),
            )
            new += 1
        elif differs := _differs(before, unit):
            changed += 1
            _note_change(db, account, unit, differs)
        kept.append(before or unit)
    return kept, new, changed


def _check_whole(stored: Mapping[tuple[int, int], Sealed], units: Sequence[Sealed]) -> None:
    """What was planned for a whole period is sealed whole, once: no slot is added to it, and no part released again."""
    asked = {(unit.slot_s, unit.shard) for unit in units}
    if units[0].scope == "period" and stored and stored.keys() != asked:
        raise AccountRefusal(
            f"period {units[0].period} was planned and sealed as a whole with {len(stored)} slots; "
            f"a release of {len(asked)} slots of it is another one"
        )


def _check_total(db: sa.Connection, account: str, units: Sequence[Sealed]) -> None:
    """A plan that divides a total over a period never debits more than that, whatever the account allows."""
    unit = units[0]
    if unit.epsilon_total is None:
        return
    debits = _slot_debits(db, account, unit.period)
    spent = sum((epsilon for (spec_id, _), epsilon in debits.items() if spec_id == unit.spec_id), Fraction(0))
    if spent > Fraction(unit.epsilon_total):
        raise LedgerError(f"period {unit.period}: the slots would spend more than the total that the plan divides")


def _differs(before: Sealed, now: Sealed) -> str | None:
    """What would have been released otherwise today: "input", "code", or nothing."""
    if before.digest != now.digest:
        return "input"
    plans = [[(r.cell, r.statistic, r.mechanism, r.plan) for r in unit.released] for unit in (before, now)]
    return "code" if plans[0] != plans[1] else None


def _note_change(db: sa.Connection, account: str, unit: Sealed, what: str) -> None:
    """One audit event per unit and digest, however often the same change is met."""
    body = _json({"what": what, "digest": unit.digest})
    seen = sa.select(ENTRY.c.seq).where(
        ENTRY.c.kind == "changed",
        ENTRY.c.spec_id == unit.spec_id,
        ENTRY.c.slot_s == unit.slot_s,
        ENTRY.c.shard == unit.shard,
        ENTRY.c.body == body,
    )
    if db.execute(seen).first() is None:
        where = {"spec_id": unit.spec_id, "period": unit.period, "slot_s": unit.slot_s, "shard": unit.shard}
        _append(db, kind="changed", account=account, body=body, **where)


def _stored(db: sa.Connection, spec_id: str, period: str) -> dict[tuple[int, int], Sealed]:
    query = sa.select(ENTRY.c.body).where(
        ENTRY.c.kind == "release", ENTRY.c.spec_id == spec_id, ENTRY.c.period == period
    )
    found = (msgspec.json.decode(body, type=Sealed) for body in db.execute(query).scalars())
    return {(unit.slot_s, unit.shard): unit for unit in found}


def _over(db: sa.Connection, account: str, limit: Fraction, period: str, wanted: Mapping[SpecSlot, Fraction]) -> bool:
    before = _slot_debits(db, account, period)
    after = dict(before)
    for slot, epsilon in wanted.items():
        after.setdefault(slot, epsilon)
    return len(after) > len(before) and sum(after.values(), Fraction(0)) > limit


def _slot_debits(db: sa.Connection, account: str, period: str) -> dict[SpecSlot, Fraction]:
    """Debit per (specification, slot) of a period; the shards of a slot share one."""
    query = sa.select(ENTRY.c.spec_id, ENTRY.c.slot_s, ENTRY.c.epsilon).where(
        ENTRY.c.kind == "release", ENTRY.c.account == account, ENTRY.c.period == period
    )
    return debits_by_slot((row.spec_id, row.slot_s, row.epsilon) for row in db.execute(query))


def _spent(db: sa.Connection, account: str, period: str | None) -> list[Spent]:
    names = {
        spec_id: str(msgspec.json.decode(body)["name"])
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
        debits = [e for (spec, _), e in _slot_debits(db, account, of_period).items() if spec == spec_id]
        total = sum(debits, Fraction(0))
        found.append(Spent(of_period, spec_id, names[spec_id], len(debits), total, first_at, last_at))
    return found


def _account(db: sa.Connection, name: str) -> Account | None:
    if not sa.inspect(db).has_table(ENTRY.name):
        return None
    of_account = sa.select(ENTRY.c.body, ENTRY.c.epsilon).where(ENTRY.c.account == name).order_by(ENTRY.c.seq)
    body = db.execute(of_account.where(ENTRY.c.kind == "account")).scalar()
    if body is None:
        return None
    known = msgspec.json.decode(body, type=Account)
    lowered = [row.epsilon for row in db.execute(of_account.where(ENTRY.c.kind == "limit"))]
    return replace(known, limit=min([known.limit, *lowered], key=Fraction))


def _known(db: sa.Connection, name: str) -> Account:
    known = _account(db, name)
    if known is None:
        raise AccountRefusal(f"the ledger has no account {name!r}: run `hatstream init` first")
    return known


def _limit(db: sa.Connection, account: str, asked: Fraction) -> Fraction:
    return min(Fraction(_known(db, account).limit), asked)


def _match(known: Account, asked: Account) -> None:
    for name in ("unit", "since", "until", "timezone", "adjacency"):
        if getattr(known, name) != getattr(asked, name):
            raise AccountRefusal(
                f"account {known.name!r} has {name} = {getattr(known, name)!r}, the specification says "
                f"{getattr(asked, name)!r}: an account keeps what it was opened with"
            )
    if known.key_check != asked.key_check:
        raise AccountRefusal(f"account {known.name!r} was opened with another key file")
    if Fraction(asked.limit) > Fraction(known.limit):
        raise AccountRefusal(
            f"account {known.name!r} has the limit {float(Fraction(known.limit)):g}, the specification says "
            f"{float(Fraction(asked.limit)):g}: a limit may be lowered, never raised"
        )


def _append(db: sa.Connection, **values: Any) -> None:
    sequence, before = _tip(db)[1:]
    entry = {name: values.get(name) for name in _FIELDS}
    entry |= {"seq": sequence + 1, "at": datetime.now(UTC).isoformat(timespec="seconds")}
    db.execute(ENTRY.insert().values(**entry, hash=_chain(before, entry)))


def _chain(before: str, entry: Mapping[str, Any]) -> str:
    return hashlib.sha256(_json([before, *(entry[name] for name in _FIELDS)]).encode()).hexdigest()


def _tip(db: sa.Connection) -> tuple[str, int, str]:
    """(hash of the first entry, last sequence number, last hash)."""
    last = db.execute(sa.select(ENTRY.c.seq, ENTRY.c.hash).order_by(ENTRY.c.seq.desc()).limit(1)).first()
    return (_genesis(db) or "", last.seq, last.hash) if last else ("", 0, "")


def _genesis(db: sa.Connection) -> str | None:
    if not sa.inspect(db).has_table(ENTRY.name):
        return None
    first: str | None = db.execute(sa.select(ENTRY.c.hash).where(ENTRY.c.seq == 1)).scalar()
    return first


def _release_id(unit: Sealed) -> str:
    return f"{unit.spec_id}/{unit.slot_s}/{unit.shard}"


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
