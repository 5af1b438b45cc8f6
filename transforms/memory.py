"""Tuning of glibc's allocator to reuse freed memory."""

import ctypes
from contextlib import suppress

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt, see malloc.h of glibc
_KEPT_BYTES = 256 << 20
_LARGEST_BYTES = 32 << 20  # the most that glibc takes; larger arrays are given back at once


def keep_freed_memory() -> None:
    """Makes glibc reuse freed memory, which saves page faults."""
    with suppress(AttributeError, OSError):  # of another libc
        libc = ctypes.CDLL(None)
        libc.mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
        libc.mallopt(_MMAP_THRESHOLD, _LARGEST_BYTES)
