"""The slots of a stream, which has no last day: found when an event or the clock gets there."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from dpops.types import Int64s
from transforms.time.calendar import Timetable, Where

DAY_S = 86_400
MOST_AHEAD_S = DAY_S
"""An event dated further ahead of the wall clock than this is outside of the range: its slot would be kept for ever."""


@dataclass(frozen=True)
class StreamCalendar:
    """Finds slots as `Calendar` does, from `from_s` on; the clock, and at last `to_s`, end the range.

    edge_s: where a slot begins. from_s, to_s: seconds since 1970 UTC. Slots are counted from the edge, as windows are,
    so that an event of any day costs the same: before the edge, where it is late in any case, its slot may lie across a
    change of the clock.
    """

    timetable: Timetable
    edge_s: int
    from_s: int
    to_s: int

    def locate(self, event_us: Int64s) -> Where:
        """Finds slot and period of each event. event_us: int64 microseconds since 1970 UTC, any value."""
        edge_us, slot_us = self.edge_s * 1_000_000, self.timetable.slot_s * 1_000_000
        to_us = min(self.to_s, int(time.time()) + MOST_AHEAD_S) * 1_000_000
        in_range = (event_us >= self.from_s * 1_000_000) & (event_us < to_us)
        found_us = np.where(in_range, event_us, edge_us)
        start_us = found_us - (found_us - edge_us) % slot_us
        starts_us, place = np.unique(start_us, return_inverse=True)
        names, in_service = self._places(starts_us // 1_000_000)
        index = {name: i for i, name in enumerate(dict.fromkeys(names))}
        period = np.array([index[name] for name in names], np.int64)
        return Where(start_us, period[place], in_range, in_range & in_service[place], tuple(index))

    def _places(self, starts_s: Int64s) -> tuple[list[str], NDArray[np.bool_]]:
        """Finds the period of each slot, and whether it is one of service."""
        zone, timetable = ZoneInfo(self.timetable.zone), self.timetable
        local = [datetime.fromtimestamp(start_s, zone) for start_s in starts_s.tolist()]
        in_service = np.array([timetable.is_in_service(at.hour * 60 + at.minute) for at in local], np.bool_)
        return [timetable.period_of(start_s.date()) for start_s in local], in_service


@lru_cache(maxsize=512)
def _day_slots(timetable: Timetable, day: date) -> tuple[int, ...]:
    return tuple(timetable.day_slots(day))


def slots_from(timetable: Timetable, from_s: int, to_s: int) -> Iterator[int]:
    """Yields the starts of the slots of service in [from_s, to_s), ascending, one day at a time."""
    day = datetime.fromtimestamp(from_s, ZoneInfo(timetable.zone)).date()
    while timetable.midnight(day).timestamp() < to_s:
        yield from (day_slot for day_slot in _day_slots(timetable, day) if from_s <= day_slot < to_s)
        day += timedelta(days=1)
