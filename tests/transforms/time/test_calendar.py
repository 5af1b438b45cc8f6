"""Slots, periods and days off on the clock of the account's zone; a stream's are the same. Public hours with a trip."""

import time
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import h3
import numpy as np
import pytest

from tests.stream.by_hand import ByHand
from tests.transforms.sinks.units import slot_of, unit
from transforms.sinks.rows import Shape, rows_of
from transforms.sources.unbounded import MOST_SLOTS, _Beat, _Slots, due
from transforms.time import trips
from transforms.time.calendar import CalendarError, StreamCalendar, Timetable, calendar, hours_of, recorded_hours
from transforms.time.trips import read_trips


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


def test_saturdays_and_sundays_are_days_off():
    first = datetime(2026, 5, 1)  # a Friday
    assert hours_of(slots_of(first, 3, 60, range(7, 9)), ZONE) == [7, 8, 31, 32, 31, 32]


@pytest.mark.parametrize(("first", "days"), [(datetime(2026, 5, 4), 7), (datetime(2026, 5, 2), 1)])
@pytest.mark.parametrize(("minutes", "service"), [(60, range(24)), (15, range(6, 9)), (60, range(8, 9))])
def test_a_recorded_period_has_the_hours_that_it_was_released_with(first, days, minutes, service):
    slots = slots_of(first, days, minutes, service)
    start, end = (
        datetime.fromtimestamp(edge, ZoneInfo(ZONE)).isoformat() for edge in (slots[0], slots[-1] + 60 * minutes)
    )
    hours = hours_of(slots, ZONE)
    assert recorded_hours(start, end, [hour % 24 for hour in hours]) == hours


@pytest.mark.parametrize("first", [datetime(2026, 10, 26), datetime(2026, 3, 2), datetime(2026, 11, 1)])
def test_a_change_of_the_clock_moves_no_day(first):
    days = 1 if first.weekday() else 7
    slots = slots_of(first, days, 60, range(24))
    start, end = (datetime.fromtimestamp(edge, ZoneInfo(ZONE)).isoformat() for edge in (slots[0], slots[-1] + 3600))
    assert recorded_hours(start, end, [hour % 24 for hour in hours_of(slots, ZONE)]) == hours_of(slots, ZONE)


NEW_YORK = Timetable("America/New_York", "vehicle-week", 30, ((5 * 60, 22 * 60),))
FROM_S, TO_S = 946_684_800, 4_102_444_800


def around(day, days=9):
    """Event times every ten minutes around a day."""
    first_s = int(day.timestamp())
    return np.arange(first_s, first_s + days * 86_400, 600, np.int64) * 1_000_000


@pytest.mark.parametrize("day", [datetime(2026, 3, 5, tzinfo=UTC), datetime(2025, 10, 29, tzinfo=UTC)])
@pytest.mark.parametrize("weekdays", [NEW_YORK.weekdays, ("tue", "sat")])
def test_events_have_the_slots_and_periods_of_a_closed_range_also_where_the_clock_changes(day, weekdays):
    events, timetable = around(day), replace(NEW_YORK, weekdays=weekdays)
    running = StreamCalendar(timetable, FROM_S, FROM_S, TO_S).locate(events)
    edges = (timetable.midnight(day.date() + timedelta(days)) for days in (-2, 20))
    expected = calendar(timetable, *edges).locate(events)
    assert (running.in_service == expected.in_service).all()
    served = running.in_service
    assert served.any()
    assert (running.slot_start_us[served] == expected.slot_start_us[served]).all()
    names = [[where.periods[i] for i in where.period[served]] for where in (running, expected)]
    assert names[0] == names[1]


def test_events_of_any_time_are_placed_or_refused_and_the_far_future_is_outside_of_the_range():
    now_us = int(time.time()) * 1_000_000
    events = np.array([-(2**63), 0, now_us, now_us + 2 * 86_400_000_000, 2**63 - 1], np.int64)
    where = StreamCalendar(Timetable("UTC", "vehicle-day", 60), FROM_S, FROM_S, TO_S).locate(events)
    assert where.in_range.tolist() == where.in_service.tolist() == [False, False, True, False, False]


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("zone", "minutes"),
    [("America/Mexico_City", 120), ("America/Caracas", 60), ("Australia/Lord_Howe", 30), ("Asia/Kathmandu", 15)],
)
def test_an_event_of_any_year_has_a_place_also_on_days_that_slots_cannot_follow(zone, minutes):
    """Mexico changed its clock until 2022, and Caracas in 2016 by half an hour: one old event must stop no stream."""
    timetable = Timetable(zone, "vehicle-day", minutes)
    edge_s = int(timetable.midnight(datetime(2026, 3, 7).date()).timestamp())
    events = np.arange(FROM_S, edge_s, 3_600, np.int64) * 1_000_000
    where = StreamCalendar(timetable, edge_s, FROM_S, TO_S).locate(events)
    assert where.in_range.all()
    assert where.in_service.all()
    assert (where.slot_start_us <= events).all()
    assert (events < where.slot_start_us + minutes * 60_000_000).all()
    assert ((where.slot_start_us // 1_000_000 - edge_s) % (minutes * 60) == 0).all()


def test_due_slots_have_begun_and_the_next_one_is_the_promise():
    minutes = Timetable("UTC", "vehicle-day", 1)
    assert due(minutes, 60, 600, 180) == ([60, 120], 180)
    assert due(minutes, 60, 600, 10_000) == ([60, 120, 180, 240, 300, 360, 420, 480, 540], 600)
    many, next_s = due(minutes, 0, 10**9, 10**9)
    assert (len(many), next_s) == (MOST_SLOTS, 60 * MOST_SLOTS)


def beats(reader):
    return [(element.value, int(element.timestamp)) for element in reader.step()]


def test_a_heartbeat_beats_once_for_every_slot_that_is_over_and_promises_the_beginning_of_the_next():
    now_s = int(time.time())
    start_s = now_s // 60 * 60 - 600
    reader = ByHand(_Beat(Timetable("UTC", "vehicle-day", 1), 2), _Slots(), (start_s, TO_S))
    heard = beats(reader)
    place = reader.checkpoint()
    again = ByHand(_Beat(Timetable("UTC", "vehicle-day", 1), 2), _Slots(), (start_s, TO_S))
    again.restore(place)
    heard += beats(again)
    slots = sorted({slot_s for ((slot_s, _), _), _ in heard})
    assert slots == list(range(start_s, start_s + 60 * len(slots), 60))
    assert sorted(heard) == [(((slot_s, shard), b""), slot_s) for slot_s in slots for shard in range(2)]
    assert now_s - 60 < slots[-1] + 60 == int(again.watermark) <= int(time.time()), "a slot that is not over is held"


def test_a_slot_has_no_beat_before_it_is_over_and_a_drain_gives_none():
    hour_s = int(time.time()) // 3_600 * 3_600
    beat = _Beat(Timetable("UTC", "vehicle-day", 60), 1)
    reader = ByHand(beat, _Slots(), (hour_s, TO_S))
    assert beats(reader) == []
    assert int(reader.watermark) == hour_s
    assert reader.provider.truncate((hour_s, TO_S), reader.restriction) is None


def test_a_slot_that_waits_for_late_reports_has_no_beat_before_that_is_over():
    """A drain within that time would seal it without them."""
    begun_s = int(time.time()) // 60 * 60 - 7_200
    waiting = ByHand(_Beat(Timetable("UTC", "vehicle-day", 1), 1, lag_s=3_600), _Slots(), (begun_s, TO_S))
    before_s = int(time.time())
    last_s = max(slot_s for ((slot_s, _), _), _ in beats(waiting))
    assert before_s - 3_660 < last_s + 60 <= int(time.time()) - 3_599


def test_the_heartbeat_of_an_account_that_ends_ends_with_it():
    reader = ByHand(_Beat(Timetable("UTC", "vehicle-day", 1), 1), _Slots(), (600, 780))
    fn = reader.fn
    tracker = reader.provider.create_tracker(reader.restriction)
    from apache_beam.io.watermark_estimators import ManualWatermarkEstimator

    assert [int(element.timestamp) for element in fn.process((600, 780), tracker, ManualWatermarkEstimator(None))] == [
        600, 660, 720,
    ]  # fmt: skip
    tracker.check_done()


# --- Public hours with a trip: rows of other hours are left out; a wrong weekday or hour is caught. -------------------


HEAD = "cell,weekdays,hours\n"
CELLS = ("872830828ffffff", "872830829ffffff")
LIST = f"{HEAD}{CELLS[0]},mon tue wed thu fri,6 7 10\n{CELLS[0]},sat,0 23\n{CELLS[1]},fri sat,10\n"
SLOT = slot_of(unit(5_000_000, 6_000_000))  # of Friday, 2026-05-01, 10:00 to 11:00


def moved(week_hours, days, hours):
    return lambda weekday, minute, minutes: week_hours((weekday + days) % 7, minute + 60 * hours, minutes)


def shown(content: str, start: str, end: str) -> list[str]:
    slot = SLOT._replace(slot_start=f"2026-05-0{start}:00-05:00", slot_end=f"2026-05-0{end}:00-05:00")
    return [row["cell"] for row in rows_of(slot, Shape(trips=read_trips(content, 7)))]


def check() -> None:
    assert shown(LIST, "1T10:00", "1T11:00") == [*CELLS]  # Friday
    assert shown(LIST, "4T10:00", "4T11:00") == [CELLS[0]]  # Monday
    assert shown(LIST, "1T07:45", "1T08:00") == [CELLS[0]]
    assert shown(LIST, "1T08:00", "1T08:15") == []
    assert shown(LIST, "1T08:00", "1T12:00") == [*CELLS]
    assert shown(LIST, "2T23:00", "3T00:00") == [CELLS[0]]  # Saturday
    assert shown(LIST, "3T00:00", "3T01:00") == shown(LIST, "3T10:00", "3T11:00") == []  # Sunday


def test_rows_are_those_of_hours_with_a_trip_on_that_weekday():
    check()


@pytest.mark.parametrize(("days", "hours"), [(1, 0), (6, 0), (0, 1), (0, -1)])
def test_a_filter_by_another_weekday_or_hour_is_caught(days, hours, monkeypatch):
    content = read_trips(LIST, 7)
    monkeypatch.setattr(trips, "week_hours", moved(trips.week_hours, days, hours))
    monkeypatch.setitem(globals(), "read_trips", lambda _content, _resolution: content)
    with pytest.raises(AssertionError):
        check()


def test_live_rows_are_filtered_and_products_are_not():
    shape, early = Shape(trips=read_trips(LIST, 7)), {"slot_start": "2026-05-01T04:00:00-05:00"}
    early["slot_end"] = "2026-05-01T05:00:00-05:00"
    assert rows_of(SLOT._replace(is_live=True, **early), shape) == []
    assert rows_of(SLOT._replace(**early), Shape(trips=shape.trips, unknown=True)) == []
    assert len(rows_of(SLOT._replace(product="days", **early), shape)) == 2


def test_hats_with_a_trip_are_counted_over_a_week_by_slot_and_by_parent():
    listed, table = read_trips(LIST, 7), Timetable("UTC", "vehicle-day", 60)
    assert listed.count_hats(CELLS, table) == 5 * 3 + 2 + 2
    assert listed.of_hats(CELLS, table).shape == (7 * 24, 2)
    assert listed.count_hats(CELLS, Timetable("UTC", "vehicle-day", 120)) == 5 * 2 + 2 + 2
    assert listed.count_hats(CELLS, Timetable("UTC", "vehicle-day", 60, ((0, 660),), ("sat",))) == 1 + 1
    both = listed.of_parents()
    assert (both.cells, both.numbers.tolist()) == ((h3.cell_to_parent(CELLS[0]),), [sum(listed.numbers).tolist()])


def test_numbers_of_trips_are_read_and_without_them_none_are_known():
    counted = read_trips(f"{HEAD.strip()},trips\n{CELLS[0]},mon sun,6 7,2 0.5\n", 7)
    assert counted.are_counted
    assert not read_trips(LIST, 7).are_counted
    assert counted.of_habits(CELLS)[:, [6, 7, 30, 31]].tolist() == [[0.4, 0.1, 1, 0.25], [0, 0, 0, 0]]


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        ("cell,hours\n", "columns cell, weekdays, hours, and may have trips"),
        (f"{HEAD.strip()},trips\n{CELLS[0]},mon,5 6,1\n", "line 2 needs as many trips as hours"),
        (f"{HEAD.strip()},trips\n{CELLS[0]},mon,5 6,1 0\n", "numbers of trips above 0"),
        (f"{HEAD.strip()},trips\n{CELLS[0]},mon,5,many\n", "numbers of trips above 0"),
        (HEAD, "an hour with a trip"),
        (f"{HEAD}nowhere,mon,5\n", "line 2 needs a cell of resolution 7"),
        (f"{HEAD}882830828bfffff,mon,5\n", "line 2 needs a cell of resolution 7"),
        (f"{HEAD}{CELLS[0]},monday,5\n", "line 2 needs weekdays"),
        (f"{HEAD}{CELLS[0]},mon,24\n", "hours from 0 to 23"),
        (f"{HEAD}{CELLS[0]},mon\n", "an hour with a trip"),
    ],
)
def test_a_list_that_is_wrong_is_refused_with_its_line(content, rule):
    with pytest.raises(ValueError, match=rule):
        read_trips(content, 7)
