"""Where collected messages are kept: a file each of a folder."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from hatstream.api import write_whole


class Keep(Protocol):
    def __call__(self, message: bytes) -> None:
        """Keeps a message whole, or raises InputError or OSError."""


@contextmanager
def in_folder(folder: Path) -> Iterator[Keep]:
    """Keeps each message as a file that is named by the UTC time of its arrival, so that names sort by time."""
    folder.mkdir(parents=True, exist_ok=True)

    def keep(message: bytes) -> None:
        write_whole(folder / f"vehicle-positions-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}.pb", message)

    yield keep
