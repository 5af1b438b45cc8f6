"""Caps: what is left of each user, what it costs in the worst case, and the best one, against slow definitions."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpops.forecast import transport_bias
from dpops.means.capping import CapRule, CountCap, chosen
from dpops.mechanism import Mechanism, Plan, Totals
from dpops.mechanisms.baseline import Baseline
from dpops.mechanisms.baseline_variance import BaselineVariance
from dpops.noise import Noise
from dpops.suppression.search import mean_bias, mean_sensitivity, variance_bias, variance_sensitivity
from dpops.types import CountsKnown, Int64s
from tests.dpops.reference import GRID, Silent

BOTH: list[type[Baseline] | type[BaselineVariance]] = [Baseline, BaselineVariance]
both = pytest.mark.parametrize("kind", BOTH, ids=lambda kind: kind.name)
count_vectors = st.lists(st.integers(1, 40), min_size=1, max_size=15).map(lambda c: np.array(sorted(c)[::-1], np.int64))
epsilons = st.sampled_from([Fraction(1, 100), Fraction(1, 10), Fraction(1, 3), Fraction(1), Fraction(5)])


def cap_at(m_ub: CapRule, counts: Int64s, reported: int) -> CountCap:
    return chosen(m_ub, counts, reported, lambda _: 0.0)


@given(count_vectors, st.integers(1, 50), st.integers(0, 30))
def test_what_is_kept_and_moved_is_as_defined(counts: Int64s, most: int, dropped: int) -> None:
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
def test_opt_is_the_cap_of_least_bias_plus_noise_and_of_equal_ones_the_largest(
    kind: type[Baseline] | type[BaselineVariance], counts: Int64s, dropped: int, epsilon: Fraction
) -> None:
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
        return Fraction(*mean_bias(whole - moved, whole)) + Fraction(*mean_sensitivity(most, cap.samples)) / epsilon
    bias = variance_bias(whole - moved, whole, cap.is_uncapped)
    return Fraction(*bias) + Fraction(*variance_sensitivity(most, cap.samples, cap.is_uncapped)) / epsilon


@both
def test_a_cap_pays_where_one_user_is_far_busier_than_the_others(kind: type[Baseline] | type[BaselineVariance]) -> None:
    counts = np.array([60] + [10] * 30, np.int64)
    whole, capped = (kind(m_ub=rule).plan(CountsKnown(counts, 360), GRID, Fraction(1, 4)) for rule in ("none", "opt"))
    assert capped.facts["m_ub"] == 10
    assert capped.error() < whole.error()
    assert float(capped.scale * capped.step) < 0.4 * float(whole.scale * whole.step)
    assert whole.bias_bound == 0 < capped.bias_bound


@given(st.data())
def test_the_capped_mean_is_that_of_users_means_with_capped_weights(data: st.DataObject) -> None:
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
def test_the_bias_of_a_capped_mean_is_that_of_the_worst_speeds(counts: list[int], most: int, dropped: int) -> None:
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
def test_other_users_of_whom_the_cap_leaves_another_number_of_samples_are_refused(
    kind: type[Baseline] | type[BaselineVariance],
) -> None:
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
