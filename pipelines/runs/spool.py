"""Shuffle of a scheduled job in a temporary file."""

import itertools
import os
import tempfile
import threading
import weakref
from collections.abc import Iterator

import msgspec

from transforms.errors import StepError, reason_of

_OPEN: "weakref.WeakValueDictionary[int, Spool]" = weakref.WeakValueDictionary()  # this process's spools, by number
_SPOOL_NUMBERS = itertools.count()

ByteRange = tuple[int, int]  # start and size in the file


class Spool:
    """Byte strings in one file, for all threads of this process."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="hatstream-")  # noqa: SIM115 - see __exit__
        self._lock = threading.Lock()
        self._end = 0
        self._appended: list[ByteRange] = []
        self._number = next(_SPOOL_NUMBERS)
        _OPEN[self._number] = self  # by which unpickled steps of the pipeline find it: see __reduce__

    def __enter__(self) -> "Spool":
        return self

    def __exit__(self, *_error: object) -> None:
        self._file.close()

    def append(self, data: bytes) -> None:
        """Appends data for `read_appended`."""
        with self._lock:
            self._appended.append(self._write(data))

    def put(self, data: bytes) -> bytes:
        """Appends data; returns a reference for the shuffle."""
        with self._lock:
            return msgspec.msgpack.encode(self._write(data))

    def get(self, put: bytes) -> bytes:
        """Reads the data of a reference returned by `put`."""
        return self._read(msgspec.msgpack.decode(put, type=ByteRange))

    def read_appended(self) -> Iterator[bytes]:
        """Yields all data that `append` was given."""
        return map(self._read, self._appended)

    def _write(self, data: bytes) -> ByteRange:
        """Writes at the file's end. Raises StepError if the disk is full or fails."""
        try:
            written = os.pwrite(self._file.fileno(), data, self._end)
        except OSError as error:
            raise StepError(f"a temporary file in {tempfile.gettempdir()}: {reason_of(error)}") from None
        if written != len(data):
            raise StepError(f"a temporary file in {tempfile.gettempdir()}: no space is left: free some, or set TMPDIR")
        self._end += written
        return self._end - written, written

    def _read(self, byte_range: ByteRange) -> bytes:
        start, size = byte_range
        return os.pread(self._file.fileno(), size, start)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickles a spool as its number in this process."""
        return _find, (self._number,)


def _find(number: int) -> Spool:
    """Finds an open spool of this process, in place of unpickling one."""
    try:
        return _OPEN[number]
    except KeyError:
        raise RuntimeError("a spool lives and ends with its process") from None
