"""What a plan expects of released days: errors that fall day by day, days held back, and half-widths of intervals."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dpops import fitted
from dpops.claims import rho_within
from dpops.learning import expected
from dpops.learning.expected import ExpectedDay, expected_days, hat_half_widths, place_level, speed_noise
from dpops.levels.bounded import Rows, read, sum_up
from dpops.levels.defaults import RETAINED, BoundsOnly, Fleet, Profile, recipe
from dpops.levels.stages import FIRST_CENTRE, Kind, PublicHats, StageHats, level
from dpops.spread import CAUTION
from tests.dpops.levels.cities import KINDS

DELTA = Fraction(1, 10**6)
HOURS = tuple(range(6, 22))
HATS = PublicHats(
    parents=tuple(cell // 7 for cell in range(140)), grandparents=tuple(cell // 49 for cell in range(140)), hours=HOURS
)
ALIKE = [Fraction(1)] * 28


def bounds_of(vehicles: int) -> BoundsOnly:
    return BoundsOnly(hats=HATS, fleet=Fleet(vehicles=vehicles, profile=Profile(hats=40)))


def days_expected(
    kind: Kind, epsilon: Fraction, days: int = 1, vehicles: int = 300, shares: list[Fraction] = ALIKE
) -> list[ExpectedDay]:
    """With a total of so many days, which share it alike."""
    rho = rho_within(epsilon, DELTA) / days if kind == "gaussian" else None
    return expected_days(recipe(kind, epsilon / days, rho, bounds_of(vehicles)), bounds_of(vehicles), shares)


def first_published(days: list[ExpectedDay]) -> int:
    return next((day.number for day in days if day.is_published), 99)


@pytest.mark.parametrize("kind", KINDS)
def test_each_released_day_is_expected_to_be_better_than_the_one_before(kind: Kind) -> None:
    days = days_expected(kind, Fraction(10), 28)
    errors = [day.kmh for day in days[1:]]
    assert errors == sorted(errors, reverse=True)
    assert len({*errors}) == len(errors)
    assert all(day.least_kmh < day.kmh < day.constant_kmh for day in days[1:])
    assert [day.unknown for day in days] == sorted((day.unknown for day in days), reverse=True)
    assert [day.number for day in days] == [*range(1, 29)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_total_of_more_days_or_fewer_vehicles_is_expected_to_tell_less_and_later(kind: Kind) -> None:
    spans = [days_expected(kind, Fraction(5), days) for days in (1, 7, 28, 91, 365)]
    fleets = [days_expected(kind, Fraction(5), 28, vehicles) for vehicles in (3000, 300, 30)]
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


TWO_BY_TWO = PublicHats(parents=(0, 0, 1, 1), grandparents=(0, 0, 0, 0), hours=tuple(range(8, 16)))
FLEET = Fleet(vehicles=400, profile=Profile(hats=8, cells=2, parents=2, grandparents=1, hours=8, parts=2))
BOUNDS = BoundsOnly(hats=TWO_BY_TWO, fleet=FLEET)
MANY = np.array([1.0, 10.0, 100.0, 1_000.0])


def stage_of(kind="gaussian", epsilon=Fraction(3), bounds=BOUNDS, *, counts_public=False, first=False):
    made = recipe(kind, epsilon, Fraction(1, 4) if kind == "gaussian" else None, bounds)
    return replace(made.first[0] if first else made.later[0], counts_public=counts_public)


def laid(stage):
    centres = np.full((TWO_BY_TWO.cells, TWO_BY_TWO.slots), FIRST_CENTRE)
    return replace(stage, around=StageHats(TWO_BY_TWO, centres, Fraction(1, 100)))


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
@pytest.mark.parametrize("first", [True, False])
def test_the_noise_is_that_of_a_release(kind, first):
    stage = laid(stage_of(kind, first=first))
    for released in read(np.zeros(2 * stage.groups, np.int64), stage).levels:
        assert speed_noise(stage, released.level.speed_share) == pytest.approx(released.speed_sd, rel=1e-3)


def test_the_expected_weight_of_a_group_is_what_such_vehicles_add_up_to():
    """400 vehicles as the profile says: each in two cells of one parent, 8 of its 16 HATs."""
    stage = laid(stage_of())
    vehicle, slot = np.repeat(np.arange(400), 8), np.tile([0, 2, 4, 6, 1, 3, 5, 7], 400)
    cell = vehicle % 2 * 2 + slot % 2
    rows = Rows(vehicle, cell, slot, np.full(vehicle.size, 5), np.full(vehicle.size, 5 * 2_100))
    integers = np.concatenate(sum_up(rows, stage))
    for released in read(integers, stage).levels:
        grouped = level(released.level.name, TWO_BY_TWO, Fraction(1))
        mean_weight = expected._weight(stage, BOUNDS, grouped, np.array([BOUNDS.usual_vehicles]))[0]
        before_clips = mean_weight / RETAINED
        assert released.weights.mean() == pytest.approx(before_clips, rel=0.15)


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
@pytest.mark.parametrize("counts_public", [True, False])
def test_more_vehicles_more_budget_and_more_days_make_intervals_narrower(kind, counts_public):
    stage, dearer = (stage_of(kind, Fraction(total), counts_public=counts_public) for total in (2, 8))
    for widths in (
        lambda stage, days: hat_half_widths(stage, BOUNDS, MANY, 65.0, days).kmh,
        lambda stage, days: expected.place_half_widths(stage, BOUNDS, MANY, 65.0, days),
    ):
        assert np.all(np.diff(widths(stage, 1)) <= 0)
        assert np.all(widths(stage, 7) <= widths(stage, 1))
        if kind == "laplace":
            assert np.all(widths(dearer, 1) <= widths(stage, 1))
        assert widths(stage, 1).max() <= 32.5


def test_a_hat_is_never_known_better_than_its_own_deviation_unless_it_is_released_itself():
    huge = np.array([1e6])
    assert hat_half_widths(stage_of(), BOUNDS, huge, 65.0).kmh[0] == pytest.approx(1.96 * CAUTION**0.5, rel=0.01)
    assert "hat" in dict(stage_of(epsilon=Fraction(20)).shares)
    assert hat_half_widths(stage_of(epsilon=Fraction(20)), BOUNDS, huge, 65.0).kmh[0] < 0.1


def test_the_place_is_a_cell_where_the_fleet_affords_it():
    assert place_level(stage_of(), BOUNDS) == "cell"
    tiny = BoundsOnly(hats=TWO_BY_TWO, fleet=Fleet(vehicles=1, profile=FLEET.profile))
    assert place_level(stage_of("laplace", Fraction(1, 10), tiny), tiny) != "cell"
