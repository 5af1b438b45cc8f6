"""The calendar and the heartbeat of a stream: the same slots as a closed range's, found day by day."""

import time
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from tests.stream.by_hand import ByHand
from transforms.sources.unbounded import MOST_SLOTS, _Beat, _Slots, due
from transforms.time.calendar import StreamCalendar, Timetable, calendar

NEW_YORK = Timetable("America/New_York", "vehicle-week", 30, ((5 * 60, 22 * 60),))
FROM_S, TO_S = 946_684_800, 4_102_444_800


def around(day, days=9):
    """Event times every ten minutes around a day."""
    first_s = int(day.timestamp())
    return np.arange(first_s, first_s + days * 86_400, 600, np.int64) * 1_000_000


@pytest.mark.parametrize("day", [datetime(2026, 3, 5, tzinfo=UTC), datetime(2025, 10, 29, tzinfo=UTC)])
def test_events_have_the_slots_and_periods_of_a_closed_range_also_where_the_clock_changes(day):
    events = around(day)
    running = StreamCalendar(NEW_YORK, FROM_S, FROM_S, TO_S).locate(events)
    closed = calendar(
        NEW_YORK, NEW_YORK.midnight(day.date() - timedelta(2)), NEW_YORK.midnight(day.date() + timedelta(20))
    )
    expected = closed.locate(events)
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
