"""The ledger's append-only table, each entry hashing its predecessor's, compared with the head file.

Whoever can write to the database could continue the chain. So an entry of an account whose key is at hand is signed:
its `hash` is the hash, a dot, and an HMAC with a key derived from the account's. After an account's first signed entry
all must be; older ones stay. The entry that opens an account, or one of kind `signed`, records that the head file is
signed. That file remembers the newest entry of each ledger by its genesis: the first entry's hash, which names it.
"""

import hashlib
import hmac
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa

from transforms.ledger.head import Head, LedgerError, RememberedHead

METADATA = sa.MetaData()
ENTRY = sa.Table(
    "entry",
    METADATA,
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("at", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),  # account, limit, spec, release, changed, redrawn, signed, note
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
ENTRIES_AT_ONCE = 100  # entries read or inserted at a time: each may have megabytes
_ACCOUNT_KINDS = ("account", "signed")
HEAD_IS_SIGNED = {"head": "signed"}  # in an entry's body: the head file that fits the chain from there on is signed

_HASHED = ("seq", "at", "kind", "account", "spec_id", "period", "slot_s", "shard", "epsilon", "body", "release_id")

Entry = Mapping[str, Any]
"""Columns of an entry that is to be appended; the rest is empty or follows from its place in the chain."""


@dataclass(frozen=True)
class Signature:
    """Key that signs entries, derived from the accounts' secret."""

    key: bytes = field(repr=False)
    key_check: str

    def key_of(self, purpose: str) -> bytes:
        """Derives a key for other data of the account."""
        return hmac.digest(self.key, b"beside the ledger/" + purpose.encode(), "sha256")

    def of(self, plain: str, content: bytes) -> str:
        """Computes an entry's HMAC, of hash and `_content`, hexadecimal."""
        return hmac.digest(self.key, _begun(plain) + content, "sha256").hex()


class Walked(NamedTuple):
    """Numbers of a chain's entries: all, signed, and of these compared with the key."""

    entries: int
    signed: int
    checked: int

    def describe(self) -> str:
        """Writes for people whether signatures were compared."""
        if not self.signed:
            return "no entry has a signature: they are from before entries were signed"
        if self.checked == self.signed:
            return "all signatures were compared with the key"
        whose = "of other accounts " if self.checked else ""
        return f"signatures {whose}were not compared: that needs their accounts' key (--key)"


def has_table(db: sa.Connection) -> bool:
    """Checks for the ledger's table."""
    return sa.inspect(db).has_table(ENTRY.name)


def genesis(db: sa.Connection) -> str | None:
    """Reads the first entry's hash, which names a ledger; None without any."""
    return _first_hash(db) if has_table(db) else None


def tip(db: sa.Connection) -> tuple[str, int, str]:
    """Reads the genesis, the newest sequence number and hash."""
    last = db.execute(sa.select(ENTRY.c.seq, ENTRY.c.hash).order_by(ENTRY.c.seq.desc()).limit(1)).first()
    return (_first_hash(db) or "", last.seq, last.hash) if last else ("", 0, "")


def append(db: sa.Connection, signature: Signature | None, *entries: Entry) -> None:
    """Appends an account's entries, under the caller's lock. Raises LedgerError if stored otherwise."""
    if not entries:
        return
    _genesis, sequence, last_hash = tip(db)  # of the newest entry; 0 and "" without any
    account = entries[0]["account"]
    if signature and sequence and entries[0]["kind"] != "account":
        # Older versions signed no entries, or no head file. Unless the account was signed from the start, an entry
        # `signed` says first how many unsigned ones come before it, and that the head file is signed now.
        signed: dict[str, Any] = {"entries before": sequence} if signed_since(db, account) is None else {}
        if not head_is_signed(of_accounts(db, ENTRY.c.account == account), {account}):
            signed |= HEAD_IS_SIGNED
        if signed:
            entries = ({"kind": "signed", "account": account, "body": msgspec.json.encode(signed).decode()}, *entries)
    time = datetime.now(UTC).isoformat(timespec="seconds")
    rows = []
    for seq, values in enumerate(entries, sequence + 1):
        entry = {name: values.get(name) for name in _HASHED} | {"seq": seq, "at": time}
        content = _content(entry)
        last_hash = _hash(last_hash, content)
        if signature:
            last_hash = f"{last_hash}.{signature.of(last_hash, content)}"
        rows.append(entry | {"hash": last_hash})
    db.execute(ENTRY.insert(), rows)
    # A trigger can make the database keep other entries than it was given: they are compared before the commit.
    query = sa.select(ENTRY).where(ENTRY.c.seq >= rows[0]["seq"]).order_by(ENTRY.c.seq)
    with db.execute(query.execution_options(yield_per=1)) as stored:
        is_as_written = all(entry and dict(entry) == row for entry, row in zip_longest(stored.mappings(), rows))
    if not is_as_written:
        raise LedgerError(
            "the database did not keep the new entries as they were written: does it have a trigger? Nothing of them "
            "was recorded or released"
        )


def entries(db: sa.Connection) -> Generator[dict[str, Any], None, None]:
    """Yields all entries in order, without holding them all."""
    with db.execution_options(yield_per=ENTRIES_AT_ONCE).execute(sa.select(ENTRY).order_by(ENTRY.c.seq)) as rows:
        for row in rows.mappings():
            yield dict(row)


def walk(db: sa.Connection, signature: Signature | None) -> Walked:
    """Checks every hash and signature. Raises LedgerError."""
    last_hash, expected, signed, checked = "", 1, 0, 0  # the sequence number to come, and counts of `Walked`
    since: dict[str, int] = {}  # by account: sequence number of the first signed entry
    verifiable: set[str] = set()  # accounts of this key
    with closing(entries(db)) as rows:
        for entry in rows:
            plain, dot, _ = entry["hash"].partition(".")
            account = entry["account"]
            if signature:
                verifiable |= own_accounts([entry], signature)
            if dot:
                since.setdefault(account, expected)
            content = _content(entry)
            if entry["seq"] != expected or plain != _hash(last_hash, content):
                raise LedgerError(f"entry {expected} of the ledger is not what was written: it was tampered with")
            check(entry, since.get(account), signature if account in verifiable else None, content)
            last_hash, expected, signed = entry["hash"], expected + 1, signed + bool(dot)
            checked += bool(dot) and account in verifiable
    return Walked(expected - 1, signed, checked)


def checked(db: sa.Connection, signature: Signature | None, *criteria: sa.ColumnElement[bool]) -> list[dict[str, Any]]:
    """Reads selected entries in order, and verifies their signatures (None: that they have one).

    Since the last walk of the chain, somebody may have inserted entries that were never released.
    """
    rows = [dict(row) for row in db.execute(sa.select(ENTRY).where(*criteria).order_by(ENTRY.c.seq)).mappings()]
    since = {account: signed_since(db, account) for account in {entry["account"] for entry in rows}}
    for entry in rows:
        check(entry, since[entry["account"]], signature)
    return rows


def signed_since(db: sa.Connection, account: str) -> int | None:
    """Reads the sequence number of an account's first signature."""
    first = sa.select(sa.func.min(ENTRY.c.seq)).where(ENTRY.c.account == account, ENTRY.c.hash.like("%.%"))
    return db.execute(first).scalar()


def of_accounts(db: sa.Connection, *criteria: sa.ColumnElement[bool]) -> Sequence[Entry]:
    """Reads entries about accounts and signing, in chain order."""
    query = sa.select(ENTRY.c.kind, ENTRY.c.account, ENTRY.c.body).where(ENTRY.c.kind.in_(_ACCOUNT_KINDS), *criteria)
    return [dict(row) for row in db.execute(query.order_by(ENTRY.c.seq)).mappings()]


def own_accounts(entries: Iterable[Entry], signature: Signature) -> set[str]:
    """Lists the accounts that were opened with this key."""
    opened = (entry for entry in entries if entry["kind"] == "account")
    return {entry["account"] for entry in opened if f'"{signature.key_check}"' in entry["body"]}


def head_is_signed(entries: Iterable[Entry], accounts: Collection[str]) -> bool:
    """Checks whether entries of these accounts record that the head file is signed."""
    bodies = (entry["body"] for entry in entries if entry["kind"] in _ACCOUNT_KINDS and entry["account"] in accounts)
    return any(HEAD_IS_SIGNED.items() <= msgspec.json.decode(body, type=dict[str, Any]).items() for body in bodies)


def check(
    entry: Mapping[str, Any], first_signed: int | None, signature: Signature | None, content: bytes | None = None
) -> None:
    """Refuses an entry without a valid signature, from its account's first signed one on.

    first_signed: its sequence number, or None. signature: None compares none. content: the entry's `_content`, if made.
    """
    if first_signed is None or entry["seq"] < first_signed:
        return
    plain, _, sign = entry["hash"].partition(".")
    if not sign or (signature and not hmac.compare_digest(sign, signature.of(plain, content or _content(entry)))):
        raise LedgerError(
            f"entry {entry['seq']} of the ledger was written without the account's key: it is forged. Nothing "
            "more is released; restore the ledger from a copy that `hatstream ledger verify` finds whole"
        )


def text_of(column: str | None) -> str:
    """Returns a required column's text. Raises ValueError if null."""
    if column is None:
        raise ValueError("an entry without what its kind has")
    return column


def _first_hash(db: sa.Connection) -> str | None:
    return db.execute(sa.select(ENTRY.c.hash).where(ENTRY.c.seq == 1)).scalar()


def _content(entry: Mapping[str, Any]) -> bytes:
    """Encodes an entry, without its hash, as JSON without the opening bracket."""
    return msgspec.json.encode([entry[name] for name in _HASHED])[1:]


def _begun(last_hash: str) -> bytes:
    """Encodes the start of the JSON list of a hash and a `_content`."""
    return b"[" + msgspec.json.encode(last_hash) + b","


def _hash(last_hash: str, content: bytes) -> str:
    return hashlib.sha256(_begun(last_hash) + content).hexdigest()


UNKNOWN_TO_HEAD = "the head file beside the key file does not know this ledger"
_UNSIGNED = "the head file beside the key file has no signature, "
_RESTORE = "Restore it from the backup, or copy it from the machine that released last"


def fits(db: sa.Connection, head: Head, signature: Signature | None) -> bool:
    """Checks whether the head file knows this ledger.

    Raises LedgerError if the remembered entry is missing, or for an unsigned head: that is accepted only where it knows
    the ledger, and no entry says that the head is signed.
    """
    remembered = head.read_all().get(genesis(db) or "")
    if remembered is None:
        if signature and not head.is_signed():
            raise LedgerError(f"{_UNSIGNED}and does not know this ledger: it was made for another one. {_RESTORE}")
        return False
    check_unsigned(remembered, of_accounts(db), signature)  # raises if an entry says that the head is signed
    hash_now = db.execute(sa.select(ENTRY.c.hash).where(ENTRY.c.seq == remembered["sequence"])).scalar()
    if hash_now != remembered["hash"]:
        raise LedgerError(
            f"the ledger was rolled back or replaced: entry {remembered['sequence']}, seen before, is not in it"
        )
    return True


def check_unsigned(remembered: RememberedHead, about: Sequence[Entry], signature: Signature | None) -> None:
    """Refuses an unsigned head if a ledger's entries `about` accounts record a signed one."""
    accounts = own_accounts(about, signature) if signature else set()  # this key's, which a forged head may leave out
    if remembered.get("is_unsigned") and head_is_signed(about, {*remembered["accounts"], *accounts}):
        raise LedgerError(
            f"{_UNSIGNED}and the ledger says that its head is signed: it is forged, or an older copy. {_RESTORE}"
        )


def is_unsigned(db: sa.Connection, head: Head) -> bool:
    """Checks whether the head's entry of this ledger is an older version's, unsigned."""
    remembered = head.read_all().get(genesis(db) or "")
    return bool(remembered and remembered.get("is_unsigned"))


def must_know(db: sa.Connection, signature: Signature | None) -> bool:
    """Checks whether this key's accounts have entries, openings aside, which the head must know."""
    if signature is None:
        return False
    is_own = ENTRY.c.account.in_(own_accounts(of_accounts(db), signature))
    return db.execute(sa.select(ENTRY.c.seq).where(is_own, ENTRY.c.kind != "account").limit(1)).first() is not None


def describe_head(db: sa.Connection, head: Head, signature: Signature | None) -> str:
    """Describes whether the head file fits. Raises LedgerError."""
    if not head.exists():
        return "there is no head file here: that the ledger was not put back to an older state was not looked at"
    if not fits(db, head, signature):
        return UNKNOWN_TO_HEAD
    if is_unsigned(db, head):
        return "the head file has no signature: it is of an older version, and the next release signs it"
    if signature is None:
        return "the head file fits; its signature was not compared: that needs the key (--key)"
    return "the head file fits, and its signature was compared with the key"
