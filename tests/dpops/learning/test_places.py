"""Places are learned from noisy sums: weights and means together, around their cells, and honestly."""

from dataclasses import replace

import numpy as np
import pytest

from dpops.learning import places
from dpops.learning.places import (
    EVIDENCE,
    Around,
    PlaceDay,
    PlaceFit,
    PlaceSums,
    learn_places,
    learned_traffic,
    whole_weight,
)

PLACES, CELL_KMH = 600, 20.0
WEIGHT_SD, SPEED_SD = 8.0, 25.0


def city(seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """True weights, of which few have most, and true means."""
    rng = np.random.default_rng(seed)
    weights = np.exp(2 * rng.normal(size=PLACES)) * (rng.random(PLACES) < 0.6)
    return weights, CELL_KMH + 11 * rng.normal(size=PLACES)


def summed(days: int, *, noise: float = 1.0, seed: int = 1, day_weight: float = 1.0, apart: float = 1.0) -> PlaceSums:
    weights, means = city()
    means = CELL_KMH + apart * (means - CELL_KMH)
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


def around_cells(sums: PlaceSums) -> Around:
    whole = whole_weight(sums, float(city()[0].sum()))
    return Around(values=np.full(PLACES, CELL_KMH), expected=np.full(PLACES, whole / PLACES))


def believed(sums: PlaceSums) -> PlaceFit:
    return learn_places(sums, around_cells(sums))


def test_without_a_day_a_place_is_its_cell() -> None:
    posterior = believed(PlaceSums.none(PLACES))
    assert posterior.values == pytest.approx(CELL_KMH)
    assert np.all(posterior.variances > 8**2)


def test_each_day_makes_the_map_better_and_none_makes_it_worse_than_its_cells() -> None:
    weights, means = city()
    share = weights / weights.sum()
    errors = [float(share @ np.abs(believed(summed(days)).values - means)) for days in (1, 4, 16)]
    copied = float(share @ np.abs(CELL_KMH - means))
    assert copied > errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.5 * copied


def test_until_releases_tell_places_apart_each_is_as_its_cell() -> None:
    one, many = believed(summed(1, noise=20.0)), believed(summed(8))
    assert np.array_equal(one.values, np.full(PLACES, CELL_KMH))
    assert np.median(one.variances) > 8**2
    assert many.evidence > EVIDENCE
    assert np.ptp(many.values) > 10


def test_of_a_place_that_may_weigh_little_the_mean_where_reports_are_is_published() -> None:
    """Sums say weight times difference: were the place quiet, it would lie far from its cell, but have few reports."""
    weights, means = city()
    share, errors = weights / weights.sum(), []
    for seed in range(4):
        sums = summed(4, seed=seed)
        expected, ratios = learned_traffic(sums, around_cells(sums).expected)
        around = replace(around_cells(sums), expected=expected)
        moments, _ = places._posterior(ratios, 0.0, sums, around, places.SDS_KMH)
        errors.append([float(share @ np.abs(part - means)) for part in (moments[1], moments[0])])
    assert np.mean(errors, axis=0)[0] < 0.97 * np.mean(errors, axis=0)[1]


def test_what_is_publicly_known_of_visits_is_worth_days() -> None:
    weights, means = city()
    share, around = weights / weights.sum(), around_cells(summed(4))
    visits = (weights + 0.05) * np.exp(0.5 * np.random.default_rng(7).normal(size=PLACES))
    told = replace(around, expected=visits * around.expected.sum() / visits.sum())
    errors = [
        [float(share @ np.abs(learn_places(summed(4, seed=seed), prior).values - means)) for prior in (around, told)]
        for seed in range(3)
    ]
    without, with_visits = np.mean(errors, axis=0)
    assert with_visits < 0.97 * without, "they were worth 6 % while places without them were known less well: 1.79"
    assert with_visits < 1.70, "a city in which places lie 6 km/h apart"


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    weights, means = city()
    held, ok_weights = [], []
    for seed in range(6):
        posterior = believed(summed(6, seed=seed))
        half = 1.96 * np.sqrt(posterior.variances)
        ok = (half < 8) & (posterior.weights > 1)
        held.append(np.abs(posterior.values - means)[ok] <= half[ok])
        ok_weights.append(weights[ok])
    assert np.concatenate(held).mean() >= 0.93
    assert np.mean(np.concatenate(ok_weights) < 0.5) < 0.01, "hardly a place looks known that nobody visits"
