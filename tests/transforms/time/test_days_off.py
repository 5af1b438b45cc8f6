"""Hours of days off are told from those of working days, of slots to come and of recorded ones alike."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from transforms.time.calendar import hours_of, recorded_hours

ZONE = "America/Chicago"


def slots_of(first: datetime, days: int, minutes: int, service: range) -> list[int]:
    """The starts of slots in the local hours of service of so many days."""
    start = first.replace(tzinfo=ZoneInfo(ZONE)).astimezone(UTC)
    every = [start + timedelta(minutes=minute) for minute in range(0, (days * 24 + 1) * 60, minutes)]
    local = [moment.astimezone(ZoneInfo(ZONE)) for moment in every]
    last = first.date() + timedelta(days=days)
    return [int(moment.timestamp()) for moment in local if moment.hour in service and moment.date() < last]


def test_saturdays_and_sundays_are_days_off() -> None:
    first = datetime(2026, 5, 1)  # a Friday
    assert hours_of(slots_of(first, 3, 60, range(7, 9)), ZONE) == [7, 8, 31, 32, 31, 32]


@pytest.mark.parametrize(("first", "days"), [(datetime(2026, 5, 4), 7), (datetime(2026, 5, 2), 1)])
@pytest.mark.parametrize(("minutes", "service"), [(60, range(24)), (15, range(6, 9)), (60, range(8, 9))])
def test_a_recorded_period_has_the_hours_that_it_was_released_with(
    first: datetime, days: int, minutes: int, service: range
) -> None:
    slots = slots_of(first, days, minutes, service)
    start, end = (
        datetime.fromtimestamp(edge, ZoneInfo(ZONE)).isoformat() for edge in (slots[0], slots[-1] + 60 * minutes)
    )
    hours = hours_of(slots, ZONE)
    assert recorded_hours(start, end, [hour % 24 for hour in hours]) == hours


@pytest.mark.parametrize("first", [datetime(2026, 10, 26), datetime(2026, 3, 2), datetime(2026, 11, 1)])
def test_a_change_of_the_clock_moves_no_day(first: datetime) -> None:
    days = 1 if first.weekday() else 7
    slots = slots_of(first, days, 60, range(24))
    start, end = (datetime.fromtimestamp(edge, ZoneInfo(ZONE)).isoformat() for edge in (slots[0], slots[-1] + 3600))
    assert recorded_hours(start, end, [hour % 24 for hour in hours_of(slots, ZONE)]) == hours_of(slots, ZONE)
