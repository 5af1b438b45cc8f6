"""Distributions of cells are learned from noisy class sums and known means, and their intervals are honest."""

import math
from typing import NamedTuple

import numpy as np
import pytest

from dpops.learning.classes import ClassFit, ClassSums, OfCells, Quantiles, learn_classes, quantiles, tilted
from dpops.types import Float64s

EDGES = np.array([0.0, 1, 10, 19, 28, 37, 46, 55, 65])
CELLS, LEVELS, MEAN_SD = 300, (0.15, 0.5, 0.85), 2.0
NOISE_SD = 1.5


class City(NamedTuple):
    """True weights and shares of classes, (cells, classes); means as they are told."""

    weights: Float64s
    shares: Float64s
    told: OfCells

    def quantile(self, level: float) -> Float64s:
        below = np.concatenate([np.zeros((CELLS, 1)), np.cumsum(self.shares, axis=1)], axis=1)
        return np.array([np.interp(level, curve, EDGES) for curve in below])


def city(seed: int) -> City:
    """Stands are fewer where it is faster; speeds that move are spread by as much as the cell has it."""
    rng = np.random.default_rng(seed)
    middle_kmh, wide = rng.uniform(15, 45, CELLS)[:, None], rng.uniform(6, 14, CELLS)[:, None]
    moving = np.exp(-0.5 * ((np.array([5.0, 14, 23, 32, 41, 50, 60]) - middle_kmh) / wide) ** 2)
    stands = rng.uniform(0.1, 0.5, (CELLS, 1))
    shares = np.concatenate([stands, (1 - stands) * moving / moving.sum(axis=1, keepdims=True)], axis=1)
    whole = np.exp(rng.normal(2, 1, CELLS))
    middle = np.r_[0.0, (EDGES[1:-1] + EDGES[2:]) / 2]
    means = shares @ middle + MEAN_SD * rng.normal(size=CELLS)
    told = OfCells(whole * np.exp(0.3 * rng.normal(size=CELLS)), means, np.full(CELLS, MEAN_SD**2))
    return City(whole[:, None] * shares, shares, told)


def learned(of: City, days: int, seed: int = 1, noise: float = NOISE_SD) -> ClassFit:
    rng, sums = np.random.default_rng([seed, 3]), ClassSums.none(*of.shares.shape)
    for _ in range(days):
        noisy = of.weights + noise * rng.normal(size=of.weights.shape)
        sums = sums.after(noisy, np.full(of.shares.shape[1], noise**2))
    return learn_classes(sums, of.told, EDGES, float(of.weights.sum()))


def read(posterior: ClassFit) -> Quantiles:
    shares = tilted(posterior, posterior.means[:, None])
    return quantiles(posterior, shares, LEVELS, posterior.mean_variances[:, None], np.full((CELLS, 1), 1e9))


def test_intervals_hold_the_truth_and_each_day_makes_them_narrower() -> None:
    truth, few, many = city(1), *(read(learned(city(1), days)) for days in (1, 12))
    for posterior in (few, many):
        for row, level in enumerate(LEVELS):
            true = truth.quantile(level)[:, None]
            assert np.mean((posterior.lower95[row] <= true) & (true <= posterior.upper95[row])) > 0.92
    widths = [posterior.upper95 - posterior.lower95 for posterior in (few, many)]
    assert widths[1].mean() < 0.9 * widths[0].mean()


def test_the_85th_percentile_is_found_much_better_than_one_constant_has_it() -> None:
    truth = city(2)
    true, share = truth.quantile(0.85), truth.weights.sum(axis=1) / truth.weights.sum()
    missed = share @ np.abs(read(learned(truth, 4)).values[2, :, 0] - true)
    assert missed < 0.35 * (share @ np.abs(true - share @ true))


def test_a_tilted_distribution_has_the_mean_that_is_asked_for() -> None:
    posterior = learned(city(5), 3)
    for wanted in (3.0, 20.0, 45.0):
        shares = tilted(posterior, np.full((CELLS, 2), wanted))
        assert shares @ posterior.speeds == pytest.approx(wanted, abs=0.05)
        assert shares.sum(axis=-1) == pytest.approx(1)
    for extreme in (-5.0, 80.0):
        assert np.all(np.isfinite(tilted(posterior, np.full((CELLS, 1), extreme))))


def test_quantiles_are_in_order_and_few_visits_make_them_uncertain() -> None:
    posterior = learned(city(6), 3)
    shares, variances = tilted(posterior, posterior.means[:, None]), posterior.mean_variances[:, None]
    many, few = (quantiles(posterior, shares, LEVELS, variances, np.full((CELLS, 1), n)) for n in (1e6, 4.0))
    assert np.all(many.lower95 <= many.values)
    assert np.all(many.values <= many.upper95)
    assert np.all(few.upper95 - few.lower95 >= many.upper95 - many.lower95)
    assert np.all(few.lower95 >= 0)
    assert np.all(few.upper95 <= EDGES[-1])


def test_where_vehicles_stand_a_percentile_is_0_and_its_interval_ends_with_that_class() -> None:
    shares = np.full((1, 8), 0.02)
    shares[0, 0] = 1 - shares[0, 1:].sum()
    posterior = ClassFit(EDGES, np.log(shares), np.zeros((1, 8, 8)))
    estimates = quantiles(posterior, posterior.shares[:, None], LEVELS, np.zeros((1, 1)), np.full((1, 1), 1e9))
    assert estimates.values[:2].tolist() == estimates.lower95[:2].tolist() == [[[0.0]], [[0.0]]]
    assert estimates.upper95[:2].tolist() == [[[1.0]], [[1.0]]]


def test_what_is_not_known_of_a_class_and_of_its_curve_adds_in_squares() -> None:
    """By a curve that is known an 85th percentile lies in its class anywhere alike, 1.96 / sqrt(12) of it to either
    side; where the mean is not known, farther, but not by both together. An end in the last class is not yet its end.
    """
    shares = np.array([[0.02, 0.13, 0.2, 0.2, 0.2, 0.14, 0.06, 0.05]])
    posterior = ClassFit(EDGES, np.log(shares), np.zeros((1, 8, 8)))

    def ends(mean_sd_kmh: float) -> tuple[float, float, float]:
        lone = np.ones((1, 1))
        estimates = quantiles(posterior, shares[:, None], (0.85,), mean_sd_kmh**2 * lone, 1e12 * lone)
        value, lower, upper = (column.item() for column in estimates)
        return value, value - lower, upper - value

    below, by_mean = (np.r_[0.0, np.cumsum(shares * column)] for column in (1.0, posterior.speeds - posterior.means))
    sd = 6 * np.abs(by_mean) / (shares @ (posterior.speeds - posterior.means) ** 2)
    value, *of_class = ends(0.0)
    of_curve = value - np.interp(0.85, below + 1.96 * sd, EDGES), np.interp(0.85, below - 1.96 * sd, EDGES) - value
    assert of_class == pytest.approx([1.96 * 9 / math.sqrt(12)] * 2)
    assert ends(6.0)[1:] == pytest.approx(np.hypot(of_class, of_curve))
    assert EDGES[-2] < value + ends(9.0)[2] < EDGES[-1]


def test_reports_of_one_visit_are_not_taken_to_be_all_alike() -> None:
    """Of six visits of eight reports, two thirds of which are as the visit's first: intervals of the middle report
    hold, and not nearly always, as they would if all reports of a visit were alike."""
    rng, visits, reports, days = np.random.default_rng(7), 6, 8, 4000
    shares = np.array([0.02, 0.06, 0.2, 0.3, 0.2, 0.12, 0.06, 0.04])
    first = rng.choice(shares.size, (days, visits, 1), p=shares)
    drawn = rng.choice(shares.size, (days, visits, reports), p=shares)
    seen = np.where(rng.random(drawn.shape) < 2 / 3, first, drawn).reshape(days, -1)
    kmh = EDGES[seen] + rng.random(seen.shape) * np.diff(EDGES)[seen]
    posterior = ClassFit(EDGES, np.log(shares)[None], np.zeros((1, shares.size, shares.size)))
    of_mean = np.array([[kmh.mean(axis=1).var()]])
    medians = quantiles(posterior, posterior.shares[:, None], (0.5,), of_mean, np.full((1, 1), visits))
    middle = np.median(kmh, axis=1)
    assert 0.95 < np.mean((medians.lower95[0, 0, 0] <= middle) & (middle <= medians.upper95[0, 0, 0])) < 0.997
