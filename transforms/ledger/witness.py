"""Comparison with the head file, which detects rolled-back ledgers."""

from collections.abc import Sequence

import sqlalchemy as sa

from transforms.ledger import chain
from transforms.ledger.chain import ENTRY, Entry, Signature
from transforms.ledger.head import Head, LedgerError, RememberedHead

UNKNOWN_TO_HEAD = "the head file beside the key file does not know this ledger"
_UNSIGNED = "the head file beside the key file has no signature, "
_RESTORE = "Restore it from the backup, or copy it from the machine that released last"


def fits(db: sa.Connection, head: Head, signature: Signature | None) -> bool:
    """Checks whether the head file knows this ledger.

    Raises LedgerError if the remembered entry is missing, or for an unsigned head: that is accepted only where it knows
    the ledger, and no entry says that the head is signed.
    """
    remembered = head.read_all().get(chain.genesis(db) or "")
    if remembered is None:
        if signature and not head.is_signed():
            raise LedgerError(f"{_UNSIGNED}and does not know this ledger: it was made for another one. {_RESTORE}")
        return False
    check_unsigned(remembered, chain.of_accounts(db), signature)
    there = db.execute(sa.select(ENTRY.c.hash).where(ENTRY.c.seq == remembered["sequence"])).scalar()
    if there != remembered["hash"]:
        raise LedgerError(
            f"the ledger was rolled back or replaced: entry {remembered['sequence']}, seen before, is not in it"
        )
    return True


def check_unsigned(remembered: RememberedHead, of_accounts: Sequence[Entry], signature: Signature | None) -> None:
    """Refuses an unsigned head once entries record signed ones."""
    accounts = chain.own_accounts(of_accounts, signature) if signature else set()
    if remembered.get("is_unsigned") and chain.head_is_signed(of_accounts, {*remembered["accounts"], *accounts}):
        raise LedgerError(
            f"{_UNSIGNED}and the ledger says that its head is signed: it is forged, or an older copy. {_RESTORE}"
        )


def is_unsigned(db: sa.Connection, head: Head) -> bool:
    """Checks whether this ledger's head entry is unsigned."""
    remembered = head.read_all().get(chain.genesis(db) or "")
    return bool(remembered and remembered.get("is_unsigned"))


def must_know(db: sa.Connection, signature: Signature | None) -> bool:
    """Checks whether the head file must know this ledger."""
    if signature is None:
        return False
    is_own = ENTRY.c.account.in_(chain.own_accounts(chain.of_accounts(db), signature))
    return db.execute(sa.select(ENTRY.c.seq).where(is_own, ENTRY.c.kind != "account").limit(1)).first() is not None


def said(db: sa.Connection, head: Head, signature: Signature | None) -> str:
    """Formats the head's entry for people. Raises LedgerError."""
    if not head.exists():
        return "there is no head file here: that the ledger was not put back to an older state was not looked at"
    if not fits(db, head, signature):
        return UNKNOWN_TO_HEAD
    if is_unsigned(db, head):
        return "the head file has no signature: it is of an older version, and the next release signs it"
    if signature is None:
        return "the head file fits; its signature was not compared: that needs the key (--key)"
    return "the head file fits, and its signature was compared with the key"
