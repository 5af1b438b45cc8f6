"""Public hours with a trip: rows of other hours are left out; a wrong weekday or hour is caught."""

import h3
import pytest

from tests.transforms.sinks.units import slot_of, unit
from transforms.sinks.rows import Shape, rows_of
from transforms.time import trips
from transforms.time.calendar import Timetable
from transforms.time.trips import read_trips

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


def test_rows_are_those_of_hours_with_a_trip_on_that_weekday() -> None:
    check()


@pytest.mark.parametrize(("days", "hours"), [(1, 0), (6, 0), (0, 1), (0, -1)])
def test_a_filter_by_another_weekday_or_hour_is_caught(days: int, hours: int, monkeypatch: pytest.MonkeyPatch) -> None:
    content = read_trips(LIST, 7)
    monkeypatch.setattr(trips, "week_hours", moved(trips.week_hours, days, hours))
    monkeypatch.setitem(globals(), "read_trips", lambda _content, _resolution: content)
    with pytest.raises(AssertionError):
        check()


def test_live_rows_are_filtered_and_products_are_not() -> None:
    shape, early = Shape(trips=read_trips(LIST, 7)), {"slot_start": "2026-05-01T04:00:00-05:00"}
    early["slot_end"] = "2026-05-01T05:00:00-05:00"
    assert rows_of(SLOT._replace(is_live=True, **early), shape) == []
    assert rows_of(SLOT._replace(**early), Shape(trips=shape.trips, unknown=True)) == []
    assert len(rows_of(SLOT._replace(product="days", **early), shape)) == 2


def test_hats_with_a_trip_are_counted_over_a_week_by_slot_and_by_parent() -> None:
    listed, table = read_trips(LIST, 7), Timetable("UTC", "vehicle-day", 60)
    assert listed.number(CELLS, table) == 5 * 3 + 2 + 2
    assert listed.of_hats(CELLS, table).shape == (7 * 24, 2)
    assert listed.number(CELLS, Timetable("UTC", "vehicle-day", 120)) == 5 * 2 + 2 + 2
    assert listed.number(CELLS, Timetable("UTC", "vehicle-day", 60, ((0, 660),), ("sat",))) == 1 + 1
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
def test_a_list_that_is_wrong_is_refused_with_its_line(content: str, rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        read_trips(content, 7)
