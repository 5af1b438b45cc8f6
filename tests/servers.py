"""Servers that a test needs and cannot have: it is skipped with the reason; where they are required it fails."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import psycopg
import pytest

from hatstream_lab.servers import postgres
from hatstream_lab.servers.postgres import GUARDED, Postgres

__all__ = ["GUARDED", "REQUIRED", "Postgres", "emptied", "postgres_server", "unavailable"]

REQUIRED = ("CI", "HATSTREAM_REQUIRE_SERVERS")


@contextmanager
def postgres_server() -> Iterator[Postgres]:
    """A started server, gone with its folder at the end. Without PostgreSQL the test is skipped, or in CI fails."""
    if postgres._programs() is None:
        unavailable("PostgreSQL is not installed: `make servers` installs it")
    with postgres.postgres_server() as server:
        yield server


def emptied(url: str) -> str:
    """The URL of a database that has nothing in it any more, nor settings, nor anybody connected.

    It is sooner had than a new one, and sooner gone: a server with a database a test takes half a minute to delete.
    """
    with psycopg.connect(url, autocommit=True, options="-c default_transaction_read_only=off") as db:
        db.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        db.execute("DO $$ BEGIN EXECUTE format('ALTER DATABASE %I RESET ALL', current_database()); END $$")
        db.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public; GRANT USAGE ON SCHEMA public TO PUBLIC")
    return url


def unavailable(reason: str) -> NoReturn:
    if any(map(os.environ.get, REQUIRED)):
        pytest.fail(f"the servers are required here: {reason}")
    pytest.skip(reason)
