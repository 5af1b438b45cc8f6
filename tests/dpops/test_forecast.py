"""Forecasts of noise, against sums and integrals of the exact law."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpops import forecast
from dpops.forecast import Prior, laplace_bound, laplace_std, mean_absolute_error, normal_scores, transport_bias

scales = st.fractions(Fraction(1, 50), Fraction(10**9), max_denominator=10**6)
misses = st.floats(1e-9, 0.999)


@pytest.mark.parametrize("scale", [Fraction(1, 10), Fraction(1, 3), Fraction(1), Fraction(22, 7), Fraction(100)])
def test_the_standard_deviation_is_that_of_the_law(scale: Fraction) -> None:
    z = np.arange(-8_000, 8_001)
    law = np.exp(-np.abs(z) / float(scale))
    assert laplace_std(scale) == pytest.approx(math.sqrt((law / law.sum() * z**2).sum()), rel=1e-9)


@given(scales, misses)
def test_the_bound_is_the_smallest_that_is_missed_rarely_enough(scale: Fraction, miss: float) -> None:
    """P(|Z| > t) = 2 p**(t + 1) / (1 + p)."""
    rate = float(1 / scale)

    def beyond(t: int) -> float:
        return 2 * math.exp(-rate * (t + 1)) / (1 + math.exp(-rate))

    bound = laplace_bound(scale, miss)
    assert bound >= 0
    assert beyond(bound) <= miss * (1 + 1e-6)
    assert bound == 0 or beyond(bound - 1) > miss * (1 - 1e-6)


@pytest.mark.parametrize("bias", [0.0, 0.3, -1.0, 4.0])
@pytest.mark.parametrize("scale", [0.5, 1.0, 3.0])
def test_the_mean_absolute_error_is_the_integral(bias: float, scale: float) -> None:
    z = np.linspace(-60, 60, 240_001)
    density = np.exp(-np.abs(z) / scale) / (2 * scale)
    integral = float((np.abs(bias + z) * density).sum() * (z[1] - z[0]))
    assert mean_absolute_error(bias, scale) == pytest.approx(integral, rel=1e-6)


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(1, 50)), min_size=1, max_size=8), st.integers(0, 30))
def test_the_transport_bias_is_the_worst_of_all_corners(pairs: list[tuple[int, int]], dropped: int) -> None:
    """|sum w x - sum u x| is convex in x, so the corners of the cube decide; dropped samples are one more, weightless
    user, and leaving it out of the vectors changes nothing."""
    weights = np.array([w for w, _ in pairs], float)
    weights /= weights.sum()
    uniform = np.array([u for _, u in pairs] + [dropped], float)
    uniform /= uniform.sum()
    corners = (np.arange(2 ** len(uniform))[:, None] >> np.arange(len(uniform))) & 1
    worst = np.abs(corners @ (np.append(weights, 0) - uniform)).max()
    assert transport_bias(weights, uniform[:-1]) == pytest.approx(worst, abs=1e-12)


@pytest.mark.parametrize("bias", [-30.0, -1.0, 0.0, 4.0])
@pytest.mark.parametrize("scale", [1e-6, 0.5, 13.0, 4_000.0])
def test_the_error_of_a_clamped_value_is_the_integral(bias: float, scale: float) -> None:
    z = scale * np.linspace(-60, 60, 240_001)
    density = np.exp(-np.abs(z) / scale) / (2 * scale) * (z[1] - z[0])
    for mean in (0.0, 20.0, 65.0):
        exact = float((density * np.abs(np.clip(mean + bias + z, 0, 65) - mean)).sum())
        [error] = forecast.clamped_errors(mean, 65.0, np.array([bias]), scale)
        assert error == pytest.approx(exact, rel=1e-3, abs=1e-6)
        assert error <= mean_absolute_error(bias, scale) + 1e-9


def test_normal_scores_have_the_moments_of_the_normal_law() -> None:
    scores = normal_scores(32)
    assert scores.mean() == pytest.approx(0, abs=1e-12)
    assert np.abs(scores).mean() == pytest.approx(math.sqrt(2 / math.pi), rel=0.01)


def test_a_prior_splits_its_variance_over_users_and_samples_and_has_a_quarter_more_between_hats() -> None:
    for between in (0.0, 0.3, 1.0):
        prior = Prior(30.0, 8.0, between)
        hats = prior.hat_means(65.0)
        assert hats.mean() == pytest.approx(30.0)
        assert hats.std() ** 2 == pytest.approx(64 / 4, rel=0.15)  # eight points stand for the law
        assert prior.mean_sd(np.array([1]))[0] == pytest.approx(8.0)
        assert prior.mean_sd(np.array([10**12]))[0] ** 2 == pytest.approx(64 * between, abs=1e-6)
