"""Packed events are read back as they were; packed keys have the order of two columns."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms import order, wire
from transforms.order import NARROW, factorize, packed_keys, pairs
from transforms.records import Observations
from transforms.wire import DENSE, FAST, MANY, Events, pack_events, split, unpack_events


def events(rows, vehicles):
    rng = np.random.default_rng(rows + vehicles)
    hashes, cells = rng.integers(0, 2**63, vehicles), rng.integers(0, 2**60, 40)
    times, lat, lon = (rng.integers(0, most, rows) for most in (3_600_000_000, 9 * 10**8, 10**9))
    return Events(rng.choice(hashes, rows), times, lat, lon, rng.choice(cells, rows), rng.integers(0, 6_500, rows))


@pytest.mark.parametrize("vehicles", [1, 500, 100_000])
@pytest.mark.parametrize("rows", [1, MANY - 1, MANY, 30_000])
@pytest.mark.parametrize("packing", [DENSE, FAST])
def test_events_are_read_back_from_several_parts(rows, vehicles, packing):
    parts = [events(rows, vehicles), events(7, 3)]
    read = unpack_events([pack_events(part, packing) for part in parts])
    for column, expected in zip(read, map(np.concatenate, zip(*parts, strict=True)), strict=True):
        assert column.dtype == np.int64
        assert np.array_equal(column, expected)


def test_many_events_of_few_vehicles_take_fewer_bytes_for_engines_than_for_files():
    """The bound: two bytes of a vehicle, one of a cell, and what the other columns hold."""
    many = events(30_000, 500)
    assert len(pack_events(many)) < 18 * 30_000 < len(pack_events(many, FAST))


@pytest.mark.parametrize("shards", [1, 4, 300])
def test_a_batch_is_cut_by_slot_and_shard_each_in_its_order(shards):
    rng = np.random.default_rng(shards)
    rows = events(3_000, 900)
    slot_us = rng.integers(0, 3, 3_000) * 3_600_000_000
    nothing = np.zeros(3_000, np.int64)
    batch = Observations(rows.vehicle, slot_us + rows.offset_us, slot_us, rows.lat_e7, rows.lon_e7, rows.value, nothing)
    seen = 0
    for part in split(batch, rows.cell, shards):
        chosen = (slot_us == part.key[0] * wire.S_US) & (rows.vehicle % shards == part.key[1])
        read = unpack_events([part.data])
        assert part.rows == chosen.sum() > 0
        assert all(np.array_equal(column, whole[chosen]) for column, whole in zip(read, rows, strict=True))
        seen += part.rows
    assert seen == 3_000


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
