"""Arrays of many HATs that are laid out together are what their definitions say of each."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpops.means.arrays import FINE_PER_STEP, lay_out_together, length_of
from dpops.mechanisms.array_average import ArrayAverage
from dpops.types import CountsKnown, Grid
from tests.dpops.reference import best_fit_grouping

GRID = Grid(step=Fraction(1, 100), upper_steps=6_500)
EPSILON = Fraction(3, 10)
COUNTS = st.lists(st.integers(1, 40), min_size=1, max_size=12).map(lambda counts: sorted(counts, reverse=True))


def known_of(lists, more=0):
    return [CountsKnown(np.array(counts, np.int64), sum(counts) + more) for counts in lists]


def check(laid, hat, rule):
    """The arrays, and what they cost, as their definitions have it, in exact fractions of one user after the other."""
    counts, group = hat.counts, laid.grouping
    assert laid.m_ub == length_of(rule, counts, EPSILON)
    alone = best_fit_grouping(counts, laid.m_ub)
    for made, due in zip(
        *((arrays.user, arrays.array, arrays.samples, arrays.fills) for arrays in (group, alone)), strict=True
    ):
        assert made.tolist() == due.tolist()
    held = {
        user: (slots, int(group.fills[array]))
        for user, array, slots in zip(group.user, group.array, group.samples, strict=True)
    }
    shares = [Fraction(int(held[user][0]), held[user][1] * group.fills.size) for user in range(counts.size)]
    assert laid.sensitivity == max(
        math.ceil(Fraction(6_500 * FINE_PER_STEP * int(slots), width)) for slots, width in held.values()
    )
    np.testing.assert_allclose(laid.weight, [float(share) for share in shares], rtol=1e-12)
    excess = sum(max(share - Fraction(int(c), hat.reported), 0) for share, c in zip(shares, counts, strict=True))
    assert laid.bias == pytest.approx(float(65 * excess + 2 * GRID.step / FINE_PER_STEP))
    assert (laid.facts["samples"], laid.facts["arrays"]) == (counts.sum(), group.fills.size)


@given(
    st.lists(COUNTS, min_size=1, max_size=12),
    st.sampled_from(["median", "argmax", "opt", "convex", 3]),
    st.integers(0, 3),
)
def test_each_of_many_hats_has_arrays_of_its_own(lists, rule, more):
    hats = known_of(lists, more)
    for laid, hat in zip(lay_out_together(hats, GRID, EPSILON, rule), hats, strict=True):
        check(laid, hat, rule)


@pytest.mark.parametrize("mechanism", ArrayAverage.examples(), ids=str)
def test_plans_made_together_are_stored_as_those_made_alone(mechanism):
    rng = np.random.default_rng(2)
    hats = known_of([np.sort(rng.integers(1, 30, 9))[::-1].tolist() for _ in range(20)])
    plans = mechanism.plans(hats, GRID, EPSILON)
    assert [plan.document() for plan in plans] == [mechanism.plan(hat, GRID, EPSILON).document() for hat in hats]
