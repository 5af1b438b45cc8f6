"""Head file: ledgers' newest entries, stored outside the database.

Signed with a key derived from the account's. An older version's unsigned head is accepted once for each ledger in it,
and replaced: later the ledger's signed entries say that its head is signed.
"""

import hmac
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NotRequired, TypedDict

import msgspec

from transforms.atomic_files import locked, read_regular, replacing

if TYPE_CHECKING:
    from transforms.ledger.chain import Signature


class LedgerError(Exception):
    """Unreadable, damaged or rolled-back ledger; it blocks every release."""

    _tagged_with_step = True  # Beam would add its step's name to the message


HEAD_BYTES = 64 << 20  # a larger file is no head: it has some hundred bytes a ledger


class RememberedHead(TypedDict):
    """Newest entry of a ledger, and its accounts; `is_unsigned`: an older version wrote it."""

    sequence: int
    hash: str
    accounts: list[str]
    is_unsigned: NotRequired[bool]


class _File(msgspec.Struct, forbid_unknown_fields=True):
    """Signed head file; unsigned ones hold only the ledgers."""

    ledgers: msgspec.Raw
    signature: str


class Head:
    """JSON file of ledgers' newest entries, by genesis hash; `_key`: signs it, if known."""

    def __init__(self, path: Path, signature: "Signature | None" = None) -> None:
        """Opens a head file; without signature it verifies nothing."""
        self._path, self._key = path, signature.key_of("head") if signature else None

    def write(self, ledgers: Mapping[str, RememberedHead]) -> None:
        """Replaces the file under the caller's lock, signed if possible. Raises LedgerError."""
        if self._key:
            signed = msgspec.json.encode(ledgers)
            data = msgspec.json.encode(_File(msgspec.Raw(signed), self._sign(signed)))
        elif self.exists() and self.is_signed():
            raise LedgerError(f"the head file {self._path} is signed: without the account's key it stays as it is")
        else:
            data = msgspec.json.encode({ledger: _plain(last) for ledger, last in ledgers.items()})  # as older versions
        with replacing(self._path) as file:
            file.write(data)

    def exists(self) -> bool:
        """Checks for the file."""
        return self._path.exists()

    def is_signed(self) -> bool:
        """Checks for a signature; with the key, raises LedgerError for a wrong one."""
        return self._read()[1]

    def read_all(self) -> Mapping[str, RememberedHead]:
        """Reads the newest entry of each ledger by genesis."""
        return self._read()[0]

    def home(self, account: str) -> str | None:
        """Returns the genesis of the ledger with this account."""
        return next((ledger for ledger, entry in self.read_all().items() if account in entry["accounts"]), None)

    def vouch(self, genesis: str) -> None:
        """Signs what an older version remembers of one ledger, once that ledger fits it."""
        with locked(self._path.parent):
            ledgers = dict(self.read_all())
            ledgers[genesis] = _plain(ledgers[genesis])  # no longer marked as unsigned
            self.write(ledgers)

    def advance(self, genesis: str, sequence: int, hash_: str, account: str) -> None:
        """Remembers a ledger's newer entry and its account; older entries change nothing. Raises LedgerError."""
        with locked(self._path.parent):
            if self.home(account) not in (None, genesis):  # home: genesis of the account's ledger, None if unknown
                raise LedgerError(f"account {account!r} was just opened in another ledger: name it with --ledger")
            ledgers = dict(self.read_all())
            entry = ledgers.get(genesis, RememberedHead(sequence=0, hash="", accounts=[]))
            if self._key and entry.get("is_unsigned"):  # an older version's own head was signed by now
                raise LedgerError(f"the head file {self._path} was replaced by one without a signature")
            accounts = sorted({*entry["accounts"], account})
            if sequence <= entry["sequence"]:
                sequence, hash_ = entry["sequence"], entry["hash"]
            ledgers[genesis] = RememberedHead(sequence=sequence, hash=hash_, accounts=accounts)
            self.write(ledgers)

    def _read(self) -> tuple[dict[str, RememberedHead], bool]:
        """Reads newest entries by genesis, and whether they're signed. Raises LedgerError."""
        try:
            data = read_regular(self._path, HEAD_BYTES)
            try:
                file = msgspec.json.decode(data, type=_File)
            except msgspec.ValidationError:  # an older version wrote the ledgers alone
                ledgers = msgspec.json.decode(data, type=dict[str, RememberedHead])
                return {name: RememberedHead(**last | {"is_unsigned": True}) for name, last in ledgers.items()}, False
            ledgers = msgspec.json.decode(file.ledgers, type=dict[str, RememberedHead])
        except FileNotFoundError:
            raise LedgerError(
                f"the head file {self._path} is missing: restore it from the backup, beside the key file"
            ) from None
        except (OSError, ValueError, msgspec.MsgspecError, RecursionError):  # ValueError: of what is no UTF-8
            raise LedgerError(f"the head file {self._path} cannot be read: restore it from the backup") from None
        if self._key and not hmac.compare_digest(self._sign(bytes(file.ledgers)).encode(), file.signature.encode()):
            raise LedgerError(
                f"the head file {self._path} is not signed with the account's key: it is forged, or another key's. "
                "Restore it from the backup"
            )
        return ledgers, True

    def _sign(self, ledgers: bytes) -> str:
        return hmac.digest(self._key or b"", ledgers, "sha256").hex()


def _plain(remembered: RememberedHead) -> RememberedHead:  # without `is_unsigned`
    return RememberedHead(sequence=remembered["sequence"], hash=remembered["hash"], accounts=remembered["accounts"])
