"""Where an account's ledger, key file and head file are, and how they are opened."""

import os
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa
from platformdirs import user_state_path

from pipelines.spec import AccountTable
from transforms.head import LedgerError
from transforms.ledger import Account, AccountRefusal, Ledger
from transforms.vehicles import Secret

LEDGER_VARIABLE = "HATSTREAM_LEDGER"
KEY_BYTES = 32


@dataclass(frozen=True)
class Custody:
    """The ledger's URL, the key file, and the head file beside the key."""

    url: str
    key: Path

    @property
    def head(self) -> Path:
        return self.key.with_name(self.key.name + ".head")

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.url, self.head)


def find(ledger: str | None, key: Path | None) -> Custody:
    """What the options say, else HATSTREAM_LEDGER, else the user's state folder; the key lies beside an SQLite file."""
    named = ledger or os.environ.get(LEDGER_VARIABLE)
    if not named:
        folder = user_state_path("hatstream")
        return Custody(_sqlite(folder / "ledger.sqlite"), key or folder / "ledger.key")
    url = named if "://" in named else _sqlite(Path(named))
    return Custody(url, key or Path(sa.make_url(url).database or "ledger").with_suffix(".key"))


def _sqlite(path: Path) -> str:
    return sa.URL.create("sqlite", database=str(path.absolute())).render_as_string()


def read_key(path: Path) -> Secret:
    """Reads a key file. Raises AccountRefusal where there is none, LedgerError where it is no key or open to others."""
    try:
        mode, text = path.stat().st_mode, path.read_text()
    except FileNotFoundError:
        raise AccountRefusal(
            f"there is no key file {path}: run `hatstream init` first, or name it with --key"
        ) from None
    except (OSError, UnicodeDecodeError):
        raise LedgerError(f"the key file {path} cannot be read") from None
    if stat.S_IMODE(mode) & 0o077:
        raise LedgerError(f"the key file {path} is open to other users: chmod 600 it")
    try:
        key = bytes.fromhex(text.strip())
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise LedgerError(f"the key file {path} does not hold a key of {KEY_BYTES} bytes in hexadecimal")
    return Secret(key)


def make_key(path: Path) -> Secret:
    """The key in the file, which is made (0600) if it is missing; an existing key is never replaced."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return read_key(path)
    with os.fdopen(handle, "w") as file:
        file.write(secrets.token_hex(KEY_BYTES) + "\n")
        file.flush()
        os.fsync(file.fileno())
    return read_key(path)


def account_of(table: AccountTable, secret: Secret) -> Account:
    """The account as the ledger keeps it."""
    return Account(
        name=table.name,
        unit=table.unit,
        since=table.since.isoformat() if table.since else None,
        until=table.until.isoformat() if table.until else None,
        timezone=table.timezone,
        adjacency=table.adjacency,
        limit=str(table.limit),
        key_check=secret.derive("key check").hex()[:16],
    )
