"""Trees: their nodes, the error formulas against simulation, the best factors and budgets against all others."""

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpops.trees.combine import level_variances
from dpops.trees.design import best_shares, best_tree, cube_root_shares
from dpops.trees.shape import Tree, node_counts
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


def histogram_error(bins: int) -> float:
    """Computes the squared error of the prefixes of a noisy histogram: the sum of 2 s^2 t = 4 K (K - 1)."""
    return 4 * bins * (bins - 1)


def direct_error(bins: int) -> float:
    """Computes the squared error of K - 1 prefixes released themselves, all of which one sample moves: 2 (K - 1)^3."""
    return 2 * (bins - 1) ** 3


def binary_error(bins: int) -> float:
    """Computes the squared error of the binary tree over the least power of two that holds the bins; equal budgets."""
    depth = max(1, (bins - 1).bit_length())
    tree = Tree(bins, (2,) * depth)
    return total_error(tree, [Fraction(1, depth)] * depth)


# nodes


@shapes
def test_every_level_covers_every_bin_once(tree: Tree) -> None:
    low, high = tree.edges()
    assert low.size == tree.nodes
    for level in tree.split(range(tree.nodes)):
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


def test_the_comparators_formulas() -> None:
    for bins in (2, 4, 9, 64):
        histogram = Tree(bins, (bins,))
        assert histogram_error(bins) == pytest.approx(total_error(histogram, [Fraction(1)]))
    assert [direct_error(k) < histogram_error(k) for k in (2, 3, 4, 5)] == [True, True, False, False]
    for depth in range(1, 13):
        assert binary_error(2**depth) / histogram_error(2**depth) == pytest.approx(depth**3 / (2**depth - 1))


def _simulated(tree: Tree, shares: tuple[Fraction, ...], draws: int) -> float:
    """The squared l2 error of prefixes made of the least number of nodes, with Laplace noise at epsilon 1."""
    generator = np.random.default_rng(2)
    scales = np.sqrt(np.repeat(level_variances(shares), tree.sizes) / 2)
    noise = generator.laplace(size=(draws, tree.nodes)) * scales
    low, high = tree.edges()
    total = 0.0
    for t in range(1, tree.bins):
        nodes, covered = [], 0
        for level in tree.split(range(tree.nodes)):
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


def test_the_published_crossovers() -> None:
    """The binary tree loses to the histogram until K = 1024, [8, 8] wins at 64 and [6, 6] does not at 36."""
    assert [2**h for h in range(1, 13) if binary_error(2**h) < histogram_error(2**h)] == [2, 1024, 2048, 4096][1:]
    half = (Fraction(1, 2), Fraction(1, 2))
    assert total_error(Tree(64, (8, 8)), half) < histogram_error(64)
    assert total_error(Tree(36, (6, 6)), half) > histogram_error(36)


# the best factors and shares


@pytest.mark.parametrize(
    ("bins", "factors"),
    [
        (16, (16,)),
        (61, (61,)),
        (64, (8, 8)),
        (65, (65,)),
        (256, (16, 16)),
        (289, (17, 17)),
        (512, (32, 16)),
        (1000, (10, 10, 10)),
        (1024, (32, 32)),
        (4096, (16, 16, 16)),
        (4913, (17, 17, 17)),
    ],
)
def test_the_best_factorisations_of_a_whole_number(bins: int, factors: tuple[int, ...]) -> None:
    assert best_factors(bins) == factors


def test_65_bins_are_a_tie() -> None:
    assert 1**2 * (65 - 1) == 2**2 * (5 - 1 + 13 - 1)


def test_a_prime_number_of_bins_is_better_padded() -> None:
    for tree in (Tree(61, (8, 8)), best_tree(61)):
        assert total_error(tree, best_shares(tree)) < histogram_error(61)


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


@pytest.mark.parametrize("bins", [13, 61, 65, 100, 130])
def test_with_padding_the_smaller_of_two_factors_belongs_nearer_the_root(bins: int) -> None:
    """Of a full tree the order does not matter. With padding at the right end, prefixes up to K need fewer nodes so."""
    for more in range(3, bins):
        less = -(-bins // more)
        tight = (more - 1) * less < bins and more * (less - 1) < bins < more * less
        if 2 <= less < more and tight:
            trees = [Tree(bins, (less, more)), Tree(bins, (more, less))]
            first, second = (total_error(tree, best_shares(tree)) for tree in trees)
            assert first <= second * (1 + 1e-12)
    narrow, wide = Tree(61, (7, 9)), Tree(61, (9, 7))
    assert total_error(narrow, best_shares(narrow)) < total_error(wide, best_shares(wide))
    full = [Tree(63, (7, 9)), Tree(63, (9, 7))]
    assert total_error(full[0], best_shares(full[0])) == pytest.approx(total_error(full[1], best_shares(full[1])))


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=5), st.data())
def test_the_cube_root_rule_has_the_least_error(weights: list[int], data: st.DataObject) -> None:
    """The sum of w_i / e_i^2 with the sum of e_i equal to 1, against other shares; it is (sum w_i^(1/3))^3."""
    shares = cube_root_shares(weights)
    assert sum(shares) == 1
    error = sum(weight / float(share) ** 2 for weight, share in zip(weights, shares, strict=True))
    assert error == pytest.approx(sum(weight ** (1 / 3) for weight in weights) ** 3, rel=1e-6)
    parts = [data.draw(st.integers(1, 100)) for _ in weights]
    others = [part / sum(parts) for part in parts]
    assert sum(w / e**2 for w, e in zip(weights, others, strict=True)) >= error * (1 - 1e-6)


def test_equal_factors_have_equal_shares() -> None:
    assert best_shares(Tree(64, (4, 4, 4))) == (Fraction(1, 3),) * 3


@settings(max_examples=200)
@given(st.lists(st.floats(3, 60), min_size=2, max_size=4))
def test_equal_real_factors_are_best_where_all_are_at_least_three(factors: list[float]) -> None:
    """(e^x - 1)^(1/3) is convex from e^x = 3 on."""
    equal = math.prod(factors) ** (1 / len(factors))
    assert len(factors) * (equal - 1) ** (1 / 3) <= sum((n - 1) ** (1 / 3) for n in factors) * (1 + 1e-12)


def test_the_best_equal_factor_is_about_seventeen() -> None:
    """(b - 1) / (ln b)^3 is least at ln b = 3 (1 - 1 / b)."""
    b = np.linspace(2.5, 60, 100_000)
    best = b[np.argmin((b - 1) / np.log(b) ** 3)]
    assert best == pytest.approx(16.80, abs=0.01)
    assert math.log(best) == pytest.approx(3 * (1 - 1 / best), abs=1e-3)


@pytest.mark.parametrize("bins", [0, -1, 10_001])
def test_a_number_of_bins_out_of_range_is_refused(bins: int) -> None:
    with pytest.raises(ValueError, match="1 to 10000 bins"):
        best_tree(bins)
