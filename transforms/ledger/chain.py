"""The ledger's one table, only ever appended to: each entry is hashed together with the hash of the one before."""

import hashlib
from collections.abc import Generator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import msgspec
import sqlalchemy as sa

from transforms.ledger.head import LedgerError

METADATA = sa.MetaData()
ENTRY = sa.Table(
    "entry",
    METADATA,
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("at", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),  # account, limit, spec, release, changed, redrawn
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

Entry = Mapping[str, Any]
"""Columns of an entry that is to be appended; the rest is empty or follows from its place in the chain."""

Tip = tuple[str, int, str]
"""Hash of the first entry, last sequence number, last hash."""


def has_table(db: sa.Connection) -> bool:
    return sa.inspect(db).has_table(ENTRY.name)


def genesis(db: sa.Connection) -> str | None:
    """The hash of the first entry, which no other ledger has; None while there is none."""
    return _first_hash(db) if has_table(db) else None


def tip(db: sa.Connection) -> Tip:
    last = db.execute(sa.select(ENTRY.c.seq, ENTRY.c.hash).order_by(ENTRY.c.seq.desc()).limit(1)).first()
    return (_first_hash(db) or "", last.seq, last.hash) if last else ("", 0, "")


def append(db: sa.Connection, *new: Entry) -> None:
    """Continues the chain by these entries, in one statement. The caller has waited for all other writers."""
    if not new:
        return
    _, sequence, before = tip(db)
    at = datetime.now(UTC).isoformat(timespec="seconds")
    rows = []
    for seq, values in enumerate(new, sequence + 1):
        entry = {name: values.get(name) for name in _FIELDS} | {"seq": seq, "at": at}
        before = _hash(before, entry)
        rows.append(entry | {"hash": before})
    db.execute(ENTRY.insert(), rows)


def entries(db: sa.Connection) -> Generator[dict[str, Any], None, None]:
    """All entries in the order of the chain, a few at a time."""
    with db.execution_options(yield_per=100).execute(sa.select(ENTRY).order_by(ENTRY.c.seq)) as found:
        for row in found.mappings():
            yield dict(row)


def walk(db: sa.Connection) -> int:
    """Checks every hash; returns the chain's length. Raises LedgerError at the first entry that does not fit."""
    before, expected = "", 1
    with closing(entries(db)) as found:
        for entry in found:
            if entry["seq"] != expected or entry["hash"] != _hash(before, entry):
                raise LedgerError(f"entry {expected} of the ledger is not what was written: it was tampered with")
            before, expected = entry["hash"], expected + 1
    return expected - 1


def _first_hash(db: sa.Connection) -> str | None:
    found: str | None = db.execute(sa.select(ENTRY.c.hash).where(ENTRY.c.seq == 1)).scalar()
    return found


def _hash(before: str, entry: Mapping[str, Any]) -> str:
    return hashlib.sha256(msgspec.json.encode([before, *(entry[name] for name in _FIELDS)])).hexdigest()
