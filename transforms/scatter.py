"""Scattering of 64-bit numbers, for choices that must not follow any order in them."""

import numpy as np

from dpops.types import Int64s


def scatter(value: Int64s) -> Int64s:
    """Scatters by the finaliser of splitmix64, a fixed bijection of 64 bits."""
    x = value.astype(np.uint64)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (x ^ (x >> np.uint64(31))).astype(np.int64)
