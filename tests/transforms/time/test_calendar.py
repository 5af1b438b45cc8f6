"""Slots, periods and days off on the clock of the account's zone."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from transforms.time.calendar import CalendarError, StreamCalendar, Timetable, calendar, hours_of, recorded_hours


def day_of(zone, minutes, day, unit="vehicle-day", **service):
    table = Timetable(zone, unit, minutes, **service)
    return calendar(table, table.midnight(day), table.midnight(date.fromordinal(day.toordinal() + 1))), table


@pytest.mark.parametrize(
    ("zone", "day", "hours"),
    [
        ("America/Chicago", date(2026, 3, 8), 23),
        ("America/Chicago", date(2026, 11, 1), 25),
        ("Asia/Kolkata", date(2022, 1, 1), 24),
        ("Asia/Kathmandu", date(2022, 1, 1), 24),
        ("America/Sao_Paulo", date(2018, 11, 4), 23),  # its clock changed at midnight
    ],
)
def test_a_day_has_as_many_hourly_slots_as_hours(zone, day, hours):
    of_day, table = day_of(zone, 60, day)
    assert len(of_day.slots) == hours
    assert {slot.period for slot in of_day.slots} == {day.isoformat()}
    assert all(table.text(slot.start_s)[14:16] == "00" for slot in of_day.slots)


def test_slots_of_half_past_are_on_local_hours_not_on_utc_hours():
    of_day, table = day_of("Asia/Kolkata", 60, date(2022, 1, 1))
    assert table.text(of_day.slots[10].start_s) == "2022-01-01T10:00:00+05:30"
    assert of_day.slots[10].start_s % 3600 == 1800


@pytest.mark.parametrize(
    ("zone", "minutes", "day", "fit"),
    [
        ("America/Chicago", 120, date(2026, 3, 8), "60, 30, 20, 15"),
        ("Australia/Lord_Howe", 60, date(2026, 4, 5), "30, 15, 10, 6"),
    ],
)
def test_slots_that_cannot_follow_a_clock_change_are_refused_with_some_that_can(zone, minutes, day, fit):
    with pytest.raises(CalendarError, match=f"changes its clock on {day}.* slots of {fit} can"):
        day_of(zone, minutes, day)
    for length in fit.split(", "):
        day_of(zone, int(length), day)


@pytest.mark.parametrize(
    ("zone", "minutes", "day"),
    [
        ("America/Chicago", 1440, "2027-03-14"),
        ("Australia/Lord_Howe", 60, "2027-04-04"),
        ("Australia/Lord_Howe", 30, None),
        ("America/Chicago", 60, None),
        ("Asia/Kathmandu", 1440, None),
    ],
)
def test_a_day_that_will_be_refused_is_told_a_year_ahead(zone, minutes, day):
    told = Timetable(zone, "vehicle-day", minutes).never_released(date(2026, 11, 24))
    assert told is None if day is None else told.startswith(f"{zone} changes its clock on {day}: slots of {minutes}")


def test_service_is_by_the_local_clock_also_on_the_day_of_a_change():
    of_day, table = day_of("America/Chicago", 60, date(2026, 3, 8), service=((300, 1440),))
    assert table.text(of_day.slots[0].start_s) == "2026-03-08T05:00:00-05:00"
    assert len(of_day.slots) == 19


def test_service_may_pause_and_go_on_after_midnight():
    of_day, table = day_of("America/Chicago", 60, date(2026, 5, 1), service=((0, 60), (300, 420), (1380, 1440)))
    assert [table.text(slot.start_s)[11:13] for slot in of_day.slots] == ["00", "05", "06", "23"]
    assert (len(table.service_minutes), table.service_text) == (4, "00:00-01:00, 05:00-07:00, 23:00-24:00")
    hours = np.array([slot_s * 1_000_000 for slot_s in range(of_day.from_s, of_day.to_s, 3_600)])
    assert np.flatnonzero(of_day.locate(hours).in_service).tolist() == [0, 5, 6, 23]
    stream = StreamCalendar(table, of_day.from_s, of_day.from_s, of_day.to_s)
    assert np.flatnonzero(stream.locate(hours).in_service).tolist() == [0, 5, 6, 23]


def test_events_are_located_at_the_edges_of_slots_service_and_range():
    of_day, table = day_of("America/Chicago", 60, date(2026, 5, 1), service=((300, 360),))
    start = of_day.slots[0].start_s * 1_000_000
    where = of_day.locate(
        np.array([start - 1, start, start + 3_599_999_999, start + 3_600_000_000, of_day.to_s * 10**6, -(2**62), 2**62])
    )
    assert where.in_service.tolist() == [False, True, True, False, False, False, False]
    assert where.in_range.tolist() == [True, True, True, True, False, False, False]
    assert where.slot_start_us[1] == start
    assert table.text(of_day.to_s) == "2026-05-02T00:00:00-05:00"


def test_a_range_that_would_cut_a_slot_is_refused():
    zone = ZoneInfo("America/Chicago")
    table = Timetable("America/Chicago", "vehicle-day", 60)
    with pytest.raises(CalendarError, match="edge"):
        calendar(table, datetime(2026, 5, 1, 10, 30, tzinfo=zone), datetime(2026, 5, 1, 12, tzinfo=zone))


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
