"""Headings from consecutive positions: right on the globe, kept at rest, the same however rows are parted."""

import math
from dataclasses import replace
from functools import cache

import h3
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.transforms.inputs import rules
from tests.transforms.observe import consecutive
from tests.transforms.observe.consecutive import events_of, id_of, in_one_order, positions, rows
from tests.transforms.places.lines import collection, line
from transforms.count.tally import derived_events, tally
from transforms.observe.derived_speed import HeadingLimits, Positions, derived_headings, sectors
from transforms.places.ground import SECTORS, sector_of
from transforms.places.shapes import shape_pieces
from transforms.records import NO_HEADING

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
    numbers = sectors(np.round(1e4 * np.sin(angle)), np.round(1e4 * np.cos(angle)))
    assert numbers.tolist() == sector_of(degrees).tolist()
    assert sector_of(np.arange(SECTORS) * 360 // SECTORS).tolist() == list(range(SECTORS))


def test_a_vehicle_that_stands_looks_where_it_went_and_after_a_gap_nobody_knows() -> None:
    still = ((1, 60, 30.001, 0), (1, 120, 30.00101, 0), (1, 240, 30.001, 0), (1, 400, 30.001, 0), (1, 430, 30, 0))
    headings = derived_headings(positions((1, 0, 30, 0), *still, (2, 431, 31, 0), (2, 432, 31, 0)), LIMITS)
    assert headings.tolist() == [NO_HEADING, 0, 0, 0, NO_HEADING, 180, NO_HEADING, NO_HEADING]
    none = np.zeros(0, np.int64)
    assert derived_headings(Positions(none, none, none, none), LIMITS).size == 0


EDGES = {"north": [(29.999, -97.698), (30.041, -97.698)], "east": [(30.002, -97.701), (30.002, -97.659)]}
LINES = {name + way: edge[::step] for name, edge in EDGES.items() for way, step in (("", 1), (" back", -1))}
STREETS = collection(*(line(name, *positions, directed=True, buffer_m=400) for name, positions in LINES.items()))
CENTRE = h3.latlng_to_cell(30.02, -97.68, 7)


@cache
def ground():
    return shape_pieces(STREETS, tuple(sorted(h3.str_to_int(cell) for cell in h3.grid_disk(CENTRE, 2))))


def told(some: list[tuple[int, int, int, int]]) -> list[tuple[int, ...]]:
    """Every event with what it is counted under, in one order."""
    return in_one_order(derived_events(events_of(some), replace(rules(), turning=LIMITS), ground())[0])


@given(rows, st.randoms(use_true_random=False), st.integers(1, 4))
def test_any_order_and_any_parting_of_the_vehicles_give_the_same_places(some, random, parts) -> None:
    consecutive.check_any_order_and_parting(told, some, random, parts)


@given(rows)
def test_without_a_vehicle_the_others_are_where_they_were(some) -> None:
    consecutive.check_without_each_vehicle(told, some)


def test_a_way_from_another_vehicles_row_is_caught(monkeypatch) -> None:
    """As if the row before were anybody's: whose first row is then on the way from where the other one ended."""
    one, other = [(1, 600 * step, step, 2) for step in range(6)], [(2, 600 * step, 6 - step, 2) for step in range(6)]
    assert [row for row in told(one + other) if row[1] == id_of(2)] == told(other)
    monkeypatch.setattr("transforms.observe.derived_speed.follows", lambda of, _: np.arange(of.vehicle.size) > 0)
    assert [row for row in told(one + other) if row[1] == id_of(2)] != told(other)


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
