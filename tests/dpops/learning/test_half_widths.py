"""Half-widths of a `levels` release from public facts: the noise in them is that of a release."""

from fractions import Fraction

import numpy as np
import pytest

from dpops.learning.half_widths import Look, _speed_noise, _weight, hat_half_widths, place_half_widths, place_level
from dpops.levels import BoundsOnly, Fleet, Hats, Profile, level, read, recipe, rows_of, sum_up
from dpops.levels.defaults import stage_of

HATS = Hats(parents=(0, 0, 1, 1), grandparents=(0, 0, 0, 0), hours=tuple(range(8, 16)))
FLEET = Fleet(vehicles=400, profile=Profile(hats=8, cells=2, parents=2, grandparents=1, hours=8, parts=2))
KNOWN = BoundsOnly(hats=HATS, fleet=FLEET)
MANY = np.array([1.0, 10.0, 100.0, 1_000.0])


def look(kind="gaussian", epsilon=Fraction(3), known=KNOWN, *, counts_public=False, first=False):
    made = recipe(kind, epsilon, Fraction(1, 4) if kind == "gaussian" else None, known)
    settings = made.first[0] if first else made.later[0]
    return Look(settings=settings, kind=kind, spread=made.spread, known=known, counts_public=counts_public)


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
@pytest.mark.parametrize("first", [True, False])
def test_the_noise_is_that_of_a_release(kind, first):
    of = look(kind, first=first)
    stage = stage_of(of.settings, kind, of.spread, HATS, Fraction(1, 100))
    for released in read(np.zeros(2 * stage.groups, np.int64), stage).levels:
        assert _speed_noise(of, released.level.speed_share) == pytest.approx(released.speed_sd, rel=1e-3)


def test_the_expected_weight_of_a_group_is_what_such_vehicles_add_up_to():
    """400 vehicles as the profile says: each in two cells of one parent, 8 of its 16 HATs."""
    of = look()
    stage = stage_of(of.settings, "gaussian", of.spread, HATS, Fraction(1, 100))
    vehicle, place = np.repeat(np.arange(400), 8), np.tile(np.arange(8), 400)
    parent = vehicle % 2 * 2
    cell, slot = parent + place % 2, place
    rows = rows_of(vehicle, cell, slot, np.full(vehicle.size, 5), np.full(vehicle.size, 21.0), stage)
    integers = np.concatenate(sum_up(rows, stage))
    for released in read(integers, stage).levels:
        grouped = level(released.level.name, HATS, Fraction(1))
        expected = _weight(of, grouped, np.array([of.usual_vehicles]))[0]
        assert released.weights.mean() == pytest.approx(expected, rel=0.25)


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
@pytest.mark.parametrize("counts_public", [True, False])
def test_more_vehicles_more_budget_and_more_days_make_intervals_narrower(kind, counts_public):
    of, dearer = (look(kind, Fraction(total), counts_public=counts_public) for total in (2, 8))
    for widths in (
        lambda of, days: hat_half_widths(of, MANY, 65.0, days).kmh,
        lambda of, days: place_half_widths(of, MANY, 65.0, days),
    ):
        assert np.all(np.diff(widths(of, 1)) <= 0)
        assert np.all(widths(of, 7) <= widths(of, 1))
        if kind == "laplace":
            assert np.all(widths(dearer, 1) <= widths(of, 1))
        assert widths(of, 1).max() <= 32.5


def test_a_hat_is_never_known_better_than_its_own_deviation_unless_it_is_released_itself():
    huge = np.array([1e6])
    assert hat_half_widths(look(), huge, 65.0).kmh[0] == pytest.approx(1.96 * 2, rel=0.01)
    assert "hat" in dict(look(epsilon=Fraction(20)).settings.shares)
    assert hat_half_widths(look(epsilon=Fraction(20)), huge, 65.0).kmh[0] < 0.1


def test_few_vehicles_are_unreliable_and_public_counts_are_known():
    few = np.array([2.0, 5.0])
    assert not hat_half_widths(look(), few, 65.0).reliable[0]
    assert hat_half_widths(look(counts_public=True), few, 65.0).reliable.tolist() == [False, True]


def test_the_place_is_a_cell_where_the_fleet_affords_it():
    assert place_level(look()) == "cell"
    tiny = BoundsOnly(hats=HATS, fleet=Fleet(vehicles=1, profile=FLEET.profile))
    assert place_level(look("laplace", Fraction(1, 10), tiny)) != "cell"
