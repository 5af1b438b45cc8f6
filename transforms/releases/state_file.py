"""A file of what was learned: a cache, rebuilt from the ledger wherever it is missing, damaged or does not fit."""

import hashlib
import io
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpops.learning.state_arrays import VERSION, Arrays
from transforms.atomic_files import locked, replacing
from transforms.errors import reason_of
from transforms.regular_files import read_regular

LOG = logging.getLogger("hatstream.learned")
LOG.setLevel(logging.WARNING)
MOST_BYTES = 1 << 30
_DIGEST = hashlib.sha256().digest_size


class Kept(NamedTuple):
    """rests_on: says of which entries the arrays are a function. number: of days, or of the last entry."""

    rests_on: str
    number: int
    arrays: Arrays


@dataclass(frozen=True)
class StateFile:
    """Of one specification. What is in it is a function of recorded entries, so it tells nothing that they do not."""

    path: Path

    @staticmethod
    def beside(head: Path, spec_id: str) -> "StateFile":
        """In the folder of the account's head file, which every process that records can write to."""
        return StateFile(head.with_name(f"{head.name}.{spec_id}.learned"))

    def read(self) -> Kept | None:
        """None where there is none of this version; a damaged one is told, and removed, so that it is told once."""
        try:
            data = read_regular(self.path, MOST_BYTES)
            if hashlib.sha256(data[_DIGEST:]).digest() == data[:_DIGEST]:
                return _kept(data[_DIGEST:])
        except FileNotFoundError:
            return None
        except OSError as error:
            LOG.warning("%s cannot be read (%s): it is learned anew from the ledger", self.path, reason_of(error))
            return None
        LOG.warning("%s is damaged: what it kept is learned anew from the ledger", self.path)
        with suppress(OSError):
            self.path.unlink(missing_ok=True)
        return None

    def write(self, kept: Kept) -> None:
        """Whole or not at all; of two writers one wins. Where it cannot be written, nothing is lost."""
        if not self.path.parent.is_dir():  # a ledger on a server that is read without a key
            return
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
                file.write(hashlib.sha256(data).digest() + data)
        except OSError as error:
            LOG.warning("%s cannot be written (%s): it will be learned anew", self.path, reason_of(error))


def _kept(data: bytes) -> Kept | None:
    with np.load(io.BytesIO(data), allow_pickle=False) as found:
        if int(found[" version"]) != VERSION:
            return None
        arrays = {name: found[name] for name in found.files if not name.startswith(" ")}
        return Kept(str(found[" rests on"]), int(found[" number"]), arrays)
