"""Sums with Laplace noise speak for places as far as their noise would not."""

from dataclasses import replace

import numpy as np
import pytest

from dpops.learning.places import Around, PlaceDay, PlaceSums, learn_places, surprise, whole_weight
from dpops.types import Float64s

STEP = 0.01
PLACES, BUSY = 1_000, 20
WEIGHT_SD, SPEED_SD = 6.0, 40.0


def density_of(draws: int) -> Float64s:
    """That of a sum of so many Laplace draws of variance 1, by convolution, at 0, STEP, .. to 8 of its deviations."""
    x = np.arange(-60, 60 + STEP / 2, STEP)
    one = np.exp(-np.sqrt(2) * np.abs(x)) / np.sqrt(2)
    spectrum = np.fft.fft(np.fft.ifftshift(one)) * STEP
    whole = np.fft.fftshift(np.fft.ifft(spectrum**draws).real) / STEP
    return np.maximum(whole[x.size // 2 :], 1e-300)


@pytest.mark.parametrize("draws", [4, 28])
def test_a_sum_is_as_surprising_as_its_density_says(draws: int) -> None:
    exact = -np.log(density_of(draws))
    for off in (1.0, 2.0, 4.0, 5.0):
        at = round(off * np.sqrt(draws) / STEP)
        assert surprise(np.array([off]), draws)[0] == pytest.approx(exact[at] - exact[0], rel=0.1)


def sums_of(days: int, seed: int) -> PlaceSums:
    """A thousand places that nobody visits, but for a few."""
    rng = np.random.default_rng(seed)
    weights = np.where(np.arange(PLACES) < BUSY, 60.0, 0.0)
    sums = PlaceSums.none(PLACES)
    for _ in range(days):
        noisy = weights + rng.laplace(0, WEIGHT_SD / np.sqrt(2), PLACES)
        speeds = 10 * weights + rng.laplace(0, SPEED_SD / np.sqrt(2), PLACES)
        day = PlaceDay(noisy, speeds, np.full(PLACES, 20.0), WEIGHT_SD**2, SPEED_SD**2, 1.0, is_laplace=True)
        sums = sums.after(day)
    return sums


def believed_visited(sums: PlaceSums) -> int:
    """How many of the places that nobody visits are thought to be known and visited."""
    expected = np.full(PLACES, whole_weight(sums, 60.0 * BUSY) / PLACES)
    around = Around(values=np.full(PLACES, 20.0), expected=expected)
    fit = learn_places(sums, around)
    known = (1.96 * np.sqrt(fit.variances) < 8) & (fit.weights - 1.3 * np.sqrt(fit.weight_variances) > 1)
    assert known[:BUSY].mean() > 0.5, "those that are visited are known"
    return int(known[BUSY:].sum())


@pytest.mark.slow
def test_what_noise_makes_busy_is_not_taken_for_visited() -> None:
    as_laplace = sum(believed_visited(sums_of(days, seed)) for days in (1, 3) for seed in range(4))
    as_gaussian = sum(
        believed_visited(replace(sums_of(days, seed), is_laplace=False)) for days in (1, 3) for seed in range(4)
    )
    assert as_laplace < as_gaussian / 2
