"""Packed keys: the order of two columns in one."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from transforms.count.order import NARROW, packed_keys

INT64 = st.integers(-(2**62), 2**62)
NEAR = st.integers(-5, 5)
ENTRIES = st.lists(st.tuples(INT64 | NEAR, INT64 | NEAR | st.integers(-NARROW, NARROW)), max_size=30)


@given(ENTRIES)
def test_keys_are_equal_and_in_order_where_the_pairs_of_columns_are(entries):
    first, second = (np.array([pair[at] for pair in entries], np.int64) for at in range(2))
    keys = packed_keys(first, second).tolist()
    assert [a < b for a in keys for b in keys] == [a < b for a in entries for b in entries]
    assert [a == b for a in keys for b in keys] == [a == b for a in entries for b in entries]


def test_microseconds_of_a_day_beside_many_vehicles_fit_into_a_key():
    vehicle = np.arange(2**16)[::-1]
    offset = np.resize([0, NARROW - 1], vehicle.size)
    assert (np.argsort(packed_keys(vehicle, offset)) == np.arange(vehicle.size)[::-1]).all()
