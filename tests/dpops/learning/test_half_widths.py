"""Half-widths of a `levels` release from public facts: the noise in them is that of a release."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dpops.learning.expected import _weight, hat_half_widths, place_half_widths, place_level, speed_noise
from dpops.levels.bounded import Rows, read, sum_up
from dpops.levels.defaults import RETAINED, BoundsOnly, Fleet, Profile, recipe
from dpops.levels.stages import FIRST_CENTRE, PublicHats, level
from dpops.spread import CAUTION

HATS = PublicHats(parents=(0, 0, 1, 1), grandparents=(0, 0, 0, 0), hours=tuple(range(8, 16)))
FLEET = Fleet(vehicles=400, profile=Profile(hats=8, cells=2, parents=2, grandparents=1, hours=8, parts=2))
BOUNDS = BoundsOnly(hats=HATS, fleet=FLEET)
MANY = np.array([1.0, 10.0, 100.0, 1_000.0])


def stage_of(kind="gaussian", epsilon=Fraction(3), bounds=BOUNDS, *, counts_public=False, first=False):
    made = recipe(kind, epsilon, Fraction(1, 4) if kind == "gaussian" else None, bounds)
    return replace(made.first[0] if first else made.later[0], counts_public=counts_public)


def laid(stage):
    return stage.on(HATS, np.full((HATS.cells, HATS.slots), FIRST_CENTRE), Fraction(1, 100))


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
        grouped = level(released.level.name, HATS, Fraction(1))
        expected = _weight(stage, BOUNDS, grouped, np.array([BOUNDS.usual_vehicles]))[0]
        before_clips = expected / RETAINED
        assert released.weights.mean() == pytest.approx(before_clips, rel=0.15)


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
@pytest.mark.parametrize("counts_public", [True, False])
def test_more_vehicles_more_budget_and_more_days_make_intervals_narrower(kind, counts_public):
    stage, dearer = (stage_of(kind, Fraction(total), counts_public=counts_public) for total in (2, 8))
    for widths in (
        lambda stage, days: hat_half_widths(stage, BOUNDS, MANY, 65.0, days).kmh,
        lambda stage, days: place_half_widths(stage, BOUNDS, MANY, 65.0, days),
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
    tiny = BoundsOnly(hats=HATS, fleet=Fleet(vehicles=1, profile=FLEET.profile))
    assert place_level(stage_of("laplace", Fraction(1, 10), tiny), tiny) != "cell"
