"""The head file: what the newest entry of each ledger was, kept beside the key and outside the database."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from transforms.files import locked, replacing


class LedgerError(Exception):
    """The ledger cannot be read, is damaged, or was rolled back. Nothing is released while that is so."""

    _tagged_with_step = True  # Beam would add its step's name to the message


class Remembered(NamedTuple):
    sequence: int
    hash: str


class Head:
    """A small JSON file: ledger (by the hash of its first entry) -> newest sequence, hash, accounts."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read_all(self) -> Mapping[str, Any]:
        try:
            found: Mapping[str, Any] = msgspec.json.decode(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.MsgspecError):
            raise LedgerError(f"the head file {self._path.name} beside the key file cannot be read") from None
        return found

    def read(self, genesis: str | None) -> Remembered | None:
        known = self.read_all().get(genesis or "")
        return Remembered(known["sequence"], known["hash"]) if known else None

    def knows_account_elsewhere(self, account: str, genesis: str | None) -> bool:
        return any(account in known["accounts"] for ledger, known in self.read_all().items() if ledger != genesis)

    def advance(self, genesis: str, sequence: int, hash_: str, account: str) -> None:
        """Remembers a newer head; an older one (another process was faster) changes nothing."""
        with locked(self._path.parent):
            known = dict(self.read_all())
            mine = known.get(genesis, {"sequence": 0, "hash": "", "accounts": []})
            accounts = sorted({*mine["accounts"], account})
            if sequence > mine["sequence"]:
                mine = {"sequence": sequence, "hash": hash_}
            known[genesis] = {**mine, "accounts": accounts}
            with replacing(self._path) as file:
                file.write(msgspec.json.encode(known))
