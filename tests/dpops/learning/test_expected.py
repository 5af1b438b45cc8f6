"""What a plan expects of released days: errors that fall day by day, and days that are held back."""

import math
from fractions import Fraction

import pytest

from dpops import fitted
from dpops.claims import rho_within
from dpops.learning.expected import ExpectedDay, expected_days
from dpops.levels.defaults import BoundsOnly, Fleet, Profile, recipe
from dpops.levels.stages import Kind, PublicHats
from tests.dpops.levels.cities import KINDS

DELTA = Fraction(1, 10**6)
HOURS = tuple(range(6, 22))
HATS = PublicHats(
    parents=tuple(cell // 7 for cell in range(140)), grandparents=tuple(cell // 49 for cell in range(140)), hours=HOURS
)
ALIKE = [Fraction(1)] * 28


def bounds_of(vehicles: int) -> BoundsOnly:
    return BoundsOnly(hats=HATS, fleet=Fleet(vehicles=vehicles, profile=Profile(hats=40)))


def expected(
    kind: Kind, epsilon: Fraction, days: int = 1, vehicles: int = 300, shares: list[Fraction] = ALIKE
) -> list[ExpectedDay]:
    """With a total of so many days, which share it alike."""
    rho = rho_within(epsilon, DELTA) / days if kind == "gaussian" else None
    return expected_days(recipe(kind, epsilon / days, rho, bounds_of(vehicles)), bounds_of(vehicles), shares)


def first_published(days: list[ExpectedDay]) -> int:
    return next((day.number for day in days if day.is_published), 99)


@pytest.mark.parametrize("kind", KINDS)
def test_each_released_day_is_expected_to_be_better_than_the_one_before(kind: Kind) -> None:
    days = expected(kind, Fraction(10), 28)
    errors = [day.kmh for day in days[1:]]
    assert errors == sorted(errors, reverse=True)
    assert len({*errors}) == len(errors)
    assert all(day.least_kmh < day.kmh < day.constant_kmh for day in days[1:])
    assert [day.unknown for day in days] == sorted((day.unknown for day in days), reverse=True)
    assert [day.number for day in days] == [*range(1, 29)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_total_of_more_days_or_fewer_vehicles_is_expected_to_tell_less_and_later(kind: Kind) -> None:
    spans = [expected(kind, Fraction(5), days) for days in (1, 7, 28, 91, 365)]
    fleets = [expected(kind, Fraction(5), 28, vehicles) for vehicles in (3000, 300, 30)]
    for series in (spans, fleets):
        for day in range(28):
            errors = [days[day].unknown for days in series]
            assert errors == sorted(errors)
        firsts = [first_published(days) for days in series]
        assert firsts == sorted(firsts)
        assert firsts[0] == 1 < firsts[-1]


@pytest.mark.parametrize("kind", KINDS)
def test_a_number_of_vehicles_tells_most_of_the_weight_before_any_sum(kind: Kind) -> None:
    how = recipe(kind, Fraction(1), rho_within(Fraction(1), DELTA) if kind == "gaussian" else None, bounds_of(60))
    without, counted = (
        expected_days(how, bounds_of(60), ALIKE[:3], counts_vehicles=counts) for counts in (False, True)
    )
    assert all(told.weight_sd < untold.weight_sd for told, untold in zip(counted, without, strict=True))
    assert fitted.RETAINED_SD / 2 < counted[0].weight_sd < fitted.RETAINED_SD * math.sqrt(2)
    assert [day.unknown for day in counted] == [day.unknown for day in without]


@pytest.mark.parametrize("kind", KINDS)
def test_fleets_that_differ_more_are_expected_to_be_missed_by_more(kind: Kind) -> None:
    how = recipe(kind, Fraction(5), rho_within(Fraction(5), DELTA) if kind == "gaussian" else None, bounds_of(300))
    days = expected_days(how, bounds_of(300), ALIKE[:3])
    assert all(day.low_kmh < day.kmh < day.high_kmh < 2 * day.kmh for day in days)
