"""Local times without an offset, placed in UTC by the rules of a time zone."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from dpops.types import Int64s

_STEP_S = 900
"""Clocks change on quarters of an hour: within one, all local times have the same offset."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)
_FIRST_S, _LAST_S = -62_135_596_800, 253_402_300_799 - 86_400  # years 1 to 9999, as datetime has them


def to_utc(local_us: Int64s, zone: str) -> tuple[Int64s, NDArray[np.bool_]]:
    """Converts to microseconds since 1970 UTC, and marks which local times happened exactly once.

    local_us: int64, microseconds since 1970 on the local clock. A time of the hour that happens twice when the clock is
    set back, or of the one that is left out when it is set forward, has no one instant: nothing guesses which is meant.
    """
    steps, place = np.unique(local_us // (_STEP_S * 1_000_000), return_inverse=True)
    offsets = [_offset_s(int(step) * _STEP_S, zone) for step in steps]
    is_known = np.array([offset is not None for offset in offsets], np.bool_)
    offset_us = np.array([offset or 0 for offset in offsets], np.int64) * 1_000_000
    return local_us - offset_us[place], is_known[place]


@lru_cache(maxsize=65_536)
def _offset_s(local_s: int, zone: str) -> int | None:
    """Finds the offset of a local quarter of an hour; None where it happens twice or not at all."""
    if not _FIRST_S + 86_400 <= local_s <= _LAST_S:
        return 0  # implausible in any zone
    local = _EPOCH + timedelta(seconds=local_s)
    once, again = (local.replace(tzinfo=ZoneInfo(zone), fold=fold).utcoffset() for fold in (0, 1))
    return None if once is None or once != again else round(once.total_seconds())
