"""What befalls a ledger: a server that is gone in the middle of a command, tables that were changed, a full disk."""

from contextlib import closing, suppress
from urllib.parse import urlsplit

import psycopg

from tests.hostile.laws import FILE_BYTES, Broken

DAMAGES = (
    "DROP TABLE {table}", "DELETE FROM {table}", "TRUNCATE {table} CASCADE", "ALTER TABLE {table} RENAME TO lost",
    "ALTER TABLE {table} ADD COLUMN more integer", "ALTER TABLE {table} DROP COLUMN {column} CASCADE",
    "UPDATE {table} SET {column} = NULL", "UPDATE {table} SET {column} = DEFAULT",
    "DELETE FROM {table} WHERE ctid = (SELECT max(ctid) FROM {table})",
    "ALTER TABLE {table} ALTER COLUMN {column} TYPE text USING '\u202e'",
    "CREATE RULE no AS ON INSERT TO {table} DO INSTEAD NOTHING",
    "CREATE RULE twice AS ON DELETE TO {table} DO INSTEAD NOTHING",
    "ALTER DATABASE {database} SET default_transaction_read_only = on",
    "ALTER DATABASE {database} SET statement_timeout = 1",
    "ALTER DATABASE {database} SET search_path = 'nowhere'",
)  # fmt: skip
HANG_UP = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"""
FILES = (2_000, 8_000, 30_000, 100_000)  # bytes that a file may have where a disk is full: more than a message needs


def interrupted(world, arguments) -> None:
    """A command during which the server goes, or hangs up; it comes back afterwards."""
    wait_s, kind, server = world.choose.random() * 0.6, world.choose.randrange(3), world.server
    ways = {0: server.stop, 1: server.kill, 2: lambda: server.execute(HANG_UP)}

    def interrupt(process, _):
        process.join(wait_s)
        ways[kind]()
        if world.choose.random() < 0.5:
            server.start()

    try:
        world.run(arguments, meanwhile=interrupt)
    finally:
        server.start()


def damaged(world, act) -> None:
    """`act` beside a database that somebody changed; what was there before is put back."""
    name = urlsplit(world.url).path[1:]
    world.server.execute(HANG_UP)
    world.server.execute(f"CREATE DATABASE {name}_whole TEMPLATE {name}")
    with closing(psycopg.connect(world.url, autocommit=True)) as db:
        columns = db.execute(
            "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 2"
        ).fetchall()
        table, column = world.choose.choice(columns)
        with suppress(psycopg.Error):  # what the table does not let be done to it
            db.execute(world.choose.choice(DAMAGES).format(table=table, column=column, database=name))
    try:
        act()
    finally:
        world.server.execute(HANG_UP)
        world.server.execute(f"DROP DATABASE {name} WITH (FORCE)")
        world.server.execute(f"ALTER DATABASE {name}_whole RENAME TO {name}")


def on_a_full_disk(world, arguments) -> None:
    """A command that may not let a file grow: the ledger is as whole as it was. Raises Broken."""
    verify = ["ledger", "verify", *world.account]
    before = world.run(verify).code
    world.run(arguments, **{FILE_BYTES: str(world.choose.choice(FILES))})
    if (after := world.run(verify).code) != before:
        raise Broken(f"`ledger verify` ended with {before}, and after a full disk with {after}: {arguments}")
