"""Ledgers with one account."""

import pytest

from tests.transforms.ledger.entries import opened


@pytest.fixture
def ledger(ledger_url, tmp_path):
    """A ledger with one account, on each database."""
    return opened(ledger_url, tmp_path / "key.head")


@pytest.fixture
def in_file(tmp_path):
    """A ledger of one account in an SQLite file."""
    return opened(f"sqlite:///{tmp_path / 'ledger.sqlite'}", tmp_path / "key.head")


@pytest.fixture
def another_url(ledger_url, tmp_path, request):
    """Where a second ledger can be made, on the same database as the first."""
    if ledger_url.startswith("sqlite"):
        return f"sqlite:///{tmp_path / 'another.sqlite'}"
    return request.getfixturevalue("postgres").new_database()
