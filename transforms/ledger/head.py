"""The head file: what the newest entry of each ledger was, kept beside the key and outside the database."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, TypedDict

import msgspec

from transforms.atomic_files import locked, replacing
from transforms.regular_files import read_regular


class LedgerError(Exception):
    """The ledger cannot be read, is damaged, or was rolled back. Nothing is released while that is so."""

    _tagged_with_step = True  # Beam would add its step's name to the message


HEAD_BYTES = 64 << 20


class Known(TypedDict):
    """What is remembered of one ledger: its newest entry, and the accounts in it."""

    sequence: int
    hash: str
    accounts: list[str]


class Remembered(NamedTuple):
    sequence: int
    hash: str


class Head:
    """A small JSON file: ledger (by the hash of its first entry) -> newest sequence, hash, accounts."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def create(self, known: Mapping[str, Known] | None = None) -> None:
        """A head file that knows no ledger yet, or those of a copy. The caller holds the folder's lock."""
        with replacing(self._path) as file:
            file.write(msgspec.json.encode(known or {}))

    def read_all(self) -> Mapping[str, Known]:
        try:
            found = msgspec.json.decode(read_regular(self._path, HEAD_BYTES), type=dict[str, Known])
        except FileNotFoundError:
            raise LedgerError(
                f"the head file {self._path} is missing: restore it from the backup, it belongs with the key file"
            ) from None
        except (OSError, ValueError, msgspec.MsgspecError, RecursionError):  # ValueError: of what is no UTF-8
            raise LedgerError(f"the head file {self._path.name} beside the key file cannot be read") from None
        return found

    def read(self, genesis: str | None) -> Remembered | None:
        known = self.read_all().get(genesis or "")
        return Remembered(known["sequence"], known["hash"]) if known else None

    def home(self, account: str) -> str | None:
        """The ledger in which the account was opened with this key; there is never a second one."""
        return next((ledger for ledger, known in self.read_all().items() if account in known["accounts"]), None)

    def advance(self, genesis: str, sequence: int, hash_: str, account: str) -> None:
        """Remembers a newer head; an older one (another process was faster) changes nothing."""
        with locked(self._path.parent):
            if self.home(account) not in (None, genesis):
                raise LedgerError(f"account {account!r} was opened in another ledger at the same time")
            known = dict(self.read_all())
            mine = known.get(genesis, Known(sequence=0, hash="", accounts=[]))
            accounts = sorted({*mine["accounts"], account})
            if sequence > mine["sequence"]:
                mine = Known(sequence=sequence, hash=hash_, accounts=[])
            known[genesis] = Known(sequence=mine["sequence"], hash=mine["hash"], accounts=accounts)
            with replacing(self._path) as file:
                file.write(msgspec.json.encode(known))
