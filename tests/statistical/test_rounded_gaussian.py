"""Rounded Gaussian noise hides a vector as a normal number would, and its digits decide within their bounds."""

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from statistics import NormalDist

import numpy as np
import pytest

from dpops.claims import delta_of_gaussian
from dpops.noise import Noise, words
from dpops.noise.discrete import _rate
from dpops.types import Float64s, Int64s

VARIANCES = [
    Fraction(1),
    Fraction(22, 7),
    Fraction(50_000, 3),
    Fraction(3 * 10**12 + 1, 3),
    Fraction(3_301_122_184_211),  # of a vehicle-day at a total of 2.64
    Fraction(2**98 - 1),
]


def test_a_rate_lies_between_its_bounds_which_close_in_with_each_word() -> None:
    """Of each row its own numbers: whatever digits are still to come, the rate of all of them is within."""
    entropy = np.random.default_rng(46)
    later = [int(word) for word in entropy.integers(0, 2**63, 3)]
    for row in range(200):
        variance = VARIANCES[row % len(VARIANCES)]
        t = math.isqrt(int(variance)) + 1
        whole, first = int(entropy.integers(0, 4 * t)), int(entropy.integers(0, 2**63)) * 2 + row % 2
        rest = iter(later)
        source = words.Words(lambda _, rest=rest: next(rest).to_bytes(8, "little"))  # type: ignore[misc]
        bounds = _rate(source.uniform(first), whole, t, variance)
        number = first
        for count, word in enumerate(later, 1):
            low, high = bounds(64 * count)
            for u in (Fraction(number, 2 ** (64 * count)), Fraction(number + 1, 2 ** (64 * count))):
                rate = (whole + u - variance / t) ** 2 / (2 * variance) + u / t
                assert low <= rate <= high
            assert high - low <= Fraction(20, 2 ** (64 * count))
            number = number << 64 | word


# what it hides


def law_of_rounded(sigma: float, reach: int) -> Float64s:
    """The probabilities of -reach, .., reach."""
    law = NormalDist(0, sigma)
    return np.array([law.cdf(k + 0.5) - law.cdf(k - 0.5) for k in range(-reach, reach + 1)])


def law_of_discrete(sigma: float, reach: int) -> Float64s:
    weights = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * sigma * sigma))
    return weights / weights.sum()


def delta_of(law: Float64s, vector: tuple[int, ...], epsilon: float) -> float:
    """The exact delta of integers with independent noise of this law: of a vector against none, over all results."""
    padded = np.pad(law, max(vector))
    true, other = np.ones(1), np.ones(1)
    for number in vector:
        true = np.outer(true, np.roll(padded, number)).ravel()
        other = np.outer(other, padded).ravel()
    return float(np.maximum(true - math.exp(epsilon) * other, 0).sum())


@pytest.mark.parametrize("sigma", [1.0, 1.7, 3.2])
@pytest.mark.parametrize("vector", [(1,), (3,), (1, 1), (2, 1), (3, 4), (1, 1, 1)])
def test_rounded_noise_hides_a_vector_of_any_shape_as_one_normal_number_hides_its_length(
    sigma: float, vector: tuple[int, ...]
) -> None:
    law, mu = law_of_rounded(sigma, math.ceil(9 * sigma)), math.hypot(*vector) / sigma
    for epsilon in (0.0, 0.1, 0.5, 1.0, 2.64, 5.0):
        assert delta_of(law, vector, epsilon) <= delta_of_gaussian(epsilon, mu) + 1e-12


def test_discrete_noise_does_not() -> None:
    """So the claim is of the rounded law: a release that draws the other one under it is found out by its law."""
    beyond = [
        (sigma, vector, epsilon)
        for sigma, vector, epsilon in product((0.6, 1.0, 1.7), ((1,), (1, 1), (2, 1)), (0.1, 0.5, 1.0, 2.64))
        if delta_of(law_of_discrete(sigma, 30), vector, epsilon)
        > delta_of_gaussian(epsilon, math.hypot(*vector) / sigma)
    ]
    assert beyond


def test_digits_that_were_drawn_stay() -> None:
    source = words.Words(lambda size: b"\x07" * size)
    uniform = source.uniform(2**63 + 5)
    assert uniform.to(128) >> 64 == uniform.to(64) == 2**63 + 5
    assert uniform.to(1) == 1
    assert uniform.to(128) % 2**64 == int.from_bytes(b"\x07" * 8, "little")


@pytest.mark.parametrize("draw", [Noise.gaussian, Noise.rounded_gaussian])
def test_every_row_is_drawn_where_chunks_meet(draw: Callable[[Noise, list[Fraction]], Int64s]) -> None:
    """No number of so large a variance is 0, but for a chance of 1e-10."""
    assert np.all(draw(Noise(), [VARIANCES[-1]] * (2 * words.CHUNK + 3)) != 0)
