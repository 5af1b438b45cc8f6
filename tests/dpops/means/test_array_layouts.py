"""Arrays that are laid out together are those that are laid out one by one, to the last bit."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpops.means.array_layouts import MANY_USERS, lay_out_together
from dpops.means.arrays import lay_out
from dpops.mechanism import PlanError
from dpops.mechanisms.array_average import ArrayAverage
from dpops.types import CountsKnown, Grid

GRID = Grid(step=Fraction(1, 100), upper_steps=6_500)
EPSILON = Fraction(3, 10)
COUNTS = st.lists(st.integers(1, 40), min_size=1, max_size=12).map(lambda each: sorted(each, reverse=True))


def known_of(lists, more=0):
    return [CountsKnown(np.array(counts, np.int64), sum(counts) + more) for counts in lists]


def bits(arrays):
    group = arrays.grouping
    columns = [group.user, group.array, group.slots, group.fills, arrays.weight]
    return [column.tolist() for column in columns], arrays.m_ub, arrays.moved, arrays.bias.hex(), arrays.facts


@given(
    st.lists(COUNTS, min_size=1, max_size=30),
    st.sampled_from(["median", "argmax", "opt", "convex", 3]),
    st.integers(0, 3),
)
def test_many_hats_together_are_what_each_is_alone(lists, rule, more):
    known = known_of(lists, more)
    together = lay_out_together(known, GRID, EPSILON, rule)
    assert [bits(each) for each in together] == [bits(lay_out(each, GRID, EPSILON, rule)) for each in known]


def test_large_hats_and_large_numbers_of_them_are_the_same_too():
    rng = np.random.default_rng(1)
    sizes = [*[1, 2, 7, 8, 9, 63, 64, 65, MANY_USERS] * 8, MANY_USERS + 1, 300]
    known = known_of([np.sort(1 + rng.geometric(0.1, size))[::-1].tolist() for size in sizes])
    together = lay_out_together(known, GRID, EPSILON, "median")
    assert [bits(each) for each in together] == [bits(lay_out(each, GRID, EPSILON, "median")) for each in known]


@pytest.mark.parametrize("mechanism", ArrayAverage.examples(), ids=str)
def test_plans_made_together_are_stored_as_those_made_alone(mechanism):
    rng = np.random.default_rng(2)
    known = known_of([np.sort(rng.integers(1, 30, 9))[::-1].tolist() for _ in range(20)])
    plans = mechanism.plans(known, GRID, EPSILON)
    assert [plan.document() for plan in plans] == [mechanism.plan(each, GRID, EPSILON).document() for each in known]


def test_a_hat_without_a_plan_is_refused_among_others():
    known = [*known_of([[3, 2]] * 8), CountsKnown(np.array([3, 2], np.int64), 4)]
    with pytest.raises(PlanError, match="more samples kept than reported"):
        lay_out_together(known, GRID, EPSILON, "median")
