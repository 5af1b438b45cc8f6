"""Who may write to the ledger or to the head file, and has no key, gets no second look and no entry that a check takes.

Each way to try it is also taken against a ledger with one mistake, where it must succeed: else it would prove nothing.
"""

import json
from contextlib import suppress
from dataclasses import replace
from shutil import copy
from unittest.mock import Mock

import msgspec
import pytest

from tests.transforms.ledger.entries import ACCOUNT, opened, record, tamper, unit
from transforms.ledger import chain
from transforms.ledger.chain import Signature
from transforms.ledger.head import Head, LedgerError
from transforms.ledger.ledger import Ledger
from transforms.ledger.spending import AccountRefusal
from transforms.recorded.units import encode

OURS = Signature(b"k" * 32, ACCOUNT.key_check)
THEIRS = Signature(b"t" * 32, "ff")
FIRST, SECOND = 7, 9


class World:
    """A ledger in a file; copies of it and of its head are states of before."""

    def __init__(self, folder, *, is_of_older_version=False):
        self.folder, self.head = folder, folder / "key.head"
        opened(self.url, self.head, signature=None if is_of_older_version else OURS)
        self.copies = 0

    @property
    def url(self):
        return f"sqlite:///{self.folder / 'ledger.sqlite'}"

    @property
    def ledger(self):
        return Ledger(self.url, self.head, OURS)

    def kept(self):
        """The ledger's file as it is now."""
        tamper(self.ledger, "pragma wal_checkpoint(truncate)")
        self.copies += 1
        return copy(self.folder / "ledger.sqlite", self.folder / f"{self.copies}.copy")

    def put_back(self, path):
        for name in ("ledger.sqlite-wal", "ledger.sqlite-shm"):
            (self.folder / name).unlink(missing_ok=True)
        copy(path, self.folder / "ledger.sqlite")

    def roll_back(self):
        """To before its release."""
        before = self.kept()
        record(self.ledger, unit(integer=FIRST))
        self.put_back(before)

    def without_signature(self):
        """The head as who has no key can write it: of the ledger that is there now."""
        entries = list(Ledger(self.url, self.head).entries())
        newest = {"sequence": len(entries), "hash": entries[-1]["hash"], "accounts": ["city"]}
        return {entries[0]["hash"]: newest}

    def write_head(self, document):
        self.head.write_text(json.dumps(document))

    def is_released_again(self):
        """Whether the released slot gets another value, as an operator tries it who does what messages say."""
        with suppress(LedgerError, AccountRefusal):
            self.ledger.open_account(ACCOUNT)
        with suppress(LedgerError, AccountRefusal):
            self.ledger.check_account(ACCOUNT)
            return record(self.ledger, unit(integer=SECOND)).units[0].released[0].integers == [SECOND]
        return False


def rolled_back(world):
    """With a head that has no signature and fits."""
    world.roll_back()
    world.write_head(world.without_signature())


def rolled_back_since_it_was_signed(world):
    """A ledger of an older version, to a state that says its head is signed."""
    record(world.ledger, unit(3600))
    world.roll_back()
    world.write_head(world.without_signature())


def signed_with_another_key(world):
    world.roll_back()
    Head(world.head, THEIRS).write(world.without_signature())


def with_an_empty_ledger(world):
    """Nothing is left that says heads are signed."""
    record(world.ledger, unit(integer=FIRST))
    for path in world.folder.glob("ledger.sqlite*"):
        path.unlink()
    world.write_head({})
    world.ledger.create()


def vouched_for_by_another_ledger(world):
    """The head of an older version knows two ledgers; the other one is used first, and signs the file."""
    url = f"sqlite:///{world.folder / 'other.sqlite'}"
    more = replace(ACCOUNT, name="more")
    other = Ledger(url, world.head)
    other.create()
    other.open_account(more)
    head = json.loads(world.head.read_bytes())
    record(world.ledger, unit(3600))
    world.roll_back()
    world.write_head(head | world.without_signature())
    assert Ledger(url, world.head, OURS).open_account(more) == "unchanged"


def forgotten_through_another_ledger(world):
    """As before, and the forged head does not know the ledger at all: `init` would make it known again."""
    vouched_for_by_another_ledger(world)
    others = {
        ledger: remembered
        for ledger, remembered in Head(world.head).read_all().items()
        if "city" not in remembered["accounts"]
    }
    Head(world.head, OURS).write(others)


def trusts_every_signature(patch):
    patch.setattr("hmac.compare_digest", lambda *_: True)


def takes_every_unsigned_head(patch):
    patch.setattr(chain, "check_unsigned", lambda *_: None)


def takes_an_unsigned_head_of_another_ledger(patch):
    patch.setattr(Head, "is_signed", lambda _: True)


def vouches_for_the_whole_file(patch):
    def vouch(head, _):
        head.write({ledger: {**remembered, "is_unsigned": False} for ledger, remembered in head.read_all().items()})

    patch.setattr(Head, "vouch", vouch)


def makes_any_ledger_known(patch):
    patch.setattr(chain, "must_know", lambda *_: False)


WAYS = [
    (rolled_back, False, takes_every_unsigned_head),
    (rolled_back_since_it_was_signed, True, takes_every_unsigned_head),
    (signed_with_another_key, False, trusts_every_signature),
    (with_an_empty_ledger, False, takes_an_unsigned_head_of_another_ledger),
    (vouched_for_by_another_ledger, True, vouches_for_the_whole_file),
    (forgotten_through_another_ledger, True, makes_any_ledger_known),
]
NAMES = [way.__name__ for way, *_ in WAYS]


@pytest.mark.parametrize(("way", "is_old"), [pair for *pair, _ in WAYS], ids=NAMES)
def test_no_head_that_is_forged_gives_a_second_look(way, is_old, tmp_path):
    world = World(tmp_path, is_of_older_version=is_old)
    way(world)
    assert not world.is_released_again()


@pytest.mark.parametrize(("way", "is_old", "mistake"), WAYS, ids=NAMES)
def test_each_way_finds_its_mistake(way, is_old, mistake, tmp_path, monkeypatch):
    mistake(monkeypatch)
    world = World(tmp_path, is_of_older_version=is_old)
    way(world)
    assert world.is_released_again()


def test_a_head_of_an_older_version_is_taken_once_and_replaced(tmp_path):
    world = World(tmp_path, is_of_older_version=True)
    unsigned = world.head.read_bytes()
    world.ledger.verify()
    assert "no signature: it is of an older version, and the next release signs it" in world.ledger.describe_head()
    record(world.ledger, unit())
    assert Head(world.head, OURS).is_signed()
    assert "was compared with the key" in world.ledger.describe_head()
    world.head.write_bytes(unsigned)
    for attempt in (world.ledger.verify, lambda: record(world.ledger, unit(3600)), world.ledger.describe_head):
        with pytest.raises(LedgerError, match="forged, or an older copy"):
            attempt()


def test_a_kill_between_head_and_ledger_is_no_obstacle_when_an_old_head_is_signed(tmp_path, monkeypatch):
    world = World(tmp_path, is_of_older_version=True)
    for place in ("transforms.ledger.ledger.record_missing", "transforms.ledger.head.Head.advance"):
        monkeypatch.setattr(place, Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            record(world.ledger, unit())
        monkeypatch.undo()
    assert record(world.ledger, unit(integer=SECOND)).new == 0
    world.ledger.verify()


def test_a_head_of_another_account_s_key_is_named_as_one(tmp_path):
    world = World(tmp_path)
    Head(world.head, THEIRS).write({})
    for attempt in (world.ledger.verify, lambda: record(world.ledger, unit())):
        with pytest.raises(LedgerError, match="not signed with the account's key: it is forged, or another key's"):
            attempt()


def test_without_the_key_a_head_is_compared_but_for_its_signature(tmp_path):
    world = World(tmp_path)
    keyless = Ledger(world.url, world.head)
    assert "its signature was not compared" in keyless.describe_head()
    world.write_head(world.without_signature())
    with pytest.raises(LedgerError, match="the ledger says that its head is signed"):
        keyless.verify()
    world.head.unlink()
    assert "there is no head file here" in keyless.describe_head()


@pytest.mark.parametrize(
    "change",
    [
        lambda head: head | {"signature": ""},
        lambda head: head | {"signature": "é"},
        lambda head: head | {"ledgers": {}},
        lambda head: {"ledgers": head["ledgers"]},
        lambda head: head | {"ledgers": 7},
        lambda head: [head],
    ],
)
def test_a_signed_head_that_was_changed_is_an_error_and_never_an_internal_one(change, tmp_path):
    world = World(tmp_path)
    world.write_head(change(json.loads(world.head.read_bytes())))
    for attempt in (world.ledger.verify, lambda: world.ledger.open_account(ACCOUNT), world.ledger.describe_head):
        with pytest.raises(LedgerError, match="head file"):
            attempt()


# --- Signatures, on both databases; what a run knew is kept and signed there too. -------------------------------------


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
