"""How busy places are is learned from noisy sums without belief in those that look busiest."""

from dataclasses import replace

import numpy as np
import pytest

from dpops.learning.places import (
    LAWS,
    RATIOS,
    Around,
    PlaceDay,
    PlaceFit,
    PlaceSums,
    learn_places,
    learned_traffic,
    weight_nodes,
)

PLACES, CELL_KMH = 600, 16.0
WEIGHT_SD, SPEED_SD = 1.4, 4.0  # of 28 days together, at a total of 2.64 of which places have .3


def alike(seed: int) -> np.ndarray:
    """Weights of segments of lines that many buses pass."""
    return 1.3 * np.exp(0.5 * np.random.default_rng([seed, 1]).normal(size=PLACES))


def summed(weights: np.ndarray, means: np.ndarray, seed: int, days: int = 28) -> PlaceSums:
    rng, sums, scale = np.random.default_rng([seed, 2]), PlaceSums.none(PLACES), np.sqrt(days)
    for _ in range(days):
        sums = sums.after(
            PlaceDay(
                weights=weights + scale * WEIGHT_SD * rng.normal(size=PLACES),
                speeds=weights * (means - CELL_KMH) + scale * SPEED_SD * rng.normal(size=PLACES),
                centres=np.full(PLACES, CELL_KMH),
                weight_variance=days * WEIGHT_SD**2,
                speed_variance=days * SPEED_SD**2,
                day_weight=1.0,
            )
        )
    return sums


def around_cells(weights: np.ndarray) -> Around:
    return Around(values=np.full(PLACES, CELL_KMH), expected=np.full(PLACES, weights.mean()))


def weight_of(traffic: tuple[np.ndarray, np.ndarray], sums: PlaceSums) -> np.ndarray:
    expected, ratios = traffic
    weights, log = weight_nodes(ratios, sums, expected, slice(0, PLACES))
    likely = np.exp(log - log.max(axis=1, keepdims=True))
    return np.sum(likely * weights, axis=1) / likely.sum(axis=1)


def missed(posterior: PlaceFit, means: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which places are known to 8 km/h, and which of these intervals hold."""
    half = 1.96 * np.sqrt(posterior.variances)
    is_known = (half < 8) & (posterior.weights - 1.64 * np.sqrt(posterior.weight_variances) > 1)
    return is_known, (np.abs(posterior.values - means) <= half)[is_known]


def test_the_mean_of_every_law_is_what_is_expected() -> None:
    assert pytest.approx(np.ones(len(LAWS)), abs=1e-3) == LAWS @ RATIOS
    assert LAWS.sum(axis=1) == pytest.approx(np.ones(len(LAWS)))


def test_how_far_weights_differ_is_found_where_noise_is_larger_than_they_are() -> None:
    for seed in range(4):
        weights = alike(seed)
        _, ratios = learned_traffic(summed(weights, np.full(PLACES, CELL_KMH), seed), np.full(PLACES, weights.mean()))
        spread = np.sqrt(ratios @ RATIOS**2 - 1)
        assert spread == pytest.approx(np.std(weights) / weights.mean(), rel=0.4)


def test_places_that_look_busiest_are_not_believed_to_be() -> None:
    """A winner's curse: of many equal places those look busiest whose noise is largest."""
    believed, true = 0.0, 0.0
    for seed in range(6):
        weights = alike(seed)
        sums = summed(weights, np.full(PLACES, CELL_KMH), seed)
        posterior = weight_of(learned_traffic(sums, np.full(PLACES, weights.mean())), sums)
        busiest = np.argsort(posterior)[-20:]
        believed, true = believed + posterior[busiest].sum(), true + weights[busiest].sum()
    assert 0.75 * true < believed < 1.1 * true, "where all laws count alike they are believed to be a third busier"


def test_what_cells_traffic_does_not_tell_of_places_is_left_out() -> None:
    weights = alike(3)
    sums = summed(weights, np.full(PLACES, CELL_KMH), 3)
    wrong = np.exp(np.random.default_rng(9).normal(size=PLACES))
    assert np.ptp(learned_traffic(sums, wrong * weights.sum() / wrong.sum())[0]) == pytest.approx(0)
    right, _ = learned_traffic(sums, weights)
    assert np.corrcoef(np.log(right), np.log(weights))[0, 1] == pytest.approx(1)


def test_intervals_hold_where_slow_segments_have_more_reports() -> None:
    """Vehicles pass each segment alike, and report at equal intervals: a weight is a time."""
    held, sums_known = [], []
    for seed in range(2):
        rng = np.random.default_rng([seed, 4])
        means = np.clip(CELL_KMH + 9 * rng.normal(size=PLACES), 5, 55)
        weights = 18 / means * np.exp(0.2 * rng.normal(size=PLACES))
        means = means - (weights @ means / weights.sum() - CELL_KMH)  # the cell's value is by reports
        sums = summed(weights, means, seed)
        passed, apart = (
            missed(learn_places(sums, replace(around_cells(weights), sizes=sizes)), means)
            for sizes in (np.ones(PLACES), None)
        )
        held.append(passed[1])
        sums_known.append((passed[0].sum(), apart[0].sum()))
    assert np.concatenate(held).mean() >= 0.94
    with_law, without = np.sum(sums_known, axis=0)
    assert with_law > 1.5 * without, "and more places are known"
