"""Location of an account's ledger, key and head."""

import os
import secrets
import stat
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa
from platformdirs import user_state_path

from transforms.atomic_files import locked, read_regular, replacing
from transforms.ledger.chain import Signature
from transforms.ledger.databases import database_of
from transforms.ledger.head import Head, LedgerError
from transforms.ledger.ledger import Ledger
from transforms.ledger.spending import Account, AccountRefusal
from transforms.observe.vehicle_ids import Secret

if TYPE_CHECKING:
    from pipelines.specification import AccountTerms

LEDGER_VARIABLE = "HATSTREAM_LEDGER"  # of the environment
KEY_BYTES = 32
KEY_FILE_BYTES = 4_096  # most that is read of a key's file, whatever it is


@dataclass(frozen=True)
class AccountLocation:
    """Ledger URL, key file, and head file beside it. key_is_named: explicit, not by default."""

    url: str = field(repr=False)  # may hold a password
    key: Path
    key_is_named: bool = False

    @property
    def head(self) -> Path:
        """Path of the head file, beside the key."""
        return self.key.with_name(self.key.name + ".head")

    @property
    def witness(self) -> Head:
        """The head file, whose signature is compared where there is a key."""
        return Head(self.head, self.signature)

    @property
    def shown(self) -> str:
        """Ledger's location, without a password."""
        return database_of(self.url).shown

    def absolute(self) -> "AccountLocation":
        """Returns this location with an absolute key path."""
        return replace(self, key=self.key.absolute())

    @property
    def ledger(self) -> Ledger:
        """Ledger with its head file and signature."""
        return Ledger(self.url, self.head, self.signature)

    @property
    def signature(self) -> Signature | None:
        """None where there is no key."""
        return signature_of(read_key(self.key)) if os.path.lexists(self.key) else None

    def reader(self) -> Ledger:
        """Opens the ledger read-only, with signatures if the key is readable.

        Raises LedgerError if an explicitly named key is unusable or of no account in the ledger.
        """
        signature = None
        try:
            signature = signature_of(read_key(self.key))
        except (AccountRefusal, LedgerError) as error:
            if self.key_is_named and isinstance(error, AccountRefusal):
                raise LedgerError(f"there is no key file {self.key}: --key names that of the account") from None
            if self.key_is_named:
                raise
        book = Ledger(self.url, self.head, signature, read_only=True)
        if self.key_is_named and signature is not None and book.exists():
            checks = {account.key_check for account in book.accounts()}
            if checks and signature.key_check not in checks:
                raise LedgerError(f"the key file {self.key} is of no account in the ledger {self.shown}")
        return book

    def read(self) -> Ledger:
        """Looks at a ledger as `reader` does. Raises LedgerError also where there is none."""
        book = self.reader()
        if not book.exists():
            raise LedgerError(f"there is no ledger at {self.shown}: name it with --ledger")
        return book


def find(ledger: str | None, key: str | Path | None) -> AccountLocation:
    """Finds an account by options, environment or state folder."""
    folder = user_state_path("hatstream")
    url = ledger or os.environ.get(LEDGER_VARIABLE) or str(folder / "ledger.sqlite")
    file = database_of(url).path if "://" in url else Path(url)
    if file is not None:  # of SQLite; absolute, as workers may stand in another folder
        url = sa.URL.create("sqlite", database=str(file.absolute())).render_as_string()
    path = Path(key or (file or folder / "ledger").with_suffix(".key"))
    return AccountLocation(url, path, key_is_named=key is not None)


def read_key(path: Path) -> Secret:
    """Reads a key file. Raises AccountRefusal if missing, LedgerError if invalid or unsafe."""
    try:
        mode, text = path.stat().st_mode, read_regular(path, KEY_FILE_BYTES).decode()
    except FileNotFoundError:
        raise AccountRefusal(
            f"there is no key file {path}: name it with --key, or restore it from the backup; `hatstream init` makes a "
            "key for a new account alone"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no text"
        raise LedgerError(f"the key file {path} cannot be read: {reason}") from None
    if stat.S_IMODE(mode) & 0o077:
        raise LedgerError(f"the key file {path} is open to other users: chmod 600 it")
    return secret_of(text.strip(), f"the key file {path}")


def secret_of(text: str, source: str) -> Secret:
    """Parses a hexadecimal key. source: its name in the message. Raises LedgerError."""
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise LedgerError(f"{source} does not hold a key of {KEY_BYTES} bytes in hexadecimal")
    return Secret(key)


def open_account(location: AccountLocation, terms: "AccountTerms") -> str:
    """Opens the account, creating missing ledger, key and head files. Returns a status message."""
    location.key.parent.mkdir(parents=True, exist_ok=True)
    is_new = not location.ledger.exists()
    try:
        with locked(location.key.parent):
            has_key = os.path.lexists(location.key)
            if has_key:
                location.witness.read_all()  # raises if the head is damaged or signed by another key
            elif os.path.lexists(location.head) and Head(location.head).read_all():  # key and head belong together
                raise LedgerError(
                    f"the key file {location.key} is missing but its head file is there: restore it from the backup"
                )
            location.ledger.create()
            location.ledger.verify_chain()
            if not has_key:
                if any(entry.name == terms.name for entry in location.ledger.accounts()):
                    raise AccountRefusal(
                        f"account {terms.name!r} was opened with a key file, and there is none at {location.key}: name "
                        "it with --key"
                    )
                key = secrets.token_bytes(KEY_BYTES)
                Head(location.head, signature_of(Secret(key))).write({})
                write_key(location.key, key.hex())
        return location.ledger.open_account(account_of(terms, read_key(location.key)))
    except (AccountRefusal, LedgerError):  # leaves no empty ledger behind
        if is_new and location.ledger.exists():
            location.ledger.discard()
        raise


def other_accounts(location: AccountLocation, account: str) -> list[str]:
    """Lists other accounts of ledger and head file; vehicles in both spend both budgets."""
    in_ledger = {entry.name for entry in location.ledger.accounts()}
    in_head_file = {name for ledger in location.witness.read_all().values() for name in ledger["accounts"]}
    return sorted((in_ledger | in_head_file) - {account})


def voiding_accounts(location: AccountLocation, terms: "AccountTerms") -> list[str]:
    """Lists accounts with public counts, which void the promise of an add-remove account."""
    if terms.adjacency != "add-remove":
        return []
    return sorted(account.name for account in location.ledger.accounts() if account.adjacency == "counts-public")


def write_key(path: Path, text: str) -> None:
    """Writes a key's file; callers hold the folder's lock."""
    with replacing(path, 0o600) as file:
        file.write(f"{text}\n".encode())


def signature_of(secret: Secret) -> Signature:
    """Derives the ledger's signature from the secret key."""
    return Signature(secret.derive("ledger"), secret.derive("key check").hex()[:16])


def account_of(terms: "AccountTerms", secret: Secret) -> Account:
    """Makes the account as the ledger keeps it."""
    since, until = (None if day is None else day.isoformat() for day in (terms.since, terms.until))
    check, limit = signature_of(secret).key_check, str(terms.limit)
    return Account(terms.name, terms.unit, since, until, terms.timezone, terms.adjacency, limit, check)
