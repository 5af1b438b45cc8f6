"""Hours with a trip by cell: of a town with a gap at night, a line at peak hours alone, and trips beyond midnight."""

import csv
from collections import defaultdict

import h3
import numpy as np
import pytest

from companions.city.tests.feeds import FEED, WEEKDAYS, write
from hatstream_city.timetable import service
from hatstream_city.timetable.town import read_town
from transforms.time.trips import read_trips

runs_per_date = service._runs_per_date
HEAD = "trip_id,stop_sequence,stop_id,arrival_time,departure_time\n"
NORTH, MARKET, DEPOT = (h3.latlng_to_cell(lat, -104.6, 7) for lat in (50.5, 50.45, 50.4))
ALL_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def content(folder, **tables):
    return read_town(write(folder / "feed.zip", {**FEED, **tables}), 7).files("t")["t-hours.csv"].decode()


def hours(folder, **tables):
    """Hours by cell and weekday of the written file."""
    found = defaultdict(list)
    for row in csv.DictReader(content(folder, **tables).splitlines()):
        for day in row["weekdays"].split():
            found[row["cell"], day] += map(int, row["hours"].split())
    return found


def trip(number, *stops):
    return "".join(f"{number},{place},{stop},{time}:00,{time}:00\n" for place, (stop, time) in enumerate(stops))


def town(folder, read=hours, **tables):
    """Buses from 05:00 to 00:40 on all days, with none at night; and on workdays, at 7 and 17, to the depot."""
    daily = [trip(f"D{h}", ("A", f"{h:02d}:10"), ("B", f"{h:02d}:40")) for h in range(5, 25)]
    peak = [trip(f"P{h}", ("B", f"{h:02d}:20"), ("C", f"{h:02d}:50")) for h in (7, 17)]
    services = {"D": ("R1", "daily"), "P": ("R10", "work")}
    names = [f"D{h}" for h in range(5, 25)] + ["P7", "P17"]
    rows = "".join(f"{name},{','.join(services[name[0]])}\n" for name in names)
    calendar = "daily,1,1,1,1,1,1,1,20260511,20260524\nwork,1,1,1,1,1,0,0,20260511,20260524\n"
    written = {
        "trips": f"trip_id,route_id,service_id\n{rows}",
        "stop_times": HEAD + "".join(daily + peak),
        "calendar": f"service_id,{WEEKDAYS},start_date,end_date\n{calendar}",
    }
    return read(folder, **{**written, **tables})


def check(found) -> None:
    assert found[NORTH, "mon"] == found[NORTH, "sun"] == [0, *range(5, 24)]  # 24:10 is the next day's 00:10
    assert found[DEPOT, "wed"] == [7, 17]
    assert (DEPOT, "sat") not in found
    assert (DEPOT, "sun") not in found


def test_a_gap_at_night_and_a_line_at_peak_hours_have_no_other_hours(tmp_path):
    check(town(tmp_path))


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("_HOUR_S", 1_800),
        ("_runs_per_date", lambda calendar: np.roll(runs_per_date(calendar), 1, axis=1)),
        ("departures_of", lambda _feed: {0: [range(1)]}),
    ],
    ids=["half hours", "the next weekday", "departures"],
)
def test_hours_of_another_hour_or_weekday_are_caught(name, wrong, tmp_path, monkeypatch):
    monkeypatch.setattr(service, name, wrong)
    with pytest.raises(AssertionError):
        check(town(tmp_path))


def test_trips_beyond_midnight_are_the_next_calendar_days(tmp_path):
    late = HEAD + trip("T1", ("A", "23:30"), ("C", "26:30"))
    found = hours(tmp_path, trips="trip_id,route_id,service_id\nT1,R1,week\n", stop_times=late)
    assert found[NORTH, "mon"] == [23]
    assert found[MARKET, "tue"] == found[MARKET, "sat"] == [0, 1]  # passed in the middle of the way, about 01:00
    assert (MARKET, "mon") not in found
    assert found[DEPOT, "sat"] == [2]
    assert (DEPOT, "sun") not in found


def test_a_cell_between_stops_has_the_hours_in_which_it_is_passed(tmp_path):
    slow = HEAD + trip("T1", ("A", "06:00"), ("C", "10:00"))
    found = hours(tmp_path, trips="trip_id,route_id,service_id\nT1,R1,week\n", stop_times=slow)
    passed = {cell: found[cell, "mon"] for cell, day in found if day == "mon"}
    assert passed[NORTH] == [6]
    assert passed[DEPOT][-1] == 10
    assert set(passed[MARKET]) <= {7, 8}
    assert len(passed) > 3
    assert set().union(*passed.values()) == {6, 7, 8, 9, 10}


def test_each_departure_of_a_frequency_counts_and_the_trips_own_times_do_not(tmp_path):
    every = "trip_id,start_time,end_time,headway_secs\nP7,09:00:00,13:00:00,7200\nP7,24:00:00,24:30:00,600\n"
    found = town(tmp_path, frequencies=every)
    assert found[DEPOT, "tue"] == [0, 9, 11, 17]
    assert found[DEPOT, "mon"] == [9, 11, 17]
    assert found[DEPOT, "sat"] == [0]


def test_a_trip_of_one_date_counts_for_its_weekday_and_a_holiday_takes_none(tmp_path):
    dates = "service_id,date,exception_type\nwork,20260516,1\nwork,20260511,2\n"  # a Saturday; a Monday of two
    found = town(tmp_path, calendar_dates=dates)
    assert [day for day in ALL_DAYS if found[DEPOT, day] == [7, 17]] == ["mon", "tue", "wed", "thu", "fri", "sat"]
    both = dates + "work,20260518,2\n"
    assert (DEPOT, "mon") not in town(tmp_path, calendar_dates=both)


def test_trips_are_averaged_over_the_dates_of_a_weekday(tmp_path):
    holiday = "service_id,date,exception_type\nwork,20260511,2\n"  # one of two Mondays
    listed = read_trips(town(tmp_path, content, calendar_dates=holiday), 7)
    trips = {cell: numbers.reshape(7, 24) for cell, numbers in zip(listed.cells, listed.numbers, strict=True)}
    assert trips[DEPOT][:, 7].tolist() == [0.5, 1, 1, 1, 1, 0, 0]
    assert trips[MARKET][:, 7].tolist() == [1.5, 2, 2, 2, 2, 1, 1]
    assert listed.of_habits([NORTH, "8742d9d6bffffff", DEPOT])[:, [7, 31]].tolist() == [[1, 1], [0, 0], [0.9, 0]]
