"""Lets nobody wait for a disk: what tests kill is a process, never the machine, so what was written is there anyway.

A result file waits for the disk twice, and a record of the ledger once: most of the time of a small release. That the
product does wait is said by tests/transforms/test_atomic_files.py and tests/transforms/ledger/test_databases.py.
"""

import os
from typing import Any

import sqlalchemy as sa


def let_disks_be_quick() -> None:
    """In this process, from now on."""
    os.fsync = lambda _file: None
    sa.event.listen(sa.Engine, "connect", _not_waiting)


def _not_waiting(connection: Any, _record: object) -> None:
    if type(connection).__module__ == "sqlite3":
        connection.execute("PRAGMA synchronous = OFF")
