"""An order by two columns of integers, by one sort of packed keys: a fraction of what sorting by each of them takes."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from dpops.types import Int64s

NARROW = 1 << 38
"""A column of a smaller range, such as microseconds within a day, is packed as it is."""


def packed_keys(first: Int64s, second: Int64s) -> Int64s:
    """One key an entry, (entries,): equal where both columns are, and in the order of the first, then the second.

    Holds for any second column beside up to 2^25 distinct values of the first, and for up to 2^31 entries.
    """
    if not first.size:
        return np.zeros(0, np.int64)
    major, (minor, bound) = places(first).of, _narrow(second)
    return major * bound + minor


class Places(NamedTuple):
    """values: the distinct ones of a column, ascending. of: of each entry the place of its value among them."""

    values: Int64s
    of: Int64s


def places(column: Int64s) -> Places:
    """What `np.unique` gives with the inverse; by hashing, for the distinct values are few."""
    found = pa.array(column).dictionary_encode()
    values = found.dictionary.to_numpy()
    order = np.argsort(values)
    place = np.empty(values.size, np.int64)
    place[order] = np.arange(values.size)
    return Places(values[order], place[found.indices.to_numpy()])


def _narrow(column: Int64s) -> tuple[Int64s, int]:
    """Numbers from 0 in the order of the column's, and a bound above them."""
    least, most = int(column.min()), int(column.max())
    if most - least < NARROW:
        return column - least, most - least + 1
    found = places(column)
    return found.of, found.values.size
