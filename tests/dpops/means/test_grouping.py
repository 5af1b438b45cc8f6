"""Groupings and caps: equal to plain reference algorithms, with every proven property, and for many HATs together."""

import itertools
import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dpops.forecast import transport_bias
from dpops.means.arrays import FINE_PER_STEP, lay_out_together, length_of
from dpops.means.capping import CapRule, CountCap, chosen
from dpops.means.grouping import Grouping, wrap_around
from dpops.mechanism import Mechanism, Plan, Totals
from dpops.mechanisms.array_average import ArrayAverage
from dpops.mechanisms.baseline import Baseline
from dpops.mechanisms.baseline_variance import BaselineVariance
from dpops.noise import Noise
from dpops.suppression.search import variance_bias, variance_sensitivity
from dpops.types import CountsKnown, Int64s
from tests.dpops import reference
from tests.dpops.reference import GRID, Silent, best_fit_grouping


def descending(counts: list[int]) -> list[int]:
    return sorted(counts, reverse=True)


def vector(counts: list[int]) -> Int64s:
    return np.array(counts, np.int64)


# few distinct sizes make ties frequent; a wide range makes gaps that are hard to fill
count_lists = (
    st.lists(st.integers(1, 6), min_size=1, max_size=60) | st.lists(st.integers(1, 200), min_size=1, max_size=40)
).map(descending)
lengths = st.integers(1, 12) | st.integers(1, 250)


# BestFit


@given(count_lists, lengths)
@example([2, 1, 1], 3)
@example([5, 5, 3, 3, 2, 2, 1, 1], 8)
@example([3] * 7 + [2] * 5 + [1] * 9, 7)
def test_best_fit_equals_the_plain_algorithm_with_its_ties(counts, m_ub):
    assert reference.arrays_of(best_fit_grouping(vector(counts), m_ub)) == reference.best_fit(counts, m_ub)


@given(count_lists, lengths)
def test_best_fit_needs_no_fewer_arrays_than_wrap_around_and_no_more_than_users(counts, m_ub):
    total = reference.kept(counts, m_ub)
    arrays = best_fit_grouping(vector(counts), m_ub).fills.size
    assert len(counts) >= arrays >= -(-total // m_ub) >= total // m_ub


# WrapAround


@given(count_lists, lengths)
def test_wrap_around_equals_the_published_pointer_loop(counts, m_ub):
    expected = reference.wrap_around(counts, m_ub)
    if not expected:
        with pytest.raises(ValueError, match="cannot fill one array"):
            wrap_around(vector(counts), m_ub)
        return
    group = wrap_around(vector(counts), m_ub)
    assert reference.arrays_of(group) == expected
    assert group.fills.size == reference.kept(counts, m_ub) // m_ub
    assert set(group.fills.tolist()) == {m_ub}


@given(count_lists, lengths)
def test_wrap_around_touches_at_most_two_arrays_a_user_and_they_are_neighbours(counts, m_ub):
    group = wrap_around(vector(counts), min(m_ub, counts[0]))
    for user in set(group.user.tolist()):
        arrays = group.array[group.user == user].tolist()
        assert len(arrays) <= 2
        assert all(after == before + 1 for before, after in pairwise(arrays))


# both


@pytest.mark.parametrize("group", [best_fit_grouping, wrap_around])
@given(counts=count_lists, m_ub=lengths)
def test_pieces_add_up_to_the_fills_and_never_exceed_a_users_samples(group, counts, m_ub):
    m_ub = min(m_ub, counts[0])
    made: Grouping = group(vector(counts), m_ub)
    assert np.all(np.diff(made.array) >= 0)
    assert np.all(made.samples > 0)
    np.testing.assert_array_equal(np.bincount(made.array, weights=made.samples), made.fills)
    owned = np.bincount(made.user, weights=made.samples, minlength=len(counts))
    assert np.all(owned <= np.minimum(vector(counts), m_ub))
    assert made.fills.max() <= m_ub


@pytest.mark.parametrize("group", [best_fit_grouping, wrap_around])
@given(counts=count_lists, m_ub=lengths, factor=st.integers(2, 10))
def test_scaling_all_samples_changes_no_array(group, counts, m_ub, factor):
    m_ub = min(m_ub, counts[0])
    one: Grouping = group(vector(counts), m_ub)
    many: Grouping = group(vector(counts) * factor, m_ub * factor)
    for name in ("user", "array"):
        np.testing.assert_array_equal(getattr(many, name), getattr(one, name))
    for name in ("samples", "fills"):
        np.testing.assert_array_equal(getattr(many, name), getattr(one, name) * factor)


def test_replicating_users_does_not_simply_multiply_the_arrays():
    """Erratum E10: the published equality fails on two counterexamples."""
    assert best_fit_grouping(vector([2, 1, 1]), 3).fills.size == 2
    assert best_fit_grouping(vector([2, 2, 1, 1, 1, 1]), 3).fills.size == 3  # not 4
    assert wrap_around(vector([2, 1]), 2).fills.size == 1
    assert wrap_around(vector([2, 2, 1, 1]), 2).fills.size == 3  # not 2


@pytest.mark.parametrize(
    ("counts", "m_ub", "named"),
    [
        ([3, 1], 0, "m_ub"),
        ([3, 1], -2, "m_ub"),
        ([], 1, "non-empty"),
        ([1, 3], 1, "non-increasing"),
        ([3, 0], 1, "positive"),
    ],
)
def test_wrong_arguments_are_refused(counts, m_ub, named):
    with pytest.raises(ValueError, match=named):
        wrap_around(vector(counts), m_ub)


def test_the_published_array_numbers():
    """S1: at array length 53 the ITMS counts give 160 WrapAround and 164 BestFit arrays."""
    counts = reference.itms_counts()
    assert wrap_around(counts, 53).fills.size == 160
    assert best_fit_grouping(counts, 53).fills.size == 164


EPSILON = Fraction(3, 10)
COUNTS = st.lists(st.integers(1, 40), min_size=1, max_size=12).map(lambda counts: sorted(counts, reverse=True))


def known_of(lists, more=0):
    return [CountsKnown(np.array(counts, np.int64), sum(counts) + more) for counts in lists]


def check(laid, hat, rule):
    """The arrays, and what they cost, as their definitions have it, in exact fractions of one user after the other."""
    counts, group = hat.counts, laid.grouping
    assert laid.m_ub == length_of(rule, counts, EPSILON)
    alone = best_fit_grouping(counts, laid.m_ub)
    for made, due in zip(
        *((arrays.user, arrays.array, arrays.samples, arrays.fills) for arrays in (group, alone)), strict=True
    ):
        assert made.tolist() == due.tolist()
    held = {
        user: (slots, int(group.fills[array]))
        for user, array, slots in zip(group.user, group.array, group.samples, strict=True)
    }
    shares = [Fraction(int(held[user][0]), held[user][1] * group.fills.size) for user in range(counts.size)]
    assert laid.sensitivity == max(
        math.ceil(Fraction(6_500 * FINE_PER_STEP * int(slots), width)) for slots, width in held.values()
    )
    np.testing.assert_allclose(laid.weight, [float(share) for share in shares], rtol=1e-12)
    excess = sum(max(share - Fraction(int(c), hat.reported), 0) for share, c in zip(shares, counts, strict=True))
    assert laid.bias == pytest.approx(float(65 * excess + 2 * GRID.step / FINE_PER_STEP))
    assert (laid.facts["samples"], laid.facts["arrays"]) == (counts.sum(), group.fills.size)


@given(
    st.lists(COUNTS, min_size=1, max_size=12),
    st.sampled_from(["median", "argmax", "opt", "convex", 3]),
    st.integers(0, 3),
)
def test_each_of_many_hats_has_arrays_of_its_own(lists, rule, more):
    hats = known_of(lists, more)
    for laid, hat in zip(lay_out_together(hats, GRID, EPSILON, rule), hats, strict=True):
        check(laid, hat, rule)


@pytest.mark.parametrize("mechanism", ArrayAverage.examples(), ids=str)
def test_plans_made_together_are_stored_as_those_made_alone(mechanism):
    rng = np.random.default_rng(2)
    hats = known_of([np.sort(rng.integers(1, 30, 9))[::-1].tolist() for _ in range(20)])
    plans = mechanism.plans(hats, GRID, EPSILON)
    assert [plan.document() for plan in plans] == [mechanism.plan(hat, GRID, EPSILON).document() for hat in hats]


# --- Caps: what is left of each user, what it costs in the worst case, and the best one, against slow definitions. ----


BOTH: list[type[Baseline] | type[BaselineVariance]] = [Baseline, BaselineVariance]
both = pytest.mark.parametrize("kind", BOTH, ids=lambda kind: kind.name)
count_vectors = st.lists(st.integers(1, 40), min_size=1, max_size=15).map(lambda c: np.array(sorted(c)[::-1], np.int64))
epsilons = st.sampled_from([Fraction(1, 100), Fraction(1, 10), Fraction(1, 3), Fraction(1), Fraction(5)])


def cap_at(m_ub: CapRule, counts: Int64s, reported: int) -> CountCap:
    return chosen(m_ub, counts, reported, lambda _: 0.0)


@given(count_vectors, st.integers(1, 50), st.integers(0, 30))
def test_what_is_kept_and_moved_is_as_defined(counts, most, dropped):
    reported = int(counts.sum()) + dropped
    cap = cap_at(most, counts, reported)
    own = np.minimum(counts, most)
    assert cap.max_count == own.max()
    assert cap.samples == own.sum()
    assert cap.is_uncapped == bool(counts.max() <= most)
    users = zip(own.tolist(), counts.tolist(), strict=True)
    moved = [max(Fraction(0), Fraction(k, cap.samples) - Fraction(c, reported)) for k, c in users]
    assert Fraction(*cap.moved_weight) == sum(moved)
    assert float(Fraction(*cap.moved_weight)) == pytest.approx(transport_bias(own / cap.samples, counts / reported))
    assert not cap.is_uncapped or cap == cap_at("none", counts, reported)


@both
@given(count_vectors, st.integers(0, 30), epsilons)
def test_opt_is_the_cap_of_least_bias_plus_noise_and_of_equal_ones_the_largest(kind, counts, dropped, epsilon):
    """All retained counts are compared, each by the plan that it would have."""
    reported = int(counts.sum()) + dropped
    costs = {most: cost(kind, counts, most, reported, epsilon) for most in set(counts.tolist())}
    plan = kind(m_ub="opt").plan(CountsKnown(counts, reported), GRID, epsilon)
    best = max(most for most, error in costs.items() if error == min(costs.values()))
    assert plan.facts.get("m_ub", plan.facts["heaviest"]) == best
    assert plan.public() == kind(m_ub=best).plan(CountsKnown(counts, reported), GRID, epsilon).public()


def cost(
    kind: type[Baseline] | type[BaselineVariance], counts: Int64s, most: int, reported: int, epsilon: Fraction
) -> Fraction:
    """Worst bias plus sensitivity over epsilon, exactly, per range of the statistic."""
    cap = cap_at(most, counts, reported)
    moved, whole = cap.moved_weight
    if kind is Baseline:
        return Fraction(moved, whole) + Fraction(most, cap.samples) / epsilon
    bias = variance_bias(whole - moved, whole, cap.is_uncapped)
    return Fraction(*bias) + Fraction(*variance_sensitivity(most, cap.samples, cap.is_uncapped)) / epsilon


@both
def test_a_cap_pays_where_one_user_is_far_busier_than_the_others(kind):
    counts = np.array([60] + [10] * 30, np.int64)
    whole, capped = (kind(m_ub=rule).plan(CountsKnown(counts, 360), GRID, Fraction(1, 4)) for rule in ("none", "opt"))
    assert capped.facts["m_ub"] == 10
    assert capped.error() < whole.error()
    assert float(capped.scale * capped.step) < 0.4 * float(whole.scale * whole.step)
    assert whole.bias_bound == 0 < capped.bias_bound


@given(st.data())
def test_the_capped_mean_is_that_of_users_means_with_capped_weights(data):
    counts = data.draw(count_vectors)
    most = data.draw(st.integers(1, int(counts.max())))
    sums = np.array([data.draw(st.integers(0, int(c) * GRID.upper_steps)) for c in counts])
    plan = Baseline(m_ub=most).plan(CountsKnown.all_of(counts), GRID, Fraction(1))
    own = [min(c, most) for c in counts.tolist()]
    exact = sum(Fraction(s * k, c) for s, k, c in zip(sums.tolist(), own, counts.tolist(), strict=True)) / sum(own)
    distance = exact * GRID.step - released(Baseline(), plan, Totals(counts, sums)) * plan.step
    assert 0 <= distance < plan.step
    assert plan.rounding == pytest.approx(float(GRID.step / 2 + (plan.step if "m_ub" in plan.facts else 0)))


@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.integers(1, 9), st.integers(0, 9))
def test_the_bias_of_a_capped_mean_is_that_of_the_worst_speeds(counts, most, dropped):
    """Users at 0 or U, and so what was dropped before: a mean is worst at such a corner, and there it attains it."""
    vector = np.array(sorted(counts)[::-1], np.int64)
    reported = int(vector.sum()) + dropped
    plan = Baseline(m_ub=most).plan(CountsKnown(vector, reported), GRID, Fraction(1))
    worst = Fraction(0)
    for ends in itertools.product((0, 6_500), repeat=vector.size + 1):
        sums = vector * np.array(ends[:-1])
        true = Fraction(int(sums.sum()) + dropped * ends[-1], reported) * GRID.step
        worst = max(worst, abs(released(Baseline(), plan, Totals(vector, sums)) * plan.step - true))
    assert plan.bias_bound - float(plan.step) <= worst <= plan.bias_bound + float(plan.step)


@both
def test_other_users_of_whom_the_cap_leaves_another_number_of_samples_are_refused(kind):
    """As many users and samples and the same heaviest: only what is left, here 10 or 9, tells them apart."""
    plan = kind(m_ub=3).plan(CountsKnown(np.array([6, 4, 4, 1]), 15), GRID, Fraction(1))
    counts = np.array([6, 6, 2, 1])
    assert plan.facts["kept"] == 10
    with pytest.raises(ValueError, match="do not fit"):
        kind().release([Totals(counts, counts, counts)], [plan], Noise())


def released(mechanism: Mechanism, plan: Plan, totals: Totals) -> int:
    """The integer that would be released, without noise."""
    [[integer]] = mechanism.release([totals], [plan], Silent())
    return integer
