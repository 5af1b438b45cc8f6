"""Forecasts of noise, against sums and integrals of the exact law."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpops.accuracy import expected_error, laplace_bound, laplace_std, mean_absolute_error, transport_bias

scales = st.fractions(Fraction(1, 50), Fraction(10**9), max_denominator=10**6)
misses = st.floats(1e-9, 0.999)


@pytest.mark.parametrize("scale", [Fraction(1, 10), Fraction(1, 3), Fraction(1), Fraction(22, 7), Fraction(100)])
def test_the_standard_deviation_is_that_of_the_law(scale: Fraction) -> None:
    z = np.arange(-8_000, 8_001)
    law = np.exp(-np.abs(z) / float(scale))
    assert laplace_std(scale) == pytest.approx(math.sqrt((law / law.sum() * z**2).sum()), rel=1e-9)


@given(st.fractions(Fraction(10**4), Fraction(2**50)))
def test_the_standard_deviation_of_a_large_scale_is_the_continuous_one(scale: Fraction) -> None:
    assert laplace_std(scale) == pytest.approx(math.sqrt(2) * float(scale), rel=1e-8)


def test_a_tiny_scale_hardly_ever_moves() -> None:
    assert laplace_std(Fraction(1, 10**6)) == pytest.approx(0, abs=1e-100)
    assert laplace_bound(Fraction(1, 10**6), 0.05) == 0


def test_no_noise_no_spread() -> None:
    assert laplace_std(Fraction(0)) == 0
    assert laplace_bound(Fraction(0), 0.05) == 0
    assert mean_absolute_error(-2.5, 0) == 2.5


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
    z = np.linspace(-60, 60, 1_200_001)
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


@pytest.mark.parametrize(
    ("bias", "sd", "scale"), [(0, 1, 1), (2, 0.5, 3), (-1, 4, 0.01), (5, 0.1, 40), (0, 3, 0), (1, 0, 2), (90, 1, 1)]
)
def test_the_expected_error_is_the_integral_over_the_normal_law(bias: float, sd: float, scale: float) -> None:
    """Averaged over 200,001 points of the normal law; also where exp overflows in the plain formula."""
    at = np.linspace(-9, 9, 200_001)
    density = np.exp(-at * at / 2) / math.sqrt(2 * math.pi) * (at[1] - at[0])
    x = bias + sd * at
    exact = float(
        (density * np.array([mean_absolute_error(value, scale) for value in x[::20]]).repeat(20)[: x.size]).sum()
    )
    assert expected_error(bias, sd, scale) == pytest.approx(exact, rel=2e-3)


@given(st.floats(-100, 100), st.floats(0, 1e6), st.floats(0, 1e6))
def test_the_expected_error_never_breaks_and_lies_between_its_parts(bias: float, sd: float, scale: float) -> None:
    error = expected_error(bias, sd, scale)
    assert max(abs(bias), scale, sd * math.sqrt(2 / math.pi)) * (1 - 1e-9) - 1e-9 <= error
    assert error <= (abs(bias) + sd + scale) * (1 + 1e-9) + 1e-9
