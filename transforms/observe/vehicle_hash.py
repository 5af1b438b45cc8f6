"""Vehicle ids become keyed hashes, once, at the entrance of the road."""

import hmac
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import repeat

import numpy as np

from dpops.types import Int64s

REMEMBERED = 1 << 16
"""Pairs whose hash is kept in memory: a vehicle comes in every batch, and its hash takes as long as ten events."""

_MASK = (1 << 63) - 1


@dataclass(frozen=True)
class Secret:
    """The account's secret key; every other key is derived from it by purpose."""

    key: bytes = field(repr=False)

    def derive(self, purpose: str) -> bytes:
        return hmac.digest(self.key, b"hatstream/" + purpose.encode(), "sha256")


def vehicle_hashes(key: bytes, periods: list[str], ids: list[bytes]) -> Int64s:
    """Hashes each pair (period, id) by HMAC-SHA-256, truncated to 63 bits: int64 (pairs,).

    The period is prefixed by its length, so that no two pairs share one message.
    """
    return np.fromiter(map(_hash, repeat(key), periods, ids), np.int64, len(ids))


@lru_cache(maxsize=REMEMBERED)
def _hash(key: bytes, period: str, vehicle: bytes) -> int:
    tag = period.encode()
    digest = hmac.digest(key, len(tag).to_bytes(2, "big") + tag + vehicle, "sha256")
    return int.from_bytes(digest[:8], "big") & _MASK
