"""Whoever may write to the ledger but has no key cannot add an entry that a release or a check would take.

On both databases; what a run knew is kept and signed there too.
"""

import json
from contextlib import suppress
from dataclasses import replace

import msgspec
import pytest

from tests.transforms.ledger.entries import ACCOUNT, opened, record, tamper, unit
from transforms.ledger import chain
from transforms.ledger.chain import Signature
from transforms.ledger.head import Head, LedgerError
from transforms.ledger.ledger import Ledger
from transforms.recorded.units import encode

OURS = Signature(b"k" * 32, ACCOUNT.key_check)


@pytest.fixture
def place(ledger_url, tmp_path):
    return ledger_url, tmp_path / "key.head"


@pytest.fixture
def signed(place):
    """A ledger with one release, signed from its first entry on."""
    url, head = place
    opened(url, head, signature=OURS)
    ledger = Ledger(url, head, OURS)
    record(ledger, unit())
    return ledger


def forge(ledger, signature, *units):
    """Adds releases to the chain as somebody would who can write to the database."""
    with ledger._engine.begin() as db:
        for forged in units:
            entry = {"kind": "release", "account": "city", "epsilon": "0", "body": json.dumps(as_stored(forged))}
            place = {"spec_id": forged.spec_id, "period": forged.period, "slot_s": forged.slot_s, "shard": forged.shard}
            release_id = f"{forged.spec_id}/{forged.slot_s}/{forged.shard}"
            chain.append(db, signature, entry | place | {"release_id": release_id})


def as_stored(unit):
    return msgspec.json.decode(encode(unit))


@pytest.mark.parametrize("signature", [None, Signature(b"x" * 32, ACCOUNT.key_check)], ids=["none", "another key's"])
def test_a_forged_release_is_neither_whole_nor_published(signed, signature):
    forge(signed, signature, unit(3600, integer=0))
    with pytest.raises(LedgerError, match="entry 4 of the ledger was written without the account's key"):
        signed.verify()
    with pytest.raises(LedgerError, match="forged"):
        record(signed, unit(3600, integer=9))
    with pytest.raises(LedgerError, match="forged"):
        signed.released("a", "day 1")


@pytest.mark.parametrize("body", ["[]", '{"name": [], "units": "x"}'])
def test_a_forged_entry_of_any_form_is_a_refusal_and_never_an_internal_error(signed, body):
    forged = {"account": "city", "spec_id": "a", "period": "day 1", "slot_s": 7200, "shard": 0, "body": body}
    with signed._engine.begin() as db:
        chain.append(db, None, *(forged | {"kind": kind} for kind in ("limit", "release", "spec", "redrawn", "note")))
    with pytest.raises(LedgerError, match="forged"):
        signed.verify()
    for look in (signed.accounts, lambda: signed.spent("city"), lambda: signed.audit("city")):
        with suppress(LedgerError):
            look()
    with suppress(LedgerError):
        signed.noted("city", "a", "day 1")


def test_without_the_key_the_check_says_what_it_could_not_compare(signed, place):
    assert signed.verify() == (3, 3, 3)
    assert Ledger(*place).verify() == (3, 3, 0)
    forge(signed, None, unit(3600))
    with pytest.raises(LedgerError, match="entry 4"):  # that a signature is missing needs no key
        Ledger(*place).verify()


def test_a_ledger_from_before_signatures_goes_on_and_is_marked_once(place):
    url, head = place
    before = opened(url, head)
    record(before, unit())
    ledger = Ledger(url, head, OURS)
    assert ledger.verify() == (3, 0, 0)
    record(ledger, unit(3600))
    record(ledger, unit(7200))
    kinds = " ".join(entry["kind"] for entry in ledger.entries())
    assert kinds == "account spec release signed release release"
    assert ledger.verify() == (6, 3, 3)
    assert [u.slot_s for u in ledger.released("a", "day 1")] == [0, 3600, 7200]
    forge(ledger, None, unit(10_800))
    with pytest.raises(LedgerError, match="entry 7"):
        ledger.verify()


def test_accounts_of_another_key_are_left_to_who_has_it(signed, place):
    url, head = place
    theirs = Signature(b"t" * 32, "ff")
    Head(head.with_name("their.head"), theirs).write({})
    Ledger(url, head.with_name("their.head"), theirs).open_account(replace(ACCOUNT, name="town", key_check="ff"))
    assert signed.verify() == (4, 4, 3)


def test_a_signature_that_does_not_fit_is_found(signed):
    tamper(signed, "update entry set hash = substr(hash, 1, 65) || 'z' || substr(hash, 67) where seq = 3")
    with pytest.raises(LedgerError, match="entry 3"):
        signed.verify_chain()


def test_what_a_run_knew_is_kept_and_signed(signed, place):
    assert signed.noted("city", "a", "day 1") is None
    for facts in ({"most": "3"}, {"most": "4"}):
        signed.note("city", "a", "day 1", facts)
    assert signed.noted("city", "a", "day 1") == {"most": "4"}
    assert signed.verify() == (5, 5, 5)
    with pytest.raises(LedgerError, match="is signed: without the account's key it stays"):
        Ledger(*place).note("city", "a", "day 1", {"most": "0"})
    with pytest.raises(LedgerError, match="entry 6 of the ledger was written without the account's key"):
        signed.noted("city", "a", "day 1")


def test_a_draw_that_lost_is_noted_and_signed(signed):
    record(signed, unit(integer=8))
    assert signed.audit("city") == (0, 1)
    assert [entry["kind"] for entry in signed.entries()][-1] == "redrawn"
    assert signed.verify() == (4, 4, 4)
    tamper(signed, "update entry set body = :body where kind = 'redrawn'", body='{"units":0}')
    with pytest.raises(LedgerError, match="entry 4"):
        signed.verify()


def test_no_key_is_shown():
    assert "kkk" not in repr(OURS)


REWRITES = {
    "sqlite": [
        "CREATE TRIGGER cheaper AFTER INSERT ON entry BEGIN UPDATE entry SET epsilon = '0' WHERE seq = new.seq; END"
    ],
    "postgresql": [
        "CREATE FUNCTION cheaper() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.epsilon := '0'; RETURN NEW; END $$",
        "CREATE TRIGGER cheaper BEFORE INSERT ON entry FOR EACH ROW EXECUTE FUNCTION cheaper()",
    ],
}


def test_a_database_that_rewrites_debits_keeps_no_release_at_all(signed):
    with signed._engine.begin() as db:
        for statement in REWRITES[db.dialect.name]:
            db.exec_driver_sql(statement)
    with pytest.raises(LedgerError, match="does it have a trigger"):
        record(signed, unit(3600, integer=9))
    assert signed.released("a", "day 1") == [unit()]
    signed.verify()
