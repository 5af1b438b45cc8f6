"""The combination of all noisy nodes against generalised least squares, and isotonic regression against brute force."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dpops.trees.readings import consistent, cumulative, isotonic, law, level_variances
from dpops.trees.shape import Tree, best_shares
from dpops.types import Float64s
from tests.dpops.trees import examples

SHAPES = [
    Tree(2, (2,)),
    Tree(9, (9,)),
    Tree(64, (8, 8)),
    Tree(13, (4, 2, 2)),
    Tree(27, (3, 3, 3)),
    Tree(11, (2, 2, 2, 2)),
]
UNEVEN = (Fraction(1, 2), Fraction(1, 4), Fraction(1, 8), Fraction(1, 8))


def _shares(tree: Tree) -> tuple[Fraction, ...]:
    depth = len(tree.branching)
    return tuple(part / sum(UNEVEN[:depth]) for part in UNEVEN[:depth])


def _least_squares(noisy: Float64s, total: float, tree: Tree, shares: tuple[Fraction, ...]) -> Float64s:
    """Leaves p that minimise the sum of (node - its leaves)^2 / variance with their sum fixed."""
    low, high = tree.edges()
    leaves = np.arange(tree.bins)
    design = ((leaves >= low[:, None]) & (leaves < high[:, None])).astype(float)
    weight = 1 / np.repeat(level_variances(shares), tree.sizes)
    system = np.zeros((tree.bins + 1, tree.bins + 1))
    system[:-1, :-1] = design.T @ (weight[:, None] * design)
    system[-1, :-1] = system[:-1, -1] = 1
    right = np.append(design.T @ (weight * noisy), total)
    return np.cumsum(np.linalg.solve(system, right)[:-1])[:-1]


@pytest.mark.parametrize("tree", SHAPES, ids=str)
def test_two_passes_equal_generalised_least_squares(tree: Tree) -> None:
    generator = np.random.default_rng(1)
    for shares in (_shares(tree), best_shares(tree)):
        noisy = generator.normal(20, 30, (5, tree.nodes))
        totals = generator.uniform(50, 500, 5)
        combined = cumulative(noisy, totals, tree, shares)
        for row in range(5):
            expected = _least_squares(noisy[row], totals[row], tree, shares)
            assert combined[row] == pytest.approx(expected, abs=1e-9, rel=1e-9)


@pytest.mark.parametrize("tree", SHAPES, ids=str)
def test_the_law_is_that_of_simulated_noise_and_no_prefix_is_worse_than_its_plain_sum(tree: Tree) -> None:
    """40,000 draws, seeded; standard deviations have standard errors below 1 % each."""
    shares = _shares(tree)
    noise_law = law(tree, shares)
    noise = np.random.default_rng(3).laplace(size=(40_000, tree.nodes)) * np.sqrt(noise_law.variances / 2)
    combined = cumulative(noise, 0.0, tree, shares)
    assert combined.std(axis=0) == pytest.approx(noise_law.prefix_sd(), rel=0.04)
    assert np.abs(combined.mean(axis=0)).max() < 5 * noise_law.prefix_sd().max() / 200
    assert np.all(noise_law.prefix_sd() ** 2 <= examples.prefix_variances(tree, shares) * (1 + 1e-9))


def test_the_weights_are_the_best_of_all_unbiased_ones() -> None:
    """Power: the variance of every prefix rises if the levels' variances are mixed up."""
    tree, shares = Tree(12, (4, 3)), (Fraction(3, 4), Fraction(1, 4))
    right = law(tree, shares)
    wrong = cumulative(np.eye(tree.nodes), 0.0, tree, shares[::-1])
    assert np.all(right.variances @ right.weights**2 <= right.variances @ wrong**2 + 1e-12)
    assert (right.variances @ wrong**2).sum() > 1.05 * (right.variances @ right.weights**2).sum()


def test_a_histogram_of_known_total_has_the_bridges_variance() -> None:
    """t (K - t) / K times that of a bin."""
    t = np.arange(1, 10)
    variances = law(Tree(10, (10,)), (Fraction(1),)).prefix_sd() ** 2
    assert variances == pytest.approx(8 * t * (10 - t) / 10)


# consistency

values = st.integers(-50, 50).map(float) | st.floats(-2, 2)
sequences = st.integers(1, 12).flatmap(lambda n: arrays(np.float64, (3, n), elements=values))


def _min_max(row: Float64s) -> list[float]:
    """The isotonic regression by its min-max formula."""
    n = row.size
    mean = [[row[a : b + 1].mean() if b >= a else np.inf for b in range(n)] for a in range(n)]
    return [max(min(mean[a][b] for b in range(i, n)) for a in range(i + 1)) for i in range(n)]


@given(sequences)
def test_isotonic_regression_is_that_of_the_min_max_formula(noisy: Float64s) -> None:
    for row, fitted in zip(noisy, isotonic(noisy), strict=True):
        assert fitted == pytest.approx(_min_max(row), abs=1e-9)


@given(sequences)
def test_the_result_is_a_distribution_function_and_stays_when_projected_again(noisy: Float64s) -> None:
    projected = consistent(noisy)
    assert projected.min() >= 0
    assert projected.max() <= 1
    assert np.all(np.diff(projected, axis=1) >= -1e-12)
    np.testing.assert_allclose(consistent(projected), projected, atol=1e-12)
