"""The mean of vehicles' means: each counts once, one moves it as far as stated, and what a cap drops is bounded."""

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpops.forecast import Prior
from dpops.mechanism import Totals, forecast_of_one, values_of
from dpops.mechanisms import registered
from dpops.mechanisms.baseline import Baseline
from dpops.types import CountsKnown, Grid
from tests.dpops.mechanisms import conformance
from tests.dpops.mechanisms.conformance import COUNTS, DRAWS, EPSILON, EXAMPLES, GRID, noiseless_of, plan_for, truth_of
from tests.dpops.reference import alike, value_of
from tests.statistical.audit import epsilon_lower_bound
from tests.statistical.checks import seeded

MECHANISM = Baseline(statistic="mean-of-vehicles")
FINE_PER_STEP = 1000


def test_the_conformance_tests_run_on_it():
    assert [example for example in EXAMPLES if conformance.statistic_of(example) == "mean-of-vehicles"] == [MECHANISM]
    assert "mean-of-vehicles" in registered()["baseline"].statistics


def test_a_bus_that_stands_and_reports_often_counts_once():
    counts, sums = np.array([98, 1, 1]), np.array([98 * 200, 3_000, 4_000])
    plan = plan_for(MECHANISM, counts)
    value = value_of(noiseless_of(MECHANISM, plan, [alike(counts, sums)]), plan)
    assert value == pytest.approx((2 + 30 + 40) / 3, abs=float(plan.step))
    assert plan.bias_bound == 0
    pooled = plan_for(Baseline(), counts)
    assert value_of(noiseless_of(Baseline(), pooled, [alike(counts, sums)]), pooled) == 2.66
    capped = plan_for(Baseline(m_ub=1), counts)
    assert capped.bias_bound > 40


@given(conformance.count_vectors, st.data())
def test_the_integer_is_the_exact_sum_of_means_rounded_down_once(counts, data):
    sums = np.array([data.draw(st.integers(0, count * GRID.upper_steps)) for count in counts.tolist()], np.int64)
    plan = plan_for(MECHANISM, counts)
    fine = FINE_PER_STEP if counts[0] > 1 else 1
    exact = sum(Fraction(s, c) for s, c in zip(sums.tolist(), counts.tolist(), strict=True))
    assert noiseless_of(MECHANISM, plan, [Totals(counts, sums)]) == [fine * exact // 1]
    assert plan.step == GRID.step / (fine * counts.size)
    off = truth_of(MECHANISM, Totals(counts, sums)) - (fine * exact // 1) * plan.step
    assert 0 <= off < plan.step


@given(st.lists(st.integers(1, 4), min_size=1, max_size=3).map(sorted), st.integers(1, 3))
def test_one_vehicle_moves_it_by_exactly_the_sensitivity_at_most(counts, upper_steps):
    counts = np.array(counts[::-1], np.int64)
    grid = Grid(step=Fraction(1), upper_steps=upper_steps)
    plan = MECHANISM.plan(CountsKnown.all_of(counts), grid, EPSILON)
    moved = conformance.enumerated_sensitivity(MECHANISM, plan, counts, grid)
    assert moved == plan.sensitivity == upper_steps * (FINE_PER_STEP if counts[0] > 1 else 1)


@pytest.mark.few(1)
@pytest.mark.parametrize("counts", [COUNTS[3], COUNTS[6]], ids=["3 users", "9 users"])
def test_a_mutant_with_a_quarter_too_little_sensitivity_is_caught(counts):
    """Power: the bound lies 5 of its standard deviations above the claim."""
    plan = plan_for(MECHANISM, counts)
    mutant, noise = replace(plan, scale=plan.scale * Fraction(4, 5)), seeded(41)
    pair = conformance.worst_neighbours(MECHANISM, plan, counts)
    bounds = [
        epsilon_lower_bound(*(conformance.releases_of(MECHANISM, planned, totals, noise) for totals in pair), DRAWS)
        for planned in (plan, mutant)
    ]
    assert bounds[0] <= plan.claim().epsilon < bounds[1]


def worst_of_dropped(counts, dropped):
    """The most that samples which are gone move the mean, with U = 1: of those left, and of vehicles that left wholly.

    All that is released at 0 and all that is gone at 1; each way to share the dropped samples out.
    """
    worst = Fraction(0)
    for lost in itertools.product(range(dropped + 1), repeat=len(counts)):
        others = dropped - sum(lost)
        if others >= 0:
            means = [Fraction(gone, gone + count) for gone, count in zip(lost, counts, strict=True)]
            worst = max(worst, (sum(means) + others) / (len(counts) + others))
    return worst


@pytest.mark.parametrize("counts", [[1], [3], [1, 1], [2, 1], [1, 1, 1], [4, 2, 1]])
@pytest.mark.parametrize("dropped", [0, 1, 2, 4, 6])
def test_the_bias_of_dropped_samples_is_never_above_its_bound_and_attains_it(counts, dropped):
    plan = MECHANISM.plan(CountsKnown(np.array(counts), sum(counts) + dropped), GRID, EPSILON)
    worst = 65 * worst_of_dropped(counts, dropped)
    assert worst <= plan.bias_bound + 1e-9
    if max(counts) == 1 and dropped % (2 * len(counts)) == 0:  # half of them evenly of those who are left
        assert plan.bias_bound == pytest.approx(float(worst))


def test_its_forecast_is_that_of_noise_alone_whatever_the_counts():
    prior = Prior(20, 12, 0.3)
    few, many = (np.array(counts) for counts in ([2, 2, 2, 2], [400, 30, 2, 1]))
    errors = [forecast_of_one(MECHANISM, CountsKnown.all_of(counts), GRID, EPSILON, prior) for counts in (few, many)]
    assert errors[0] == errors[1] < float(GRID.upper / (4 * EPSILON))


def test_the_forecast_is_the_error_of_speeds_that_are_drawn_so():
    """Within 3 %: 20 000 HATs, whose mean errors have a standard error below 1 %."""
    prior, rng, draws = Prior(30, 6, 0.3), np.random.default_rng(7), 20_000
    counts = np.array([60, 20, 9, 9, 4, 2, 1, 1, 1, 1, 1, 1])
    plan = MECHANISM.plan(CountsKnown.all_of(counts), GRID, Fraction(4))
    hats = rng.normal(30, 3, (draws, 1)) + rng.normal(0, 1, (draws, 12)) * prior.mean_sd(counts)
    sums = np.rint(np.clip(hats, 0, 65) * 100).astype(np.int64) * counts
    released = MECHANISM.release([Totals(counts, hat_sums) for hat_sums in sums], [plan] * draws, seeded(42))
    values = values_of(released, [plan] * len(released))
    error = np.abs(values - (sums / counts).mean(axis=1) / 100).mean()
    assert forecast_of_one(MECHANISM, CountsKnown.all_of(counts), GRID, Fraction(4), prior) == pytest.approx(
        error, rel=0.03
    )


def test_a_cap_is_refused_because_every_vehicle_counts_once():
    with pytest.raises(ValueError, match="m_ub does not go with mean-of-vehicles"):
        Baseline(m_ub=3, statistic="mean-of-vehicles")
