"""Trees: nodes, their combination, error formulas against simulation, the best factors and budgets against others."""

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dpops.trees.readings import consistent, cumulative, isotonic, law, level_variances
from dpops.trees.shape import Tree, best_shares, best_tree, node_counts
from dpops.types import Float64s
from tests.dpops.trees import examples

SHAPES = [Tree(7, (7,)), Tree(64, (8, 8)), Tree(61, (8, 8)), Tree(20, (3, 4, 2)), Tree(1, (1,)), Tree(9, (2, 2, 2, 2))]
shapes = pytest.mark.parametrize("tree", SHAPES, ids=str)


def best_factors(bins: int) -> tuple[int, ...]:
    """Finds the factorisation of exactly K = bins leaves of least h^2 sum (n_i - 1): the error under equal budgets.

    Larger factors come first; of equally good ones the shorter is taken. No padding, so a prime stays whole.
    """
    factorisations = _factorisations(bins, bins)
    return min(factorisations, key=lambda factors: (len(factors) ** 2 * (sum(factors) - len(factors)), len(factors)))


def _factorisations(bins: int, most: int) -> Iterator[tuple[int, ...]]:
    """Yields descending factors from `most` down whose product is exactly the number of bins."""
    if bins <= most:
        yield (bins,)
    for first in range(min(most, bins // 2), 1, -1):
        if bins % first == 0:
            for rest in _factorisations(bins // first, first):
                yield first, *rest


def total_error(tree: Tree, shares: Sequence[Fraction]) -> float:
    """Sums the prefix variances. shares: of epsilon, by level, with the sum 1."""
    sums = zip(tree.digit_sums(), level_variances(shares), strict=True)
    return sum(digits * variance for digits, variance in sums)


def direct_error(bins: int) -> float:
    """Computes the squared error of K - 1 prefixes released themselves, all of which one sample moves: 2 (K - 1)^3."""
    return 2 * (bins - 1) ** 3


# nodes


@shapes
def test_every_level_covers_every_bin_once(tree: Tree) -> None:
    low, high = tree.edges()
    assert low.size == tree.nodes
    for level in tree.split(tree.nodes):
        assert [int(edge) for edge in low[level]] == [0, *high[level][:-1].tolist()]
        assert high[level][-1] == tree.bins


@shapes
def test_a_nodes_count_is_that_of_its_bins(tree: Tree) -> None:
    leaves = np.random.default_rng(1).integers(0, 50, (3, tree.bins))
    low, high = tree.edges()
    counts = node_counts(leaves, tree)
    for row in range(3):
        expected = [int(leaves[row, a:b].sum()) for a, b in zip(low, high, strict=True)]
        assert counts[row].tolist() == expected


@pytest.mark.parametrize(("bins", "branching"), [(0, (2,)), (5, (2, 2)), (4, (4, 1)), (4, ()), (2, (0, 2))])
def test_a_tree_that_cannot_hold_its_bins_is_refused(bins: int, branching: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"tree|factor"):
        Tree(bins, branching)


@given(st.integers(2, 200), st.lists(st.integers(2, 6), min_size=1, max_size=4))
def test_digit_sums_count_the_nodes_of_all_prefixes(bins: int, factors: list[int]) -> None:
    branching = (*factors, max(2, -(-bins // math.prod(factors))))
    tree = Tree(bins, branching)
    digits = [
        sum(t // width % factor for t in range(1, bins)) for width, factor in zip(tree.widths, branching, strict=True)
    ]
    assert list(tree.digit_sums()) == digits


# error formulas


def test_a_full_trees_error_is_that_of_the_formula() -> None:
    """K sum (n_i - 1) / 2 * 2 (s / eps_i)^2."""
    tree, shares = Tree(60, (5, 4, 3)), (Fraction(1, 2), Fraction(1, 3), Fraction(1, 6))
    expected = 60 * sum((n - 1) / 2 * 2 * (2 / float(e)) ** 2 for n, e in zip((5, 4, 3), shares, strict=True))
    assert total_error(tree, shares) == pytest.approx(expected)
    assert examples.prefix_variances(tree, shares).sum() == pytest.approx(expected)


def _simulated(tree: Tree, shares: tuple[Fraction, ...], draws: int) -> float:
    """The squared l2 error of prefixes made of the least number of nodes, with Laplace noise at epsilon 1."""
    generator = np.random.default_rng(2)
    scales = np.sqrt(np.repeat(level_variances(shares), tree.sizes) / 2)
    noise = generator.laplace(size=(draws, tree.nodes)) * scales
    low, high = tree.edges()
    total = 0.0
    for t in range(1, tree.bins):
        nodes, covered = [], 0
        for level in tree.split(tree.nodes):
            columns = np.arange(tree.nodes)[level]
            inside = columns[(low[columns] >= covered) & (high[columns] <= t)]
            nodes += inside.tolist()
            covered = max(covered, *high[inside].tolist()) if inside.size else covered
        assert sum(high[nodes] - low[nodes]) == t
        total += float((noise[:, nodes].sum(axis=1) ** 2).mean())
    return total


@pytest.mark.parametrize("tree", [Tree(16, (16,)), Tree(16, (4, 4)), Tree(16, (2, 2, 2, 2)), Tree(13, (5, 3))], ids=str)
def test_the_error_formulas_agree_with_simulation(tree: Tree) -> None:
    """20,000 draws, seeded; the sum has a relative standard error below 1 %. Power: sensitivity 1 for 2 is off by 4."""
    shares = best_shares(tree)
    assert _simulated(tree, shares, 20_000) == pytest.approx(total_error(tree, shares), rel=0.04)


def test_prefixes_released_themselves_agree_with_simulation() -> None:
    """One sample that moves from the last bin to the first changes all K - 1 prefixes by 1."""
    bins, draws = 9, 40_000
    noise = np.random.default_rng(3).laplace(scale=bins - 1, size=(draws, bins - 1))
    assert (noise**2).sum(axis=1).mean() == pytest.approx(direct_error(bins), rel=0.04)


# crossovers


# the best factors and shares


@pytest.mark.parametrize(
    ("bins", "factors"),
    [
        (16, (16,)), (61, (61,)), (64, (8, 8)), (65, (65,)), (256, (16, 16)), (289, (17, 17)), (512, (32, 16)),
        (1000, (10, 10, 10)), (1024, (32, 32)), (4096, (16, 16, 16)), (4913, (17, 17, 17)),
    ],
)  # fmt: skip
def test_the_best_factorisations_of_a_whole_number(bins: int, factors: tuple[int, ...]) -> None:
    assert best_factors(bins) == factors


@pytest.mark.parametrize("bins", [2, 5, 17, 36, 47, 61, 64, 65, 100])
def test_no_other_tree_has_less_error(bins: int) -> None:
    """All ordered factors up to four levels, padded or not, each with its best shares."""
    best = best_tree(bins)
    least = total_error(best, best_shares(best))
    for depth in (1, 2, 3):
        for first in itertools.product(range(2, bins + 1), repeat=depth - 1):
            if math.prod(first) >= 2 * bins:
                continue
            other = Tree(bins, (*first, max(2, -(-bins // math.prod(first)))))
            assert total_error(other, best_shares(other)) >= least * (1 - 1e-5)


@pytest.mark.parametrize("bins", [64, 256, 1000, 4913])
def test_padding_may_beat_the_best_exact_factorisation_and_never_loses(bins: int) -> None:
    exact = Tree(bins, best_factors(bins))
    padded = best_tree(bins)
    ratio = total_error(padded, best_shares(padded)) / total_error(exact, best_shares(exact))
    assert 0.98 < ratio <= 1 + 1e-6


@pytest.mark.parametrize("bins", [0, -1, 10_001])
def test_a_number_of_bins_out_of_range_is_refused(bins: int) -> None:
    with pytest.raises(ValueError, match="1 to 10000 bins"):
        best_tree(bins)


COMBINED = [
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


@pytest.mark.parametrize("tree", COMBINED, ids=str)
def test_two_passes_equal_generalised_least_squares(tree: Tree) -> None:
    generator = np.random.default_rng(1)
    for shares in (_shares(tree), best_shares(tree)):
        noisy = generator.normal(20, 30, (5, tree.nodes))
        totals = generator.uniform(50, 500, 5)
        combined = cumulative(noisy, totals, tree, shares)
        for row in range(5):
            expected = _least_squares(noisy[row], totals[row], tree, shares)
            assert combined[row] == pytest.approx(expected, abs=1e-9, rel=1e-9)


@pytest.mark.parametrize("tree", COMBINED, ids=str)
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
