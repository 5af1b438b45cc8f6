"""Policy of HATs' release: statistics, epsilon, cells, digests.

A keyed digest reveals to later runs that an input differs. It covers the statistics' columns after their names; a
ledger with plain digests, of sums and squares without names, continues with these.
"""

import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from dpops.allocation import Allocation
from dpops.statistics import SQUARES, SUMS, Column, RequestedStatistic, columns_of
from dpops.suppression.clip_user import Weights
from dpops.types import Grid, Int64s
from transforms.order import scatter
from transforms.value import Value
from transforms.wire import Tally

PLAIN = (SUMS, SQUARES)


def is_plain(digest: str) -> bool:
    """Checks for a plain digest, without column names."""
    return ":" not in digest


def digest_of(rows: Tally, label: str, key: bytes, *, plain: bool) -> str:
    """Computes a keyed digest, as plain ones are guessable."""
    names = ",".join(rows.sums)
    columns: Sequence[Int64s] = [*rows.keys(), *rows.sums.values()]
    if plain:
        columns = (rows.slot_s, rows.vehicle, rows.cell, rows.kept, *(rows.sums[c.name] for c in PLAIN), rows.dropped)
    digest = hmac.new(key, label.encode() if plain else f"{label}{names}/".encode(), "sha256")
    for column in columns:
        digest.update(np.ascontiguousarray(column, "<i8").data)
    return digest.hexdigest() if plain else f"{names}:{digest.hexdigest()}"


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Policy of HATs' release; cells of `region` get rows."""

    spec_id: str
    value: Value
    statistics: tuple[RequestedStatistic, ...]
    allocation: Allocation
    shards: int
    region: Sequence[int] | None
    digest_key: bytes = field(repr=False)
    plain_digests: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the statistics."""
        return tuple(stat.name for stat in self.statistics)

    @property
    def shares(self) -> tuple[Fraction, ...]:
        """Shares of the epsilon of a HAT, by statistic."""
        return tuple(stat.share for stat in self.statistics)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Columns of tallies, for statistics and for plain digests."""
        required = columns_of(self.statistics, self.value.grid)
        return (*required, *(column for column in PLAIN if column not in required)) if self.plain_digests else required


def release_shard(cell: Int64s, shards: int) -> Int64s:
    """Computes cells' release shards from their indices alone."""
    return (scatter(cell) >> 1) % shards if shards > 1 else np.zeros(cell.size, np.int64)


def weights_of(grid: Grid, statistics: Iterable[RequestedStatistic]) -> Weights:
    """Weighs requested statistics for suppression by shares of epsilon."""
    shares = {"mean": Fraction(0), "variance": Fraction(0)}
    for stat in statistics:
        shares[stat.statistic.weighs_as] += stat.share
    return Weights(upper=grid.upper, **shares)
