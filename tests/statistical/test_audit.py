"""The audit harness and the chi-square checks on laws that are known: they see a quarter too little noise."""

import math
from fractions import Fraction

import numpy as np
import pytest

from dpops.noise import Noise
from tests.statistical.audit import Release, binomial_lower, binomial_upper, bound_of_samples, epsilon_lower_bound
from tests.statistical.checks import LEAST, independent, laplace_cells, same_law, seeded

DRAWS = 16_000
MOVED = 10_000  # how far the neighbour's exact answer lies from this one's, in steps


def laplace(noise: Noise, exact: int, scale: Fraction) -> Release:
    return lambda draws: exact + noise.laplace([scale] * draws)


epsilons = pytest.mark.parametrize("epsilon", [pytest.param(Fraction(1), marks=pytest.mark.slow), Fraction(2)])
"""Of one trial each second: the fast run takes the epsilon that the audits of mechanisms run at."""


def test_clopper_pearson_against_the_printed_table() -> None:
    """The 95 % interval of 5 hits in 20 is 8.657 % to 49.105 %; of 0 in 10 it ends at 30.850 %."""
    assert binomial_lower(5, 20, 0.025) == pytest.approx(0.08657, abs=1e-5)
    assert binomial_upper(5, 20, 0.025) == pytest.approx(0.49105, abs=1e-5)
    assert binomial_upper(0, 10, 0.025) == pytest.approx(0.30850, abs=1e-5)
    assert binomial_lower(0, 10, 0.025) == 0
    assert binomial_upper(10, 10, 0.025) == 1


@epsilons
def test_the_bound_stays_below_the_truth_and_near_it(epsilon: Fraction) -> None:
    """False-alarm rate 20 x 1e-6 for the right mechanism; it reaches 80 % of the truth."""
    noise = seeded(11)
    for sign in (1, -1):
        scale = MOVED / epsilon
        bounds = [
            epsilon_lower_bound(laplace(noise, 0, scale), laplace(noise, sign * MOVED, scale), DRAWS) for _ in range(10)
        ]
        assert max(bounds) <= epsilon
        assert np.median(bounds) >= 0.8 * float(epsilon)


@epsilons
@pytest.mark.parametrize("sign", [1, -1])
def test_a_quarter_too_little_sensitivity_is_caught_every_time(epsilon: Fraction, sign: int) -> None:
    """Power of one trial: at epsilon 2 the bound lies 6 of its standard deviations above the claim, at epsilon 1,
    with one and a half times the draws, 5; so 10 of 10 fails with probability below 1e-4, and the seed is fixed."""
    noise = seeded(12)
    scale = MOVED / epsilon * Fraction(4, 5)
    draws = DRAWS if epsilon == 2 else DRAWS * 3 // 2
    bounds = [
        epsilon_lower_bound(laplace(noise, 0, scale), laplace(noise, sign * MOVED, scale), draws) for _ in range(10)
    ]
    assert sum(bound > epsilon for bound in bounds) == 10


def test_randomised_response_is_bounded_by_its_epsilon() -> None:
    """False-alarm rate 20 x 1e-6."""
    rng = np.random.default_rng(14)
    keep = math.e / (1 + math.e)

    def answer(truth: int) -> Release:
        return lambda draws: np.where(rng.random(draws) < keep, truth, 1 - truth).astype(np.int64)

    bounds = [epsilon_lower_bound(answer(0), answer(1), DRAWS) for _ in range(20)]
    assert 0.8 <= min(bounds) <= max(bounds) <= 1


@pytest.mark.slow  # 10 s
def test_choosing_the_event_does_not_raise_the_false_alarm_rate() -> None:
    """At alpha 5 % and few draws, 2000 audits of the exact mechanism exceed its epsilon in at most 5 % (+ 5 standard
    deviations; false-alarm rate < 1e-6). An auditor that chose and tested on the same draws would exceed it more often.
    """
    noise = seeded(15)
    scale, draws, audits = Fraction(MOVED), 400, 2_000
    one = noise.laplace([scale] * (draws * audits)).reshape(audits, draws)
    other = MOVED + noise.laplace([scale] * (draws * audits)).reshape(audits, draws)
    above = sum(bound_of_samples(a, b, 0.05) > 1 for a, b in zip(one, other, strict=True))
    assert above <= audits * 0.05 + 5 * (audits * 0.05 * 0.95) ** 0.5


SCALES = [Fraction(1, 3), Fraction(1), Fraction(22, 7), Fraction(50, 3), Fraction(10**4)]


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("draws", [2_000, 100_000])
def test_the_cells_are_a_partition_of_the_exact_law(scale: Fraction, draws: int) -> None:
    cells = laplace_cells(scale, draws)
    assert cells.masses.sum() == pytest.approx(1, abs=1e-12)
    assert cells.masses.min() * draws >= 0.95 * LEAST
    assert np.all(np.diff(cells.edges) > 0)
    p = float(np.exp(-1 / float(scale)))
    z = np.arange(int(cells.edges[0]), int(cells.edges[-1]))
    atoms = (1 - p) / (1 + p) * p ** np.abs(z)
    inner = np.bincount(np.searchsorted(cells.edges, z, side="right"), weights=atoms, minlength=cells.masses.size)
    np.testing.assert_allclose(inner[1:-1], cells.masses[1:-1], rtol=1e-6)


@pytest.mark.parametrize("scale", SCALES)
def test_the_p_value_of_right_counts_is_uniform(scale: Fraction) -> None:
    """False-alarm rate < 1e-6: each share of 4000 p-values below a level is within five standard deviations."""
    rng = np.random.default_rng(1)
    cells = laplace_cells(scale, 50_000)
    p_values = [cells.p_value(counts) for counts in rng.multinomial(50_000, cells.masses, size=4_000)]
    for level in (0.01, 0.1, 0.5, 0.9):
        spread = (level * (1 - level) / 4_000) ** 0.5
        assert np.mean(np.array(p_values) < level) == pytest.approx(level, abs=5 * spread + 0.002)


def test_two_samples_of_one_law_pass_and_of_two_laws_fail() -> None:
    """False-alarm rate 1e-6; power above 1 - 1e-5 against a scale 6 % off (noncentrality 170, threshold 135)."""
    rng = np.random.default_rng(2)
    one, other = (rng.geometric(0.01, 100_000).astype(np.int64) for _ in range(2))
    assert same_law(one, other) > 1e-6
    assert same_law(one, rng.geometric(0.0106, 100_000).astype(np.int64)) < 1e-6
    with pytest.raises(ValueError, match="one size"):
        same_law(one, other[1:])


def test_independence_is_told_from_dependence() -> None:
    """False-alarm rate 1e-6; power above 1 - 1e-9 against a correlation of 0.05 at 100 000 pairs (250 expected)."""
    rng = np.random.default_rng(3)
    one, other = rng.random((2, 100_000)) < 0.5
    assert independent(one, other) > 1e-6
    assert independent(one, np.where(rng.random(100_000) < 0.05, one, other)) < 1e-6
