"""How HATs are released: the public facts of a slot, and what a specification says of statistics, epsilon and cells."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from dpops.allocation import Allocation
from dpops.statistics import Column, RequestedStatistic, columns_of
from dpops.suppression.clip_user import Weights
from dpops.types import Grid, Int64s
from transforms.order import scatter
from transforms.releases.hats.digest import PLAIN
from transforms.value import Value


@dataclass(frozen=True)
class Policy:
    """How HATs are released. region: the cells that get a row in any case, or None for those with reports.
    plain_digests: see transforms.releases.hats.digest.
    """

    spec_id: str
    value: Value
    statistics: tuple[RequestedStatistic, ...]
    allocation: Allocation
    release_shards: int
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
        """What tallies carry: what the statistics need, by name, and what a plain digest needs."""
        asked = columns_of(self.statistics, self.value.grid)
        return (*asked, *(column for column in PLAIN if column not in asked)) if self.plain_digests else asked


def release_shard(cell: Int64s, shards: int) -> Int64s:
    """Finds the release shard a cell belongs to: by the cell alone, int64 (cells,)."""
    return (scatter(cell) >> 1) % shards if shards > 1 else np.zeros(cell.size, np.int64)


def weights_of(grid: Grid, statistics: Iterable[RequestedStatistic]) -> Weights:
    """Weighs for suppression the statistics that are asked for, by their shares of a HAT's epsilon."""
    shares = {"mean": Fraction(0), "variance": Fraction(0)}
    for stat in statistics:
        shares[stat.statistic.weighs_as] += stat.share
    return Weights(upper=grid.upper, **shares)
