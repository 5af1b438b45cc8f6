"""Packed keys: the order of two columns in one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms import order
from transforms.order import NARROW, factorize, packed_keys, pairs

INT64 = st.integers(-(2**62), 2**62)
NEAR = st.integers(-5, 5)
ENTRIES = st.lists(st.tuples(INT64 | NEAR, INT64 | NEAR | st.integers(-NARROW, NARROW)), max_size=30)


@given(ENTRIES)
def test_keys_are_equal_and_in_order_where_the_pairs_of_columns_are(entries):
    first, second = (np.array([pair[side] for pair in entries], np.int64) for side in range(2))
    keys = packed_keys(first, second).tolist()
    assert [a < b for a in keys for b in keys] == [a < b for a in entries for b in entries]
    assert [a == b for a in keys for b in keys] == [a == b for a in entries for b in entries]


@given(ENTRIES.filter(bool), st.booleans())
def test_pairs_are_placed_among_the_distinct_ones_in_order_with_a_table_and_with_a_sort(entries, in_table):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(order, "_MOST_ROOM_PER_ROW", 1000 if in_table else 0)
        first, second = (factorize(np.array([pair[side] for pair in entries], np.int64)) for side in range(2))
        placed = pairs(first, second)
    row, column = np.divmod(placed.values, second.values.size)
    distinct = list(zip(first.values[row].tolist(), second.values[column].tolist(), strict=True))
    assert distinct == sorted(set(entries))
    assert [distinct[place] for place in placed.code.tolist()] == entries
