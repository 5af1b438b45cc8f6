"""What a database is asked to keep of a commit, whatever befalls the machine."""

from contextlib import closing

from transforms.ledger.databases import SqliteFile


def test_a_commit_to_a_file_waits_for_the_disk(tmp_path):
    """Tests that record much do not: tests/kit/quick.py."""
    with closing(SqliteFile(tmp_path / "ledger.sqlite")._connect()) as connection:
        (level,) = connection.execute("PRAGMA synchronous").fetchone()
        (journal,) = connection.execute("PRAGMA journal_mode").fetchone()
    assert (level, journal) == (2, "wal")
