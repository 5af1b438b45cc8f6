"""Rules for the array length: exact, and the published figures."""

import statistics
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpops import bounds
from dpops.accuracy import transport_bias
from dpops.grouping import best_fit
from dpops.types import Int64s
from tests.dpops import reference

UPPER_KMH = 65

count_lists = st.lists(st.integers(1, 80), min_size=1, max_size=40)


@given(count_lists)
def test_median_is_floored(counts: list[int]) -> None:
    assert bounds.median(np.array(counts)) == int(Fraction(statistics.median(counts)).__floor__())


def test_median_of_a_half_integer() -> None:
    assert bounds.median(np.array([1, 2])) == 1
    assert bounds.median(np.array([4, 1, 2, 3])) == 2
    assert bounds.median(np.array([7])) == 7


@given(count_lists)
def test_argmax_equals_the_search_over_every_length(counts: list[int]) -> None:
    """S(m) / sqrt(m) is compared as the exact fraction S(m)**2 / m; max() keeps the first, so the smallest."""
    best = max(range(1, max(counts) + 1), key=lambda m: Fraction(reference.kept(counts, m) ** 2, m))
    assert bounds.argmax(np.array(counts)) == best


def test_argmax_takes_the_smallest_of_a_tie() -> None:
    counts = [4, 1, 1]  # S(1) = 3 and S(4) = 6, so both lengths have S(m)**2 / m = 9
    assert reference.kept(counts, 4) ** 2 == 4 * reference.kept(counts, 1) ** 2
    assert bounds.argmax(np.array(counts)) == 1


@given(count_lists, st.integers(2, 9))
def test_argmax_scales_with_samples_and_ignores_replicated_users(counts: list[int], factor: int) -> None:
    best = bounds.argmax(np.array(counts))
    assert bounds.argmax(np.array(counts) * factor) == best * factor
    assert bounds.argmax(np.array(counts * factor)) == best


@given(st.integers(1, 100), st.integers(1, 20))
def test_equal_counts_give_that_count(each: int, users: int) -> None:
    counts = np.full(users, each, np.int64)
    assert bounds.median(counts) == bounds.argmax(counts) == each


@given(count_lists)
def test_the_median_gains_at_least_half_of_the_best_gain(counts: list[int]) -> None:
    """Factor-2 lemma of S0/S1: g(m) = (m_max / n) S(m) / m; g(median) >= m_max L / (2 n). The median is not floored."""
    ordered = sorted(counts)
    middle = Fraction(statistics.median([Fraction(c) for c in ordered]))
    held = sum(min(Fraction(c), middle) for c in ordered)
    assert held / middle >= Fraction(len(counts), 2)


def test_the_published_lengths() -> None:
    counts = reference.itms_counts()
    assert (counts.size, int(counts.sum()), int(counts.max()), int(counts.min())) == (217, 17_166, 417, 1)
    assert bounds.median(counts) == 46
    assert bounds.argmax(counts) == 53


def test_user_means_lower_the_worst_clipping_bias_of_the_published_counts() -> None:
    """BestFit at 53: 21.2 km/h where a user's slots hold the user's mean, 32.8 where they hold the first samples."""
    counts = reference.itms_counts()
    group = best_fit(counts, 53)
    share = group.slots / group.fills[group.array] / group.fills.size
    weights = np.bincount(group.user, weights=share)
    assert transport_bias(weights, counts / counts.sum()) * UPPER_KMH == pytest.approx(21.2, abs=0.05)
    assert _bias_of_first_samples(counts, weights) == pytest.approx(32.8, abs=0.05)


def _bias_of_first_samples(counts: Int64s, weights: np.ndarray) -> float:  # type: ignore[type-arg]
    """U times the transport bias sample by sample: those beyond the 53rd of a user have weight 0."""
    kept = np.minimum(counts, 53)
    each = np.repeat(weights / kept, kept)
    dropped = np.zeros(int((counts - kept).sum()))
    samples = np.concatenate([each, dropped])
    return transport_bias(samples, np.full(samples.size, 1 / counts.sum())) * UPPER_KMH
