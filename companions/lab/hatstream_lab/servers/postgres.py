"""Runs a PostgreSQL server on this machine."""

import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg

from hatstream_lab.servers.process import LOOPBACK, MissingTool, ServerError, free_ports

START_S = 120  # longest wait for the server's start or end
GUARDED = "guarded"  # the one role, made by who wants it, that the server asks for a password


class Postgres:
    """PostgreSQL cluster to start, stop and kill repeatedly."""

    def __init__(self, programs: Path, folder: Path) -> None:
        """Makes a cluster's files in `folder`; the server starts later. Raises ServerError."""
        self._programs, self._folder, self._user = programs, folder, _unprivileged()
        self._numbers = itertools.count()  # of databases
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_ports(1)[0]
        if self._user:  # PostgreSQL does not run as root
            shutil.chown(folder, self._user, self._user)
        options = ("--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C", "--no-sync")
        if code := self._call("initdb", *options).wait():
            raise ServerError(f"PostgreSQL's initdb ended with {code}:\n{self._said()}")
        rules = folder / "data" / "pg_hba.conf"  # the first rule that fits counts: the role GUARDED needs a password
        rules.write_text(f"host all {GUARDED} {LOOPBACK}/32 scram-sha-256\n{rules.read_text()}")

    def url(self, database: str = "postgres") -> str:
        """Returns the URL of a database."""
        return f"postgresql://postgres@{LOOPBACK}:{self.port}/{database}"

    def new_database(self) -> str:
        """Makes an empty database, and gives its URL."""
        name = f"ledger{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def execute(self, statement: str) -> None:
        """Runs a statement outside of a transaction."""
        with psycopg.connect(self.url(), autocommit=True) as db:
            db.execute(statement)

    def start(self) -> None:
        """Starts the server; waits for an answer. Raises ServerError."""
        until = time.monotonic() + START_S
        while True:
            if self._process is None or self._process.poll() is not None:
                # While a killed server still ends, this one fails and is started again. Without fsync: the files need
                # not outlive a crash of the machine.
                settings = ("unix_socket_directories=", "fsync=off", "track_commit_timestamp=on", "max_connections=50")
                options = (f"listen_addresses={LOOPBACK}", *settings)
                self._process = self._call("postgres", f"-p{self.port}", *(f"-c{option}" for option in options))
            try:
                return psycopg.connect(self.url()).close()
            except psycopg.OperationalError:
                if time.monotonic() > until:
                    raise ServerError(f"PostgreSQL was not ready after {START_S} s:\n{self._said()}") from None
                time.sleep(0.05)

    def stop(self) -> None:
        """Stops without a checkpoint; the next start recovers."""
        self._end(signal.SIGQUIT)

    def kill(self) -> None:
        """Kills the server and its connections' processes, which could still finish a commit."""
        children = ""  # ids of its processes, on Linux
        if self._process is not None:
            pid = self._process.pid
            with suppress(OSError):
                children = Path(f"/proc/{pid}/task/{pid}/children").read_text()
        self._end(signal.SIGKILL)
        for child in children.split():
            with suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        """Signals the server, if it was started, and waits for its end."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(timeout=START_S)  # the end takes no longer than the start

    def _said(self) -> str:
        """Returns the end of the log, for messages."""
        return (self._folder / "log").read_text(errors="replace")[-2_000:]

    def _call(self, program: str, *arguments: str) -> "subprocess.Popen[bytes]":
        """Starts one of PostgreSQL's programs on the cluster's data, as unprivileged user."""
        # setpriv changes the user, as Popen's `user` needs fork, whose child the handlers of gRPC's threads can end
        drop = ("setpriv", f"--reuid={self._user}", f"--regid={self._user}", "--clear-groups", "--")
        command = [*(drop if self._user else ()), str(self._programs / program), "-D", str(self._folder / "data")]
        with (self._folder / "log").open("ab") as log:
            streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
            # a terminal's Ctrl-C is for us: the server has a session of its own
            return subprocess.Popen([*command, *arguments], cwd=self._folder, start_new_session=True, **streams)


@contextmanager
def postgres_server() -> Iterator[Postgres]:
    """Starts a temporary server. Raises MissingTool, ServerError."""
    programs = _programs()
    if programs is None:
        raise MissingTool("; ".join(missing_programs()))
    with tempfile.TemporaryDirectory(prefix="hatstream-postgres-") as folder:
        server = Postgres(programs, Path(folder))
        try:
            server.start()
            yield server
        finally:
            server.stop()


def missing_programs() -> list[str]:
    """Lists missing programs that the server needs."""
    return [] if _programs() else ["PostgreSQL (`initdb` and `postgres`; `make servers` installs it on Debian)"]


def _programs() -> Path | None:
    """Finds the folder of initdb and postgres; Debian keeps it out of PATH."""
    if initdb := shutil.which("initdb"):
        return Path(initdb).resolve().parent
    return max(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name), default=None)


def _unprivileged() -> str | None:
    """Names whom PostgreSQL runs as if we are root, whom it refuses."""
    return None if os.geteuid() else "postgres"
