"""How far HATs lie from what describes them: what their own noisy means say of it, and what they do not."""

import numpy as np
import pytest

from dpops.learning.hat_variances import Missed, learned_variances, uneven_variances
from dpops.spread import USUAL, Spread

HATS = 20_000


def missed(true: Spread, noise_sd: float, model_variance: float = 0.0) -> Missed:
    """Of HATs of 1 to 40 vehicles with one to six reports each."""
    rng = np.random.default_rng(4)
    vehicles = rng.integers(1, 41, HATS).astype(np.float64)
    reports, kmh = vehicles * rng.integers(1, 7, HATS), rng.uniform(10, 40, HATS)
    sd = np.sqrt(true.of(vehicles, reports, kmh) + noise_sd**2)
    # What is left of a distance where the model has followed the value.
    left = 1 - model_variance / (model_variance + sd**2)
    squares = (sd * rng.normal(size=HATS)) ** 2 * left
    return Missed(squares, np.full(HATS, model_variance), np.full(HATS, noise_sd**2), vehicles, reports, kmh)


@pytest.mark.parametrize(
    "true", [Spread(110.0, 90.0, 6.0), Spread(20.0, 400.0, 0.6)], ids=["vehicles differ", "reports differ"]
)
def test_releases_tell_what_vehicles_reports_and_places_add(true: Spread) -> None:
    variances = learned_variances([missed(true, 3.0)])
    of = np.array([4.0, 12.0, 40.0]), np.array([12.0, 20.0, 200.0]), np.array([30.0, 20.0, 15.0])
    np.testing.assert_allclose(variances.of(*of), true.of(*of), rtol=0.15)


def test_under_heavy_noise_they_stay_the_usual_ones() -> None:
    variances = learned_variances([missed(Spread(160.0, 560.0, 10.0), 300.0)])
    np.testing.assert_allclose(variances.of(5, 15), USUAL.of(5, 15), rtol=0.2)
    assert learned_variances([]) == USUAL


def test_what_the_model_has_followed_is_counted() -> None:
    plain, followed = (learned_variances([missed(USUAL, 3.0, model_variance)]) for model_variance in (0.0, 10.0))
    np.testing.assert_allclose(followed.of(10, 30), plain.of(10, 30), rtol=0.1)


def test_faster_hats_and_those_of_few_reports_vary_more() -> None:
    assert USUAL.of(5, 10, 40.0) > 1.5 * USUAL.of(5, 10, 20.0)
    assert USUAL.of(5, 5) > 2 * USUAL.of(5, 25)
    assert uneven_variances(USUAL, 5, 20, 16, 20.0) > uneven_variances(USUAL, 5, 20, 5, 20.0) > 0
    assert uneven_variances(USUAL, 5, 20, 4, 20.0) == 0
    assert Spread(80.0, 560.0, 1.0).of_one == 2 * USUAL.of_one
