"""The ledger: accounts, write-once slots, limits, its chain and its head."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from fractions import Fraction

import pytest

from transforms.head import Head, LedgerError
from transforms.ledger import Account, AccountRefusal, Ledger
from transforms.seal import Released, Sealed

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


@pytest.fixture
def ledger(tmp_path):
    Head(tmp_path / "key.head").create()
    book = Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}", tmp_path / "key.head")
    book.create()
    book.open_account(ACCOUNT)
    return book


def unit(slot_s=0, *, epsilon="1", integer=7, digest="d", spec_id="a", period="day 1", shard=0, plan=PLAN):
    return Sealed(
        spec_id=spec_id,
        period=period,
        slot_s=slot_s,
        slot_start="2026-01-01T00:00:00+00:00",
        slot_end="2026-01-01T01:00:00+00:00",
        shard=shard,
        epsilon_hat="1",
        epsilon_slot=epsilon,
        unit="km/h",
        released=[Released("872830828ffffff", "mean", "baseline", plan, [integer])],
        digest=digest,
    )


def record(book, *units, limit=3):
    return book.record("city", Fraction(limit), "name", "{}", units)


def test_the_first_writer_wins_and_a_second_run_gets_what_was_recorded(ledger):
    first = record(ledger, unit(integer=7))
    second = record(ledger, unit(integer=8), unit(3600, integer=9))
    assert (first.new, second.new, second.changed) == (1, 1, 0)
    assert [u.released[0].integers for u in second.sealed] == [[7], [9]]
    assert [spent.epsilon for spent in ledger.spent("city")] == [2]


def test_other_input_is_an_audit_event_once_and_never_a_second_release(ledger):
    record(ledger, unit(integer=7))
    for _ in range(3):
        again = record(ledger, unit(integer=8, digest="other"))
        assert (again.changed, again.sealed[0].released[0].integers) == (1, [7])
    assert ledger.audit_events("city") == 1


def test_another_plan_for_the_same_input_is_an_audit_event_too(ledger):
    record(ledger, unit())
    assert record(ledger, unit(plan={**PLAN, "scale": "1"})).changed == 1


def test_a_period_over_the_limit_is_refused_whole(ledger):
    record(ledger, unit(0, epsilon="2"))
    with pytest.raises(AccountRefusal):
        record(ledger, unit(3600, epsilon="1"), unit(7200, epsilon="1/1000"))
    assert [spent.epsilon for spent in ledger.spent("city")] == [2]
    assert record(ledger, unit(3600, epsilon="1")).new == 1


def test_what_is_recorded_already_is_returned_even_when_nothing_is_left(ledger):
    record(ledger, unit(epsilon="3"))
    assert record(ledger, unit(epsilon="3")).new == 0


def test_specifications_on_one_account_share_its_limit_and_periods_do_not(ledger):
    record(ledger, unit(epsilon="3"))
    with pytest.raises(AccountRefusal):
        record(ledger, unit(spec_id="b", epsilon="1"))
    assert record(ledger, unit(86_400, period="day 2", epsilon="3")).new == 1


def test_the_shards_of_a_slot_share_one_debit(ledger):
    record(ledger, unit(epsilon="3", shard=0), unit(epsilon="3", shard=1))
    assert [spent.epsilon for spent in ledger.spent("city")] == [3]


def test_an_empty_slot_is_sealed_too(ledger):
    empty = unit(epsilon="0")
    empty = type(empty)(**{f: getattr(empty, f) for f in empty.__struct_fields__} | {"released": []})
    assert record(ledger, empty).new == 1
    assert record(ledger, unit(digest="d")).sealed[0].released == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("unit", "vehicle-week"),
        ("timezone", "Asia/Kolkata"),
        ("adjacency", "add-remove"),
        ("limit", "4"),
        ("key_check", "11"),
    ],
)
def test_an_account_keeps_what_it_was_opened_with(ledger, field, value):
    asked = replace(ACCOUNT, **{field: value})
    for attempt in (ledger.open_account, ledger.check_account):
        with pytest.raises(AccountRefusal, match="city"):
            attempt(asked)


def test_a_limit_may_be_lowered_and_then_stays_low(ledger):
    assert ledger.open_account(replace(ACCOUNT, limit="5/2")) == "limit lowered"
    assert ledger.limit("city", Fraction(3)) == Fraction(5, 2)
    assert ledger.limit("city", Fraction(2)) == 2
    with pytest.raises(AccountRefusal, match=r"2\.5"):
        ledger.open_account(ACCOUNT)


def test_a_limit_that_is_lowered_during_a_release_holds_for_it(ledger):
    ledger.open_account(replace(ACCOUNT, limit="1"))
    assert ledger.excess("city", Fraction(3), {"day 1": {("a", 0): Fraction(2)}}) == ["day 1"]
    with pytest.raises(AccountRefusal, match="limit 1 "):
        record(ledger, unit(epsilon="2"), limit=3)
    assert ledger.spent("city") == []


def test_an_account_that_was_never_opened_has_no_budget(ledger):
    with pytest.raises(AccountRefusal, match="init"):
        ledger.check_account(replace(ACCOUNT, name="other"))


def test_a_tampered_entry_is_found(ledger, tmp_path):
    record(ledger, unit())
    record(ledger, unit(3600))
    assert ledger.verify() == 4
    with closing(sqlite3.connect(tmp_path / "ledger.sqlite")) as db, db:
        db.execute("update entry set epsilon = '1/2' where seq = 3")
    with pytest.raises(LedgerError, match="entry 3"):
        ledger.verify()


def test_a_removed_entry_is_found(ledger, tmp_path):
    record(ledger, unit())
    record(ledger, unit(3600))
    with closing(sqlite3.connect(tmp_path / "ledger.sqlite")) as db, db:
        db.execute("delete from entry where seq = 3")
    with pytest.raises(LedgerError):
        ledger.verify()


def test_a_rolled_back_copy_is_found_at_the_start(ledger, tmp_path):
    path = tmp_path / "ledger.sqlite"
    record(ledger, unit())
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("pragma wal_checkpoint(truncate)")
    copy = path.read_bytes()
    record(ledger, unit(3600))
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("pragma wal_checkpoint(truncate)")
    path.write_bytes(copy)
    with pytest.raises(LedgerError, match="rolled back"):
        ledger.check_head()


def test_a_head_that_lags_behind_is_fine_because_a_kill_may_come_between(ledger, tmp_path):
    head = (tmp_path / "key.head").read_bytes()
    record(ledger, unit())
    (tmp_path / "key.head").write_bytes(head)
    ledger.check_head()
    assert record(ledger, unit()).new == 0


@pytest.mark.usefixtures("ledger")
def test_a_fresh_ledger_is_no_fresh_budget(tmp_path):
    fresh = Ledger(f"sqlite:///{tmp_path / 'fresh.sqlite'}", tmp_path / "key.head")
    fresh.create()
    with pytest.raises(AccountRefusal, match="another ledger"):
        fresh.open_account(ACCOUNT)


def test_a_fresh_ledger_that_another_head_knows_is_refused_beside_the_first_head(ledger, tmp_path):
    Head(tmp_path / "copy.head").create()
    url = f"sqlite:///{tmp_path / 'fresh.sqlite'}"
    other = Ledger(url, tmp_path / "copy.head")
    other.create()
    other.open_account(ACCOUNT)
    fresh = Ledger(url, tmp_path / "key.head")
    for attempt in (fresh.open_account, fresh.check_account):
        with pytest.raises(AccountRefusal, match="another ledger"):
            attempt(ACCOUNT)
    with pytest.raises(LedgerError, match="does not know this ledger"):
        fresh.verify()
    ledger.check_account(ACCOUNT)


def test_accounts_on_several_ledgers_may_share_a_key(ledger, tmp_path):
    more = replace(ACCOUNT, name="more")
    second = Ledger(f"sqlite:///{tmp_path / 'second.sqlite'}", tmp_path / "key.head")
    second.create()
    assert second.open_account(more) == "created"
    assert ledger.open_account(replace(ACCOUNT, name="third")) == "created"
    for book, account in ((ledger, ACCOUNT), (second, more)):
        assert book.open_account(account) == "unchanged"
        book.check_account(account)
        book.verify()


def test_an_account_is_opened_in_one_of_two_ledgers_even_at_the_same_time(tmp_path):
    head = Head(tmp_path / "key.head")
    head.create()
    head.advance("one", 1, "h", "city")
    with pytest.raises(LedgerError, match="another ledger"):
        head.advance("two", 1, "h", "city")


def test_without_its_head_file_a_ledger_is_not_used(ledger, tmp_path):
    (tmp_path / "key.head").unlink()
    for attempt in (ledger.check_head, ledger.verify, lambda: ledger.open_account(ACCOUNT)):
        with pytest.raises(LedgerError, match="missing"):
            attempt()


def test_an_init_that_was_killed_before_the_head_knew_of_it_is_run_again(ledger, tmp_path):
    Head(tmp_path / "key.head").create()
    with pytest.raises(AccountRefusal, match="init"):
        ledger.check_account(ACCOUNT)
    assert ledger.open_account(ACCOUNT) == "unchanged"
    ledger.check_account(ACCOUNT)


def files_of(folder):
    return {path.name: (path.stat().st_mode, path.read_bytes()) for path in folder.iterdir()}


def look_at(folder):
    book = Ledger(f"sqlite:///{folder / 'ledger.sqlite'}", folder / "key.head", read_only=True)
    return book.verify(), [account.name for account in book.accounts()], [s.epsilon for s in book.spent("city")]


def test_looking_at_the_ledger_changes_no_file_and_stands_in_nobodys_way(ledger, tmp_path):
    record(ledger, unit())
    before = files_of(tmp_path)
    assert look_at(tmp_path) == (3, ["city"], [1])
    after = files_of(tmp_path)
    assert {name: after[name] for name in before} == before
    usual = before["ledger.sqlite"][0]
    assert {mode for name, (mode, _) in after.items() if name not in before} <= {usual}
    assert record(ledger, unit(3600)).new == 1


def test_looking_at_a_ledger_that_nobody_may_write_makes_no_file_beside_it(ledger, tmp_path):
    record(ledger, unit())
    (tmp_path / "ledger.sqlite").chmod(0o444)
    before = files_of(tmp_path)
    assert look_at(tmp_path) == (3, ["city"], [1])
    assert files_of(tmp_path) == before
    (tmp_path / "ledger.sqlite").chmod(0o644)
    assert record(ledger, unit(3600)).new == 1


def test_looking_at_the_ledger_waits_for_no_writer_and_sees_what_is_committed(ledger, tmp_path):
    record(ledger, unit())
    with closing(sqlite3.connect(tmp_path / "ledger.sqlite", isolation_level=None)) as db:
        db.execute("begin immediate")
        assert look_at(tmp_path) == (3, ["city"], [1])
        db.execute("commit")


def test_a_ledger_that_this_user_may_not_write_is_refused_before_a_file_is_made_beside_it(
    ledger, tmp_path, monkeypatch
):
    before = files_of(tmp_path)
    monkeypatch.setattr("transforms.ledger.os.access", lambda *_: False)
    with pytest.raises(LedgerError, match="may not write"):
        record(ledger, unit())
    assert files_of(tmp_path) == before


def test_a_ledger_opened_to_look_at_cannot_be_written(ledger, tmp_path):
    reader = Ledger(ledger.url, tmp_path / "key.head", read_only=True)
    with pytest.raises(LedgerError, match="readonly"):
        record(reader, unit())


@pytest.mark.parametrize("body", ["{}", "not JSON", '{"released": 3}'])
def test_a_damaged_entry_is_told_without_its_content(ledger, tmp_path, body):
    record(ledger, unit())
    with closing(sqlite3.connect(tmp_path / "ledger.sqlite")) as db, db:
        db.execute("update entry set body = ? where kind = 'release'", (body,))
    with pytest.raises(LedgerError, match="damaged") as caught:
        record(ledger, unit())
    assert "ledger.sqlite" in str(caught.value)
    assert body not in str(caught.value)


def test_a_corrupt_database_is_refused_without_its_content(tmp_path):
    (tmp_path / "ledger.sqlite").write_bytes(b"KA01AB1234" * 1000)
    book = Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}", tmp_path / "key.head")
    with pytest.raises(LedgerError) as caught:
        book.check_account(ACCOUNT)
    assert "KA01" not in str(caught.value)
    assert f"the ledger {tmp_path / 'ledger.sqlite'} is not usable" in str(caught.value)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://user:secret@localhost/x", "'postgresql' is not supported yet"),
        ("sqlite+foo:///x", "'sqlite\\+foo' is not supported yet"),
        ("://x", "URL"),
        ("sqlite:///:memory:", "outlives"),
        ("sqlite://", "outlives"),
    ],
)
def test_what_cannot_be_a_ledger_is_refused_by_name(tmp_path, url, said):
    with pytest.raises(LedgerError, match=said) as caught:
        Ledger(url, tmp_path / "head")
    assert "secret" not in str(caught.value)
