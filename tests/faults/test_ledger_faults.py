"""A ledger file that is full, locked, read-only, corrupt or replaced: nothing is published, and the reason is told."""

import multiprocessing
import os
import resource
import sqlite3
from contextlib import closing

import pytest
import sqlalchemy as sa

from tests import city
from tests.transforms.ledger.entries import opened, record, unit
from transforms.ledger import databases
from transforms.ledger.head import LedgerError
from transforms.ledger.ledger import Ledger


@pytest.fixture
def town(tmp_path, hatstream, monkeypatch):
    """The small city with its account opened; its ledger waits for other writers only for a moment."""
    monkeypatch.setattr(databases, "BUSY_S", 0.2)
    return city.opened(tmp_path, hatstream)


@pytest.fixture
def refused(town, hatstream):
    """Runs a release that must be refused: exit code 4, nothing published, nothing recorded. Returns what it says."""

    def run():
        code, out, err = hatstream(*city.release(town))
        assert (code, out) == (4, "")
        assert not list((town / "out").glob("*"))
        assert "ledger" in err
        assert "internal" not in err
        return err

    return run


@pytest.fixture
def released(town, hatstream):
    """Runs the release again, which must be whole now, and paid for once."""

    def run():
        assert hatstream(*city.release(town))[0] == 0
        assert len(list((town / "out").glob("*"))) == 32
        shown = hatstream("ledger", "show", "--json", "--ledger", town / "ledger.sqlite")[1]
        assert shown.count('"epsilon":9.0') == 2
        assert hatstream("ledger", "verify", "--ledger", town / "ledger.sqlite")[0] == 0

    return run


def changed(folder, *statements):
    with closing(sqlite3.connect(folder / "ledger.sqlite")) as db, db:
        for statement in statements:
            db.execute(statement)


def settled(folder):
    """The ledger's file, with all that lay in its log."""
    changed(folder, "pragma wal_checkpoint(truncate)")
    return folder / "ledger.sqlite"


def test_a_full_locked_or_read_only_ledger_releases_nothing_until_it_is_none(town, refused, released, monkeypatch):
    """Whoever holds it is waited for before."""

    def fill(connection, _record):
        connection.execute("pragma max_page_count = 1")  # which means: not one more than there are

    sa.event.listen(sa.Engine, "connect", fill)
    try:
        assert "full" in refused()
    finally:
        sa.event.remove(sa.Engine, "connect", fill)
    with closing(sqlite3.connect(town / "ledger.sqlite", isolation_level=None)) as other:
        other.execute("begin immediate")
        assert "locked" in refused()
    access = os.access
    with monkeypatch.context() as patched:
        patched.setattr(os, "access", lambda path, mode: "ledger.sqlite" not in str(path) and access(path, mode))
        assert "may not write" in refused()
    released()


def _record_within(url, head, size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    try:
        record(Ledger(url, head), unit(3600, digest="d" * 100_000))
    except LedgerError:
        os._exit(4)
    os._exit(0)


def test_a_file_that_may_not_grow_keeps_what_it_had(tmp_path):
    ledger = opened(f"sqlite:///{tmp_path / 'ledger.sqlite'}", tmp_path / "key.head")
    record(ledger, unit(integer=7))
    context = multiprocessing.get_context("forkserver")
    process = context.Process(target=_record_within, args=(ledger.url, tmp_path / "key.head", 60_000))
    process.start()
    process.join(60)
    assert process.exitcode == 4
    assert ledger.verify().entries == 3
    assert record(ledger, unit(integer=8), unit(3600, integer=9)).new == 1


@pytest.mark.parametrize(
    ("offset", "exit_code"), [(0, 4), (100, 4), (4096, 4), (8192, 0)], ids=["header", "schema", "entries", "an index"]
)
def test_a_corrupt_file_is_refused(town, refused, hatstream, offset, exit_code):
    """An index is not part of the chain that `verify` walks; a release meets it."""
    whole = settled(town).read_bytes()
    (town / "ledger.sqlite").write_bytes(whole[:offset] + b"KA01AB1234" * 300 + whole[offset + 3000 :])
    assert "KA01" not in refused()
    code, _, err = hatstream("ledger", "verify", "--ledger", town / "ledger.sqlite")
    assert code == exit_code
    assert "KA01" not in err


@pytest.mark.parametrize("kept", [0, 1000, 5000])
def test_a_file_that_was_cut_off_is_refused(town, refused, kept):
    whole = settled(town).read_bytes()
    (town / "ledger.sqlite").write_bytes(whole[:kept])
    refused()


def test_init_says_when_a_vehicle_may_spend_two_budgets(town, hatstream):
    assert "beware" not in hatstream(*city.init(town))[1]
    spec = (town / "spec.toml").read_text()
    (town / "spec.toml").write_text(spec.replace('name = "small"', 'name = "renamed"'))
    said = "spends all their budgets; also here: 'small'\n"
    assert said in hatstream(*city.init(town))[1]
    (town / "spec.toml").write_text(spec.replace('name = "small"', 'name = "elsewhere"'))
    elsewhere = ["--ledger", town / "other.sqlite", "--key", town / "ledger.key"]
    assert "also here: 'renamed', 'small'\n" in hatstream(*city.init(town), *elsewhere)[1]
