"""Atomic writes by one writer, and bounded file reads."""

import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from transforms.failpoints import failpoint

LOCK_S = 60.0  # how long we wait for a lock: writers hold it for one file, but whoever may read the folder may lock it


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds a folder's lock within the block, then syncs the folder. Raises OSError."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        _lock(handle, folder)
        yield
        os.fsync(handle)
    finally:
        os.close(handle)


def _lock(handle: int, folder: Path) -> None:
    """Locks a folder, waiting up to LOCK_S. Raises TimeoutError."""
    until = time.monotonic() + LOCK_S
    while True:
        try:
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                rule = f"another process has kept it locked for over {LOCK_S:g} s"
                raise TimeoutError(errno.ETIMEDOUT, rule, str(folder)) from None
        time.sleep(0.02)


@contextmanager
def replacing(path: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Yields a new file that replaces `path` on success; callers lock the folder.

    The part file of a killed writer, or a link planted in its place, is removed and never followed. Raises OSError,
    also if the path is neither a file nor a link: as root, /dev/null could be replaced. mode: the file's permissions.
    """
    if path.exists() and not (path.is_file() or path.is_symlink()):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    partial_path = path.with_name(f".{path.name}.part")
    partial_path.unlink(missing_ok=True)
    handle = os.open(partial_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial_path.replace(path)
    except OSError as error:
        partial_path.unlink(missing_ok=True)  # frees a full disk
        error.filename = error.filename or str(path)  # errors of a write name no file
        raise


def write_whole(path: Path, data: bytes, check: Callable[[], None] | None = None, *, mode: int = 0o666) -> None:
    """Writes a file completely or not at all, synced. Raises OSError.

    path: of an existing folder; links are not followed, and anything but a regular file is refused. check: called under
    the folder's lock before writing; its exception leaves all unchanged. mode: permissions, less the process's umask.

    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp()) / "rows.csv"
    >>> write_whole(path, b"cell,value")
    >>> path.read_text()
    'cell,value'
    """
    with locked(path.parent):
        if check is not None:
            check()
        with replacing(path, mode) as file:
            file.write(data[: len(data) // 2])  # in halves, so that tests can interrupt a write
            file.flush()
            failpoint("mid-file")
            file.write(data[len(data) // 2 :])
            file.flush()
            failpoint("before-rename")


def read_regular(path: Path, most_bytes: int) -> bytes:
    """Reads a regular file; raises OSError for a larger or irregular one, without blocking."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "is not a regular file", str(path))
        if status.st_size > most_bytes:
            raise OSError(errno.EFBIG, f"is of more than {most_bytes:,} bytes", str(path))
        return file.read(status.st_size)  # not most_bytes: read takes that much memory at once, however little comes


def read_text(path: Path, most_bytes: int) -> str:
    """Reads UTF-8 text, dropping a byte order mark; raises OSError for other bytes."""
    try:
        return read_regular(path, most_bytes).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise OSError(errno.EILSEQ, "is no text in UTF-8", str(path)) from None


def is_skipped(name: str) -> bool:
    """Recognises hidden and job files beside a feed's.

    >>> [is_skipped(name) for name in ("./2026/bus.csv", "_SUCCESS", "__MACOSX/._bus.csv", ".part")]
    [False, True, True, True]
    """
    return any(part.startswith((".", "_")) for part in name.split("/") if part.strip("."))  # "." and ".." are no names
