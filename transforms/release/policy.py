"""How HATs are released: the public facts of a slot, and what a specification says of statistics, epsilon and cells."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from dpops.claims import Composition
from dpops.mechanism import Mechanism
from dpops.suppression.clip_user import Weights
from dpops.types import Grid, Int64s
from transforms.release.recorded import Scope
from transforms.scatter import scatter


@dataclass(frozen=True)
class RequestedStatistic:
    """One released statistic. share: its part of the HAT's epsilon; the shares of a specification add up to 1."""

    name: str
    mechanism: Mechanism
    share: Fraction


@dataclass(frozen=True)
class SlotFacts:
    """What is public about a slot before any data. start, end: as text. plan: the slots that are planned together with
    it, itself included, ascending. plans: how many such plans share what a vehicle may spend in the whole period."""

    period: str
    start: str
    end: str
    plan: tuple[int, ...]
    plans: int


@dataclass(frozen=True)
class Policy:
    """How HATs are released. clip_user: whether vehicles are suppressed in HATs. most_cells: fixed by a cap where
    shards cannot see the whole slot, else None. region: the cells that get a row in any case, or None for those with
    reports.
    """

    spec_id: str
    grid: Grid
    unit: str
    statistics: tuple[RequestedStatistic, ...]
    composition: Composition
    clip_user: bool
    scope: Scope
    release_shards: int
    most_cells: int | None
    region: tuple[int, ...] | None
    digest_key: bytes = field(repr=False)


def release_shard(cell: Int64s, shards: int) -> Int64s:
    """Which release shard a cell belongs to: by the cell alone, int64 (cells,)."""
    return (scatter(cell) >> 1) % shards if shards > 1 else np.zeros(cell.size, np.int64)


def weights_of(grid: Grid, statistics: Iterable[RequestedStatistic]) -> Weights:
    """What suppression weighs: the statistics that are asked for, with their shares of a HAT's epsilon."""
    return Weights(upper=grid.upper, **{stat.name: stat.share for stat in statistics})
