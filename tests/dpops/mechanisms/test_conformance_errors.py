"""What every registered mechanism says of its error, what it refuses, and that its sums never overflow."""

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpops.mechanism import Plan, values_of
from dpops.mechanisms.array_average import ArrayAverage
from dpops.mechanisms.baseline import Baseline
from dpops.noise import Noise
from dpops.types import CountsKnown, Grid
from tests.dpops.mechanisms import conformance
from tests.dpops.mechanisms.conformance import COUNTS, EPSILON, GRID, even, noiseless_of, plan_for, truth_of
from tests.dpops.reference import alike, unlike, value_of
from tests.statistical.checks import seeded


@conformance.few_counts
@conformance.first_plain
def test_forecasts_agree_with_simulation(mechanism, counts):
    """Standard deviation and mean absolute error without bias; false-alarm rate 3 x 1e-7 for each case: 5.5 standard
    errors of 4000 draws. Power: a standard deviation wrong by 20 %, an error by 16 % is seen with probability 1 - 1e-4.
    """
    draws = 4_000
    plan = plan_for(mechanism, counts)
    totals = even(mechanism, counts, counts * (GRID.upper_steps // 2))
    truth = float(truth_of(mechanism, totals))
    released = mechanism.release([totals] * draws, [plan] * draws, seeded(35))
    noise = (conformance.last_of(released) - noiseless_of(mechanism, plan, [totals])[0]) * float(plan.step)
    assert noise.std() == pytest.approx(plan.noise_std(), rel=5.5 * (5 / 4 / draws) ** 0.5)
    unbiased = replace(plan, bias_bound=0.0)
    assert np.abs(noise).mean() == pytest.approx(unbiased.error(), rel=5.5 / draws**0.5, abs=float(plan.step))
    values = values_of(released, [plan] * len(released))
    assert np.abs(values - truth).mean() <= plan.error() * (1 + 5.5 / draws**0.5) + float(plan.step)


@conformance.few_counts
@conformance.first_example
def test_the_interval_covers_the_true_value_even_at_the_worst_bias(mechanism, counts):
    """False-alarm rate 4 x 1e-7 for each case (5.5 standard errors of 1500 draws). Power: an interval that leaves the
    bias out misses nearly always at a large epsilon."""
    draws = 1_500
    for epsilon in (EPSILON, Fraction(1_000)):
        plan = mechanism.plan(CountsKnown.all_of(counts), GRID, epsilon)
        totals = conformance.worst_biased(mechanism, plan, counts)
        released = mechanism.release([totals] * draws, [plan] * draws, seeded(37))
        values = values_of(released, [plan] * len(released))
        off = np.abs(values - float(truth_of(mechanism, totals)))
        settled = [mechanism.resolve(integers, plan) for integers in released]
        for miss in (0.05, 0.5):
            widths = np.array([of_draw.half_width(miss) for of_draw in settled])
            covered = (off <= widths + 1e-9).mean()
            assert covered >= 1 - miss - 5.5 * (miss * (1 - miss) / draws) ** 0.5


@conformance.every_plain
@given(data=st.data())
def test_the_realised_bias_never_exceeds_its_bound(mechanism, data):
    counts = data.draw(conformance.count_vectors)
    extremes = st.sampled_from([0, GRID.upper_steps])
    speeds = data.draw(
        st.lists(extremes | st.integers(0, GRID.upper_steps), min_size=counts.size, max_size=counts.size)
    )
    spare = data.draw(st.integers(0, 6_499))
    sums = np.minimum(counts * np.array(speeds) + spare % counts, counts * GRID.upper_steps)
    dropped = data.draw(st.integers(0, 40))
    reported = int(counts.sum()) + dropped
    dropped_speed = data.draw(extremes)
    plan = mechanism.plan(CountsKnown(counts, reported), GRID, EPSILON)
    made = data.draw(st.sampled_from([even, conformance.spread]))
    totals = made(mechanism, counts, sums)
    with_lost = made(mechanism, np.append(counts, dropped), np.append(sums, dropped * dropped_speed))
    truth = float(truth_of(mechanism, with_lost))
    value = value_of(noiseless_of(mechanism, plan, [totals]), plan)
    assert abs(value - truth) <= plan.bias_bound + float(plan.step) + 1e-9


@pytest.mark.parametrize(
    "mechanism", [example for example in conformance.PLAIN if isinstance(example, conformance.EXACT)], ids=repr
)
def test_the_bias_bound_is_attained(mechanism):
    """With each user at 0 or U, as is worst, the distance comes within rounding of the bound."""
    for counts in COUNTS:
        plan = plan_for(mechanism, counts)
        totals = conformance.worst_biased(mechanism, plan, counts)
        value = value_of(noiseless_of(mechanism, plan, [totals]), plan)
        assert abs(value - float(truth_of(mechanism, totals))) >= plan.bias_bound - 4 * float(GRID.step) / 1000


@conformance.every_example
@given(integer=st.integers(-(10**18), 10**18))
def test_values_lie_between_zero_and_the_upper_bound(mechanism, integer):
    plan = plan_for(mechanism, COUNTS[3])
    assert 0 <= value_of([integer], plan) <= float(plan.upper)
    assert plan.upper == conformance.KNOWN[conformance.statistic_of(mechanism)].most


@conformance.plain_and_counts
def test_equal_speeds_are_returned_within_rounding(mechanism, counts):
    """Also where a cap dropped half of the samples. Only worst-case-optimal draws heavy users towards U/2, and a
    constant says nothing of speeds."""
    samples = int(counts.sum())
    for reported in (samples, 2 * samples):
        plan = mechanism.plan(CountsKnown(counts, reported), GRID, EPSILON)
        for speed in (0, 1, 2_067, GRID.upper_steps):
            totals = even(mechanism, counts, counts * speed)
            value = value_of(noiseless_of(mechanism, plan, [totals]), plan)
            rounding = 2 * float(GRID.step) / 1000 + 1e-9
            biased = plan.is_constant or plan.mechanism == "worst-case-optimal"
            allowed = plan.bias_bound + 1e-9 if biased else rounding
            assert value == pytest.approx(float(truth_of(mechanism, totals)), abs=allowed)


@conformance.every_example
def test_a_plan_survives_storage(mechanism):
    for counts in COUNTS:
        plan = plan_for(mechanism, counts)
        read = Plan.from_public(plan.mechanism, json.loads(json.dumps(plan.public())))
        assert read.public() == plan.public()
        assert read.claim() == plan.claim()
        assert (read.noise_std(), read.error()) == (plan.noise_std(), plan.error())
        assert read.half_width(0.05) == plan.half_width(0.05)
        for integer in (-5, 0, 12_345, 10**12):
            assert value_of([integer], read) == value_of([integer], plan)


@pytest.mark.parametrize("users", [1, 3, 20])
@pytest.mark.parametrize("count", [1, 4, 11])
@pytest.mark.parametrize("kind", ["median", "argmax"])
def test_baseline_and_array_average_agree_when_all_counts_are_equal(users, count, kind):
    counts = np.full(users, count, np.int64)
    one, other = (plan_for(m, counts) for m in (Baseline(), ArrayAverage(m_ub=kind)))
    assert one.scale * one.step == other.scale * other.step == GRID.upper / (users * EPSILON)
    assert one.bias_bound == 0
    assert other.bias_bound <= 2.001 * float(GRID.step) / 1000


NO_HATS: list[tuple[list[int], int]] = [([], 0), ([0], 0), ([3, 0], 3), ([3, -1], 2), ([3, 2], 4), ([1], 1 << 31)]
"""Counts, and how many samples were reported."""
UNFIT = [
    ([5, 3, 1], [-1, 0, 0]), ([5, 3, 1], [5 * 6_500 + 1, 0, 0]), ([5, 3, 1], [0, 0, 6_501]), ([5, 3], [0, 0]),
    ([5, 3, 2], [0, 0, 0]), ([5, 3, 1], [0, 0]),
]  # fmt: skip
"""Counts and sums that are not those of a plan for 5, 3 and 1 samples."""


@conformance.every_kind
def test_counts_that_make_no_hat_and_an_epsilon_that_is_not_positive_are_refused(mechanism):
    for counts, reported in NO_HATS:
        with pytest.raises(ValueError, match="sample"):
            mechanism.plan(CountsKnown(np.array(counts, np.int64), reported), GRID, EPSILON)
    for epsilon in (Fraction(0), Fraction(-1)):
        with pytest.raises(ValueError, match="epsilon"):
            mechanism.plan(CountsKnown(COUNTS[3], 9), GRID, epsilon)


@conformance.every_example
def test_totals_that_do_not_fit_the_plan_are_refused(mechanism):
    plan = plan_for(mechanism, COUNTS[3])
    for counts, sums in UNFIT:
        with pytest.raises(ValueError, match="do not fit") as refusal:
            mechanism.release([conformance.totals_of(counts, sums)], [plan], Noise())
        assert "6501" not in str(refusal.value)
    with pytest.raises(ValueError, match="each plan needs"):
        mechanism.release([alike(COUNTS[3], COUNTS[3])] * 2, [plan], Noise())
    assert mechanism.release([], [], Noise()) == []


@conformance.every_plain
def test_totals_of_other_users_never_exceed_the_plans_sensitivity(mechanism):
    """As many users and samples, but one user heavier than planned: refused, or still within the sensitivity."""
    plan = plan_for(mechanism, np.array([3, 3], np.int64))
    counts = np.array([5, 1], np.int64)
    answers = []
    for sums in ([0, 0], [5 * 6_500, 0]):
        try:
            answers += noiseless_of(mechanism, plan, [alike(counts, np.array(sums, np.int64))])
        except ValueError:
            return
    assert abs(answers[0] - answers[1]) <= plan.sensitivity


@conformance.every_plain
@pytest.mark.parametrize(
    ("counts", "upper_steps"),
    [([1 << 23], 1 << 39), ([1 << 20, 1], 1 << 44), ([1] * (1 << 15), 1 << 49), ([1] * (1 << 15), (1 << 49) // 1_000)],
    ids=["long", "heavy", "many", "many-fine"],
)
def test_sums_that_would_overflow_are_refused_or_exact(mechanism, counts, upper_steps):
    """A wrapped integer would move the answer by more than any noise hides."""
    vector, grid = np.array(counts, np.int64), Grid(step=Fraction(65, upper_steps), upper_steps=upper_steps)
    try:
        plan = mechanism.plan(CountsKnown.all_of(vector), grid, EPSILON)
        totals = conformance.heaviest_totals(mechanism, vector, grid)
        if conformance.statistic_of(mechanism) == "variance":  # is largest with half of the samples at U
            half = np.where(vector > 1, vector // 2, np.arange(vector.size) % 2)
            totals = unlike(vector, half * upper_steps, upper_steps)
        top = noiseless_of(mechanism, plan, [totals])[0]
    except ValueError:
        return
    if plan.is_constant:
        return
    assert float(top * plan.step) == pytest.approx(float(plan.upper), rel=1e-3)
