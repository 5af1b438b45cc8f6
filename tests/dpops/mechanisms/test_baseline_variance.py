"""The variance: exact integers, worst neighbours, worst bias, its interval, and what is refused."""

import itertools
import time
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpops.forecast import Prior
from dpops.mechanism import Plan, PlanError, Totals, forecast_of_one, values_of
from dpops.mechanisms.auto import Auto
from dpops.mechanisms.baseline import Baseline
from dpops.mechanisms.baseline_variance import RANGE, BaselineVariance
from dpops.noise import Noise
from dpops.suppression.search import variance_bias, variance_sensitivity
from dpops.types import CountsKnown, Grid
from tests.dpops.reference import GRID, Silent, unlike, variance
from tests.statistical.checks import seeded

HALVES = Grid(step=Fraction(1, 2), upper_steps=2)  # values 0, U / 2 and U, with U = 1
SMALL = [c for users in (1, 2, 3) for c in itertools.combinations_with_replacement((4, 3, 2, 1), users) if sum(c) <= 7]


def plan_of(
    counts: Sequence[int], m_ub: int | str = "none", dropped: int = 0, grid: Grid = GRID, epsilon: Fraction | int = 1
) -> Plan:
    vector = np.array(counts, np.int64)
    made = BaselineVariance(m_ub=m_ub)
    return made.plan(CountsKnown(vector, int(vector.sum()) + dropped), grid, Fraction(epsilon))


def totals_of(users: Sequence[Sequence[int]]) -> Totals:
    """From every user's samples, in grid steps."""
    columns = zip(*((len(x), sum(x), sum(v * v for v in x)) for x in users), strict=True)
    return Totals(*(np.array(column, np.int64) for column in columns))


def released(plan: Plan, *hats: Totals) -> list[int]:
    """The integers without noise."""
    return [integer for [integer] in BaselineVariance().release(hats, [plan] * len(hats), Silent())]


def samples_of(count: int) -> list[tuple[int, ...]]:
    return list(itertools.combinations_with_replacement(range(HALVES.upper_steps + 1), count))


# exact integers


@given(st.lists(st.lists(st.integers(0, 6_500), min_size=1, max_size=6), min_size=1, max_size=6), st.integers(1, 7))
def test_the_integer_is_the_variance_of_the_weighted_samples_rounded_down(users, most):
    """A capped user's samples have the weight m / c each; without a cap it is the population variance."""
    users.sort(key=len, reverse=True)
    totals = totals_of(users)
    weighted = [(Fraction(min(len(x), most), len(x)), v) for x in users for v in x]
    kept = sum(w for w, _ in weighted)
    mean = sum(w * v for w, v in weighted) / kept
    exact = sum(w * (v - mean) ** 2 for w, v in weighted) / kept * Fraction(4, 6_500**2)
    assert released(plan_of([len(x) for x in users], most), totals) == [int(exact * RANGE)]
    pooled = variance([v for x in users for v in x]) * Fraction(4, 6_500**2)
    assert released(plan_of([len(x) for x in users]), totals) == [int(pooled * RANGE)]


# sensitivity


def most_moved(counts: Sequence[int], plan: Plan) -> int:
    """The most that one user moves the integer, over all data sets of values 0, U / 2 and U."""
    axes = [samples_of(count) for count in counts]
    answers = released(plan, *(totals_of(users) for users in itertools.product(*axes)))
    table = np.array(answers, np.int64).reshape([len(axis) for axis in axes])
    return max(int(np.ptp(table, axis=axis).max()) for axis in range(table.ndim))


@pytest.mark.parametrize("counts", SMALL, ids=str)
def test_no_neighbours_differ_by_more_than_the_sensitivity_and_of_whole_users_some_attain_it(counts):
    plan = plan_of(counts, grid=HALVES)
    moved = most_moved(counts, plan)
    assert plan.sensitivity - 1 <= moved <= plan.sensitivity
    for most in range(1, max(counts)):
        capped = plan_of(counts, most, grid=HALVES)
        assert most_moved(counts, capped) <= capped.sensitivity
        if capped.facts["kept"] > 2 * most:
            assert most_moved(counts, capped) >= capped.sensitivity - 1


@pytest.mark.parametrize("samples", [3, 5, 7, 101])
def test_a_capped_user_passes_the_odd_refinement_and_approaches_the_whole_range(samples):
    """An odd number of samples, three of them kept: beyond 1 - 1/9 of the range as soon as there are five."""
    plan = plan_of([samples], 3)
    [reached] = released(plan, totals_of([[0] * (samples // 2) + [6_500] * (samples - samples // 2)]))
    assert reached == RANGE * (samples**2 - 1) // samples**2
    assert (reached > RANGE * 8 // 9) == (samples > 3)
    assert reached <= plan.sensitivity <= RANGE


# bias


def worst_distance(counts: Sequence[int], most: int, dropped: int) -> float:
    """Of the variance of weighted kept samples from that of all reported ones, over all data sets, with U = 1."""
    kept = [min(count, most) for count in counts]
    sets = [np.array([(sum(x) / 2, sum(v * v for v in x) / 4) for x in samples_of(count)]) for count in counts]
    lost = np.array([(sum(x) / 2, sum(v * v for v in x) / 4) for x in samples_of(dropped)])
    released = _moments(sets, [k / (sum(kept) * c) for k, c in zip(kept, counts, strict=True)])
    everything = sum(counts) + dropped
    true = _moments(sets, [1 / everything] * len(counts))
    with_lost = true[:, None, :] + lost[None] / everything
    return float(np.abs(_variance(released)[:, None] - _variance(with_lost)).max())


def _moments(sets: Sequence[NDArray[np.float64]], weights: Sequence[float]) -> NDArray[np.float64]:
    """First and second moments of all combinations of users' samples, float64 (combinations, 2)."""
    total = np.zeros((1, 2))
    for own, weight in zip(sets, weights, strict=True):
        total = (total[:, None, :] + weight * own[None]).reshape(-1, 2)
    return total


def _variance(moments: NDArray[np.float64]) -> NDArray[np.float64]:
    variances: NDArray[np.float64] = moments[..., 1] - moments[..., 0] ** 2
    return variances


@pytest.mark.parametrize("counts", SMALL, ids=str)
def test_the_bias_bound_holds_for_all_data_sets_and_is_attained_without_a_cap(counts):
    """Fewer than half dropped, half, and more; even and odd numbers; every cap."""
    for dropped, most in itertools.product((0, 1, 2, 3, 7), range(1, max(counts) + 1)):
        plan = plan_of(counts, most, dropped, HALVES)
        worst = worst_distance(counts, most, dropped)
        assert worst <= plan.bias_bound + 1e-12
        if most == max(counts):
            samples = sum(counts) + dropped
            assert plan.bias_bound == float(Fraction(*variance_bias(sum(counts), samples, whole_users=True)) / 4)
            assert worst == pytest.approx(plan.bias_bound, abs=1e-12)


def test_the_bias_bound_of_a_cap_is_that_of_the_weight_it_moves():
    plan = plan_of([3, 1], 1)
    assert plan.bias_bound == 65**2 * 0.25 * 0.75  # weights 1/2 and 1/2, not 3/4 and 1/4: t = 1/4
    plan = plan_of([2], 1)
    assert plan.bias_bound == 0  # one user: its share is all, whatever the cap
    plan = plan_of([2], 1, dropped=6)
    assert plan.bias_bound == 65**2 / 4


# what is published


def test_rounding_speeds_to_the_grid_moves_the_variance_by_less_than_the_plan_says():
    grid = Grid(step=Fraction(1, 2), upper_steps=4)
    plan = plan_of([3, 2], grid=grid)
    assert plan.rounding == pytest.approx(2 * 0.5 / 2 + 0.5**2 / 4, abs=1e-8)
    rng = np.random.default_rng(72)
    speeds = np.concatenate([rng.uniform(0, 2, (20_000, 5)), rng.choice([0, 0.249, 1.751, 2], (20_000, 5))])
    rounded = np.rint(speeds / 0.5) * 0.5
    off = np.abs(rounded.var(axis=1) - speeds.var(axis=1)).max()
    assert 0.4 * plan.rounding < off < plan.rounding


def test_plans_stored_before_there_was_a_rounding_are_of_means():
    plan = Baseline().plan(CountsKnown(np.array([5, 3, 1]), 9), GRID, Fraction(1))
    stored = plan.public()
    del stored["rounding"]
    assert Plan.from_public("baseline", stored).rounding == plan.rounding == 0.005


@pytest.mark.slow
@pytest.mark.parametrize("between", [0.0, pytest.param(0.3, marks=pytest.mark.slow), 1.0])
@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(4)])
@pytest.mark.parametrize("m_ub", ["none", "opt", 2])
def test_the_forecast_is_near_the_error_where_samples_are_as_the_prior_says(m_ub, epsilon, between):
    """Within 20 %: samples are normal, far from either end. 3000 releases have a standard error of about 2 %."""
    prior, rng, number = Prior(32.5, 6.0, between), np.random.default_rng(73), 3_000
    for counts in ([40, 9, 4, 3, 1], [8, 8, 8], [30] + [2] * 60):
        vector = np.array(counts, np.int64)
        plan = plan_of(counts, m_ub, epsilon=epsilon)
        user = np.repeat(np.arange(vector.size), vector)
        offsets = rng.normal(0, 6 * between**0.5, (number, vector.size))
        speeds = 32.5 + offsets[:, user] + rng.normal(0, 6 * (1 - between) ** 0.5, (number, user.size))
        steps = np.rint(speeds.clip(0, 65) * 100).astype(np.int64)
        first = np.cumsum(vector) - vector
        sums, squares = (np.add.reduceat(steps**power, first, axis=1) for power in (1, 2))
        hats = [Totals(vector, *pair) for pair in zip(sums, squares, strict=True)]
        made = BaselineVariance().release(hats, [plan] * number, seeded(74))
        values = values_of(made, [plan] * len(made))
        error = np.abs(values - steps.var(axis=1) / 10_000).mean()
        forecast = forecast_of_one(
            BaselineVariance(m_ub=m_ub), CountsKnown.all_of(vector), GRID, Fraction(epsilon), prior
        )
        assert forecast == pytest.approx(error, rel=0.2, abs=1e-3)


# auto


def test_auto_of_the_variance_chooses_among_mechanisms_that_release_it():
    for prior in (None, Prior(20.0, 12.0, 0.3)):
        auto = Auto(prior=prior, statistic="variance")
        for counts in ([1], [5, 3, 1], [200] + [3] * 40):
            vector = np.array(counts, np.int64)
            ranking = auto.ranking(CountsKnown.all_of(vector), GRID, Fraction(1, 4))
            assert {candidate.plan.mechanism for candidate in ranking} == {"baseline-variance"}
            assert [candidate.error for candidate in ranking] == sorted(candidate.error for candidate in ranking)
            plan = auto.plan(CountsKnown.all_of(vector), GRID, Fraction(1, 4))
            totals = unlike(vector, vector // 2 * 6_500, 6_500)
            [[integer]] = auto.release([totals], [plan], Silent())
            assert [integer] == released(plan, totals)
    assert plan.facts["m_ub"] == 3


def test_auto_of_the_mean_never_plans_a_variance():
    ranking = Auto().ranking(CountsKnown(np.array([5, 3, 1]), 9), GRID, Fraction(1))
    assert "baseline-variance" not in {candidate.plan.mechanism for candidate in ranking}
    assert {candidate.plan.upper for candidate in ranking} == {65}


# refusals


@pytest.mark.parametrize(
    ("counts", "sums", "squares"),
    [
        ([5, 3, 1], [5, 3, 1], []), ([5, 3, 1], [5, 3, 1], [5, 3]), ([5, 3, 1], [5, 3, 1], [4, 3, 1]),
        ([5, 3, 1], [6, 3, 1], [7, 3, 1]), ([5, 3, 1], [5, 3, 1], [26, 3, 1]),
        ([5, 3, 1], [32_500, 3, 1], [5 * 6_500**2 + 1, 3, 1]), ([5, 3, 1], [5, 3, 3_250], [5, 3, 3_250 * 6_500]),
        ([5, 3, 1], [6_500, 3, 1], [-(2**62), 3, 1]), ([5, 3, 1], [6_501, 3, 1], [6_500**2 + 2, 3, 1]),
        ([5, 3, 1], [5, -1, 1], [5, 1, 1]),
    ],
    ids=["none", "two", "below", "uneven", "above", "beyond", "one-sample", "negative", "spread", "sum"],
)  # fmt: skip
def test_sums_and_squares_that_no_samples_have_are_refused(counts, sums, squares):
    """One sample of sum U / 2 and square U^2 / 2 lies on the edge of what moments allow, and is no sample."""
    hat = Totals(*(np.array(column, np.int64) for column in (counts, sums, squares)))
    with pytest.raises(ValueError, match="do not fit"):
        released(plan_of([5, 3, 1]), hat)


def test_sums_of_squares_beyond_the_checked_integers_are_refused_by_the_plan():
    """U^2 n must stay below 2**62; the largest that does is exact."""
    grid = Grid(step=Fraction(65, 1 << 20), upper_steps=1 << 20)
    with pytest.raises(PlanError, match="checked integer bounds"):
        plan_of([1 << 22], grid=grid)
    with pytest.raises(PlanError, match="checked integer bounds"):
        plan_of([1 << 20], dropped=3 << 20, grid=grid)
    count = (1 << 22) - 2
    for m_ub in ("none", 1_000):
        plan = plan_of([count], m_ub, grid=grid)
        vector = np.array([count], np.int64)
        assert released(plan, unlike(vector, vector // 2 << 20, 1 << 20)) == [RANGE]


def test_an_epsilon_too_small_for_the_noise_is_refused_by_the_plan():
    with pytest.raises(PlanError, match="epsilon"):
        plan_of([5], epsilon=Fraction(1, 1 << 21))


def test_a_slot_of_many_hats_is_planned_and_released_in_seconds():
    rng = np.random.default_rng(75)
    vectors = [np.sort(1 + rng.geometric(0.2, users))[::-1].astype(np.int64) for users in rng.integers(1, 71, 2_000)]
    hats = [unlike(v, v * 3_000, 6_500) for v in vectors]
    start = time.process_time()
    plans = [plan_of(v.tolist(), "opt", epsilon=Fraction(1, 9)) for v in vectors]
    BaselineVariance().release(hats, plans, Noise())
    assert sum("m_ub" in plan.facts for plan in plans) > 1_000
    assert time.process_time() - start < 3


def test_the_sensitivity_is_the_ratio_of_the_worst_case_in_whole_steps():
    for counts, m_ub in (([5, 3, 1], "none"), ([5], "none"), ([2, 2, 2], "none"), ([9, 2, 2, 2], 2), ([9, 1], 3)):
        plan = plan_of(counts, m_ub)
        kept, heaviest = plan.facts.get("kept", sum(counts)), min(counts[0], plan.facts.get("m_ub", counts[0]))
        exact = RANGE * Fraction(*variance_sensitivity(heaviest, kept, "m_ub" not in plan.facts))
        assert exact <= plan.sensitivity < exact + 1
        assert plan.step * RANGE == plan.upper == Fraction(65**2, 4)
