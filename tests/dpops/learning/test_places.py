"""Places are learned from noisy sums: weights and means together, around their cells, and honestly."""

import numpy as np
import pytest

from dpops.learning.places import (
    RATIOS,
    Around,
    PlaceBelief,
    PlaceDay,
    PlaceSums,
    _anchored,
    learn_places,
    whole_weight,
)

PLACES, CELL_KMH = 600, 20.0
WEIGHT_SD, SPEED_SD = 8.0, 25.0


def city(seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """True weights, of which few have most, and true means."""
    rng = np.random.default_rng(seed)
    weights = np.exp(2 * rng.normal(size=PLACES)) * (rng.random(PLACES) < 0.6)
    return weights, CELL_KMH + 11 * rng.normal(size=PLACES)


def summed(days: int, *, noise: float = 1.0, seed: int = 1, day_weight: float = 1.0) -> PlaceSums:
    weights, means = city()
    rng, sums = np.random.default_rng([seed, 5]), PlaceSums.none(PLACES)
    for _ in range(days):
        centres = CELL_KMH + 5 * rng.normal(size=PLACES)
        sums = sums.after(
            PlaceDay(
                weights=day_weight * weights + noise * WEIGHT_SD * rng.normal(size=PLACES),
                speeds=day_weight * weights * (means - centres) + noise * SPEED_SD * rng.normal(size=PLACES),
                centres=centres,
                weight_variance=(noise * WEIGHT_SD) ** 2,
                speed_variance=(noise * SPEED_SD) ** 2,
                day_weight=day_weight,
            )
        )
    return sums


def believed(sums: PlaceSums) -> PlaceBelief:
    whole = whole_weight(sums, float(city()[0].sum()))
    return learn_places(
        sums,
        Around(
            values=np.full(PLACES, CELL_KMH),
            expected=np.full(PLACES, whole / PLACES),
            groups=np.arange(PLACES, dtype=np.int64) // 6,
        ),
    )


def test_without_a_day_a_place_is_its_cell() -> None:
    found = believed(PlaceSums.none(PLACES))
    assert found.values == pytest.approx(CELL_KMH)
    assert np.all(found.variances > 8**2)


def test_with_hardly_any_noise_places_are_found_as_they_are() -> None:
    weights, means = city()
    found = believed(summed(4, noise=1e-3))
    assert found.values[weights > 0.2] == pytest.approx(means[weights > 0.2], abs=0.5)
    assert found.weights == pytest.approx(weights, rel=0.05, abs=0.05)


def test_each_day_makes_the_map_better_and_none_makes_it_worse_than_its_cells() -> None:
    weights, means = city()
    share = weights / weights.sum()
    errors = [float(share @ np.abs(believed(summed(days)).values - means)) for days in (1, 4, 16)]
    copied = float(share @ np.abs(CELL_KMH - means))
    assert copied > errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.5 * copied


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    weights, means = city()
    held, known = [], []
    for seed in range(6):
        found = believed(summed(6, seed=seed))
        half = 1.96 * np.sqrt(found.variances)
        ok = (half < 8) & (found.weights > 1)
        held.append(np.abs(found.values - means)[ok] <= half[ok])
        known.append(weights[ok])
    assert np.concatenate(held).mean() >= 0.93
    assert np.mean(np.concatenate(known) < 0.5) < 0.01, "hardly a place looks known that nobody visits"


def test_a_day_that_weighs_half_says_as_much_as_it_weighs() -> None:
    weights, means = city()
    busy = weights > 20
    found = believed(summed(8, day_weight=0.5))
    assert found.weights[busy] == pytest.approx(weights[busy], rel=0.4)
    assert np.abs(found.values - means)[busy].mean() < 3


def test_weights_do_not_fall_to_nothing_where_noise_hides_them() -> None:
    sums = summed(1, noise=30.0)
    whole = float(city()[0].sum())
    assert 0.3 * whole < believed(sums).weights.sum() < 3 * whole


def test_the_mean_ratio_is_kept_at_one() -> None:
    counts = np.random.default_rng(3).dirichlet(np.ones(RATIOS.size))
    for each in (counts, np.eye(RATIOS.size)[0] * 0.9 + counts * 0.1):
        assert _anchored(each) @ RATIOS == pytest.approx(1, abs=1e-3)
        assert _anchored(each).sum() == pytest.approx(1)


def test_what_is_kept_is_a_few_numbers_a_place_however_many_days() -> None:
    one, two = summed(1), summed(2)
    assert one.speeds.shape == two.speeds.shape == (PLACES,)
    assert two.speed_precision == pytest.approx(2 * one.speed_precision)
    assert two.days == 2
