"""The ledger: accounts, write-once slots, limits, its chain and its head; on both databases where that may matter."""

from contextlib import closing
from dataclasses import replace
from fractions import Fraction

import pytest
from msgspec import structs

from dpops.accountant import PureLimit
from dpops.claims import PureDP
from tests.transforms.ledger.entries import ACCOUNT, PLAN, files_of, look_at, opened, record, tamper, unit, whole
from transforms import atomic_files
from transforms.ledger.databases import SqliteFile, database_of
from transforms.ledger.head import Head, LedgerError
from transforms.ledger.ledger import Ledger
from transforms.ledger.spending import AccountRefusal
from transforms.recorded.units import Debit, UnitKey, decode, encode


def test_the_first_writer_wins_and_a_second_run_gets_what_was_recorded(ledger):
    first = record(ledger, unit(integer=7))
    second = record(ledger, unit(integer=8), unit(3600, integer=9))
    assert (first.new, second.new, second.changed, second.redrawn) == (1, 1, 0, 1)
    assert [u.released[0].integers for u in second.units] == [[7], [9]]
    assert [spent.epsilon for spent in ledger.spent("city")] == [2]


def test_other_input_is_an_audit_event_once_and_never_a_second_release(ledger):
    record(ledger, unit(integer=7))
    for _ in range(3):
        again = record(ledger, unit(integer=8, digest="other"))
        assert (again.changed, again.units[0].released[0].integers) == (1, [7])
    assert ledger.audit("city") == (1, 3)


def test_what_is_recorded_comes_with_the_place_of_its_entry_in_the_chain(in_file):
    first = record(in_file, unit(3600), unit(0))
    again = record(in_file, unit(0), unit(3600), unit(7200))
    assert again.sequences == [*reversed(first.sequences), max(again.sequences)]
    kept = {entry["seq"]: entry["slot_s"] for entry in in_file.entries() if entry["kind"] == "release"}
    assert [kept[sequence] for sequence in again.sequences] == [0, 3600, 7200]


def test_every_draw_that_lost_is_counted_and_the_same_one_offered_again_is_none(ledger):
    record(ledger, unit(integer=7), unit(3600, integer=7))
    assert record(ledger, unit(integer=7)).redrawn == 0
    for lost in (8, 9):
        record(ledger, unit(integer=lost), unit(3600, integer=lost))
    record(ledger, unit(integer=7), unit(3600, integer=8), unit(7200, integer=8))
    assert ledger.audit("city") == (0, 5)
    assert "8" not in "".join(entry["body"] for entry in ledger.entries() if entry["kind"] == "redrawn")


def test_another_plan_for_the_same_input_is_an_audit_event_too(in_file):
    record(in_file, unit())
    assert record(in_file, unit(plan={**PLAN, "scale": "1"})).changed == 1
    assert record(in_file, unit(plan={name: PLAN[name] for name in PLAN if name != "scale"})).changed == 1


def test_a_period_over_the_limit_is_refused_whole(in_file):
    record(in_file, unit(0, epsilon="2"))
    with pytest.raises(AccountRefusal):
        record(in_file, unit(3600, epsilon="1"), unit(7200, epsilon="1/1000"))
    assert [spent.epsilon for spent in in_file.spent("city")] == [2]
    assert record(in_file, unit(3600, epsilon="1")).new == 1


def test_what_is_recorded_already_is_returned_even_when_nothing_is_left(in_file):
    record(in_file, unit(epsilon="3"))
    assert record(in_file, unit(epsilon="3")).new == 0


def test_specifications_on_one_account_share_its_limit_and_periods_do_not(in_file):
    record(in_file, unit(epsilon="3"))
    with pytest.raises(AccountRefusal):
        record(in_file, unit(spec_id="b", epsilon="1"))
    assert record(in_file, unit(86_400, period="day 2", epsilon="3")).new == 1


def test_the_shards_of_a_slot_share_one_debit(ledger):
    record(ledger, unit(epsilon="3", shard=0), unit(epsilon="3", shard=1))
    assert [spent.epsilon for spent in ledger.spent("city")] == [3]


def test_a_period_planned_as_a_whole_has_one_debit(in_file):
    record(in_file, *whole(0, 3600, 7200))
    assert [spent.epsilon for spent in in_file.spent("city")] == [2]


@pytest.mark.parametrize("later", [(0, 3600), (0, 3600, 7200, 10800), (10800,)])
def test_a_period_planned_as_a_whole_takes_no_other_slots_and_no_part_is_released_again(in_file, later):
    record(in_file, *whole(0, 3600, 7200))
    with pytest.raises(AccountRefusal, match="planned and sealed as a whole with 3 slots"):
        record(in_file, *whole(*later, epsilon="0"))
    assert record(in_file, *whole(0, 3600, 7200)).new == 0


def test_slots_of_a_plan_that_divides_a_total_never_debit_more_than_that(in_file):
    halves = [unit(slot_s, epsilon="1/2", plan={**PLAN, "epsilon": "1/2"}) for slot_s in (0, 3600, 7200)]
    parts = [structs.replace(half, per_hat=PureDP(Fraction(1, 2)), total=PureDP(Fraction(1))) for half in halves]
    record(in_file, *parts[:2])
    with pytest.raises(LedgerError, match="more than the total that the plan divides"):
        record(in_file, parts[2])
    assert [spent.epsilon for spent in in_file.spent("city")] == [1]


TERMS = {"unit": "vehicle-week", "timezone": "Asia/Kolkata", "adjacency": "add-remove", "limit": "4", "key_check": "1"}


@pytest.mark.parametrize("field", TERMS)
def test_an_account_keeps_what_it_was_opened_with(in_file, field):
    asked = replace(ACCOUNT, **{field: TERMS[field]})
    for attempt in (in_file.open_account, in_file.check_account):
        with pytest.raises(AccountRefusal, match="city"):
            attempt(asked)


def test_a_second_shard_that_debits_more_than_the_first_is_held_to_the_limit(in_file):
    record(in_file, unit(epsilon="0", plan=None))
    with pytest.raises(AccountRefusal, match="limit 3 "):
        record(in_file, structs.replace(unit(epsilon="500"), shard=1))
    record(in_file, structs.replace(unit(epsilon="3"), shard=1))
    assert [spent.epsilon for spent in in_file.spent("city")] == [3]


def test_a_limit_may_be_lowered_and_then_stays_low(ledger):
    assert ledger.open_account(replace(ACCOUNT, limit="5/2")) == "limit lowered"
    assert ledger.limit("city", PureLimit(Fraction(3))) == PureLimit(Fraction(5, 2))
    assert ledger.limit("city", PureLimit(Fraction(2))) == PureLimit(Fraction(2))
    with pytest.raises(AccountRefusal, match=r"2\.5"):
        ledger.open_account(ACCOUNT)


def test_a_limit_that_is_lowered_during_a_release_holds_for_it(in_file):
    in_file.open_account(replace(ACCOUNT, limit="1"))
    assert in_file.excess(
        "city", PureLimit(Fraction(3)), {"day 1": [Debit(UnitKey("a", 0, 0), PureDP(Fraction(2)))]}
    ) == ["day 1"]
    with pytest.raises(AccountRefusal, match="limit 1 "):
        record(in_file, unit(epsilon="2"), limit=3)
    assert in_file.spent("city") == []


def test_an_account_that_was_never_opened_has_no_budget(in_file):
    with pytest.raises(AccountRefusal, match="init"):
        in_file.check_account(replace(ACCOUNT, name="other"))


@pytest.mark.parametrize("change", ["update entry set epsilon = '1/2'", "delete from entry"])
def test_an_entry_that_was_changed_or_removed_is_found_by_its_number(ledger, change):
    record(ledger, unit())
    record(ledger, unit(3600))
    assert ledger.verify().entries == 4
    tamper(ledger, f"{change} where seq = 3")
    with pytest.raises(LedgerError, match="entry 3"):
        ledger.verify()


def test_a_tail_that_was_cut_off_is_found_by_what_the_head_remembers(ledger):
    record(ledger, unit())
    record(ledger, unit(3600))
    tamper(ledger, "delete from entry where seq = 4")
    assert ledger.verify_chain().entries == 3
    for attempt in (ledger.check_head, ledger.verify, lambda: record(ledger, unit(7200))):
        with pytest.raises(LedgerError, match="rolled back or replaced: entry 4"):
            attempt()


def test_a_rolled_back_copy_of_a_file_is_found_at_the_start(in_file, tmp_path):
    path = tmp_path / "ledger.sqlite"
    record(in_file, unit())
    tamper(in_file, "pragma wal_checkpoint(truncate)")
    copy = path.read_bytes()
    record(in_file, unit(3600))
    tamper(in_file, "pragma wal_checkpoint(truncate)")
    path.write_bytes(copy)
    with pytest.raises(LedgerError, match="rolled back"):
        in_file.check_head()


def test_an_older_copy_of_a_server_s_database_is_found_at_the_start(postgres, tmp_path):
    url, copy = postgres.new_database(), postgres.new_database()
    ledger = opened(url, tmp_path / "key.head")
    record(ledger, unit())
    now, older = (one.rpartition("/")[2] for one in (url, copy))
    postgres.execute(f"drop database {older}")
    postgres.execute(f"create database {older} template {now}")
    record(ledger, unit(3600))
    postgres.execute(f"drop database {now}")
    postgres.execute(f"alter database {older} rename to {now}")
    with pytest.raises(LedgerError, match="rolled back"):
        ledger.check_head()


def test_a_head_that_lags_behind_is_fine_because_a_kill_may_come_between(in_file, tmp_path):
    head = (tmp_path / "key.head").read_bytes()
    record(in_file, unit())
    (tmp_path / "key.head").write_bytes(head)
    in_file.check_head()
    assert record(in_file, unit()).new == 0


@pytest.mark.usefixtures("ledger")
def test_a_fresh_ledger_is_no_fresh_budget(another_url, tmp_path):
    fresh = Ledger(another_url, tmp_path / "key.head")
    fresh.create()
    with pytest.raises(AccountRefusal, match="another ledger"):
        fresh.open_account(ACCOUNT)


def test_a_fresh_ledger_that_another_head_knows_is_refused_beside_the_first_head(ledger, another_url, tmp_path):
    opened(another_url, tmp_path / "copy.head")
    fresh = Ledger(another_url, tmp_path / "key.head")
    for attempt in (fresh.open_account, fresh.check_account):
        with pytest.raises(AccountRefusal, match="another ledger"):
            attempt(ACCOUNT)
    with pytest.raises(LedgerError, match="does not know this ledger"):
        fresh.verify()
    ledger.check_account(ACCOUNT)


def test_accounts_on_several_ledgers_may_share_a_key(ledger, another_url, tmp_path):
    more = replace(ACCOUNT, name="more")
    second = Ledger(another_url, tmp_path / "key.head")
    second.create()
    assert second.open_account(more) == "created"
    assert ledger.open_account(replace(ACCOUNT, name="third")) == "created"
    for book, account in ((ledger, ACCOUNT), (second, more)):
        assert book.open_account(account) == "unchanged"
        book.check_account(account)
        book.verify()


def test_an_account_is_opened_in_one_of_two_ledgers_even_at_the_same_time(tmp_path):
    head = Head(tmp_path / "key.head")
    head.write({})
    head.advance("one", 1, "h", "city")
    with pytest.raises(LedgerError, match="another ledger"):
        head.advance("two", 1, "h", "city")


def test_without_its_head_file_a_ledger_is_not_used(in_file, tmp_path):
    (tmp_path / "key.head").unlink()
    for attempt in (in_file.check_head, in_file.verify, lambda: in_file.open_account(ACCOUNT)):
        with pytest.raises(LedgerError, match="missing"):
            attempt()


def test_an_init_that_was_killed_before_the_head_knew_of_it_is_run_again(in_file, tmp_path):
    Head(tmp_path / "key.head").write({})
    with pytest.raises(AccountRefusal, match="init"):
        in_file.check_account(ACCOUNT)
    assert in_file.open_account(ACCOUNT) == "unchanged"
    in_file.check_account(ACCOUNT)


def test_a_ledger_in_a_file_is_for_its_owner_alone(in_file, tmp_path):
    record(in_file, unit())
    assert {path.stat().st_mode & 0o777 for path in tmp_path.glob("ledger.sqlite*")} == {0o600}


def test_a_folder_that_a_stranger_keeps_locked_is_said_after_a_while(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic_files, "LOCK_S", 0.1)
    too_long = pytest.raises(TimeoutError, match="kept it locked")
    with atomic_files.locked(tmp_path), too_long, atomic_files.locked(tmp_path):
        pass


def test_the_ledger_has_the_text_that_was_encoded_where_a_unit_was_drawn(in_file):
    text = encode(unit(0))
    record(in_file, decode(text), unit(3600))
    bodies = [entry["body"].encode() for entry in in_file.entries() if entry["kind"] == "release"]
    assert bodies == [text, encode(unit(3600))]


# --- A ledger that is only looked at, what is no ledger at all, and how a file keeps a commit. ------------------------


def test_looking_at_the_ledger_changes_no_file_and_stands_in_nobodys_way(in_file, tmp_path):
    record(in_file, unit())
    before = files_of(tmp_path)
    assert look_at(tmp_path) == (3, ["city"], [1])
    after = files_of(tmp_path)
    assert {name: after[name] for name in before} == before
    usual = before["ledger.sqlite"][0]
    assert {mode for name, (mode, _) in after.items() if name not in before} <= {usual}
    assert record(in_file, unit(3600)).new == 1


def test_looking_at_a_ledger_that_nobody_may_write_makes_no_file_beside_it(in_file, tmp_path):
    record(in_file, unit())
    (tmp_path / "ledger.sqlite").chmod(0o444)
    before = files_of(tmp_path)
    assert look_at(tmp_path) == (3, ["city"], [1])
    assert files_of(tmp_path) == before
    (tmp_path / "ledger.sqlite").chmod(0o644)
    assert record(in_file, unit(3600)).new == 1


def test_looking_at_the_ledger_waits_for_no_writer_and_sees_what_is_committed(ledger, tmp_path):
    record(ledger, unit())
    with database_of(ledger.url).engine(read_only=False).begin():
        assert look_at(tmp_path, ledger.url) == (3, ["city"], [1])


def test_a_ledger_that_this_user_may_not_write_is_refused_before_a_file_is_made_beside_it(
    in_file, tmp_path, monkeypatch
):
    before = files_of(tmp_path)
    monkeypatch.setattr("transforms.ledger.databases.os.access", lambda *_: False)
    with pytest.raises(LedgerError, match="may not write"):
        record(in_file, unit())
    assert files_of(tmp_path) == before


def test_a_ledger_opened_to_look_at_cannot_be_written(ledger, tmp_path):
    reader = Ledger(ledger.url, tmp_path / "key.head", read_only=True)
    with pytest.raises(LedgerError, match=r"read-?only"):
        record(reader, unit())


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
        ("mysql://user:secret@localhost/x", "'mysql' is not supported"),
        ("postgresql+psycopg2://user:secret@localhost/x", "'postgresql\\+psycopg2' is not supported"),
        ("sqlite+foo:///x", "'sqlite\\+foo' is not supported"),
        ("://x", "URL"),
        ("postgresql://user:secret@localhost:port/x", "URL"),
        ("postgresql://user:secret@localhost", "names no database"),
        ("postgresql://user:se@cret@localhost/x", "password"),
        ("postgresql://user@localhost/x?password=secret", "password"),
        ("sqlite:///:memory:", "outlives"),
        ("sqlite://", "outlives"),
    ],
)
def test_what_cannot_be_a_ledger_is_refused_by_name(tmp_path, url, said):
    with pytest.raises(LedgerError, match=said) as caught:
        Ledger(url, tmp_path / "head")
    assert "cret" not in str(caught.value)


@pytest.mark.parametrize("body", ["{}", "not JSON", '{"released": 3}'])
def test_a_damaged_entry_is_told_without_its_content(ledger, body):
    record(ledger, unit())
    tamper(ledger, "update entry set body = :body where kind = 'release'", body=body)
    with pytest.raises(LedgerError, match="damaged") as caught:
        record(ledger, unit())
    assert database_of(ledger.url).shown in str(caught.value)
    assert body not in str(caught.value)


def test_a_commit_to_a_file_waits_for_the_disk(tmp_path):
    """Tests that record much do not: tests/kit/quick.py."""
    with closing(SqliteFile(tmp_path / "ledger.sqlite")._connect()) as connection:
        (level,) = connection.execute("PRAGMA synchronous").fetchone()
        (journal,) = connection.execute("PRAGMA journal_mode").fetchone()
    assert (level, journal) == (2, "wal")
