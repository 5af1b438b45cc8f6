"""Intervals are quantiles of a mixture over the numbers of vehicles; without the mixture they hold too little."""

import math
from dataclasses import replace

import numpy as np
import pytest

from dpops import fitted
from dpops.learning import State, chances, learned, taken_in
from dpops.learning.chances import (
    CAUTIOUS,
    NODES,
    described_variances,
    expected_vehicles,
    factors_of,
    half_widths,
    left_variances,
    numbers_of,
    traffic_variances,
)
from dpops.learning.releases import DayValues, LevelValues
from dpops.spread import USUAL
from tests.dpops.learning.city import FACTS, HOURS, design, released_day, truth

RNG_SEED = 3


def held_by(width: np.ndarray, sds: np.ndarray) -> np.ndarray:
    """The share of each mixture of normals, (.., nodes), that lies within the width."""
    erf = np.vectorize(math.erf)
    return erf(width[..., None] / sds / math.sqrt(2)).mean(axis=-1)


@pytest.mark.parametrize("spread", [0.0, 0.3, 1.0, 3.0])
def test_half_widths_hold_their_share_of_the_mixture(spread: float) -> None:
    own = np.exp(spread * np.linspace(-2, 2, NODES)) * np.ones((5, 1))
    variances = np.array([1e-6, 0.1, 1.0, 10.0, 1e3])
    for share in (0.5, 0.95, 0.99):
        width = half_widths(variances[:, None] + own, share)
        assert held_by(width, np.sqrt(variances[:, None] + own)) == pytest.approx(share, abs=1e-3)


@pytest.mark.parametrize("said", [0.0, 0.02, 1.0])
def test_traffic_lies_around_the_value_as_the_part_that_it_followed_says(said: float) -> None:
    """A HAT's own mean is what all vehicles have in common there (3 (km/h)^2), and a sample of them (30)."""
    rng, floor, own = np.random.default_rng(RNG_SEED), 3.0, 33.0
    common = math.sqrt(floor) * rng.normal(size=40_000)
    there = common + math.sqrt(own - floor) * rng.normal(size=common.size)
    noise = rng.normal(size=common.size) / math.sqrt(max(said, 1e-12))
    value = own / (own + 1 / max(said, 1e-12)) * (there + noise)
    variance = float(traffic_variances(np.full((1, NODES), own), np.array([said]), floor)[0, 0])
    assert variance == pytest.approx(float(np.var(common - value)), rel=0.03)
    of_those_there = float(np.var(there - value))
    assert abs(variance / of_those_there - 1) > 0.15, "another mean than that of the vehicles that were there"


def test_one_normal_is_its_usual_interval() -> None:
    assert half_widths(np.full((1, NODES), 4.0))[0] == pytest.approx(1.96 * 2, rel=1e-3)


def seen_weights(hats: int, rng: np.random.Generator, noise: float = 4.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """True logarithms of weights, what the count model makes of noisy sums, and the variance that it states."""
    prior = 1.0
    logs = math.log(10) + math.sqrt(prior) * rng.normal(size=hats)
    seen = np.exp(logs) + noise * rng.normal(size=hats)
    grid = np.linspace(-1, 5.5, 260)
    cost = ((seen[:, None] - np.exp(grid)) / noise) ** 2 + (grid - math.log(10)) ** 2 / prior
    fitted = np.exp(grid[np.argmin(cost, axis=1)])
    return logs, fitted, 1 / (1 / prior + (fitted / noise) ** 2)


def own_log_variances(numbers: np.ndarray, *, by_chance: bool) -> np.ndarray:
    return 1 / np.maximum(numbers, 1.0) if by_chance else np.full(numbers.shape, fitted.WEIGHT_DOUBT)


def simulated(widths, *, by_chance: bool, seed: int = RNG_SEED) -> float:
    """How often intervals hold the mean of HATs of a secret number of vehicles, of which a noisy weight tells.

    widths: from what is described's variance, the fitted numbers, the variance of their logarithm, and whether vehicles
    are there by chance.
    """
    rng, hats = np.random.default_rng(seed), 20_000
    logs, expected, variances = seen_weights(hats, rng)
    spread = np.sqrt(own_log_variances(np.exp(logs), by_chance=by_chance))
    true = np.maximum(np.exp(logs + spread * rng.normal(size=hats)), 1.0)
    sure = (expected > 6) & (variances < 0.5)
    errors = np.sqrt(1 + USUAL.of(true)) * rng.normal(size=hats)
    half = widths(np.ones(sure.sum()), expected[sure], variances[sure], by_chance)
    return float(np.mean(np.abs(errors[sure]) <= half))


def simulated_places(*, mixed: bool) -> float:
    """Likewise of places whose mean is told by a noisy sum of speeds, over a weight that is not known."""
    rng, places, most, noise = np.random.default_rng(RNG_SEED), 20_000, 64.0, 20.0
    logs, fitted, variances = seen_weights(places, rng, 2.0)
    means = math.sqrt(most) * rng.normal(size=places)
    sums = np.exp(logs) * means + noise * rng.normal(size=places)
    precision = 1 / most + (fitted / noise) ** 2
    sure = variances < 0.5
    factors = factors_of(variances[sure], 1.0) if mixed else np.ones((sure.sum(), NODES))
    half = half_widths(described_variances(1 / precision[sure], factors, most))
    errors = means - sums * fitted / noise**2 / precision
    return float(np.mean(np.abs(errors[sure]) <= half))


def mixture(described, expected, variances, by_chance):
    factors = factors_of(variances, 1.0, expected if by_chance else None)
    return half_widths(described[:, None] + USUAL.of(np.maximum(expected[:, None] * factors, 1.0)))


def at_the_fitted_number(described, fitted, _variances, _by_chance):
    return half_widths((described + USUAL.of(fitted))[:, None] + np.zeros(NODES))


def symmetric(described, expected, variances, by_chance):
    """Nodes of a normal law of the logarithm."""
    logs = np.sqrt(variances + own_log_variances(expected, by_chance=by_chance))[:, None] * chances._AT
    return half_widths(described[:, None] + USUAL.of(np.maximum(expected[:, None] * np.exp(logs), 1.0)))


@pytest.mark.parametrize("by_chance", [False, True])
def test_intervals_hold_the_truth_where_the_number_of_vehicles_is_secret(*, by_chance: bool) -> None:
    assert 0.935 < simulated(mixture, by_chance=by_chance) < 0.965


@pytest.mark.parametrize("mutant", [at_the_fitted_number, symmetric])
def test_without_the_mixture_or_its_lean_they_do_not(mutant, monkeypatch) -> None:
    monkeypatch.setattr(fitted, "WEIGHT_DOUBT", 0.05)  # little beside what is noise
    assert simulated(mutant, by_chance=False) < 0.935


def test_a_release_of_single_hats_leaves_part_of_their_own_variance() -> None:
    """It weighs vehicles otherwise than reports do, so however little noise it has, it is not their mean."""
    own = np.array([[100.0, 10.0]])
    assert left_variances(own, np.array([0.0])) == pytest.approx(own)
    assert left_variances(own, np.array([1e9])) == pytest.approx(fitted.UNSAID * own, rel=1e-3)
    assert np.all(np.diff(left_variances(np.full((3, 1), 100.0), np.array([0.0, 0.1, 1.0])), axis=0) < 0)


def test_a_weight_stands_for_more_vehicles_than_were_not_clipped() -> None:
    weights = np.array([4.0, 10.0, 30.0])
    assert expected_vehicles(weights) == pytest.approx(fitted.MORE_VEHICLES * weights)


def test_a_hat_that_looks_busy_may_well_have_few_vehicles() -> None:
    """What is released is precise on the weight's own scale, so nodes reach farther down than up."""
    logs = np.log(factors_of(np.array([0.4]), 1.2, np.array([8.0]))[0])
    assert -logs[0] > 1.3 * logs[-1]
    unknown = np.log(factors_of(np.array([1.2]), 1.2, np.array([8.0]))[0])
    assert -unknown[0] == pytest.approx(unknown[-1], rel=1e-3), "where nothing is released, as far"


def test_numbers_are_ascending_and_at_least_one() -> None:
    numbers = numbers_of(np.array([0.3, 2.0, 50.0, 1e4]), np.array([1.2, 0.6, 0.1, 0.0]), 1.2)
    assert np.all(np.diff(numbers, axis=-1) >= 0)
    assert np.all(numbers >= 1)
    assert np.all(numbers[2, CAUTIOUS] < 50)


def test_the_less_is_known_of_a_number_the_wider_the_interval_of_many_vehicles() -> None:
    variances = np.array([0.0, 0.1, 0.3, 0.6])
    half = half_widths(1 + USUAL.of(numbers_of(np.full(4, 30.0), variances, 1.2)))
    assert np.all(np.diff(half) > 0)


def test_vehicles_differ_more_where_traffic_is_fast() -> None:
    """As in real feeds, but below 5 km/h."""
    of_speed = USUAL.of(np.full(5, 10.0), kmh=np.array([0.0, 5.0, 20.0, 40.0, 65.0]), least=0.0)
    assert of_speed[0] == of_speed[1]
    assert 1.8 * of_speed[2] < of_speed[3] < 2.2 * of_speed[2], "about in proportion: slow ones report more often too"
    assert of_speed[4] > 1.3 * of_speed[3]


def learned_floor_of(own_kmh: float) -> float:
    """What two days teach of a city whose HATs of some 25 vehicles each lie around their pattern by so much."""
    of, rng = design(), np.random.default_rng(1)
    state = State.new(of, replace(FACTS, hat_weight=0.005))
    weights, means = truth(of)
    for seed in range(2):
        day = released_day(of, 0.02, seed, means)
        own = weights * own_kmh * rng.normal(size=weights.shape)
        levels = tuple(_moved(level, own) for level in day.stages[0].levels)
        state = taken_in(state, DayValues(hours=HOURS, stages=(replace(day.stages[0], levels=levels),)))
    return learned(state).told.floor


def _moved(level: LevelValues, speeds: np.ndarray) -> LevelValues:
    return replace(level, speeds=level.speeds + level.groups.totals(speeds))


def test_a_rough_citys_intervals_are_wider_since_its_releases_say_so() -> None:
    smooth, rough = learned_floor_of(0.5), learned_floor_of(4.0)
    assert smooth < 0.9 * fitted.FLOOR
    assert 2 * fitted.FLOOR < rough < 4.0**2


def test_before_any_release_the_floor_is_the_fitted_one() -> None:
    assert learned(State.new(design(), FACTS)).told.floor == pytest.approx(fitted.FLOOR)


def test_what_was_released_says_little_where_few_drive_after_all() -> None:
    variances = described_variances(np.array([1.0, 1.0]), np.array([[0.1, 1.0], [1.0, 10.0]]), 64.0)
    assert variances[0, 0] > 30
    assert variances[:, 1] == pytest.approx([1.0, 0.01], rel=0.02)
    assert np.all(described_variances(np.array([64.0]), np.array([[0.1, 1.0, 9.0]]), 64.0) == pytest.approx(64.0))


def test_a_places_mean_is_as_doubtful_as_its_weight() -> None:
    assert 0.93 < simulated_places(mixed=True) < 0.97
    assert simulated_places(mixed=False) < 0.9, "with one weight, as it is fitted"


def test_intervals_hold_where_a_release_of_single_hats_told_their_means_and_not_nearly_always() -> None:
    """Of a mean with a variance of 15 a release with noise of 3 km/h leaves what that does, and a twentieth."""
    rng, hats, own = np.random.default_rng(RNG_SEED), 20_000, 15.0
    left = left_variances(np.full((hats, NODES), own), np.full(hats, 1 / 9))
    means = math.sqrt(own) * rng.normal(size=hats)
    errors = means - (means + 3 * rng.normal(size=hats)) * own / (own + 9)
    assert 0.945 < float(np.mean(np.abs(errors) <= half_widths(left))) < 0.97
