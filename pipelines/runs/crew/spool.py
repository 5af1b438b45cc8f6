"""A spool: the shuffle of a scheduled job, on disk and bounded in memory.

Beam's local runner holds all that it shuffles in memory. A scheduled job therefore reads its input once into a spool
and takes it up again in parts. Its files are unlinked temporary files: only this process, and the workers that it hands
them to, can open them, and they are gone when the process ends, however it ends.
"""

import itertools
import os
import tempfile
import threading
import weakref
from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from transforms.errors import StepError, reason_of

_OPEN: "weakref.WeakValueDictionary[int, Spool]" = weakref.WeakValueDictionary()
_NUMBERS = itertools.count()


class ByteRange(NamedTuple):
    """Where some bytes lie."""

    file: int
    start: int
    size: int


class Shelf:
    """Byte strings in files that several processes share; each process appends to one of them alone.

    handles: of all files. number: that of the file of this process.
    """

    def __init__(self, handles: Sequence[int], number: int) -> None:
        self._handles, self._mine = handles, number
        self._end = 0
        self._lock = threading.Lock()

    def append(self, data: bytes) -> ByteRange:
        """Raises StepError if the disk takes it not, or not whole."""
        with self._lock:
            try:
                written = os.pwrite(self._handles[self._mine], data, self._end)
            except OSError as error:
                raise StepError(f"a temporary file in {tempfile.gettempdir()}: {reason_of(error)}") from None
            if written != len(data):
                raise StepError(f"a temporary file in {tempfile.gettempdir()}: no space is left for it")
            place = ByteRange(self._mine, self._end, len(data))
            self._end += len(data)
            return place

    def read(self, place: ByteRange) -> bytes:
        return os.pread(self._handles[place.file], place.size, place.start)


class Spool:
    """Byte strings by key, appended and read back by any thread of this process.

    shelf: where they lie, if processes share it; otherwise it has a file of its own.
    """

    def __init__(self, shelf: Shelf | None = None) -> None:
        self._file = None if shelf else tempfile.TemporaryFile(prefix="hatstream-")  # noqa: SIM115 - see __exit__
        self._shelf = shelf or Shelf([self._file.fileno() if self._file else -1], 0)
        self._lock = threading.Lock()
        self._places: dict[Hashable, list[ByteRange]] = {}
        self._rows: dict[Hashable, int] = {}
        self._number = next(_NUMBERS)
        _OPEN[self._number] = self

    def __enter__(self) -> "Spool":
        return self

    def __exit__(self, *_error: object) -> None:
        if self._file is not None:
            self._file.close()

    def append(self, key: Hashable, data: bytes, rows: int = 1) -> None:
        self.note(key, self._shelf.append(data), rows)

    def note(self, key: Hashable, place: ByteRange, rows: int) -> None:
        """Takes what lies on the shelf already."""
        with self._lock:
            self._places.setdefault(key, []).append(place)
            self._rows[key] = self._rows.get(key, 0) + rows

    def put(self, data: bytes) -> bytes:
        """Appends without a key. What it returns can be shuffled in place of the data, within this process."""
        return msgspec.msgpack.encode(self._shelf.append(data))

    def get(self, put: bytes) -> bytes:
        """Reads what `put` was given."""
        return self._shelf.read(msgspec.msgpack.decode(put, type=ByteRange))

    def read(self, key: Hashable) -> Iterator[bytes]:
        return map(self._shelf.read, self.places(key))

    def places(self, key: Hashable) -> Sequence[ByteRange]:
        return self._places.get(key, ())

    def rows(self, key: Hashable) -> int:
        return self._rows.get(key, 0)

    @property
    def total_rows(self) -> int:
        with self._lock:
            return sum(self._rows.values())

    def __reduce__(self) -> tuple[object, ...]:
        """Pickles a spool as its number, which steps carry: it cannot leave the process."""
        return _find, (self._number,)


def _find(number: int) -> Spool:
    try:
        return _OPEN[number]
    except KeyError:
        raise RuntimeError("a spool lives and ends with its process") from None
