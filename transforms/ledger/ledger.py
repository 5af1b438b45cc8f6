"""The ledger: one append-only, hash-chained table in which every slot of every specification is written once.

Accounts, specifications, released slots (which are also the debits) and audit events are entries of one chain. The
head of the chain is kept outside the database too, so that a rolled-back copy is noticed.
"""

import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
import sqlalchemy as sa

from transforms.failpoints import failpoint
from transforms.ledger import chain, databases
from transforms.ledger.chain import ENTRY, METADATA, Entry, Signature, Tip, Walked
from transforms.ledger.head import Head, LedgerError
from transforms.release.recorded import Debit, Sealed, Sequenced, SpecSlot, debit, debit_of, debits_by_slot

UNKNOWN_TO_HEAD = "the head file beside the key file does not know this ledger"

Found = TypeVar("Found")


class _Passing(LedgerError):
    """The database could not do it this time; the same transaction, begun anew, may succeed."""


class AccountRefusal(Exception):
    """The account does not allow it; the message says what was spent, when, and by which specification."""

    _tagged_with_step = True  # Beam would add its step's name to the message


class LimitExceeded(AccountRefusal):
    """The period's debits would exceed the limit in force; other periods may still be recorded."""


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
    """What the ledger returned for a period. changed: units whose input or code now differs from what was released.

    redrawn: units whose noise was drawn once more, in vain: what was recorded first stands. sequences: of the entry of
    each sealed unit; what is computed from earlier entries can be computed again from those below it.
    """

    sealed: list[Sealed]
    new: int
    changed: int
    redrawn: int
    sequences: list[int]


class Audit(NamedTuple):
    """What later runs met. changed: other input or other code; redrawn: units drawn again and thrown away."""

    changed: int
    redrawn: int


class Ledger:
    """One ledger database. Every public method is one transaction, or two; each raises LedgerError where it cannot."""

    def __init__(self, url: str, head: Path, signature: Signature | None = None, *, read_only: bool = False) -> None:
        """url: of SQLite or PostgreSQL, as `database_of` takes it. head: keeps the chain's head outside the database.

        signature: of the account's key; without it signatures are neither made nor compared.
        read_only: looks at the ledger without writing to it or waiting for writers.
        """
        self.url, self._head, self._signature = url, Head(head), signature
        self._database = databases.database_of(url)
        self._engine = self._database.engine(read_only=read_only)

    def exists(self) -> bool:
        """Whether there is a file, or on a server the table."""
        if self._database.path is not None:
            return self._database.path.exists()
        return self._run(chain.has_table)

    def create(self) -> None:
        """Makes the file, where it is one, and the table where they are missing."""
        if self._database.path is not None:
            self._database.path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(self._database.path, os.O_RDWR | os.O_CREAT, 0o600))  # with what SQLite puts beside it
        self._run(METADATA.create_all)

    def discard(self) -> None:
        """Removes a ledger without an entry, as if it had never been made."""
        if self._run(chain.genesis) is not None:
            return
        self._run(METADATA.drop_all)
        if self._database.path is not None:
            for suffix in ("-wal", "-shm", ""):
                Path(f"{self._database.path}{suffix}").unlink(missing_ok=True)

    def open_account(self, account: Account) -> str:
        """Writes the account once. Returns "created", "unchanged" or "limit lowered"; refuses any other change."""

        def open_or_lower(db: sa.Connection) -> tuple[str, Tip]:
            self._compare_with_head(db)
            self._home(db, account.name)
            known = _account(db, account.name)
            if known is None:
                body = asdict(account) | {"nonce": secrets.token_hex(16)}  # no two ledgers begin alike
                chain.append(db, self._signature, {"kind": "account", "account": account.name, "body": _json(body)})
                outcome = "created"
            else:
                _match(known, account)
                if Fraction(account.limit) == Fraction(known.limit):
                    outcome = "unchanged"
                else:
                    lowered = {"kind": "limit", "account": account.name, "epsilon": account.limit, "body": "{}"}
                    chain.append(db, self._signature, lowered)
                    outcome = "limit lowered"
            return outcome, chain.tip(db)

        outcome, tip = self._run(open_or_lower)
        self._head.advance(*tip, account.name)
        return outcome

    def check_account(self, account: Account) -> None:
        """Refuses a release on an account that is not known here, or that does not match."""
        known, home = self._run(lambda db: (_known(db, account.name), self._home(db, account.name)))
        if home is None:
            raise AccountRefusal(f"the head file knows no account {account.name!r}: run `hatstream init` first")
        _match(known, account)

    def limit(self, account: str, asked: Fraction) -> Fraction:
        """The limit in force now for a release that asks for one: the account's, which may have been lowered since."""
        return self._run(lambda db: _limit(db, account, asked))

    def accounts(self) -> list[Account]:
        """All accounts with the limits now in force, oldest first."""
        names = sa.select(ENTRY.c.account).where(ENTRY.c.kind == "account").order_by(ENTRY.c.seq)
        return self._run(lambda db: [_known(db, name) for name in db.execute(names).scalars().all()])

    def audit(self, account: str) -> Audit:
        """What the chain says of runs that came too late."""
        of_account = sa.select(ENTRY.c.body).where(ENTRY.c.account == account)

        def find(db: sa.Connection) -> Audit:
            changed = len(db.execute(of_account.where(ENTRY.c.kind == "changed")).all())
            redrawn = db.execute(of_account.where(ENTRY.c.kind == "redrawn")).scalars()
            return Audit(changed, sum(msgspec.json.decode(body)["units"] for body in redrawn))

        return self._run(find)

    def spent(self, account: str, period: str | None = None) -> list[Spent]:
        """Debits by period and specification, oldest period first."""
        return self._run(lambda db: _spent(db, account, period))

    def excess(self, account: str, limit: Fraction, wanted: Mapping[str, Sequence[Debit]]) -> list[str]:
        """Periods in which the wanted debits do not fit any more, counting only units not recorded yet."""

        def over(db: sa.Connection) -> list[str]:
            in_force = _limit(db, account, limit)
            return [period for period, debits in wanted.items() if _over(db, account, in_force, period, debits)]

        return self._run(over)

    def record(
        self, account: str, limit: Fraction, spec_name: str, spec_text: str, units: Sequence[Sealed]
    ) -> Recorded:
        """Seals what is missing of one period, whole or not at all; returns what is recorded, new or old.

        Raises LimitExceeded, writing nothing, if the period's debits would exceed the limit or the account's own.
        """
        period, spec_id = units[0].period, units[0].spec_id
        failpoint("before-record")

        def write(db: sa.Connection) -> tuple[Recorded, Tip]:
            if not self._compare_with_head(db):  # again, for another process may have used another copy meanwhile
                raise LedgerError(UNKNOWN_TO_HEAD)
            in_force = _limit(db, account, limit)
            if _over(db, account, in_force, period, list(map(debit, units))):
                raise LimitExceeded(f"period {period}: the account's limit {float(in_force):g} would be exceeded")
            recorded = _seal_missing(db, self._signature, account, period, spec_id, spec_name, spec_text, units)
            _check_total(db, account, units)
            tip = chain.tip(db)
            failpoint("before-commit")
            return recorded, tip

        recorded, tip = self._run(write)
        failpoint("after-commit")
        self._head.advance(*tip, account)
        self.check_head()  # of two copies that recorded at once, only the one that the head took is published
        return recorded

    def note(self, account: str, spec_id: str, period: str, known: Mapping[str, str]) -> None:
        """Keeps what a run knew of a period when it recorded it."""
        entry = {"kind": "note", "account": account, "spec_id": spec_id, "period": period, "body": _json(known)}

        def write(db: sa.Connection) -> Tip:
            chain.append(db, self._signature, entry)
            return chain.tip(db)

        self._head.advance(*self._run(write), account)

    def noted(self, account: str, spec_id: str, period: str) -> dict[str, str] | None:
        """What was kept of a period, the newest of it."""
        of_period = (ENTRY.c.account == account, ENTRY.c.spec_id == spec_id, ENTRY.c.period == period)
        query = sa.select(ENTRY.c.body).where(ENTRY.c.kind == "note", *of_period).order_by(ENTRY.c.seq.desc()).limit(1)
        body = self._run(lambda db: db.execute(query).scalar())
        return None if body is None else msgspec.json.decode(body, type=dict[str, str])

    def released(self, spec_id: str, period: str) -> list[Sealed]:
        """All that a specification has released in a period, by slot and shard."""
        stored = self._run(lambda db: _stored(db, self._signature, spec_id, period))
        return [stored[key] for key in sorted(stored)]

    def released_of(self, spec_id: str, slots: Sequence[int]) -> list[Sealed]:
        """What a specification has released of the slots that start at these times."""
        query = sa.select(ENTRY.c.body).where(
            ENTRY.c.kind == "release", ENTRY.c.spec_id == spec_id, ENTRY.c.slot_s.in_(slots)
        )
        return self._run(lambda db: [msgspec.json.decode(body, type=Sealed) for body in db.execute(query).scalars()])

    def stages(self, account: str, spec_id: str) -> list[Sequenced]:
        """All recorded stages of a specification with their sequence numbers, in the order of the chain."""
        query = sa.select(ENTRY.c.seq, ENTRY.c.body).where(
            ENTRY.c.kind == "release", ENTRY.c.account == account, ENTRY.c.spec_id == spec_id
        )
        rows = self._run(lambda db: db.execute(query.order_by(ENTRY.c.seq)).all())
        return [Sequenced(row.seq, msgspec.json.decode(row.body, type=Sealed)) for row in rows]

    def first_digest(self, spec_id: str) -> str | None:
        """The input digest of a specification's oldest release."""
        query = sa.select(ENTRY.c.body).where(ENTRY.c.kind == "release", ENTRY.c.spec_id == spec_id)
        body = self._run(lambda db: db.execute(query.order_by(ENTRY.c.seq).limit(1)).scalar())
        return None if body is None else msgspec.json.decode(body, type=Sealed).digest

    def sealed(self, account: str, spec_id: str, from_s: int, to_s: int) -> set[tuple[int, int]]:
        """(slot, shard) of all that a specification has released of the slots that start in [from_s, to_s)."""
        query = sa.select(ENTRY.c.slot_s, ENTRY.c.shard).where(
            ENTRY.c.account == account,
            ENTRY.c.kind == "release",
            ENTRY.c.spec_id == spec_id,
            ENTRY.c.slot_s >= from_s,
            ENTRY.c.slot_s < to_s,
        )

        def find(db: sa.Connection) -> set[tuple[int, int]]:
            _known(db, account)
            return {(row.slot_s, row.shard) for row in db.execute(query)}

        return self._run(find)

    def entries(self) -> Iterator[dict[str, Any]]:
        """All entries in the order of the chain. Not tried again when the connection is lost on the way."""
        with self._transaction() as db:
            yield from chain.entries(db)

    def verify(self) -> Walked:
        """Walks the chain and compares its head. Raises LedgerError where something is amiss."""
        walked = self.verify_chain()
        self.check_head()
        return walked

    def verify_chain(self) -> Walked:
        """Walks the chain. Raises LedgerError at the first entry that does not fit."""
        return self._run(lambda db: chain.walk(db, self._signature))

    def check_head(self) -> None:
        """Refuses a database that the head file does not know, or that has lost the entry it remembers."""
        if not self._run(self._compare_with_head):
            raise LedgerError(UNKNOWN_TO_HEAD)

    def _compare_with_head(self, db: sa.Connection) -> bool:
        """Whether the head file knows this ledger; refuses one without the entry that it remembers."""
        remembered = self._head.read(chain.genesis(db))
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
        if home not in (None, chain.genesis(db)):
            raise AccountRefusal(
                f"account {account!r} lives in another ledger that this key file was used with; "
                "a new ledger would be a new budget. Name that ledger with --ledger; if it is lost, restore its copy: "
                "without one the account has ended: open another one, by another name and with another key (--key)."
            )
        return home

    def _run(self, work: Callable[[sa.Connection], Found]) -> Found:
        """`work` in one transaction, whole and from its start again where the database may succeed with it later.

        Safe even if the connection was lost during a commit of which nobody knows whether it happened: every `work`
        first waits until no other writer is left, then reads what is recorded, and adds only what is not.
        """
        for wait_s in databases.RETRY_WAITS_S:
            try:
                return self._try(work)
            except _Passing:
                time.sleep(wait_s)
        return self._try(work)

    def _try(self, work: Callable[[sa.Connection], Found]) -> Found:
        with self._transaction() as db:
            return work(db)

    @contextmanager
    def _transaction(self) -> Iterator[sa.Connection]:
        """One transaction; database errors become LedgerError, without the statement or its parameters."""
        name = self._database.shown
        try:
            with self._engine.begin() as db:
                yield db
        except sa.exc.SQLAlchemyError as error:
            kind = _Passing if self._database.may_pass(error) else LedgerError
            raise kind(f"the ledger {name} is not usable: {self._database.reason(error)}") from None
        except (msgspec.MsgspecError, KeyError, ValueError):  # of an entry's text; it is not shown
            raise LedgerError(f"the ledger {name} is damaged: it holds an entry that cannot be read") from None


def _seal_missing(
    db: sa.Connection,
    signature: Signature | None,
    account: str,
    period: str,
    spec_id: str,
    spec_name: str,
    spec_text: str,
    units: Sequence[Sealed],
) -> Recorded:
    slots = [unit.slot_s for unit in units]
    stored = _stored(db, signature, spec_id, period, None if units[0].scope == "period" else (min(slots), max(slots)))
    _check_whole(stored, units)
    before = [stored.get((unit.slot_s, unit.shard)) for unit in units]
    missing = [unit for unit, known in zip(units, before, strict=True) if known is None]
    differing = [
        (unit, what) for unit, known in zip(units, before, strict=True) if known and (what := _differs(known, unit))
    ]
    redrawn = [unit for unit, known in zip(units, before, strict=True) if known and known != unit]
    new: list[Entry] = []
    if not _knows_spec(db, account, spec_id):
        text = _json({"name": spec_name, "spec": spec_text})
        new.append({"kind": "spec", "account": account, "spec_id": spec_id, "body": text})
    new += [_release(account, unit) for unit in missing]
    new += _changes(db, account, spec_id, period, differing)
    new += _redraws(account, redrawn)
    chain.append(db, signature, *new)
    sealed = [known or unit for unit, known in zip(units, before, strict=True)]
    sequences = _sequences(db, spec_id, period)
    entries = [sequences[unit.slot_s, unit.shard] for unit in units]
    return Recorded(sealed, len(missing), len(differing), len(redrawn), entries)


def _sequences(db: sa.Connection, spec_id: str, period: str) -> dict[tuple[int, int], int]:
    """Where in the chain each release of a period stands, by (slot, shard)."""
    query = sa.select(ENTRY.c.slot_s, ENTRY.c.shard, ENTRY.c.seq).where(
        ENTRY.c.kind == "release", ENTRY.c.spec_id == spec_id, ENTRY.c.period == period
    )
    return {(row.slot_s, row.shard): row.seq for row in db.execute(query)}


def _knows_spec(db: sa.Connection, account: str, spec_id: str) -> bool:
    known = sa.select(ENTRY.c.seq).where(ENTRY.c.kind == "spec", ENTRY.c.spec_id == spec_id)
    return db.execute(known.where(ENTRY.c.account == account)).first() is not None


def _release(account: str, unit: Sealed) -> Entry:
    return {
        "kind": "release",
        "account": account,
        **_place(unit),
        "epsilon": debit_of(unit),
        "body": msgspec.json.encode(unit).decode(),
        "release_id": _release_id(unit),
    }


def _place(unit: Sealed) -> Entry:
    return {"spec_id": unit.spec_id, "period": unit.period, "slot_s": unit.slot_s, "shard": unit.shard}


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


def _changes(
    db: sa.Connection, account: str, spec_id: str, period: str, differing: Sequence[tuple[Sealed, str]]
) -> list[Entry]:
    """One audit event per unit and digest, however often the same change is met."""
    if not differing:
        return []
    noted = sa.select(ENTRY.c.slot_s, ENTRY.c.shard, ENTRY.c.body).where(
        ENTRY.c.kind == "changed", ENTRY.c.spec_id == spec_id, ENTRY.c.period == period
    )
    seen = {tuple(row) for row in db.execute(noted)}
    bodies = [(unit, _json({"what": what, "digest": unit.digest})) for unit, what in differing]
    return [
        {"kind": "changed", "account": account, **_place(unit), "body": body}
        for unit, body in bodies
        if (unit.slot_s, unit.shard, body) not in seen
    ]


def _redraws(account: str, units: Sequence[Sealed]) -> list[Entry]:
    """One audit event for all that one attempt drew again. The same draw offered twice is none."""
    if not units:
        return []
    where = _place(units[0]) if len(units) == 1 else {"spec_id": units[0].spec_id, "period": units[0].period}
    return [{"kind": "redrawn", "account": account, **where, "body": _json({"units": len(units)})}]


def _stored(
    db: sa.Connection,
    signature: Signature | None,
    spec_id: str,
    period: str,
    slots: tuple[int, int] | None = None,
) -> dict[tuple[int, int], Sealed]:
    """What is released of a period by (slot, shard). slots: only from the first to the last of them.

    Checked again here: between two looks at the whole chain somebody may have written what was never released.
    """
    query = sa.select(ENTRY).where(ENTRY.c.kind == "release", ENTRY.c.spec_id == spec_id, ENTRY.c.period == period)
    if slots is not None:
        query = query.where(ENTRY.c.slot_s.between(*slots))
    found = [dict(row) for row in db.execute(query).mappings()]
    since = {account: chain.signed_since(db, account) for account in {row["account"] for row in found}}
    for row in found:
        chain.check(row, since[row["account"]], signature)
    units = (msgspec.json.decode(row["body"], type=Sealed) for row in found)
    return {(unit.slot_s, unit.shard): unit for unit in units}


def _over(db: sa.Connection, account: str, limit: Fraction, period: str, wanted: Sequence[Debit]) -> bool:
    """Whether what is not recorded yet would raise the period's debits above the limit."""
    recorded = _debits(db, account, period)
    known = {debit.unit for debit in recorded}
    new = [debit for debit in wanted if debit.unit not in known]
    before, after = (sum(debits_by_slot(all_).values(), Fraction(0)) for all_ in (recorded, recorded + new))
    return after > before and after > limit


def _slot_debits(db: sa.Connection, account: str, period: str) -> dict[SpecSlot, Fraction]:
    """Debit per (specification, slot) of a period; the shards of a slot share one."""
    return debits_by_slot(_debits(db, account, period))


def _debits(db: sa.Connection, account: str, period: str) -> list[Debit]:
    query = sa.select(ENTRY.c.spec_id, ENTRY.c.slot_s, ENTRY.c.shard, ENTRY.c.epsilon).where(
        ENTRY.c.kind == "release", ENTRY.c.account == account, ENTRY.c.period == period
    )
    return [Debit((row.spec_id, row.slot_s, row.shard), Fraction(row.epsilon)) for row in db.execute(query)]


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
    if not chain.has_table(db):
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
            f"{float(Fraction(asked.limit)):g}: a limit may be lowered, never raised; "
            f"write limit = {float(Fraction(known.limit)):g} under [account]"
        )


def _release_id(unit: Sealed) -> str:
    return f"{unit.spec_id}/{unit.slot_s}/{unit.shard}"


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
