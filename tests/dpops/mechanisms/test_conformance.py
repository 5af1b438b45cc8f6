"""What every registered mechanism must keep of its privacy claim.

Mechanisms are found by `dpops.mechanisms`; one that is added as a file is tested here with no edit. Audits run on fixed
seeds. False-alarm rates are stated for a change that redraws the randomness and breaks nothing.
"""

import importlib
import inspect
import itertools
import pkgutil
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import get_args, get_type_hints

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpops import mechanisms
from dpops.claims import Adjacency
from dpops.forecast import Prior
from dpops.mechanism import Totals, forecast_of_one, values_of
from dpops.mechanisms import registered, stored_estimates
from dpops.mechanisms.baseline import Baseline
from dpops.noise import Noise
from dpops.types import CountsKnown, Grid, Int64s
from tests.dpops.mechanisms import conformance
from tests.dpops.mechanisms.conformance import COUNTS, DRAWS, EPSILON, GRID, every_plain, plan_for, worst_neighbours
from tests.dpops.reference import alike, unlike, value_of
from tests.dpops.trees import examples as trees
from tests.statistical.audit import epsilon_lower_bound
from tests.statistical.checks import laplace_fit, seeded


@conformance.few_counts
@conformance.first_plain
def test_the_audit_of_the_worst_neighbours_stays_below_the_claim(mechanism, counts):
    """False-alarm rate 1e-6 for each audit. Power: see the mutants below."""
    plan = plan_for(mechanism, counts)
    one, other = worst_neighbours(mechanism, plan, counts)
    noise = seeded(31)
    releases = (conformance.releases_of(mechanism, plan, totals, noise) for totals in (one, other))
    assert epsilon_lower_bound(*releases, DRAWS) <= plan.claim().epsilon


@pytest.mark.parametrize("trials", [2, pytest.param(20, marks=pytest.mark.slow)])
@conformance.plain_kinds
def test_a_mutant_with_a_quarter_too_little_sensitivity_is_caught_every_time(kind, trials):
    """Power: at epsilon 2 and 14 000 draws the bound lies 5 of its standard deviations above the claim.

    The trials go through the examples and count vectors; only vectors of which the plan's sensitivity is attained by
    the neighbours found (to 1 %) say anything about the audit, so others count as missed. Of the variance, users with
    a cap attain it only in the limit where one holds half of the weight, and one sample has no variance at all: those
    cases are left out.
    """
    noise = seeded(32)
    cases = [(example, counts) for counts in COUNTS for example in kind.examples() if example in conformance.PLAIN]
    cases = [case for case in cases if plan_for(*case).scale > 0]  # a release without noise is a constant
    cases = [
        case for case in cases if conformance.statistic_of(case[0]) != "variance" or conformance.is_attained(*case)
    ]
    assert len(cases) >= 6
    caught = 0
    for trial in range(trials):
        mechanism, counts = cases[trial * 7 % len(cases)]
        plan = plan_for(mechanism, counts)
        one, other = worst_neighbours(mechanism, plan, counts)
        mutant = replace(plan, scale=plan.scale * Fraction(4, 5))
        releases = (conformance.releases_of(mechanism, mutant, totals, noise) for totals in (one, other))
        caught += epsilon_lower_bound(*releases, DRAWS) > mutant.epsilon
    assert caught == trials


@every_plain
@given(data=st.data())
def test_no_neighbours_of_a_small_hat_differ_by_more_than_the_sensitivity(mechanism, data):
    """Every dataset of a small HAT on a coarse grid is enumerated, so the largest difference is exact."""
    counts = np.array(sorted(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))[::-1], np.int64)
    upper_steps = data.draw(st.integers(1, 3 if counts.sum() <= 6 else 1))
    grid = Grid(step=Fraction(1), upper_steps=upper_steps)
    plan = mechanism.plan(CountsKnown.all_of(counts), grid, conformance.EPSILON)
    moved = conformance.enumerated_sensitivity(mechanism, plan, counts, grid)
    assert moved <= plan.sensitivity
    assert plan.scale * plan.epsilon == plan.sensitivity
    if conformance.is_exact(mechanism, plan):  # rounding of two pieces apart
        assert moved >= plan.sensitivity - 2


@conformance.plain_and_counts
def test_the_worst_neighbours_attain_no_more_than_the_sensitivity(mechanism, counts):
    plan = plan_for(mechanism, counts)
    one, other = conformance.noiseless_of(mechanism, plan, worst_neighbours(mechanism, plan, counts))
    assert abs(one - other) <= plan.sensitivity
    if conformance.is_exact(mechanism, plan):
        assert abs(one - other) >= plan.sensitivity - 2


@conformance.first_plain
def test_each_hat_of_one_call_gets_noise_of_its_own_plan(mechanism):
    """False-alarm rate 8 x 1e-8. Power: noise of another plan, or one draw used twice, is off by far more than 5 %."""
    plans = [plan_for(mechanism, counts) for counts in COUNTS]
    totals = [alike(counts, counts * 3_000) for counts in COUNTS]
    exact = conformance.noiseless_many(mechanism, plans, totals)
    repeats = 4_000
    released = mechanism.release(totals * repeats, plans * repeats, seeded(33))
    noise = conformance.last_of(released).reshape(repeats, -1) - exact
    for column, plan in enumerate(plans):
        assert plan.scale == 0 or laplace_fit(noise[:, column], plan.scale) > 1e-8
    if all(plan.is_constant for plan in plans):
        return
    signs = np.corrcoef(np.sign(noise[:, [plan.scale > 0 for plan in plans]]).T)
    signs = signs - np.eye(len(signs))
    assert np.abs(signs).max() < 6.5 / repeats**0.5


@every_plain
@given(data=st.data())
def test_a_hat_is_released_alike_alone_and_among_others(mechanism, data):
    """No user of one HAT counts in another, whatever stands before and behind it in the call."""
    hats = data.draw(st.lists(conformance.count_vectors, min_size=1, max_size=6))
    shares = st.integers(0, GRID.upper_steps)
    sums = [counts * np.array([data.draw(shares) for _ in counts]) for counts in hats]
    totals = [unlike(*hat, GRID.upper_steps) for hat in zip(hats, sums, strict=True)]
    plans = [plan_for(mechanism, counts) for counts in hats]
    together = conformance.noiseless_many(mechanism, plans, totals)
    assert together == [
        conformance.noiseless_of(mechanism, plan, [hat])[0] for plan, hat in zip(plans, totals, strict=True)
    ]


@conformance.every_kind
def test_no_float_reaches_the_noise(mechanism):
    class Watching(Noise):
        def laplace(self, scales: Sequence[Fraction]) -> Int64s:
            assert {type(scale) for scale in scales} == {Fraction}
            drawn = super().laplace(scales)
            assert drawn.dtype == np.int64
            return drawn

    plans = [plan_for(mechanism, counts) for counts in COUNTS]
    hats = [
        trees.spread(counts, plan.facts["bins"]) if mechanism in trees.EXAMPLES else alike(counts, counts * 7)
        for counts, plan in zip(COUNTS, plans, strict=True)
    ]
    released = mechanism.release(hats, plans, Watching())
    assert {type(integer) for integers in released for integer in integers} == {int}
    for plan in plans:
        assert {type(value) for value in (plan.epsilon, plan.step, plan.scale, plan.upper)} == {Fraction}
        assert {type(fact) for fact in plan.facts.values()} == {int}


@conformance.every_example
def test_the_plan_is_made_from_counts_and_cannot_see_a_value(mechanism):
    assert list(inspect.signature(mechanism.plans).parameters) == ["hats", "grid", "epsilon"]
    for counts in COUNTS:
        before = counts.copy()
        plan = plan_for(mechanism, counts)
        mechanism.release([alike(counts, counts * GRID.upper_steps)], [plan], seeded(34))
        assert plan_for(mechanism, counts).public() == plan.public()
        np.testing.assert_array_equal(counts, before)


@every_plain
def test_the_claim_is_the_epsilon_asked_for_or_nothing_where_nothing_is_drawn(mechanism):
    for epsilon in (Fraction(1, 1000), Fraction(1, 3), Fraction(7)):
        plan = mechanism.plan(CountsKnown(COUNTS[3], 9), GRID, epsilon)
        assert plan.scale == Fraction(plan.sensitivity) / epsilon
        assert plan.is_constant == (plan.scale == 0)
        assert plan.claim().epsilon == plan.epsilon == (0 if plan.is_constant else epsilon)
        assert mechanism.may_be_constant or not plan.is_constant


@every_plain
@given(counts=conformance.count_vectors, data=st.data())
def test_what_costs_nothing_is_the_same_for_all_speeds_and_said_by_the_plan(mechanism, counts, data):
    plan = mechanism.plan(CountsKnown.all_of(counts), GRID, data.draw(st.sampled_from([Fraction(1, 9), Fraction(2)])))
    if plan.is_constant:
        speed = data.draw(st.integers(0, GRID.upper_steps))
        [integers] = mechanism.release([alike(counts, counts * speed)], [plan], Noise())
        assert integers == [plan.facts["constant"]]
        estimates = stored_estimates(plan.mechanism, [integers], [plan.document()], 0.05)
        assert (estimates.status, estimates.epsilon, estimates.noise_std) == (["constant"], [0], [0])
        assert estimates.number(0)[1:].ravel().tolist() == [0, 65], "it may be anything"


def test_every_mechanism_has_a_name_of_its_own_and_an_example():
    named = []
    for info in pkgutil.iter_modules(mechanisms.__path__, mechanisms.__name__ + "."):
        module = importlib.import_module(info.name)
        named += [c for c in vars(module).values() if isinstance(c, type) and c.__module__ == info.name]
    named = [kind for kind in named if isinstance(getattr(kind, "name", None), str)]
    assert sorted(kind.name for kind in named) == list(registered())
    assert {"baseline", "array-average"} <= set(registered())
    for name, kind in registered().items():
        assert kind.name == name
        assert len(kind.examples()) >= 1
        assert len(set(map(repr, kind.examples()))) == len(kind.examples())


@pytest.mark.parametrize("kind", registered().values(), ids=list(registered()))
def test_every_adjacency_and_statistic_of_a_mechanism_is_audited_here(kind):
    assert kind.adjacencies
    assert kind.adjacencies <= set(get_args(Adjacency))
    assert kind.adjacencies <= conformance.AUDITED, (
        "this file audits neighbours that share all counts; add the audit of the others"
    )
    if get_type_hints(kind.plans)["hats"] == Sequence[CountsKnown]:
        assert kind.adjacencies == {"counts-public"}, "a plan that may see counts is for where these are public"
    assert kind.statistics
    assert kind.statistics <= conformance.KNOWN.keys() or kind.statistics == conformance.DISTRIBUTIONS, (
        "no file knows the truth of the others"
    )
    assert "Source:" in (kind.__doc__ or "")


# --- The mean of vehicles' means: each counts once, one moves it as far as stated, and what a cap drops is bounded. ---


MECHANISM = Baseline(statistic="mean-of-vehicles")
FINE_PER_STEP = 1000


def test_the_conformance_tests_run_on_it():
    examples = [it for it in conformance.EXAMPLES if conformance.statistic_of(it) == "mean-of-vehicles"]
    assert examples == [MECHANISM]
    assert "mean-of-vehicles" in registered()["baseline"].statistics


def test_a_bus_that_stands_and_reports_often_counts_once():
    counts, sums = np.array([98, 1, 1]), np.array([98 * 200, 3_000, 4_000])
    plan = plan_for(MECHANISM, counts)
    value = value_of(conformance.noiseless_of(MECHANISM, plan, [alike(counts, sums)]), plan)
    assert value == pytest.approx((2 + 30 + 40) / 3, abs=float(plan.step))
    assert plan.bias_bound == 0
    pooled = plan_for(Baseline(), counts)
    assert value_of(conformance.noiseless_of(Baseline(), pooled, [alike(counts, sums)]), pooled) == 2.66
    capped = plan_for(Baseline(m_ub=1), counts)
    assert capped.bias_bound > 40


@given(conformance.count_vectors, st.data())
def test_the_integer_is_the_exact_sum_of_means_rounded_down_once(counts, data):
    sums = np.array([data.draw(st.integers(0, count * GRID.upper_steps)) for count in counts.tolist()], np.int64)
    plan = plan_for(MECHANISM, counts)
    fine = FINE_PER_STEP if counts[0] > 1 else 1
    exact = sum(Fraction(s, c) for s, c in zip(sums.tolist(), counts.tolist(), strict=True))
    assert conformance.noiseless_of(MECHANISM, plan, [Totals(counts, sums)]) == [fine * exact // 1]
    assert plan.step == GRID.step / (fine * counts.size)
    off = conformance.truth_of(MECHANISM, Totals(counts, sums)) - (fine * exact // 1) * plan.step
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
