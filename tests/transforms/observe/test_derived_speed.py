"""Speeds from consecutive positions: right on the globe, within limits, the same however rows are parted."""

import math
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.transforms.inputs import rules
from tests.transforms.observe import consecutive
from tests.transforms.observe.consecutive import SLOT_S, events_of, in_one_order, positions, rows
from transforms.count.tally import derived_events
from transforms.observe.derived_speed import FIRST, GAP, TOO_FAST, SpeedLimits, derived_speeds
from transforms.places.ground import Hexagons

LIMITS = SpeedLimits(120, Fraction(100))
RULES = replace(rules(), derived=LIMITS)


def kmh_between(one, other, seconds):
    """Speed by the haversine formula. one, other: latitude and longitude in degrees."""
    a, b, c, d = (math.radians(degrees) for degrees in (*one, *other))
    half = math.sin((c - a) / 2) ** 2 + math.cos(a) * math.cos(c) * math.sin((d - b) / 2) ** 2
    return 2 * 6_371_008.8 * math.asin(math.sqrt(half)) / seconds * 3.6


@pytest.mark.parametrize("lat", [0.0, 30.25, -33.9, 59.9, 78.2, -89.0])
@pytest.mark.parametrize("lon", [-97.7, 0.0, 179.9995])
def test_a_speed_is_the_distance_on_the_globe_over_the_time(lat, lon):
    east = (lon + 0.001 + 180) % 360 - 180
    having, speeds, _ = derived_speeds(positions((1, 0, lat, lon), (1, 60, lat + 0.002, east)), LIMITS, RULES.grid)
    kmh = kmh_between((lat, lon), (lat + 0.002, east), 60)
    assert having.tolist() == [1]
    assert speeds[0] / 100 == pytest.approx(kmh, rel=1e-3, abs=0.006)


def test_what_has_no_speed_says_why():
    some = positions((1, 0, 30, 0), (1, 60, 30.001, 0), (1, 181, 30.002, 0), (1, 190, 31, 0), (2, 200, 31, 0))
    having, _, without = derived_speeds(some, LIMITS, RULES.grid)
    assert having.tolist() == [1]
    assert without == {FIRST: 2, GAP: 1, TOO_FAST: 1}


def derived_of(some):
    return derived_events(events_of(some), RULES, Hexagons(7, None))


def told(some):
    """Every event that has a speed, in one order."""
    return in_one_order(derived_of(some)[0])


@given(rows, st.randoms(use_true_random=False), st.integers(1, 4))
def test_any_order_and_any_parting_of_the_vehicles_give_the_same_integers(some, random, parts):
    consecutive.check_any_order_and_parting(told, some, random, parts)


@given(rows)
def test_without_a_vehicle_the_others_are_what_they_were(some):
    consecutive.check_without_each_vehicle(told, some)


@given(rows)
def test_rows_are_all_accounted_for(some):
    ordered, without = derived_of(some)
    assert ordered.slot_s.size + sum(without.values()) + ordered.duplicates == len(some)


def test_a_speed_reaches_over_the_edge_of_a_slot():
    some = [(1, 35_990, 0, 0), (1, 36_590, 5, 0)]
    ((slot_s, *_, speed),) = told(some)
    assert slot_s == SLOT_S
    assert speed / 100 == pytest.approx(kmh_between((30, 0), (30.005, 0), 60), rel=1e-3)
