"""Forecasts agree with simulation, and are of each HAT alone whatever others are forecast with it."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpops.forecast import HatCounts, Prior
from dpops.means.arrays import length_of, lengths_of
from dpops.means.forecasts import quotients
from dpops.mechanism import Mechanism, Totals, forecast_of_one, values_of
from dpops.mechanisms.array_average import ArrayAverage
from dpops.mechanisms.auto import Auto, _candidates
from dpops.mechanisms.baseline import Baseline
from dpops.types import CountsKnown, Grid
from tests.statistical.checks import seeded

GRID = Grid(step=Fraction(1, 100), upper_steps=6_500)
PRIOR = Prior(25.0, 8.0, 0.3)
MECHANISMS = [*_candidates("mean", PRIOR), Baseline(m_ub=3), ArrayAverage(grouping="wrap-around"), Auto(prior=PRIOR)]
COUNTS = [[9, 7, 7, 5, 4, 3, 3, 2, 2, 1, 1, 1], [40, 30, *[9] * 30, *[5] * 40, *[1] * 50]]
counts_lists = st.lists(st.integers(1, 60), min_size=1, max_size=14)
epsilons = st.sampled_from([Fraction(1, 7), Fraction(1), Fraction(2), Fraction(9, 2)])


def known_of(lists, dropped=0):
    """HATs of equal and of other numbers of users, some of very many."""
    some = [np.array(sorted(counts)[::-1], np.int64) for counts in lists]
    return [
        *(CountsKnown(counts, int(counts.sum()) + dropped) for counts in some),
        CountsKnown.all_of(np.full(97, 3)),
        *(CountsKnown(counts + 1, int(counts.sum() + counts.size) + dropped) for counts in some),
    ]


@pytest.mark.few(8)
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
@pytest.mark.parametrize("counts", COUNTS, ids=["few", "many"])
def test_a_forecast_is_the_error_of_hats_that_are_drawn_as_the_prior_says(mechanism: Mechanism, counts):
    """Within 15 %: the error of 2000 HATs has a standard error of 2 %, and approximations of forecasts take 9 %."""
    vector, epsilon, number = np.array(counts, np.int64), Fraction(4), 2_000
    hat, rng = CountsKnown.all_of(vector), np.random.default_rng(2)
    hats = rng.choice(PRIOR.hat_means(65.0), (number, 1))
    users = hats + rng.normal(size=(number, vector.size)) * PRIOR.mean_sd(vector)
    sums = np.rint(np.clip(users, 0, 65) * 100).astype(np.int64) * vector
    plans = [mechanism.plan(hat, GRID, epsilon)] * number
    released = mechanism.release([Totals(vector, row) for row in sums], plans, seeded(3))
    error = np.abs(values_of(released, plans) - sums.sum(axis=1) / vector.sum() / 100).mean()
    assert forecast_of_one(mechanism, hat, GRID, epsilon, PRIOR) == pytest.approx(error, rel=0.15)


@pytest.mark.few(5)
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
@settings(max_examples=5, deadline=None)
@given(lists=st.lists(counts_lists, min_size=1, max_size=5), epsilon=epsilons, dropped=st.integers(0, 3))
def test_a_forecast_of_many_hats_is_that_of_each(mechanism, lists, epsilon, dropped):
    some = known_of(lists, dropped)
    hats, places = HatCounts.of(some, GRID, epsilon, PRIOR)
    alone = [forecast_of_one(mechanism, some[place], GRID, epsilon, PRIOR) for place in places]
    assert mechanism.forecasts(hats).tolist() == alone


@given(st.lists(st.lists(st.integers(1, 2_000), min_size=6, max_size=6), min_size=1, max_size=5), epsilons)
def test_lengths_of_many_hats_are_those_of_each(lists, epsilon):
    counts = np.array([sorted(counts_of_hat)[::-1] for counts_of_hat in lists], np.int64)
    for rule in ("median", "argmax", "opt", "convex", 7):
        assert lengths_of(rule, counts, epsilon).tolist() == [length_of(rule, of_hat, epsilon) for of_hat in counts]


def test_lengths_of_counts_whose_products_do_not_fit_are_compared_in_larger_integers():
    """Scaled by a factor, counts have lengths scaled by it, whatever fits into 64 bits."""
    for rule, epsilon in (("opt", Fraction(1, 3)), ("argmax", Fraction(1))):
        small = length_of(rule, np.array([8, 4, 1]), epsilon)
        assert lengths_of(rule, np.array([[2**29, 2**28, 2**26]] * 4), epsilon).tolist() == [small * 2**26] * 4


@given(
    st.lists(st.tuples(st.integers(0, 2**62), st.integers(1, 2**40)), min_size=1), st.fractions(Fraction(1, 10**6), 9)
)
def test_quotients_are_rounded_as_fractions_are(pairs, factor):
    over, under = (np.array(column, np.int64) for column in zip(*pairs, strict=True))
    assert quotients(over, under, factor).tolist() == [float(Fraction(a, b) * factor) for a, b in pairs]
