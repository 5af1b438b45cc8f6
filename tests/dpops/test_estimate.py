"""What is read from many stored plans at once is what each plan says of its own integer, to the last bit."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpops.mechanism import Plan
from dpops.mechanisms import registered, stored_estimates
from dpops.types import CountsKnown, Grid

GRID = Grid(step=Fraction(1, 100), upper_steps=6_500)
PLAIN = sorted(
    name
    for name, kind in registered().items()
    if not kind.chooses and not kind.outputs and name != "auto"  # no plan names auto
)


@pytest.mark.parametrize("name", PLAIN)
@given(
    counts=st.lists(st.integers(1, 60), min_size=1, max_size=12),
    dropped=st.integers(0, 5),
    epsilon=st.sampled_from([Fraction(1, 9), Fraction(1), Fraction(7, 3)]),
    integer=st.one_of(st.integers(-(10**9), 10**11), st.integers(2**52, 2**70)),
)
def test_an_estimate_is_the_noisy_query_with_the_half_width_of_its_plan(name, counts, dropped, epsilon, integer):
    retained = np.array(sorted(counts)[::-1], np.int64)
    plan = registered()[name]().plan(CountsKnown(retained, int(retained.sum()) + dropped), GRID, epsilon)
    old = {key: value for key, value in plan.document().items() if key not in ("version", "rounding")}
    for stored in (plan.document(), plan.public(), old):
        read = Plan.from_public(name, stored)
        value = min(max(integer * read.step.numerator / read.step.denominator, 0.0), float(read.upper))
        half = read.half_width(0.05)
        estimates = stored_estimates(name, [[integer]], [stored], 0.05)
        assert estimates.number(0)[:, 0].tolist() == [
            value,
            max(value - half, 0.0),
            min(value + half, float(read.upper)),
        ]
        bias = min(read.bias_bound + read.rounding, float(read.upper)) if read.version >= 2 else read.bias_bound
        assert (estimates.noise_std, estimates.bias_bound, estimates.epsilon) == (
            [read.noise_std()],
            [bias],
            [float(read.epsilon)],
        )
        assert estimates.status == ["constant" if read.is_constant else "ok"]


@pytest.mark.parametrize("name", [*PLAIN, "tree", "akmv"])
def test_no_hats_have_no_estimates(name):
    assert stored_estimates(name, [], [], 0.05).status == []
