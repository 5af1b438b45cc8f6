"""What every registered mechanism refuses, and that its sums never overflow."""

from fractions import Fraction

import numpy as np
import pytest

from dpops.mechanism import Mechanism
from dpops.noise import Noise
from dpops.types import CountsKnown, Grid
from tests.dpops.mechanisms.conformance import (
    COUNTS,
    EPSILON,
    GRID,
    every_example,
    every_kind,
    every_plain,
    heaviest_totals,
    noiseless_of,
    plan_for,
    statistic_of,
    totals_of,
)
from tests.dpops.reference import alike, unlike

NO_HATS: list[tuple[list[int], int]] = [([], 0), ([0], 0), ([3, 0], 3), ([3, -1], 2), ([3, 2], 4), ([1], 1 << 31)]
"""Counts, and how many samples were reported."""
UNFIT = [
    ([5, 3, 1], [-1, 0, 0]), ([5, 3, 1], [5 * 6_500 + 1, 0, 0]), ([5, 3, 1], [0, 0, 6_501]), ([5, 3], [0, 0]),
    ([5, 3, 2], [0, 0, 0]), ([5, 3, 1], [0, 0]),
]  # fmt: skip
"""Counts and sums that are not those of a plan for 5, 3 and 1 samples."""


@every_kind
def test_counts_that_make_no_hat_and_an_epsilon_that_is_not_positive_are_refused(mechanism: Mechanism) -> None:
    for counts, reported in NO_HATS:
        with pytest.raises(ValueError, match="sample"):
            mechanism.plan(CountsKnown(np.array(counts, np.int64), reported), GRID, EPSILON)
    for epsilon in (Fraction(0), Fraction(-1)):
        with pytest.raises(ValueError, match="epsilon"):
            mechanism.plan(CountsKnown(COUNTS[3], 9), GRID, epsilon)


@every_example
def test_totals_that_do_not_fit_the_plan_are_refused(mechanism: Mechanism) -> None:
    plan = plan_for(mechanism, COUNTS[3])
    for counts, sums in UNFIT:
        with pytest.raises(ValueError, match="do not fit") as refusal:
            mechanism.release([totals_of(counts, sums)], [plan], Noise())
        assert "6501" not in str(refusal.value)
    with pytest.raises(ValueError, match="each plan needs"):
        mechanism.release([alike(COUNTS[3], COUNTS[3])] * 2, [plan], Noise())
    assert mechanism.release([], [], Noise()) == []


@every_plain
def test_totals_of_other_users_never_exceed_the_plans_sensitivity(mechanism: Mechanism) -> None:
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


@every_plain
@pytest.mark.parametrize(
    ("counts", "upper_steps"),
    [([1 << 23], 1 << 39), ([1 << 20, 1], 1 << 44), ([1] * (1 << 15), 1 << 49), ([1] * (1 << 15), (1 << 49) // 1_000)],
    ids=["long", "heavy", "many", "many-fine"],
)
def test_sums_that_would_overflow_are_refused_or_exact(
    mechanism: Mechanism, counts: list[int], upper_steps: int
) -> None:
    """A wrapped integer would move the answer by more than any noise hides."""
    vector, grid = np.array(counts, np.int64), Grid(step=Fraction(65, upper_steps), upper_steps=upper_steps)
    try:
        plan = mechanism.plan(CountsKnown.all_of(vector), grid, EPSILON)
        totals = heaviest_totals(mechanism, vector, grid)
        if statistic_of(mechanism) == "variance":  # is largest with half of the samples at U
            half = np.where(vector > 1, vector // 2, np.arange(vector.size) % 2)
            totals = unlike(vector, half * upper_steps, upper_steps)
        top = noiseless_of(mechanism, plan, [totals])[0]
    except ValueError:
        return
    if plan.is_constant:
        return
    assert float(top * plan.step) == pytest.approx(float(plan.upper), rel=1e-3)
