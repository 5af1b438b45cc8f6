"""Codes of distinct values, packed keys, and order-free choices."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpops.types import Float64s, Int64s

NARROW = 1 << 38  # a column of a smaller range, such as microseconds within a day, is packed as it is
_MOST_ROOM_PER_ROW = 16  # possible pairs for each entry, up to which a table of all of them is cheaper than a sort


class DistinctValues(NamedTuple):
    """A column's ascending distinct values, and each entry's code: the index of its value."""

    values: Int64s
    code: Int64s


def factorize(column: Int64s) -> DistinctValues:
    """Encodes a column as `np.unique` with its inverse, faster by hashing."""
    encoded = pa.array(column).dictionary_encode()
    values = encoded.dictionary.to_numpy()
    order = np.argsort(values)
    code = np.empty(values.size, np.int64)
    code[order] = np.arange(values.size)
    return DistinctValues(values[order], code[encoded.indices.to_numpy()])


def pairs(first: DistinctValues, second: DistinctValues) -> DistinctValues:
    """Numbers distinct pairs, whose values are first code * second.values.size + second code."""
    pair_key = first.code * second.values.size + second.code
    possible_pairs = first.values.size * second.values.size  # size of a table by pair, cheaper than a sort if dense
    if possible_pairs > _MOST_ROOM_PER_ROW * pair_key.size:
        return DistinctValues(*np.unique(pair_key, return_inverse=True))
    seen = np.zeros(possible_pairs, np.bool_)
    seen[pair_key] = True
    values = np.flatnonzero(seen)
    code_of_key = np.empty(possible_pairs, np.int32)
    code_of_key[values] = np.arange(values.size, dtype=np.int32)
    return DistinctValues(values, code_of_key[pair_key].astype(np.int64))


def packed_keys(first: Int64s | DistinctValues, second: Int64s) -> Int64s:
    """Packs two columns into one that sorts by first, then second.

    63 bits hold 2^25 codes of `first` with a `second` of range below NARROW (2^38), or 2^31 codes of each otherwise.
    """
    if not second.size:
        return np.zeros(0, np.int64)
    major = first if isinstance(first, DistinctValues) else factorize(first)
    lowest, highest = int(second.min()), int(second.max())
    if highest - lowest < NARROW:
        return major.code * (highest - lowest + 1) + second - lowest
    ranked = factorize(second)
    return major.code * ranked.values.size + ranked.code


def changes(*columns: Int64s | Float64s) -> NDArray[np.bool_]:
    """Marks the first entry and those unlike their predecessor."""
    new = np.zeros(columns[0].size, np.bool_)
    new[:1] = True
    for column in columns:
        new[1:] |= column[1:] != column[:-1]
    return new


def rank_in_group(group: Int64s, sort_key: Int64s | Float64s) -> Int64s:
    """Ranks entries among their group by key, from 0; groups ascend."""
    order = np.lexsort((sort_key, group))
    start = np.flatnonzero(changes(group))
    rank = np.empty(group.size, np.int64)
    rank[order] = np.arange(group.size) - np.repeat(start, np.diff(start, append=group.size))
    return rank


def scatter(value: Int64s) -> Int64s:
    """Hashes by splitmix64's finaliser, a bijection of 64 bits (Steele et al. 2014)."""
    x = value.astype(np.uint64)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (x ^ (x >> np.uint64(31))).astype(np.int64)
