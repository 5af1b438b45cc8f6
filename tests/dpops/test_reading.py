"""What is read from stored plans is what the mechanisms say of their own, to the last bit."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpops.estimate import Estimates
from dpops.mechanism import Plan
from dpops.reading import _is_plain, stored_estimates
from dpops.registry import registered
from dpops.types import CountsKnown, Grid

GRID = Grid(step=Fraction(1, 100), upper_steps=6_500)
PLAIN = {"array-average", "baseline", "baseline-variance", "constant", "opt-array", "worst-case-optimal"}


def test_mechanisms_that_release_a_noisy_query_alone_are_read_without_a_plan():
    assert {name for name, kind in registered().items() if _is_plain(kind)} == PLAIN | {"auto"}, "no plan names auto"


@pytest.mark.parametrize("name", sorted(PLAIN))
@settings(max_examples=25, deadline=None)
@given(
    counts=st.lists(st.integers(1, 60), min_size=1, max_size=12),
    dropped=st.integers(0, 5),
    epsilon=st.sampled_from([Fraction(1, 9), Fraction(1), Fraction(7, 3)]),
    integer=st.integers(-(10**9), 10**11),
)
def test_stored_plans_are_read_as_the_mechanism_reads_them(name, counts, dropped, epsilon, integer):
    known = np.array(sorted(counts)[::-1], np.int64)
    kind = registered()[name]
    plan = kind().plan(CountsKnown(known, int(known.sum()) + dropped), GRID, epsilon)
    old = {key: value for key, value in plan.document().items() if key not in ("version", "rounding")}
    for stored in (plan.document(), plan.public(), old):
        expected = kind.estimates([[integer]], [Plan.from_public(name, stored)], 0.05)
        assert columns(stored_estimates(name, [[integer]], [stored], 0.05)) == columns(Estimates.of(expected))


def columns(found):
    numbers = found.numbers.tolist()
    floats = [column.tolist() for column in (found.noise_std, found.bias_bound, found.epsilon)]
    return numbers, found.lists, floats, found.status
