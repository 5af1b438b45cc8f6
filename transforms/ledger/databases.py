"""Databases of a ledger: URL, connection, queue and retries.

All SQL is in `transforms/ledger/ledger.py`, the same for both; docs/adr/0008 has the reasons for each queue.
"""

import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from transforms.errors import require
from transforms.ledger.head import LedgerError

BUSY_S = 60  # how long a writer waits for the writers before it

RETRY_WAITS_S = (0.2, 0.4, 0.8, 1.6, 3.2)  # before a server is tried again: together what its restart takes

WRITERS = 0x68617473  # the advisory lock of all who write to a ledger on PostgreSQL; any number would do

_CONNECTION_S, _IDLE_S = 10, 60
_PASSING_STATES = {
    "23505",  # somebody wrote the same entry without queueing
    "25P03",  # we paused for so long that the server gave the lock to others
    "40001",  # serialization failure
    "40003",  # whether the statement was completed is unknown
    "40P01",  # deadlock
    "53300",  # too many connections
    "57P01",  # the server is being stopped, by hand
    "57P02",  # or because it crashed
    "57P03",  # or it is not up yet
}
_LASTING_ERRORS = ("authentication failed", "does not exist", "pg_hba.conf", "no password supplied")
"""In a refused connection, which has no code. Where the server speaks another language, waiting only takes longer."""


def database_of(url: str) -> "Database":
    """Parses a ledger's URL. Raises LedgerError, hiding the URL."""
    try:
        parsed = sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):
        raise LedgerError(
            "the ledger's URL must be like sqlite:///path/to/ledger.sqlite or postgresql://user@host:port/db"
        ) from None
    if parsed.drivername in ("sqlite", "sqlite+pysqlite"):
        if not parsed.database or parsed.database == ":memory:":
            raise LedgerError("a ledger must be a file that outlives the process")
        return SqliteFile(Path(parsed.database))
    if parsed.drivername not in ("postgresql", "postgresql+psycopg"):
        raise LedgerError(
            f"a ledger on {parsed.drivername!r} is not supported; use sqlite:///path or postgresql://user@host:port/db"
        )
    require("psycopg")
    if not parsed.database:
        raise LedgerError("the ledger's URL names no database: write postgresql://user@host:port/db")
    if "@" in (parsed.host or "") or any("password" in option for option in parsed.query):
        raise LedgerError(
            "the ledger's URL holds a password where it would be shown: keep it in ~/.pgpass, or write it before the @ "
            "with its special characters as %XX"
        )
    return PostgresServer(parsed.set(drivername="postgresql+psycopg"))


@dataclass(frozen=True)
class SqliteFile:
    """An SQLite file in WAL mode; failures aren't retried."""

    path: Path

    @property
    def shown(self) -> str:
        """Path for messages."""
        return str(self.path)

    def engine(self, *, read_only: bool) -> sa.Engine:
        """Creates an engine whose transactions queue and see snapshots."""
        connect = self._connect_to_read if read_only else self._connect
        engine = sa.create_engine("sqlite://", creator=connect, poolclass=NullPool)
        begin = "BEGIN" if read_only else "BEGIN IMMEDIATE"  # writers queue here, not in the middle of a transaction
        sa.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(begin))
        return engine

    def reason(self, error: sa.exc.SQLAlchemyError) -> str:
        """Returns the database's message without statement, rows or password."""
        return _main_message(error)

    def is_transient(self, error: sa.exc.SQLAlchemyError) -> bool:  # noqa: ARG002 - a busy file was waited for already
        """Returns False: no error of a file is transient."""
        return False

    def _connect(self) -> sqlite3.Connection:
        """Opens the file for durable, synced writes. Raises LedgerError."""
        self._refuse_other_than_files()
        if self.path.exists() and not os.access(self.path, os.W_OK):
            # Checked first, as SQLite would leave files beside the database that block later writers.
            raise LedgerError(f"the ledger {self.path} is not usable: this user may not write to it")
        connection = sqlite3.connect(self.path, timeout=BUSY_S, isolation_level=None)  # we say BEGIN ourselves
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
        except BaseException:
            connection.close()  # the pool never saw it
            raise
        return connection

    def _refuse_other_than_files(self) -> None:
        if self.path.exists() and not self.path.is_file():
            raise LedgerError(f"the ledger {self.path} is not usable: it is not a regular file")

    def _connect_to_read(self) -> sqlite3.Connection:
        """Opens a read-only connection.

        Even readers of a WAL database create files beside it, with its permissions: those of a guarded one would block
        later writers. Nobody changes it now, so that SQLite can open it as immutable, without such files.
        """
        self._refuse_other_than_files()
        path = self.path
        log = path.with_name(path.name + "-wal")
        is_checkpointed = not log.exists() or log.stat().st_size == 0
        # Root may write to everything: only the file's mode (no write bit) says then that it is guarded.
        is_guarded = not (path.stat().st_mode & 0o222 and os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))
        options = "mode=ro&immutable=1" if is_checkpointed and is_guarded else "mode=ro"
        address = f"file:{quote(str(path.absolute()))}?{options}"
        return sqlite3.connect(address, uri=True, timeout=BUSY_S, isolation_level=None)


@dataclass(frozen=True)
class PostgresServer:
    """A PostgreSQL database; its URL names SQLAlchemy's psycopg driver."""

    url: sa.URL
    path = None

    @property
    def shown(self) -> str:
        """URL for messages, without password."""
        url = self.url
        shown = sa.URL.create("postgresql", url.username, host=url.host, port=url.port, database=url.database)
        return shown.render_as_string()

    def engine(self, *, read_only: bool) -> sa.Engine:
        """Creates an engine whose writers queue by advisory lock."""
        timeouts: dict[str, Any] = {} if "connect_timeout" in self.url.query else {"connect_timeout": _CONNECTION_S}
        if read_only:
            view = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
            return sa.create_engine(self.url, poolclass=NullPool, connect_args=timeouts, execution_options=view)
        # READ COMMITTED whatever the server's default: every statement after the lock sees all that was committed
        # before it. A commit is on disk when it is confirmed, and a writer that went away frees the lock.
        begin = (
            f"SET LOCAL lock_timeout = '{BUSY_S}s'; SET LOCAL idle_in_transaction_session_timeout = '{_IDLE_S}s'; "
            "SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'; "
            f"SELECT pg_advisory_xact_lock({WRITERS})"
        )
        engine = sa.create_engine(self.url, poolclass=NullPool, connect_args=timeouts, isolation_level="READ COMMITTED")
        sa.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(begin))
        return engine

    def reason(self, error: sa.exc.SQLAlchemyError) -> str:
        """Formats an error without the password."""
        text, password = _main_message(error), self.url.password
        return text.replace(str(password), "***") if password else text

    def is_transient(self, error: sa.exc.SQLAlchemyError) -> bool:
        """Recognises transient errors, after which the transaction may succeed."""
        state = getattr(getattr(error, "orig", None), "sqlstate", None)
        if state is None:  # the connection was lost or refused, which has no code
            text = self.reason(error)
            return isinstance(error, sa.exc.OperationalError) and not any(word in text for word in _LASTING_ERRORS)
        return state in _PASSING_STATES or state.startswith("08")  # class 08: connection exceptions


Database = SqliteFile | PostgresServer


def _main_message(error: sa.exc.SQLAlchemyError) -> str:
    """Returns the driver's main message, which quotes no rows."""
    original = getattr(error, "orig", None)
    main = getattr(getattr(original, "diag", None), "message_primary", None)
    return " ".join(str(main or original or type(error).__name__).split())
