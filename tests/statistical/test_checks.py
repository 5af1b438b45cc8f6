"""The chi-square checks themselves, on samples that are right by construction."""

from fractions import Fraction

import numpy as np
import pytest

from tests.statistical.checks import LEAST, independent, laplace_cells, same_law

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
