"""Slots and periods by the account's local clock."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise
from typing import Literal, NamedTuple, Protocol, get_args
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from dpops.types import Int64s

Unit = Literal["vehicle-day", "vehicle-week", "vehicle-ever"]

Weekday = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
WEEKDAYS: tuple[Weekday, ...] = get_args(Weekday)

DAY_MINUTES = 24 * 60
Interval = tuple[int, int]  # local minutes of a day: start and end, the end not included


class FirstDays(NamedTuple):
    """First days of an account, which may have other shares of its budget."""

    since: date
    days: int
    times: Fraction  # factor of the usual share

    def has(self, day: date) -> bool:
        """Checks whether a day is one of them."""
        return 0 <= (day - self.since).days < self.days

    def weekday(self, number: int) -> Weekday:
        """Computes the weekday `number` days after `since`."""
        return WEEKDAYS[(self.since.weekday() + number) % len(WEEKDAYS)]

    @property
    def weekdays(self) -> set[Weekday]:
        """Weekdays of the days."""
        return {self.weekday(number) for number in range(min(self.days, len(WEEKDAYS)))}


class Slot(NamedTuple):
    """Start of a slot, and the period it belongs to."""

    start_s: int  # seconds since 1970 UTC
    period: str  # such as 2026-05-13, 2026-W20, ever


class Where(NamedTuple):
    """Slots and periods of events, one entry each."""

    slot_start_us: Int64s
    period: Int64s  # each event's index into `periods`
    in_range: NDArray[np.bool_]
    in_service: NDArray[np.bool_]
    periods: tuple[str, ...]


class Locator(Protocol):
    """Finder of events' slots, in a range or stream."""

    def locate(self, event_us: Int64s) -> Where:
        """Finds slots and periods of events, microseconds since 1970."""


class CalendarError(ValueError):
    """Time range that slots cannot divide."""


@dataclass(frozen=True)
class Timetable:
    """Public rule of slots."""

    zone: str
    unit: Unit
    slot_minutes: int
    service: tuple[Interval, ...] = ((0, DAY_MINUTES),)  # local minutes of a day, ascending, disjoint
    weekdays: tuple[Weekday, ...] = WEEKDAYS

    @property
    def slot_s(self) -> int:
        """Length of a slot in seconds."""
        return self.slot_minutes * 60

    @property
    def service_minutes(self) -> list[int]:
        """Lists local minutes at which service slots start."""
        return [minute for start, end in self.service for minute in range(start, end, self.slot_minutes)]

    @property
    def service_span(self) -> Interval:
        """Minutes from first start to last end of service."""
        return self.service[0][0], self.service[-1][1]

    @property
    def service_text(self) -> str:
        """Writes the hours of service as a specification does."""
        return ", ".join("-".join(f"{edge // 60:02}:{edge % 60:02}" for edge in interval) for interval in self.service)

    def midnight(self, day: date) -> datetime:
        """Computes the first instant of a local day."""
        return datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(self.zone))

    def period_of(self, day: date) -> str:
        """Names the period of a local day."""
        if self.unit == "vehicle-day":
            return day.isoformat()
        if self.unit == "vehicle-week":
            year, week, _ = day.isocalendar()
            return f"{year}-W{week:02d}"
        return "ever"

    def day_slots(self, day: date) -> list[int]:
        """Lists starts of a day's slots. Raises CalendarError."""
        if WEEKDAYS[day.weekday()] not in self.weekdays:
            return []
        minutes = self._minutes_by_start(day, self.slot_minutes)
        if minutes is None:  # a change of the clock is inside a slot
            shorter = [m for m in range(self.slot_minutes - 1, 0, -1) if self.slot_minutes % m == 0]
            fit = [str(m) for m in shorter if self._minutes_by_start(day, m) is not None][:4]  # the longest
            raise CalendarError(
                f"{self.zone} changes its clock on {day}: slots of {self.slot_minutes} minutes cannot follow it"
                + (f", slots of {', '.join(fit)} can" if fit else "")
            )
        return [start_s for start_s, minute in minutes.items() if self.is_served(day.weekday(), minute)]

    def is_served(self, weekday: int, minute: int) -> bool:
        """Checks whether a local weekday, 0 for Mondays, and minute lie in service."""
        return WEEKDAYS[weekday] in self.weekdays and any(start <= minute < end for start, end in self.service)

    def never_released(self, first: date) -> str | None:
        """Explains which day within a year slots cannot divide; None if they divide all."""
        try:
            for day in _days(first, first + timedelta(days=366)):  # clock changes repeat every year
                if self._minutes_by_start(day, self.slot_minutes) is None:
                    self.day_slots(day)  # raises and says why, unless the day has no service
        except CalendarError as error:
            return f"{error}; that day, and what is planned with it, cannot be released"
        return None

    def most_served(self, days: int) -> int:
        """Counts the most service days among `days` consecutive ones."""
        return int(self.heaviest(days, dict.fromkeys(WEEKDAYS, Fraction(1))))

    def heaviest(self, days: int, weights: Mapping[Weekday, Fraction], first: FirstDays | None = None) -> Fraction:
        """Computes the largest sum of weights of `days` consecutive days.

        weights: of one day, by weekday; days without service weigh 0. first: first days, which weigh `times` as much.
        """
        served = {weekday: weights[weekday] if weekday in self.weekdays else Fraction(0) for weekday in WEEKDAYS}
        weeks, days_left = divmod(days, len(served))
        two_weeks = [*served.values()] * 2  # in which the days beyond whole weeks lie in a row, from any weekday on
        fullest = max(sum(two_weeks[begin : begin + days_left], Fraction(0)) for begin in range(len(served)))
        usual = weeks * sum(served.values(), Fraction(0)) + fullest
        if first is None:
            return usual
        around = [  # weights of all days that lie among `days` consecutive ones with a first day
            served[first.weekday(number)] * (first.times if 0 <= number < first.days else 1)
            for number in range(-days, first.days + days)
        ]
        sums = list(accumulate(around, initial=Fraction(0)))  # of the days before each one, and of all
        return max(usual, *(end - begin for begin, end in zip(sums, sums[days:], strict=False)))  # of `days` in a row

    def _minutes_by_start(self, day: date, slot_minutes: int) -> dict[int, int] | None:
        """Maps slot starts, epoch s, to local minutes; None if slots cannot follow clocks."""
        first, last = self.midnight(day), self.midnight(day + timedelta(days=1))
        start_s, end_s = int(first.timestamp()), int(last.timestamp())
        if first.utcoffset() == last.utcoffset():  # no clock change: the clock shows the minutes since midnight
            minutes_of_day = range(0, DAY_MINUTES, slot_minutes)
            return None if DAY_MINUTES % slot_minutes else {start_s + 60 * minute: minute for minute in minutes_of_day}
        minutes = {}
        for slot_s in range(start_s, end_s, slot_minutes * 60):
            local = datetime.fromtimestamp(slot_s, first.tzinfo)
            minutes[slot_s] = local.hour * 60 + local.minute
            if minutes[slot_s] % slot_minutes or local.second or slot_s + slot_minutes * 60 > end_s:
                return None
        return minutes

    def check_edge(self, edge: datetime) -> None:
        """Raises CalendarError for an aware time inside a slot."""
        local = edge.astimezone(ZoneInfo(self.zone))
        if (local.hour * 60 + local.minute) % self.slot_minutes or local.second or local.microsecond:
            raise CalendarError(f"{local.isoformat()} is not on the edge of a {self.slot_minutes}-minute slot")

    def period_days(self, day: date, first_day: date | None = None, end_day: date | None = None) -> list[date]:
        """Lists local days of a day's period. Raises CalendarError.

        first_day, end_day: of the account, the end exclusive; for vehicle-ever, whose one period has all its days.
        """
        if self.unit == "vehicle-day":
            return [day]
        if self.unit == "vehicle-week":
            monday = day - timedelta(days=day.weekday())
            return [monday + timedelta(days=i) for i in range(7)]
        if first_day is None or end_day is None:
            raise CalendarError("the period of vehicle-ever has no length without its first and last day")
        return [first_day + timedelta(days=i) for i in range((end_day - first_day).days)]

    def day_of(self, at_s: int) -> date:
        """Finds the local day of a second since 1970."""
        return datetime.fromtimestamp(at_s, ZoneInfo(self.zone)).date()

    def text(self, at_s: int) -> str:
        """Writes an instant as ISO 8601 with zone offset."""
        return datetime.fromtimestamp(at_s, ZoneInfo(self.zone)).isoformat()


@dataclass(frozen=True)
class Calendar:
    """Service slots in a closed range, for vectorised lookup."""

    slot_s: int
    from_s: int
    to_s: int
    slots: tuple[Slot, ...]

    @cached_property
    def periods(self) -> tuple[str, ...]:
        """Ids of the periods in order."""
        return tuple(dict.fromkeys(slot.period for slot in self.slots))

    @cached_property
    def _starts_and_periods(self) -> tuple[Int64s, Int64s]:
        """Slots' starts in us, and the index of each one's period."""
        index = {period: i for i, period in enumerate(self.periods)}
        starts_us = np.array([slot.start_s for slot in self.slots], np.int64) * 1_000_000
        return starts_us, np.array([index[slot.period] for slot in self.slots], np.int64)

    def locate(self, event_us: Int64s) -> Where:
        """Finds slots and periods of events, microseconds since 1970."""
        in_range = (event_us >= self.from_s * 1_000_000) & (event_us < self.to_s * 1_000_000)
        if not self.slots:
            nothing = np.zeros(event_us.size, np.int64)
            return Where(nothing, nothing, in_range, np.zeros(event_us.size, np.bool_), self.periods)
        starts_us, periods = self._starts_and_periods
        slot = np.maximum(np.searchsorted(starts_us, event_us, side="right") - 1, 0)  # the last that begins before
        start_us = starts_us[slot]
        is_inside = (event_us >= start_us) & (event_us < start_us + self.slot_s * 1_000_000)
        return Where(start_us, periods[slot], in_range, in_service=in_range & is_inside, periods=self.periods)


def calendar(timetable: Timetable, start: datetime, end: datetime) -> Calendar:
    """Builds the calendar of [start, end). Raises CalendarError."""
    from_s, to_s = int(start.timestamp()), int(end.timestamp())
    if from_s >= to_s:
        raise CalendarError(f"the range is empty: {start.isoformat()} to {end.isoformat()}")
    for edge in (start, end):
        timetable.check_edge(edge)  # raises for one inside a slot
    slots = tuple(
        Slot(start_s, period)
        for day in _days(timetable.day_of(from_s), timetable.day_of(to_s))
        for period in [timetable.period_of(day)]
        for start_s in timetable.day_slots(day)
        if from_s <= start_s < to_s
    )
    return Calendar(timetable.slot_s, from_s, to_s, slots)


def _days(first: date, last: date) -> Iterator[date]:
    for i in range((last - first).days + 1):
        yield first + timedelta(days=i)


MOST_AHEAD_S = 86_400
"""An event dated further ahead of the wall clock than this is outside of the range: its slot would be kept for ever."""


@dataclass(frozen=True)
class StreamCalendar:
    """Slots of a stream, as `Calendar` finds them.

    edge_s: start of any slot; all slots lie whole lengths from it. from_s, to_s: range of events, seconds since 1970.
    Slots before edge_s may cross a clock change, but all of their events are late.
    """

    timetable: Timetable
    edge_s: int
    from_s: int
    to_s: int

    def locate(self, event_us: Int64s) -> Where:
        """Finds slots and periods of events, microseconds since 1970."""
        zone, timetable = ZoneInfo(self.timetable.zone), self.timetable
        edge_us, slot_us = self.edge_s * 1_000_000, timetable.slot_s * 1_000_000
        to_us = min(self.to_s, int(time.time()) + MOST_AHEAD_S) * 1_000_000  # later ones are of clocks that run ahead
        in_range = (event_us >= self.from_s * 1_000_000) & (event_us < to_us)
        plausible_us = np.where(in_range, event_us, edge_us)  # others may be beyond what datetime can hold
        start_us = plausible_us - (plausible_us - edge_us) % slot_us  # of each event's slot
        starts_us, start_code = np.unique(start_us, return_inverse=True)
        local = [datetime.fromtimestamp(start_s, zone) for start_s in (starts_us // 1_000_000).tolist()]
        are_served = [timetable.is_served(slot.weekday(), slot.hour * 60 + slot.minute) for slot in local]
        periods, period = np.unique([timetable.period_of(slot.date()) for slot in local], return_inverse=True)
        in_service = in_range & np.array(are_served, np.bool_)[start_code]
        return Where(start_us, period[start_code], in_range, in_service, tuple(periods.tolist()))


@lru_cache(maxsize=512)
def _day_slots(timetable: Timetable, day: date) -> tuple[int, ...]:
    return tuple(timetable.day_slots(day))


def slots_from(timetable: Timetable, from_s: int, to_s: int) -> Iterator[int]:
    """Yields starts of service slots in [from_s, to_s), ascending."""
    day = timetable.day_of(from_s)
    while timetable.midnight(day).timestamp() < to_s:
        yield from (day_slot for day_slot in _day_slots(timetable, day) if from_s <= day_slot < to_s)
        day += timedelta(days=1)


def hours_of(slots: Sequence[int], zone: str) -> list[int]:
    """Computes slots' local hours, plus 24 on weekends."""
    return [_habit(time.hour, time.date()) for time in (datetime.fromtimestamp(slot, ZoneInfo(zone)) for slot in slots)]


def recorded_hours(start: str, end: str, hours: Sequence[int]) -> list[int]:
    """Restores slots' local hours, plus 24 on weekends, from their clock hours.

    start, end: of a period, ISO. A new day begins where the hour falls, which it never does with one slot a day:
    then slots are divided evenly among the days.
    """
    first, last = (datetime.fromisoformat(edge) for edge in (start, end))
    days = ((last - timedelta(seconds=1)).date() - first.date()).days + 1
    day_of_slot = [0, *accumulate(int(hour < last_hour) for last_hour, hour in pairwise(hours))]
    if day_of_slot[-1] + 1 < days:
        day_of_slot = [index * days // len(hours) for index in range(len(hours))]
    return [_habit(hour, first.date() + timedelta(days=day)) for hour, day in zip(hours, day_of_slot, strict=True)]


def _habit(hour: int, day: date) -> int:
    """Numbers an hour as models do, by habit: 24 more on a weekend."""
    from dpops.learning.releases import HOURS  # who reads calendars alone loads no model

    return hour + HOURS * (day.weekday() >= 5)  # 5: Saturday
