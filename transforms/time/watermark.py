"""Watermarks from transport timestamps and the wall clock alone.

A watermark promises that no event of an older slot will come. It lags the newest timestamp that the transport gave a
message or file, never events' own times: no vehicle can move it.
"""

from dataclasses import dataclass

import numpy as np
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp
from numpy.typing import NDArray

from dpops.types import Int64s

RECEIVED_S = 10  # steps of the time of receipt, where lateness follows a report's own times
GUARD_S = 30
"""So much longer a watermark then lags, so that what the rule lets in has open windows: for steps and for clocks that
differ, or producers' times that are out of order."""
_LAST_MS = 253_402_300_799_000  # of the year 9999
CLOCK_ERROR_S = 300  # a timestamp further ahead of the wall clock than this is no clock's error: it moves nothing


@dataclass(frozen=True, slots=True)
class Watermark:
    """Watermark rule of a partition or folder; `first`: promise at `start_s`; `behind_s`: its lag."""

    lag_s: int  # allowed lateness of the specification
    start_s: int | None = None  # older slots are ignored; seconds since 1970 UTC
    by_own_times: bool = False  # lateness by `own_watermarks`, not by one that other vehicles' reports move

    def __post_init__(self) -> None:
        if self.lag_s < 0:
            raise ValueError(f"allowed_lateness_s: must be at least 0, got {self.lag_s}")

    @property
    def first(self) -> Timestamp | None:
        """The promise before anything was read."""
        return None if self.start_s is None else Timestamp(self.start_s)

    @property
    def behind_s(self) -> int:
        """Seconds that a slot waits after its end."""
        return self.lag_s + (GUARD_S if self.by_own_times else 0)

    def after(self, promised: Timestamp | None, newest_ms: int | None, now_ms: int, idle: bool) -> Timestamp | None:
        """Computes the watermark after a poll; `promised` if unmoved.

        newest_ms: newest plausible timestamp. idle: for a while no message has come, and none lies unread.
        """
        newest_ms = now_ms if idle else newest_ms
        if newest_ms is None:
            return promised
        watermark = Timestamp(micros=1_000 * (min(newest_ms, now_ms) - 1_000 * self.behind_s))
        return watermark if promised is None or watermark > promised else promised

    def own_watermarks(self, received_ms: Int64s) -> Int64s:
        """Computes the watermark, us, that each message's time of receipt implies by itself."""
        step_ms = 1_000 * RECEIVED_S
        return 1_000 * (np.clip(received_ms, 0, _LAST_MS) // step_ms * step_ms - 1_000 * self.lag_s)

    def is_behind(self, promised: Timestamp | None, own_us: Int64s) -> NDArray[np.bool_]:
        """Marks messages whose own watermark, epoch us, lies before the promised one.

        own_us: by each one's time of receipt alone. Such messages are counted: their slots may be closed already. The
        first promise, `start_s`, overtakes none: older slots are ignored by rule.
        """
        if promised is None or promised == self.first:
            return np.zeros(own_us.size, np.bool_)
        return own_us < promised.micros


def is_ahead(timestamps_ms: Int64s, now_ms: int) -> NDArray[np.bool_]:
    """Marks timestamps more than CLOCK_ERROR_S ahead of the wall clock."""
    return timestamps_ms > now_ms + 1_000 * CLOCK_ERROR_S


def newest_plausible_ms(timestamps_ms: Int64s, now_ms: int) -> int | None:
    """Finds the newest positive timestamp that is not too far ahead; None without."""
    plausible = timestamps_ms[(timestamps_ms > 0) & ~is_ahead(timestamps_ms, now_ms)]
    return int(plausible.max()) if plausible.size else None


def element_time(promised: Timestamp | None) -> Timestamp:
    """Returns the timestamp to give to elements, so that none is late."""
    return MIN_TIMESTAMP if promised is None else promised
