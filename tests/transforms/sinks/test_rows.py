"""Numbers of rows are rounded together as Python rounds each."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from transforms.sinks.rows import rounded

near_halves = st.integers(-(10**9), 10**9).map(lambda n: (n + 0.5) / 1e6)
numbers = st.one_of(
    st.none(),
    st.floats(-2000, 2000),
    st.floats(allow_nan=False, allow_infinity=False),
    near_halves,
    near_halves.map(lambda x: math.nextafter(x, math.inf)),
    near_halves.map(lambda x: math.nextafter(x, -math.inf)),
    st.sampled_from([0.0, -0.0, -1e-9, 1e-7, 1e300]),
)


@given(st.lists(numbers, max_size=30))
def test_numbers_are_rounded_as_python_rounds_each(values):
    expected = [None if value is None else round(value, 6) for value in values]
    given = np.array(values, np.float64)  # nan for None
    assert [repr(value) for value in rounded(given)] == [repr(value) for value in expected]
