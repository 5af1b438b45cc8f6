"""Small files of an operator's, read whole: never a pipe or a device, and never more than was to be expected."""

import errno
import os
import stat
from pathlib import Path


def read_regular(path: Path, most_bytes: int) -> bytes:
    """Raises OSError, also for what is no regular file (at once: it is not opened to wait) and for a larger one."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "is no regular file", str(path))
        if status.st_size > most_bytes:
            raise OSError(errno.EFBIG, f"is of more than {most_bytes:,} bytes", str(path))
        return file.read(status.st_size)  # so much memory is taken at once, however little comes


def read_text(path: Path, most_bytes: int) -> str:
    """Reads UTF-8, without the mark that editors and spreadsheets on Windows put first. Raises OSError likewise, also
    for other bytes."""
    try:
        return read_regular(path, most_bytes).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise OSError(errno.EILSEQ, "is no text in UTF-8", str(path)) from None


def is_skipped(name: str) -> bool:
    """Says whether a name in a folder or archive is of a file that systems and jobs leave beside those of a feed.

    >>> [is_skipped(name) for name in ("2026/bus.csv", "_SUCCESS", "__MACOSX/._bus.csv", ".part")]
    [False, True, True, True]
    """
    return any(part.startswith((".", "_")) for part in name.split("/") if part)
