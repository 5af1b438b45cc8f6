"""Hours of the model, separate for days off."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

from dpops.learning.releases import HOURS

SATURDAY = 5


def hours_of(slots: Sequence[int], zone: str) -> list[int]:
    """Computes slots' local hours, plus 24 on weekends."""
    return [_habit(time.hour, time.date()) for time in (datetime.fromtimestamp(slot, ZoneInfo(zone)) for slot in slots)]


def recorded_hours(start: str, end: str, hours: Sequence[int]) -> list[int]:
    """Restores slots' hours, 24 added on days off."""
    first, last = (datetime.fromisoformat(edge) for edge in (start, end))
    days = ((last - timedelta(seconds=1)).date() - first.date()).days + 1
    number, numbers = 0, [0]
    for last_hour, hour in pairwise(hours):
        number += hour < last_hour
        numbers.append(number)
    if number + 1 < days:
        numbers = [index * days // len(hours) for index in range(len(hours))]
    return [_habit(hour, first.date() + timedelta(days=day)) for hour, day in zip(hours, numbers, strict=True)]


def _habit(hour: int, day: date) -> int:
    return hour + HOURS * (day.weekday() >= SATURDAY)
