"""Forecasts and choices of many HATs together are those of each HAT alone, to the last bit."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpops.forecast import Prior
from dpops.means.array_layouts import MANY_USERS, layout
from dpops.means.contribution_bound import argmax, minimax
from dpops.means.forecasts import ForecastsTogether, Many, quotients, usual
from dpops.mechanism import PlanError
from dpops.mechanisms.array_average import ArrayAverage
from dpops.mechanisms.auto import Auto, _candidates
from dpops.mechanisms.baseline import Baseline
from dpops.types import CountsKnown, Grid

GRID = Grid(step=Fraction(1, 100), upper_steps=6_500)
PRIOR = Prior(20.0, 12.0, 0.3)
counts_lists = st.lists(st.integers(1, 60), min_size=1, max_size=14)
epsilons = st.sampled_from([Fraction(1, 7), Fraction(1), Fraction(2), Fraction(9, 2)])
priors = st.sampled_from([Prior(20.0, 12.0), PRIOR, Prior(63.0, 3.0), Prior(0.0, 30.0, 1.0)])


def known_of(lists, dropped=0):
    """Four of each, so that the smallest numbers of HATs that are worth a matrix are met."""
    some = [np.array(sorted(each)[::-1], np.int64) for each in lists]
    more = [each + at for each in some for at in range(4)]
    return [CountsKnown(each, int(each.sum()) + dropped) for each in more]


def alone(mechanism, known, epsilon, prior):
    return mechanism.forecast(mechanism.plan(known, GRID, epsilon), known.counts, prior)


@pytest.mark.parametrize("mechanism", _candidates("mean", PRIOR), ids=repr)
@settings(max_examples=12, deadline=None)
@given(lists=st.lists(counts_lists, min_size=1, max_size=5), epsilon=epsilons, prior=priors, dropped=st.integers(0, 3))
def test_a_forecast_of_many_hats_is_that_of_each(mechanism, lists, epsilon, prior, dropped):
    assert isinstance(mechanism, ForecastsTogether)
    known = known_of(lists, dropped)
    matrices, places = usual(known, GRID, epsilon)
    hats = Many(matrices, GRID, epsilon, prior)
    assert mechanism.forecasts(hats).tolist() == [alone(mechanism, known[at], epsilon, prior) for at in places]


@settings(max_examples=6, deadline=None)
@given(lists=st.lists(counts_lists, min_size=1, max_size=5), epsilon=epsilons, prior=priors | st.none())
def test_auto_plans_many_hats_as_it_plans_each(lists, epsilon, prior):
    """Also HATs that are alone of their size, that have very many users, or reports near the bounds."""
    known = [
        *known_of(lists),
        CountsKnown.all_of(np.arange(40, 0, -1)),
        CountsKnown.all_of(np.full(MANY_USERS + 1, 3)),
        CountsKnown(np.array([5, 4, 1]), 2**30),
    ]
    auto = Auto(prior=prior)
    assert [plan.document() for plan in auto.plans(known, GRID, epsilon)] == [
        auto.plan(each, GRID, epsilon).document() for each in known
    ]


def test_hats_that_no_mechanism_can_plan_are_refused_as_one_by_one():
    for epsilon, counts in ((Fraction(0), [1]), (Fraction(1), [3, 0])):
        with pytest.raises(PlanError):
            Auto(prior=PRIOR).plans([CountsKnown(np.array(counts), 9)] * 5, GRID, epsilon)


def test_noise_beyond_bounds_leaves_a_hat_its_constant():
    known = [CountsKnown.all_of(np.array([90_000, 50_000]))] * 5
    assert {plan.mechanism for plan in Auto(prior=PRIOR).plans(known, GRID, Fraction(1, 10**9))} == {"constant"}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(1, 2_000), min_size=6, max_size=6), min_size=1, max_size=5), epsilons)
def test_lengths_of_many_hats_are_those_of_each(lists, epsilon):
    counts = np.array([sorted(each)[::-1] for each in lists], np.int64)
    assert layout(counts, GRID, epsilon, "argmax").length.tolist() == [argmax(each) for each in counts]
    assert layout(counts, GRID, epsilon, "opt").length.tolist() == [minimax(each, epsilon) for each in counts]


def test_lengths_of_counts_whose_products_do_not_fit_are_compared_one_by_one():
    counts = np.array([[2**26, 2**25, 3]] * 4)
    assert layout(counts, GRID, Fraction(1, 3), "opt").length.tolist() == [minimax(counts[0], Fraction(1, 3))] * 4
    assert layout(counts, GRID, Fraction(1), "argmax").length.tolist() == [argmax(counts[0])] * 4


@given(
    st.lists(st.tuples(st.integers(0, 2**62), st.integers(1, 2**40)), min_size=1), st.fractions(Fraction(1, 10**6), 9)
)
def test_quotients_are_rounded_as_fractions_are(pairs, factor):
    over, under = (np.array(column, np.int64) for column in zip(*pairs, strict=True))
    assert quotients(over, under, factor).tolist() == [float(Fraction(a, b) * factor) for a, b in pairs]


@pytest.mark.parametrize("mechanism", [Baseline(m_ub=3), ArrayAverage(grouping="wrap-around")], ids=repr)
def test_variants_that_are_never_candidates_say_that_they_cannot(mechanism):
    hats = Many((np.array([[3, 1]] * 4),), GRID, Fraction(1), PRIOR)
    with pytest.raises(NotImplementedError):
        mechanism.forecasts(hats)
