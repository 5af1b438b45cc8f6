"""What is planned and released of many HATs in one call is what plans and releases give one after the other."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpops.forecast import Prior
from dpops.mechanism import Hats, PlanError, Totals
from dpops.mechanisms.array_average import ArrayAverage
from dpops.mechanisms.auto import Auto
from dpops.mechanisms.baseline import Baseline
from dpops.types import CountsKnown
from tests.dpops.reference import GRID, unlike
from tests.statistical.checks import seeded

MECHANISMS = [*ArrayAverage.examples(), Baseline(), Auto(), Auto(prior=Prior(20.0, 12.0))]


def joined(totals, reported):
    users = np.array([total.counts.size for total in totals], np.int64)
    columns = (np.concatenate(column) for column in zip(*(totals or [Totals(np.zeros(0, np.int64))]), strict=True))
    return Hats(Totals(*columns), np.cumsum(users) - users, users, np.array(reported, np.int64))


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
@settings(deadline=None)
@given(
    lists=st.lists(st.lists(st.integers(1, 60), min_size=1, max_size=6), max_size=8),
    copies=st.integers(1, 5),
    dropped=st.integers(0, 3),
    shares=st.integers(0, 2**32),
    epsilon=st.sampled_from([Fraction(1, 7), Fraction(1), Fraction(9, 2)]),
)
def test_one_call_draws_the_same_plans_noise_and_integers(mechanism, lists, copies, dropped, shares, epsilon):
    rng = np.random.default_rng(shares)
    hats = [np.array(sorted(counts)[::-1], np.int64) for counts in lists for _ in range(copies)]
    totals = [unlike(counts, counts * rng.integers(0, 6_501, counts.size), GRID.upper_steps) for counts in hats]
    reported = [int(counts.sum()) + dropped for counts in hats]
    public_counts = [CountsKnown(counts, samples) for counts, samples in zip(hats, reported, strict=True)]
    plans = mechanism.plans(public_counts, GRID, epsilon)
    drawn = mechanism.draw(joined(totals, reported), GRID, epsilon, seeded(3))
    assert drawn.plans == [plan.document() for plan in plans]
    assert [[*document] for document in drawn.plans] == [[*plan.document()] for plan in plans], (
        "in the order of stored bytes"
    )
    assert [[*document["facts"]] for document in drawn.plans] == [[*plan.document()["facts"]] for plan in plans]
    assert drawn.mechanisms == [plan.mechanism for plan in plans]
    assert drawn.integers == mechanism.release(totals, plans, seeded(3))


def test_noise_beyond_bounds_is_refused_before_anything_is_drawn():
    counts = np.array([90_000, 3], np.int64)
    totals = [unlike(counts, counts * 0, GRID.upper_steps)] * 4
    with pytest.raises(PlanError, match="noise beyond"):
        ArrayAverage().draw(joined(totals, [90_003] * 4), GRID, Fraction(1, 10**12), seeded(6))
