"""Speeds and headings from consecutive positions: right on the globe, the same however rows are parted."""

import math
from dataclasses import replace
from fractions import Fraction
from functools import cache

import h3
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.transforms.inputs import rules
from tests.transforms.places.lines import collection, line
from transforms.count.tally import derived_events, tally
from transforms.observe import derived_speed
from transforms.observe.derived_speed import HeadingLimits, Positions, SpeedLimits, derived_headings, derived_speeds
from transforms.places.ground import SECTORS, Hexagons, sector_of
from transforms.places.shapes import shape_pieces
from transforms.records import NO_HEADING
from transforms.wire import S_US, Events

SLOT_S = 3_600


def positions(*rows):
    """rows: (vehicle, seconds, latitude, longitude)."""
    columns = [(vehicle, round(s * S_US), round(lat * 1e7), round(lon * 1e7)) for vehicle, s, lat, lon in rows]
    return Positions(*np.array(columns, np.int64).T)


rows = st.lists(
    st.tuples(
        st.integers(1, 6),  # vehicle
        st.integers(0, 3 * SLOT_S * 10 - 1),  # tenths of a second, over three slots
        st.integers(0, 40),  # of 0.001 degrees
        st.integers(0, 40),
    ),
    max_size=60,
)


def id_of(vehicle):
    """The id that `events_of` gives a vehicle of `rows`."""
    return vehicle * 1_000_003


def events_of(some):
    """By slot, as they come."""
    slots = {}
    for vehicle, tenths, lat, lon in some:
        slots.setdefault(tenths // 10 // SLOT_S * SLOT_S, []).append((vehicle, tenths, lat, lon))
    return {
        slot_s: Events(
            vehicle=np.array([id_of(row[0]) for row in events], np.int64),
            offset_us=np.array([row[1] * S_US // 10 - slot_s * S_US for row in events], np.int64),
            lat_e7=np.array([300_000_000 + row[2] * 10_000 for row in events], np.int64),
            lon_e7=np.array([-977_000_000 + row[3] * 10_000 for row in events], np.int64),
            cell=np.array([row[2] // 10 for row in events], np.int64),
            value=np.zeros(len(events), np.int64),
        )
        for slot_s, events in slots.items()
    }


def in_one_order(ordered):
    """Every event as a tuple, its slot first."""
    return sorted(
        (slot_s, *map(int, row)) for slot_s, events in ordered.by_slot().items() for row in zip(*events, strict=True)
    )


RULES = replace(rules(), derived=SpeedLimits(120, Fraction(100)))


def kmh_between(one, other, seconds):
    """Speed by the haversine formula. one, other: latitude and longitude in degrees."""
    a, b, c, d = (math.radians(degrees) for degrees in (*one, *other))
    half = math.sin((c - a) / 2) ** 2 + math.cos(a) * math.cos(c) * math.sin((d - b) / 2) ** 2
    return 2 * 6_371_008.8 * math.asin(math.sqrt(half)) / seconds * 3.6


@pytest.mark.parametrize("lat", [0.0, 30.25, -33.9, 59.9, 78.2, -89.0])
@pytest.mark.parametrize("lon", [-97.7, 0.0, 179.9995])
def test_a_speed_is_the_distance_on_the_globe_over_the_time(lat, lon):
    east = (lon + 0.001 + 180) % 360 - 180
    having, speeds, _ = derived_speeds(
        positions((1, 0, lat, lon), (1, 60, lat + 0.002, east)), RULES.derived, RULES.grid
    )
    kmh = kmh_between((lat, lon), (lat + 0.002, east), 60)
    assert having.tolist() == [1]
    assert speeds[0] / 100 == pytest.approx(kmh, rel=1e-3, abs=0.006)


def test_what_has_no_speed_says_why():
    some = positions((1, 0, 30, 0), (1, 60, 30.001, 0), (1, 181, 30.002, 0), (1, 190, 31, 0), (2, 200, 31, 0))
    having, _, without = derived_speeds(some, RULES.derived, RULES.grid)
    assert having.tolist() == [1]
    assert without == {derived_speed.FIRST: 2, derived_speed.GAP: 1, derived_speed.TOO_FAST: 1}


def derived_of(some):
    return derived_events(events_of(some), RULES, Hexagons(7, None))


def speeds_of(some):
    """Every event that has a speed, in one order."""
    return in_one_order(derived_of(some)[0])


@given(rows)
def test_rows_are_all_accounted_for(some):
    ordered, without = derived_of(some)
    assert ordered.slot_s.size + sum(without.values()) + ordered.duplicates == len(some)


def test_a_speed_reaches_over_the_edge_of_a_slot():
    some = [(1, 35_990, 0, 0), (1, 36_590, 5, 0)]
    ((slot_s, *_, speed),) = speeds_of(some)
    assert slot_s == SLOT_S
    assert speed / 100 == pytest.approx(kmh_between((30, 0), (30.005, 0), 60), rel=1e-3)


LIMITS = HeadingLimits(120, 15)


@pytest.mark.parametrize("lat", [0.0, 30.25, -33.9, 59.9])
@pytest.mark.parametrize("lon", [-97.7, 179.9995])
def test_a_heading_is_the_way_from_the_row_before(lat: float, lon: float) -> None:
    for degrees in (0, 10, 45, 100, 181, 260, 349):
        north, east = 0.002 * math.cos(math.radians(degrees)), 0.002 * math.sin(math.radians(degrees))
        there = (lon + east / math.cos(math.radians(lat)) + 180) % 360 - 180
        headings = derived_headings(positions((1, 0, lat, lon), (1, 60, lat + north, there)), LIMITS)
        assert headings[0] == NO_HEADING
        assert sector_of(headings[1:]).tolist() == sector_of(np.array([degrees])).tolist()


def test_every_direction_lies_in_the_sector_of_its_degrees() -> None:
    degrees = np.arange(0, 360, dtype=np.int64)
    angle = np.radians(degrees)
    numbers = derived_speed.sectors(np.round(1e4 * np.sin(angle)), np.round(1e4 * np.cos(angle)))
    assert numbers.tolist() == sector_of(degrees).tolist()
    assert sector_of(np.arange(SECTORS) * 360 // SECTORS).tolist() == list(range(SECTORS))


def test_a_vehicle_that_stands_looks_where_it_went_and_after_a_gap_nobody_knows() -> None:
    still = ((1, 60, 30.001, 0), (1, 120, 30.00101, 0), (1, 240, 30.001, 0), (1, 400, 30.001, 0), (1, 430, 30, 0))
    headings = derived_headings(positions((1, 0, 30, 0), *still, (2, 431, 31, 0), (2, 432, 31, 0)), LIMITS)
    assert headings.tolist() == [NO_HEADING, 0, 0, 0, NO_HEADING, 180, NO_HEADING, NO_HEADING]
    assert derived_headings(Positions(*np.zeros((4, 0), np.int64)), LIMITS).size == 0


EDGES = {"north": [(29.999, -97.698), (30.041, -97.698)], "east": [(30.002, -97.701), (30.002, -97.659)]}
LINES = {name + way: edge[::step] for name, edge in EDGES.items() for way, step in (("", 1), (" back", -1))}
STREETS = collection(*(line(name, *positions, directed=True, buffer_m=400) for name, positions in LINES.items()))
CENTRE = h3.latlng_to_cell(30.02, -97.68, 7)


@cache
def ground():
    return shape_pieces(STREETS, tuple(sorted(h3.str_to_int(cell) for cell in h3.grid_disk(CENTRE, 2))))


def places_of(some: list[tuple[int, int, int, int]]) -> list[tuple[int, ...]]:
    """Every event with what it is counted under, in one order."""
    return in_one_order(derived_events(events_of(some), replace(rules(), turning=LIMITS), ground())[0])


@pytest.mark.parametrize("told", [speeds_of, places_of])
@given(rows, st.randoms(use_true_random=False), st.integers(1, 4))
def test_any_order_and_any_parting_of_the_vehicles_give_the_same(told, some, random, parts):
    whole = told(some)
    shuffled = random.sample(some, len(some))
    assert told(shuffled) == whole
    apart = [told([row for row in shuffled if row[0] % parts == part]) for part in range(parts)]
    assert sorted(row for part in apart for row in part) == whole


@pytest.mark.parametrize("told", [speeds_of, places_of])
@given(rows)
def test_without_a_vehicle_the_others_are_what_they_were(told, some):
    whole = told(some)
    for gone in {row[0] for row in some}:
        left = told([row for row in some if row[0] != gone])
        assert left == [row for row in whole if row[1] != id_of(gone)]


def test_a_way_from_another_vehicles_row_is_caught(monkeypatch) -> None:
    """As if the row before were anybody's: whose first row is then on the way from where the other one ended."""
    one, other = [(1, 600 * step, step, 2) for step in range(6)], [(2, 600 * step, 6 - step, 2) for step in range(6)]
    assert [row for row in places_of(one + other) if row[1] == id_of(2)] == places_of(other)
    monkeypatch.setattr("transforms.observe.derived_speed.follows", lambda of, _: np.arange(of.vehicle.size) > 0)
    assert [row for row in places_of(one + other) if row[1] == id_of(2)] != places_of(other)


def test_of_two_who_meet_in_a_street_each_is_counted_in_its_own_direction() -> None:
    both = [(1, 600 * step, step, 2) for step in range(6)] + [(2, 600 * step, 6 - step, 2) for step in range(6)]
    ordered, _ = derived_events(events_of(both), replace(rules(), turning=LIMITS), ground())
    tallies = [tally(events, slot_s, None, ())[0] for slot_s, events in ordered.by_slot().items()]
    names = {
        (vehicle, ground().places.names[place])
        for tally in tallies
        for vehicle, place in zip(tally.vehicle.tolist(), ground().place[tally.cell].tolist(), strict=True)
        if place >= 0
    }
    assert names == {(id_of(1), "north"), (id_of(2), "north back")}
