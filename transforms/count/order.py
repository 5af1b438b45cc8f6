"""Places of values among the distinct ones, and an order by two columns of integers by one sort of packed keys."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from dpops.types import Int64s

NARROW = 1 << 38
"""A column of a smaller range, such as microseconds within a day, is packed as it is."""
_ROOMY = 8
"""Pairs that could be there, for each entry, up to which a table with room for all of them is cheaper than a sort."""


class Places(NamedTuple):
    """place: of each entry, int64 (entries,), among `values`, which are distinct and ascending."""

    place: Int64s
    values: Int64s


def places(column: Int64s) -> Places:
    """By hashing: for a column of few distinct values."""
    found = pa.array(column).dictionary_encode()
    values = found.dictionary.to_numpy()
    order = np.argsort(values)
    place = np.empty(values.size, np.int64)
    place[order] = np.arange(values.size)
    return Places(place[found.indices.to_numpy()], values[order])


def pairs(first: Places, second: Places) -> Places:
    """The pairs of two columns, in the order of the first, then the second: place * second.values.size + place."""
    key = first.place * second.values.size + second.place
    room = first.values.size * second.values.size
    if room > _ROOMY * key.size:
        values, place = np.unique(key, return_inverse=True)
        return Places(place, values)
    seen = np.zeros(room, np.bool_)
    seen[key] = True
    values = np.flatnonzero(seen)
    place_of = np.empty(room, np.int64)
    place_of[values] = np.arange(values.size)
    return Places(place_of[key], values)


def packed_keys(first: Places, second: Int64s) -> Int64s:
    """One key an entry, (entries,): equal where both columns are, and in the order of the first, then the second.

    Holds for any second column beside up to 2^25 distinct values of the first, and for up to 2^31 entries.
    """
    if not second.size:
        return np.zeros(0, np.int64)
    minor, bound = _narrow(second)
    return first.place * bound + minor


def _narrow(column: Int64s) -> tuple[Int64s, int]:
    """Numbers from 0 in the order of the column's, and a bound above them."""
    least, most = int(column.min()), int(column.max())
    if most - least < NARROW:
        return column - least, most - least + 1
    found = places(column)
    return found.place, found.values.size
