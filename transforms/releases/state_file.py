"""A file of what was learned: a cache, rebuilt from the ledger wherever it is missing, damaged or does not fit.

It is signed with a key derived from the account's, for one specification. Without the key it is neither taken nor made.
"""

import hmac
import io
import logging
import zipfile
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from transforms.atomic_files import locked, read_regular, replacing
from transforms.errors import reason_of

if TYPE_CHECKING:
    from transforms.ledger.chain import Signature

LOG = logging.getLogger("hatstream.learned")
LOG.setLevel(logging.WARNING)
MOST_BYTES = 1 << 30
_SIGN_BYTES = 32
WRONG = (ValueError, KeyError, TypeError, IndexError, EOFError, OverflowError, zipfile.BadZipFile, zlib.error)
"""What arrays raise that are none of a state, and a file that is none of arrays."""


class Kept(NamedTuple):
    """rests_on: says of which entries the arrays are a function. number: of days."""

    rests_on: str
    number: int
    arrays: Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class StateFile:
    """File of one specification's state. What is in it is a function of recorded entries, so it tells nothing that they
    do not."""

    path: Path
    key: bytes | None = field(default=None, repr=False)

    @staticmethod
    def beside(head: Path, spec_id: str, signature: "Signature | None") -> "StateFile":
        """Names a file in the folder of the account's head file, which every process that records can write to."""
        key = None if signature is None else signature.key_of(f"learned/{spec_id}")
        return StateFile(head.with_name(f"{head.name}.{spec_id}.learned"), key)

    def read(self) -> Kept | None:
        """Reads the file; None where none is of this version: another's is told, and removed, so it is told once."""
        if self.key is None:
            return None
        try:
            data = read_regular(self.path, MOST_BYTES)
            if hmac.compare_digest(self._sign(data[_SIGN_BYTES:]), data[:_SIGN_BYTES]):
                return _kept(data[_SIGN_BYTES:])
        except WRONG:
            pass
        except FileNotFoundError:
            return None
        except OSError as error:
            LOG.warning("%s cannot be read (%s): it is learned anew from the ledger", self.path, reason_of(error))
            return None
        self.refuse()
        return None

    def refuse(self) -> None:
        """Says that what it holds is not taken, and removes it."""
        LOG.warning(
            "%s is damaged, or not signed with the account's key: it is learned anew from the ledger", self.path
        )
        with suppress(OSError):
            self.path.unlink(missing_ok=True)

    def _sign(self, data: bytes) -> bytes:
        return hmac.digest(self.key or b"", data, "sha256")

    def write(self, kept: Kept) -> None:
        """Writes the file whole or not at all; of two writers one wins. Where it cannot be written, nothing is lost."""
        if self.key is None or not self.path.parent.is_dir():
            return
        from dpops.learning.state_arrays import VERSION  # who learns nothing begins sooner without it

        content = io.BytesIO()
        names: Mapping[str, NDArray[Any]] = {
            " version": np.array(VERSION),
            " rests on": np.array(kept.rests_on),
            " number": np.array(kept.number),
        }
        np.savez_compressed(content, **names, **kept.arrays)  # type: ignore[arg-type]  # has a flag of its own
        data = content.getvalue()
        try:
            with locked(self.path.parent), replacing(self.path, 0o600) as file:
                file.write(self._sign(data) + data)
        except OSError as error:
            LOG.warning("%s cannot be written (%s): it will be learned anew", self.path, reason_of(error))


def _kept(data: bytes) -> Kept | None:
    from dpops.learning.state_arrays import VERSION

    with np.load(io.BytesIO(data), allow_pickle=False) as stored:
        if int(stored[" version"]) != VERSION:
            return None
        arrays = {name: stored[name] for name in stored.files if not name.startswith(" ")}
        return Kept(str(stored[" rests on"]), int(stored[" number"]), arrays)
