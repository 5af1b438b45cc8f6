"""Append-only ledger in which each slot is written once.

Accounts, specifications, released slots (also the debits) and audit events are entries of one chain; its head is also
stored outside the database, so that a rolled-back copy is noticed. `_run` calls a function in a transaction, `_write`
advances the head file after it. ENTRY.c has the table's columns: LIVE_COLUMN in `shard` marks live slots' releases. A
ledger's genesis, its first entry's hash, names it.
"""

import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import sqlalchemy as sa

from dpops.accountant import Accountant, Limit, limit_of
from transforms.failpoints import failpoint
from transforms.ledger import chain, databases, spending
from transforms.ledger.chain import ENTRY, METADATA, UNKNOWN_TO_HEAD, Signature, Walked
from transforms.ledger.claims import check_claims, claims_of
from transforms.ledger.head import Head, LedgerError
from transforms.ledger.releases import Audit, Recorded, json_of, record_missing, recorded_units
from transforms.ledger.spending import Account, AccountRefusal, LimitExceeded, SpanSpent, SpanUse, Spent
from transforms.recorded import units as unit_kinds
from transforms.recorded.units import LIVE_COLUMN, LiveUnit, Sequenced, StageEntry, StageUnit, Unit, column_of, decode

Found = TypeVar("Found")
_Kind = TypeVar("_Kind", bound=Unit)


class _Passing(LedgerError):
    """Transient database error, after which a transaction may succeed."""


class Ledger:
    """Ledger database; public methods are transactions, raising LedgerError."""

    def __init__(self, url: str, head: Path, signature: Signature | None = None, *, read_only: bool = False) -> None:
        """Opens a ledger by URL, with its head file.

        signature: by the account's key; None: makes and compares none. read_only: neither writes nor waits for writers.
        """
        self.url, self.signature = url, signature
        self._head = Head(head, signature)
        self._database = databases.database_of(url)
        self._engine = self._database.engine(read_only=read_only)

    def exists(self) -> bool:
        """Checks for the database file, or the server's table."""
        path = self._database.path  # None: a server
        return self._run(chain.has_table) if path is None else path.exists()

    def create(self) -> None:
        """Makes the database file and the table, if missing."""
        if self._database.path is not None:
            self._database.path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(self._database.path, os.O_RDWR | os.O_CREAT, 0o600))  # SQLite's further files follow it
        self._run(METADATA.create_all)

    def discard(self) -> None:
        """Removes a ledger that has no entry."""
        if self._run(chain.genesis) is not None:
            return
        self._run(METADATA.drop_all)
        if self._database.path is not None:
            for suffix in ("-wal", "-shm", ""):  # SQLite's further files first: alone they could not be read
                Path(f"{self._database.path}{suffix}").unlink(missing_ok=True)

    def fill(self, entries: Iterator[Mapping[str, Any]]) -> Walked:
        """Inserts a copy's entries; verifies their chain. Raises LedgerError."""
        with self._transaction() as db:  # not retried: the iterator can be read once
            if chain.genesis(db) is not None:
                raise LedgerError(f"the ledger {self._database.shown} has entries already")
            while batch := list(islice(entries, chain.ENTRIES_AT_ONCE)):
                db.execute(ENTRY.insert(), batch)
            return chain.walk(db, self.signature)

    def open_account(self, account: Account) -> str:
        """Writes the account once. Returns "created", "unchanged" or "limit lowered"; refuses any other change."""

        def open_or_lower(db: sa.Connection) -> str:
            # A head file that lacks this ledger is accepted while the key has spent nothing in it.
            if not self._compare_with_head(db) and chain.must_know(db, self.signature):
                raise LedgerError(f"{UNKNOWN_TO_HEAD}, though there are releases with this key in it: restore it")
            self._home(db, account.name)  # refuses an account of another ledger
            recorded = spending.find_account(db, account.name)
            if recorded is None:
                body = asdict(account) | {"nonce": secrets.token_hex(16)}  # no two ledgers begin alike
                body |= chain.HEAD_IS_SIGNED if self.signature else {}
                chain.append(db, self.signature, {"kind": "account", "account": account.name, "body": json_of(body)})
                return "created"
            spending.check_match(recorded, account)  # refuses other terms, and a higher limit
            if limit_of(account.limit) == limit_of(recorded.limit):
                return "unchanged"
            lowered = {"kind": "limit", "account": account.name, "epsilon": account.limit, "body": "{}"}
            chain.append(db, self.signature, lowered)
            return "limit lowered"

        return self._write(account.name, open_or_lower)

    def check_account(self, account: Account) -> None:
        """Raises AccountRefusal for missing or different accounts."""
        recorded, home = self._run(lambda db: (spending.known_account(db, account.name), self._home(db, account.name)))
        if home is None:
            raise AccountRefusal(f"the head file knows no account {account.name!r}: run `hatstream init` first")
        spending.check_match(recorded, account)

    def limit(self, account: str, requested: Limit | None = None) -> Limit:
        """Returns the lower of recorded and requested limits."""
        return self._run(lambda db: spending.limit_in_force(db, account, requested))

    def debited(self, account: str) -> dict[str, Accountant]:
        """Sums debits over specifications, by sorted period."""
        return self._run(lambda db: spending.debited(db, account))

    def accounts(self) -> list[Account]:
        """Lists all accounts with their limits, oldest first."""
        names = sa.select(ENTRY.c.account).where(ENTRY.c.kind == "account").order_by(ENTRY.c.seq)
        return self._run(lambda db: [spending.known_account(db, name) for name in db.execute(names).scalars().all()])

    def audit(self, account: str) -> Audit:
        """Counts units whose input or code changed, and units drawn again."""
        of_account = sa.select(ENTRY.c.body).where(ENTRY.c.account == account)

        def find(db: sa.Connection) -> Audit:
            # "changed": a unit was offered that differs from the recorded one. "redrawn": so many were drawn again.
            changed = len(db.execute(of_account.where(ENTRY.c.kind == "changed")).all())
            redrawn = db.execute(of_account.where(ENTRY.c.kind == "redrawn")).scalars()
            return Audit(changed, sum(msgspec.json.decode(body, type=dict[str, int])["units"] for body in redrawn))

        return self._run(find)

    def spent(self, account: str, period: str | None = None) -> list[Spent]:
        """Lists debits by period and specification, oldest period first."""
        return self._run(lambda db: spending.spent_by_specification(db, account, period))

    def excess(self, account: str, limit: Limit, wanted: Mapping[str, Sequence[unit_kinds.Debit]]) -> list[str]:
        """Lists periods whose new debits would exceed the limit."""
        return self._run(lambda db: spending.periods_over(db, account, limit, wanted))

    def spent_in_spans(self, account: str, limit: Limit, period: str) -> list[SpanSpent]:
        """Reads the largest debits of spans around a period."""
        return self._run(lambda db: spending.spent_in_spans(db, account, limit, period))

    def uses_of_spans(self, account: str) -> list[SpanUse]:
        """Computes the spent fractions of multi-day spans, by day."""
        return self._run(lambda db: spending.uses_of_spans(db, account))

    def record(self, account: str, limit: Limit, spec_name: str, spec_text: str, units: Sequence[Unit]) -> Recorded:
        """Records a period's missing units atomically; returns all units.

        Raises LimitExceeded, with nothing written, beyond the limit or the account's; PeriodClosed for a live slot
        whose period has its first stage already.
        """
        period = units[0].period
        failpoint("before-record")

        def write(db: sa.Connection) -> Recorded:
            if not self._compare_with_head(db):  # again: another process may have used another copy meanwhile
                raise LedgerError(UNKNOWN_TO_HEAD)
            debits = [unit_kinds.Debit(unit.key, unit.debit) for unit in units]
            if spending.periods_over(db, account, limit, {period: debits}):
                in_force = spending.limit_in_force(db, account, limit)
                raise LimitExceeded(f"period {period}: the account's limit {in_force.describe()} would be exceeded")
            recorded = record_missing(db, self.signature, account, spec_name, spec_text, units)
            spending.check_total(db, account, units)  # reads what was just written: if it raises, all is rolled back
            failpoint("before-commit")
            return recorded

        recorded = self._write(account, write, failing="after-commit")  # failing: a failpoint
        self.check_head()  # of two copies of a ledger that recorded at once, only one advanced the head
        return recorded

    def note(self, account: str, spec_id: str, period: str, notes: Mapping[str, str]) -> None:
        """Records facts about a run's period as a note."""
        entry = {"kind": "note", "account": account, "spec_id": spec_id, "period": period, "body": json_of(notes)}
        self._write(account, lambda db: chain.append(db, self.signature, entry))

    def stop(self, account: str, spec_id: str, period: str, run: str) -> bool:
        """Records which run stopped first at a period; True if this one."""
        of_period = (ENTRY.c.account == account, ENTRY.c.spec_id == spec_id, ENTRY.c.period == period)

        def write(db: sa.Connection) -> bool:
            entries = chain.checked(db, self.signature, ENTRY.c.kind == "stopped", *of_period)
            if not entries:
                entry = {"kind": "stopped", "account": account, "spec_id": spec_id, "period": period}
                chain.append(db, self.signature, entry | {"body": json_of(run)})
            return not entries or bool(msgspec.json.decode(entries[0]["body"]) == run)

        return self._write(account, write)

    def noted(self, account: str, spec_id: str, period: str) -> dict[str, str] | None:
        """Reads a period's newest note: facts by name, such as a vehicle's spending."""
        of_period = (ENTRY.c.account == account, ENTRY.c.spec_id == spec_id, ENTRY.c.period == period)
        rows = self._run(lambda db: chain.checked(db, self.signature, ENTRY.c.kind == "note", *of_period))
        return msgspec.json.decode(rows[-1]["body"], type=dict[str, str]) if rows else None

    def released(self, spec_id: str, period: str) -> list[Unit]:
        """Lists a specification's released units of a period, sorted."""
        units = self._run(lambda db: recorded_units(db, self.signature, spec_id, period))
        return [units[key] for key in sorted(units, key=lambda key: (key.slot_s, column_of(key)))]

    def released_of(self, spec_id: str, slots: Sequence[int]) -> list[Unit]:
        """Reads a specification's releases of slots by their start."""
        which = ENTRY.c.kind == "release", ENTRY.c.spec_id == spec_id, ENTRY.c.slot_s.in_(slots)
        return self._run(lambda db: [decode(entry["body"]) for entry in chain.checked(db, self.signature, *which)])

    def stages(self, account: str, spec_id: str) -> list[StageEntry]:
        """Lists a specification's stages with sequence numbers, in order."""
        return self._entries(StageUnit, account, spec_id, ENTRY.c.shard != LIVE_COLUMN)

    def live(self, account: str, spec_id: str, period: str) -> list[unit_kinds.LiveEntry]:
        """Lists a period's live slots with sequence numbers."""
        return self._entries(LiveUnit, account, spec_id, ENTRY.c.shard == LIVE_COLUMN, ENTRY.c.period == period)

    def last_of(self, spec_id: str, period: str) -> int:
        """Reads the sequence number of a period's last release; 0 without any."""
        of_period = (ENTRY.c.kind == "release", ENTRY.c.spec_id == spec_id, ENTRY.c.period == period)
        query = sa.select(sa.func.max(ENTRY.c.seq)).where(*of_period)
        return self._run(lambda db: db.execute(query).scalar()) or 0  # entries are numbered from 1

    def hash_of(self, sequence: int) -> str:
        """Reads an entry's hash; empty if there is none."""
        return self._run(lambda db: db.execute(sa.select(ENTRY.c.hash).where(ENTRY.c.seq == sequence)).scalar()) or ""

    def _entries(
        self, kind: type[_Kind], account: str, spec_id: str, *criteria: sa.ColumnElement[bool]
    ) -> list[Sequenced[_Kind]]:
        """Reads releases of one kind of unit, checked, with their sequence numbers."""
        of_spec = (ENTRY.c.kind == "release", ENTRY.c.account == account, ENTRY.c.spec_id == spec_id)

        def find(db: sa.Connection) -> list[dict[str, Any]]:
            spending.known_account(db, account)  # raises for an unknown one
            return chain.checked(db, self.signature, *of_spec, *criteria)

        rows = self._run(find)
        units = unit_kinds.all_of(kind, (decode(entry["body"]) for entry in rows))
        return [Sequenced(entry["seq"], unit) for entry, unit in zip(rows, units, strict=True)]

    def first_digest(self, spec_id: str) -> str | None:
        """Reads a specification's first digest, whose form stays."""
        query = sa.select(ENTRY.c.body).where(ENTRY.c.kind == "release", ENTRY.c.spec_id == spec_id)
        body = self._run(lambda db: db.execute(query.order_by(ENTRY.c.seq).limit(1)).scalar())
        return None if body is None else decode(body).digest

    def recorded_slots(
        self, account: str, spec_id: str, from_s: int, to_s: int, *, is_live: bool = False
    ) -> set[tuple[int, int]]:
        """Reads (slot, shard) of a release's units, or live slots, in [from_s, to_s)."""
        kind = ENTRY.c.shard == LIVE_COLUMN if is_live else ENTRY.c.shard != LIVE_COLUMN
        of_release = (ENTRY.c.kind == "release", ENTRY.c.account == account, ENTRY.c.spec_id == spec_id)
        in_range = (ENTRY.c.slot_s >= from_s, ENTRY.c.slot_s < to_s)
        query = sa.select(ENTRY.c.slot_s, ENTRY.c.shard).where(*of_release, *in_range, kind)

        def find(db: sa.Connection) -> set[tuple[int, int]]:
            spending.known_account(db, account)  # raises for an unknown one
            return {(row.slot_s, row.shard) for row in db.execute(query)}

        return self._run(find)

    def entries(self) -> Iterator[dict[str, Any]]:
        """Yields all entries in order, without retrying lost connections."""
        with self._transaction() as db:
            yield from chain.entries(db)

    def verify(self) -> Walked:
        """Verifies chain, claims, debits and head. Raises LedgerError."""

        def check_all_claims(db: sa.Connection) -> None:  # of stored plans, beside their debits
            query = sa.select(ENTRY.c.body).where(ENTRY.c.kind == "release").order_by(ENTRY.c.seq)
            with closing(db.execution_options(yield_per=100).execute(query)) as rows:
                check_claims(claims_of(decode(row.body)) for row in rows)

        walked = self.verify_chain()
        self._run(check_all_claims)
        self.check_head()
        return walked

    def verify_chain(self) -> Walked:
        """Walks the chain. Raises LedgerError at the first fault."""
        return self._run(lambda db: chain.walk(db, self.signature))

    def check_head(self) -> None:
        """Refuses a database that contradicts the head file."""
        if not self._run(self._compare_with_head):
            raise LedgerError(UNKNOWN_TO_HEAD)

    def _compare_with_head(self, db: sa.Connection) -> bool:
        """Checks that the head file knows this ledger. Raises LedgerError for contradictions."""
        return chain.fits(db, self._head, self.signature)

    def describe_head(self) -> str:
        """Describes whether the head file fits. Raises LedgerError."""
        return self._run(lambda db: chain.describe_head(db, self._head, self.signature))

    def _home(self, db: sa.Connection, account: str) -> str | None:
        """Returns the genesis of the account's ledger, None if new. Raises AccountRefusal for another."""
        home = self._head.home(account)
        if home not in (None, chain.genesis(db)):
            raise AccountRefusal(
                f"account {account!r} lives in another ledger that this key file was used with; "
                "a new ledger would be a new budget. Name that ledger with --ledger; if it is lost, restore its copy: "
                "without one the account has ended: open another one, by another name and with another key (--key)."
            )
        return home

    def _write(self, account: str, work: Callable[[sa.Connection], Found], failing: str | None = None) -> Found:
        """Runs `work` in a transaction, then advances the head; failing: failpoint between them."""
        is_old = self.signature and any(last.get("is_unsigned") for last in self._head.read_all().values())
        if is_old and self._run(lambda db: chain.is_unsigned(db, self._head)):  # not only another ledger's head
            # An older version's head: it is compared once more, and signed from now on.
            self.check_head()
            self._head.vouch(self._run(chain.genesis) or "")  # "" for an empty chain
        answer, tip = self._run(lambda db: (work(db), chain.tip(db)))  # tip: genesis, newest sequence number and hash
        if failing:
            failpoint(failing)
        self._head.advance(*tip, account)
        return answer

    def _run(self, work: Callable[[sa.Connection], Found]) -> Found:
        """Runs `work` in a transaction, retried after transient errors.

        Safe even if the connection broke during a commit: every `work` first waits for other writers, then reads what
        is recorded and adds only what is not.
        """
        for wait_s in databases.RETRY_WAITS_S:
            try:
                with self._transaction() as db:
                    return work(db)
            except _Passing:  # a transient error
                time.sleep(wait_s)
        with self._transaction() as db:
            return work(db)

    @contextmanager
    def _transaction(self) -> Iterator[sa.Connection]:
        """Opens a transaction; errors become LedgerError without the statement."""
        name = self._database.shown
        try:
            with self._engine.begin() as db:
                yield db
        except sa.exc.SQLAlchemyError as error:
            kind = _Passing if self._database.is_transient(error) else LedgerError
            raise kind(f"the ledger {name} is not usable: {self._database.reason(error)}") from None
        except (msgspec.MsgspecError, KeyError, ValueError):  # an entry's text, which must not be shown
            raise LedgerError(f"the ledger {name} is damaged: it holds an entry that cannot be read") from None
