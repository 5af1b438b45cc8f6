"""A ledger that is only looked at, what is no ledger at all, and how a file keeps a commit."""

from contextlib import closing

import pytest

from tests.transforms.ledger.entries import ACCOUNT, files_of, look_at, record, tamper, unit
from transforms.ledger.databases import SqliteFile, database_of
from transforms.ledger.head import LedgerError
from transforms.ledger.ledger import Ledger


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
