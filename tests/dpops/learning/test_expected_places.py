"""What a map of places is expected to be worth: better with more of everything, and about what the learner attains."""

from fractions import Fraction

import numpy as np
import pytest

from dpops import fitted
from dpops.claims import rho_within
from dpops.learning import expected
from dpops.learning.expected import CONCENTRATED, SPREAD, Z90, ExpectedMap, expected_maps, speed_noise, weight_noise
from dpops.learning.places import Around, PlaceDay, PlaceFit, PlaceSums, learn_places, whole_weight
from dpops.levels.defaults import RETAINED, Fleet, spread_of, weight_at_places
from dpops.levels.parts import with_places
from dpops.levels.stages import Stage, alike
from dpops.spread import INFORMATIVE_KMH, Z95
from dpops.types import Float64s

CELLS, IN_A_CELL = 100, 7


def stage(epsilon: str = "2.64", share: Fraction = Fraction(3, 10)) -> Stage:
    """A day's look at places for a part of a total, with delta 1e-6."""
    spread = spread_of("gaussian", rho_within(Fraction(epsilon), Fraction(1, 10**6)))
    whole = Stage(
        kind="gaussian",
        spread=spread,
        parts=alike((("cell", Fraction(1)),)),
        share=Fraction(1),
        bound_kmh=Fraction(6),
        alpha=Fraction(1, 2),
    )
    return with_places((whole,), share)[-1]


def maps_expected(
    of: Stage, vehicles: int, crowding: float = SPREAD, days: tuple[int, ...] = (1, 28)
) -> list[ExpectedMap]:
    fleet = Fleet(vehicles=vehicles)
    return expected_maps(of, fleet, places=CELLS * IN_A_CELL, cells=CELLS, crowding=crowding, days=days)


@pytest.mark.parametrize("crowding", [SPREAD, CONCENTRATED])
def test_more_days_vehicles_and_budget_know_more(crowding: float) -> None:
    first, last = maps_expected(stage(), 200, crowding)
    (more,) = maps_expected(stage(), 400, crowding, (28,))
    (larger,) = maps_expected(stage("10"), 200, crowding, (28,))
    for worse, better in ((first, last), (last, more), (last, larger)):
        assert better.error_kmh < worse.error_kmh
        assert better.half_width_kmh <= worse.half_width_kmh
        assert better.ok > worse.ok


def test_a_map_is_never_expected_to_be_worse_than_its_cells_nor_much_better_where_nobody_drives() -> None:
    for figures in maps_expected(stage(), 1, days=(1, 7, 365)):
        assert 0.9 * figures.cell_error_kmh < figures.error_kmh <= figures.cell_error_kmh
        assert (figures.ok, figures.half_width_kmh > INFORMATIVE_KMH) == (0, True)


@pytest.mark.parametrize("crowding", [SPREAD, CONCENTRATED])
def test_the_learner_attains_what_is_expected(crowding: float) -> None:
    """Places are drawn as the expectation has them, and released with noise of the same size: after two weeks errors
    agree within 30 %, and the part of reports at places that are known within a factor of 1.6. Four draws: where few
    places have most reports, one alone says little."""
    days, vehicles = 14, 300
    errors, parts = [], []
    for seed in range(4):
        weights, far = drawn_places(crowding, vehicles, seed)
        belief, reports = learned(weights, far, days), weights / weights.sum()
        errors.append(reports @ np.abs(belief.values - far))
        sure = belief.weights - Z90 * np.sqrt(belief.weight_variances) > expected.LEAST_AT_PLACE
        parts.append(reports @ (sure & (Z95 * np.sqrt(belief.variances) < INFORMATIVE_KMH)))
    (expectation,) = maps_expected(stage(), vehicles, crowding, (days,))
    assert np.mean(errors) == pytest.approx(expectation.error_kmh, rel=0.3)
    assert expectation.ok / 1.6 < np.mean(parts) < expectation.ok * 1.6


def drawn_places(crowding: float, vehicles: int, seed: int) -> tuple[Float64s, Float64s]:
    """Weights on a day, and km/h around the cells."""
    rng, fleet = np.random.default_rng(seed), Fleet(vehicles=vehicles)
    popular = np.exp(crowding * rng.normal(size=CELLS * IN_A_CELL))
    whole = RETAINED * vehicles * weight_at_places(fleet.profile, "gaussian", IN_A_CELL)
    return whole * popular / popular.sum(), fitted.PLACES_KMH * rng.normal(size=popular.size)


def learned(weights: Float64s, far: Float64s, days: int) -> PlaceFit:
    """From days of noisy sums around cells of 0 km/h."""
    rng, sums = np.random.default_rng(2), PlaceSums.none(far.size)
    sds = weight_noise(stage(), Fraction(1)), speed_noise(stage(), Fraction(1))
    for _ in range(days):
        weight, speed = (sd * rng.normal(size=far.size) for sd in sds)
        day = PlaceDay(weights + weight, weights * far + speed, 0 * far, sds[0] ** 2, sds[1] ** 2, 1.0)
        sums = sums.after(day)
    expected_weights = np.full(far.size, whole_weight(sums, weights.sum()) / far.size)
    return learn_places(sums, Around(values=0 * far, expected=expected_weights))
