"""Rules for the array length: exact, and the published figures."""

import statistics
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpops.means.arrays import Rule, length_of
from dpops.types import Int64s
from tests.dpops import reference


def length(rule: Rule, counts: Int64s, epsilon: Fraction = Fraction(1)) -> int:
    return length_of(rule, np.sort(counts)[::-1], epsilon)


count_lists = st.lists(st.integers(1, 80), min_size=1, max_size=40)


@given(count_lists)
def test_median_is_floored(counts: list[int]) -> None:
    assert length("median", np.array(counts)) == int(Fraction(statistics.median(counts)).__floor__())


@given(count_lists)
def test_argmax_equals_the_search_over_every_length(counts: list[int]) -> None:
    """S(m) / sqrt(m) is compared as the exact fraction S(m)**2 / m; max() keeps the first, so the smallest."""
    best = max(range(1, max(counts) + 1), key=lambda m: Fraction(reference.kept(counts, m) ** 2, m))
    assert length("argmax", np.array(counts)) == best


@given(count_lists)
def test_the_median_gains_at_least_half_of_the_best_gain(counts: list[int]) -> None:
    """Factor-2 lemma of S0/S1: g(m) = (m_max / n) S(m) / m; g(median) >= m_max L / (2 n). The median is not floored."""
    ordered = sorted(counts)
    middle = Fraction(statistics.median([Fraction(c) for c in ordered]))
    held = sum(min(Fraction(c), middle) for c in ordered)
    assert held / middle >= Fraction(len(counts), 2)


# the minimax length and its convex relaxation


def worst_case(counts: list[int], m: int, epsilon: Fraction) -> Fraction:
    """The idealised objective, per U."""
    return 1 - Fraction(reference.kept(counts, m), sum(counts)) + m / (epsilon * reference.kept(counts, m))


@given(count_lists, st.fractions(Fraction(1, 1000), 3))
def test_minimax_equals_the_search_over_every_length(counts: list[int], epsilon: Fraction) -> None:
    if epsilon == 0:
        return
    lengths = range(min(counts), max(counts) + 1)
    best = min(lengths, key=lambda m: (worst_case(counts, m, epsilon), m))
    assert length("opt", np.array(counts), epsilon) == best


@given(count_lists)
def test_the_thresholds_are_where_the_minimax_length_leaves_its_ends(counts: list[int]) -> None:
    vector, hair = np.array(counts), Fraction(1, 10**12)
    low, high = reference.minimax_thresholds(vector)
    assert high < 1
    if min(counts) == max(counts):
        assert (low, high) == (0, 0)
        return
    assert length("opt", vector, low) == min(counts)
    assert length("opt", vector, low + hair) > min(counts)
    assert length("opt", vector, high) < max(counts)
    assert length("opt", vector, high + hair) == max(counts)


def test_the_published_thresholds_are_loose_by_orders_of_magnitude() -> None:
    """Erratum E15, on the published counts: 2.7e-7 against 5.6e-4, 6258 against 0.976, and no cut from 1 on."""
    counts = reference.itms_counts()
    samples, users, least = int(counts.sum()), counts.size, int(counts.min())
    low, high = reference.minimax_thresholds(counts)
    assert float(low) == pytest.approx(5.6e-4, rel=0.01)
    assert float(high) == pytest.approx(0.976, abs=5e-4)
    assert least / (users * samples) == pytest.approx(2.7e-7, rel=0.01)
    assert (samples / (users * least)) ** 2 == pytest.approx(6258, rel=1e-3)
    lengths = {"0.5": 416, "0.1": 368, "0.01": 51, "1": 417, "7": 417}
    assert {text: length("opt", counts, Fraction(text)) for text in lengths} == lengths


@given(count_lists)
def test_convex_equals_the_search_over_every_length(counts: list[int]) -> None:
    samples, users, most = sum(counts), len(counts), max(counts)

    def relaxation(m: int) -> Fraction:
        return (
            1 - Fraction(reference.kept(counts, m), samples) + max(Fraction(m, most), Fraction(samples, users * most))
        )

    best = min(range(1, most + 1), key=lambda m: (relaxation(m), m))
    chosen = length("convex", np.array(counts))
    assert relaxation(chosen) == relaxation(best)
    assert 1 <= chosen <= most


def test_the_published_recipe_for_the_relaxation_ignores_its_kinks() -> None:
    """Erratum E7: it takes the better end point, m = 417 with 1.0; the minimum is 0.577 at m = 108."""
    counts = reference.itms_counts()
    samples, users, most = int(counts.sum()), counts.size, int(counts.max())

    def relaxation(m: int) -> float:
        return 1 - reference.kept(counts.tolist(), m) / samples + max(m / most, samples / (users * most))

    assert length("convex", counts) == 108
    assert relaxation(108) == pytest.approx(0.577, abs=1e-3)
    assert relaxation(417) == pytest.approx(1.0)
    true_inverse_gain = samples * 108 / (most * reference.kept(counts.tolist(), 108))
    assert true_inverse_gain == pytest.approx(0.380, abs=1e-3)
    assert max(108 / most, samples / (users * most)) == pytest.approx(0.259, abs=1e-3)  # a lower bound, not an upper
