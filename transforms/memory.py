"""What becomes of memory that a process has freed: it is kept for the next batch."""

import ctypes
from contextlib import suppress

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt, see malloc.h of glibc
_KEPT_BYTES = 256 << 20
_LARGEST_BYTES = 32 << 20  # the most that glibc takes; larger arrays are given back at once


def keep_freed_memory() -> None:
    """Keeps what this process frees, where its allocator is glibc's. Columns of batches are large, and freed and asked
    for again all the time: given back to the system, each page of them costs a fault, up to a fifth of a release's
    time."""
    with suppress(AttributeError, OSError):  # of another libc
        libc = ctypes.CDLL(None)
        libc.mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
        libc.mallopt(_MMAP_THRESHOLD, _LARGEST_BYTES)
