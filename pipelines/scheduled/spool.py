"""A spool: the shuffle of a single process, on disk and bounded in memory.

Beam's local runner holds all that it shuffles in memory. A scheduled job therefore reads its input once into a spool
and sends it on in parts. The spool is an unlinked temporary file: no other process can open it, and it is gone when
the process ends, however it ends.
"""

import itertools
import os
import tempfile
import threading
import weakref
from collections.abc import Hashable, Iterator

from transforms.errors import StepError, reason_of

_OPEN: "weakref.WeakValueDictionary[int, Spool]" = weakref.WeakValueDictionary()
_NUMBERS = itertools.count()


class Spool:
    """Byte strings by key, appended and read back by any thread of this process."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="hatstream-")  # noqa: SIM115 - closed by __exit__
        self._lock = threading.Lock()
        self._end = 0
        self._places: dict[Hashable, list[tuple[int, int]]] = {}
        self._rows: dict[Hashable, int] = {}
        self._number = next(_NUMBERS)
        _OPEN[self._number] = self

    def __enter__(self) -> "Spool":
        return self

    def __exit__(self, *_error: object) -> None:
        self._file.close()

    def append(self, key: Hashable, data: bytes, rows: int = 1) -> None:
        with self._lock:
            self._write(data)
            self._places.setdefault(key, []).append((self._end, len(data)))
            self._rows[key] = self._rows.get(key, 0) + rows
            self._end += len(data)

    def _write(self, data: bytes) -> None:
        try:
            written = os.pwrite(self._file.fileno(), data, self._end)
        except OSError as error:
            raise StepError(f"a temporary file in {tempfile.gettempdir()}: {reason_of(error)}") from None
        if written != len(data):
            raise StepError(f"a temporary file in {tempfile.gettempdir()}: no space is left for it")

    def read(self, key: Hashable) -> Iterator[bytes]:
        for start, size in self._places.get(key, ()):
            yield os.pread(self._file.fileno(), size, start)

    def rows(self, key: Hashable) -> int:
        return self._rows.get(key, 0)

    @property
    def total_rows(self) -> int:
        with self._lock:
            return sum(self._rows.values())

    def __reduce__(self) -> tuple[object, ...]:
        """Steps carry a spool by its number: it cannot leave the process."""
        return _find, (self._number,)


def _find(number: int) -> Spool:
    try:
        return _OPEN[number]
    except KeyError:
        raise RuntimeError("a spool lives and ends with its process") from None
