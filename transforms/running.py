"""The slots of a stream, which has no last day: found day by day, when an event or the clock gets there."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

import numpy as np

from dpops.types import Int64s
from transforms.calendar import Calendar, Slot, Timetable, Where

DAY_S = 86_400
AHEAD_S = DAY_S
"""An event dated further ahead of the wall clock than this is outside of the range: its slot would be kept for ever."""


@dataclass(frozen=True)
class RunningCalendar:
    """Finds slots as `Calendar` does, from `from_s` on; the clock, and at last `to_s`, end the range.

    from_s, to_s: seconds since 1970 UTC.
    """

    timetable: Timetable
    from_s: int
    to_s: int

    def locate(self, event_us: Int64s) -> Where:
        """Slot and period of each event. event_us: int64 microseconds since 1970 UTC, any value."""
        to_us = min(self.to_s, int(time.time()) + AHEAD_S) * 1_000_000
        in_range = (event_us >= self.from_s * 1_000_000) & (event_us < to_us)
        found = _calendar(self.timetable, self._days(event_us[in_range]), self.from_s, self.to_s).locate(event_us)
        return found._replace(in_range=in_range, in_service=in_range & found.in_service)

    def _days(self, event_us: Int64s) -> tuple[date, ...]:
        """The local days of the UTC days that events lie in, sorted."""
        zone = ZoneInfo(self.timetable.zone)
        edges = [at for day in np.unique(event_us // (DAY_S * 1_000_000)).tolist() for at in (day, day + 1)]
        return tuple(sorted({datetime.fromtimestamp(at * DAY_S, zone).date() for at in edges}))


@lru_cache(maxsize=64)
def _calendar(timetable: Timetable, days: tuple[date, ...], from_s: int, to_s: int) -> Calendar:
    slots = tuple(Slot(at, timetable.period_of(day)) for day in days for at in _day_slots(timetable, day))
    return Calendar(timetable.slot_s, from_s, to_s, slots)


@lru_cache(maxsize=512)
def _day_slots(timetable: Timetable, day: date) -> tuple[int, ...]:
    return tuple(timetable.day_slots(day))


def slots_from(timetable: Timetable, from_s: int, to_s: int) -> Iterator[int]:
    """Starts of the slots of service in [from_s, to_s), ascending, one day at a time."""
    day = datetime.fromtimestamp(from_s, ZoneInfo(timetable.zone)).date()
    while timetable.midnight(day).timestamp() < to_s:
        yield from (at for at in _day_slots(timetable, day) if from_s <= at < to_s)
        day += timedelta(days=1)
