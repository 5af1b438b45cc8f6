"""User level: masses from capped counts and arrays, their rounding, and the sensitivity counted by enumeration."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpops.statistics import Histogram
from dpops.trees.hats import UNITS_PER_SAMPLE, array_masses, weighted_leaves
from dpops.trees.shape import Tree, node_counts
from dpops.types import Int64s
from tests.dpops.reference import best_fit_grouping

START = np.zeros(1, np.int64)


def _histograms(samples: int, bins: int) -> list[tuple[int, ...]]:
    """All histograms of so many samples."""
    return [histogram for histogram in itertools.product(range(samples + 1), repeat=bins) if sum(histogram) == samples]


def _nodes(user: tuple[int, ...], mass: int, tree: Tree) -> Int64s:
    one = np.array([user], np.int64)
    return node_counts(weighted_leaves(one, one.sum(axis=1), np.array([mass]), START), tree)[0]


@pytest.mark.parametrize(("samples", "mass"), [(1, 3), (3, 2 * UNITS_PER_SAMPLE), (4, 5), (3, 7), (5, 2)])
def test_no_level_moves_by_more_than_twice_the_mass(samples: int, mass: int) -> None:
    """Every pair of distributions of one user is enumerated. Moving all from the first bin to the last attains it."""
    tree = Tree(5, (3, 2))
    released = [_nodes(histogram, mass, tree) for histogram in _histograms(samples, 5)]
    for level in tree.split(tree.nodes):
        moved = [int(np.abs(one[level] - other[level]).sum()) for one, other in itertools.combinations(released, 2)]
        assert max(moved) == 2 * mass


def test_rounding_each_bin_on_its_own_would_break_the_bound() -> None:
    """A mutant: shares rounded to the nearest unit, bin by bin, move a level by more than twice the mass."""
    mass = 3
    rounded = [[round(count * mass / 6 + 1e-9) for count in histogram] for histogram in _histograms(6, 6)]
    moved = max(sum(abs(a - b) for a, b in zip(*pair, strict=True)) for pair in itertools.combinations(rounded, 2))
    assert moved > 2 * mass


@given(st.data())
def test_the_weighted_sum_has_the_users_masses_and_is_off_by_less_than_a_unit_a_user(data: st.DataObject) -> None:
    bins, users = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 6))
    rows = st.lists(st.integers(0, 30), min_size=bins, max_size=bins).filter(sum)
    histograms = np.array([data.draw(rows) for _ in range(users)], np.int64)
    counts = histograms.sum(axis=1)
    masses = np.array([data.draw(st.integers(0, 5 * UNITS_PER_SAMPLE)) for _ in range(users)], np.int64)
    leaves = weighted_leaves(histograms, counts, masses, START)
    assert leaves.shape == (1, bins)
    assert leaves.min() >= 0
    assert leaves.sum() == masses.sum()
    for t in range(1, bins):
        exact = sum(Fraction(int(h[:t].sum() * m), int(c)) for h, m, c in zip(histograms, masses, counts, strict=True))
        assert exact - users < leaves[0, :t].sum() <= exact


@given(st.lists(st.integers(1, 40), min_size=1, max_size=30), st.integers(1, 40))
def test_arrays_have_mass_one_each_and_no_user_more_than_one_array(counts: list[int], m_ub: int) -> None:
    ordered = np.array(sorted(counts, reverse=True), np.int64)
    length = min(m_ub, int(ordered[0]))
    group = best_fit_grouping(ordered, length)
    masses = array_masses(group, ordered.size, length)
    assert masses.min() >= UNITS_PER_SAMPLE
    assert masses.max() == UNITS_PER_SAMPLE * length
    assert (
        group.fills.size * UNITS_PER_SAMPLE * length - ordered.size
        < masses.sum()
        <= group.fills.size * UNITS_PER_SAMPLE * length
    )


def test_values_at_public_edges_lie_in_the_bin_above_and_the_largest_in_the_last() -> None:
    values = np.array([0, 99, 100, 101, 6_499, 6_500])
    assert Histogram(65, 6_500).bins_of(values).tolist() == [0, 0, 1, 1, 64, 64]
    assert Histogram(3, 7).bins_of(np.arange(8)).tolist() == [0, 0, 0, 1, 1, 2, 2, 2]


@pytest.mark.parametrize(
    ("histogram", "count", "mass", "what"),
    [
        ([2, -1], 1, 5, "negative bin"),
        ([0, 0], 0, 5, "no sample"),
        ([1, 1], 3, 5, "as many samples"),
        ([1 << 31, 0], 1 << 31, 1 << 31, "integer bounds"),
    ],
)
def test_what_the_sensitivity_does_not_hold_for_is_refused(
    histogram: list[int], count: int, mass: int, what: str
) -> None:
    with pytest.raises(ValueError, match=what):
        weighted_leaves(np.array([histogram]), np.array([count]), np.array([mass]), START)
