"""The range of time that a command is asked for: local dates, or ISO times on the edges of slots."""

from datetime import date, datetime, timedelta
from typing import TypeVar
from zoneinfo import ZoneInfo

from pipelines.errors import UsageError
from transforms.time.calendar import Calendar, CalendarError, Timetable, calendar

FIRST_YEAR, LAST_YEAR = 2000, 2099
"""Of a range; events of other years are refused as implausible anyway."""


def range_of(timetable: Timetable, start: str, end: str) -> Calendar:
    """Makes the calendar of --from and --to: local dates, both included, or ISO times on the edges of slots."""
    first, after = instant_of(start, timetable, last=False), instant_of(end, timetable, last=True)
    if after <= first:
        raise UsageError(f"the range is empty: --to {end} is before --from {start}")
    try:
        return calendar(timetable, first, after)
    except CalendarError as error:
        raise UsageError(str(error)) from None


def closed_range(timetable: Timetable, start: str, end: str, now: datetime) -> Calendar:
    """Reads as `range_of` does, but refuses a range unless it is over: what a slot lacks when it is sealed is lost for
    ever."""
    calendar = range_of(timetable, start, end)
    if calendar.to_s > now.timestamp():
        raise UsageError(
            f"the range ends at {timetable.text(calendar.to_s)}, which is still to come (it is "
            f"{timetable.text(int(now.timestamp()))}): only what is over is released, for it is sealed for ever"
        )
    return calendar


def yesterday(timetable: Timetable, now: datetime) -> Calendar:
    """Makes the calendar of the local day before the one that it is `now`."""
    day = (now.astimezone(ZoneInfo(timetable.zone)).date() - timedelta(days=1)).isoformat()
    return range_of(timetable, day, day)


def instant_of(text: str, timetable: Timetable, *, last: bool) -> datetime:
    """Reads a local date's first instant (or with `last` the next one's), or an ISO time. Raises UsageError."""
    day = _parsed(date, text)
    instant = day or _parsed(datetime, text)
    if instant is None:
        raise UsageError(f"{text!r} is neither a date (2016-11-24) nor an ISO time (2016-11-24T10:00)")
    if not FIRST_YEAR <= instant.year <= LAST_YEAR:
        raise UsageError(f"{text!r} is not in the years {FIRST_YEAR} to {LAST_YEAR}")
    if isinstance(instant, datetime):
        return instant if instant.tzinfo else instant.replace(tzinfo=ZoneInfo(timetable.zone))
    return timetable.midnight(instant + timedelta(days=1) if last else instant)


Parsed = TypeVar("Parsed", date, datetime)


def _parsed(kind: type[Parsed], text: str) -> Parsed | None:
    try:
        return kind.fromisoformat(text)
    except (ValueError, TypeError):  # a library's caller may give anything
        return None
