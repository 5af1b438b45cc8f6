"""What is kept of an account's releases to learn from, and what is public about its fleet."""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from dpops.learning.design import Design
from dpops.learning.information import Information
from dpops.learning.layout import EffectLayout
from dpops.learning.means import DayInformation, columns_of
from dpops.learning.queries import RowMaker
from dpops.learning.releases import DayValues
from dpops.learning.starts import FitStart
from dpops.types import Float64s

RECENT = 4
"""Days that are kept as they were released, at least; older ones are folded into one matrix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Public facts about a fleet, in the weights of the releases.

    vehicles: expected on a day. vehicle_weight: all HATs of a typical vehicle-day together. hat_weight: one of them.
    hats_in_hour, hats_in_cell: HATs of one vehicle in an hour that it drives in, and in a cell that it comes to.
    standing: how many times as much a typical vehicle's reports weigh as those of one that stands all day.
    """

    vehicles: float
    vehicle_weight: float
    hat_weight: float
    hats_in_hour: float = 1.0
    hats_in_cell: float = 1.0
    standing: float = 1.0

    def __post_init__(self) -> None:
        if not min(self.vehicles, self.vehicle_weight, self.hat_weight) > 0:
            raise ValueError("a fleet's facts must be above 0")

    def larger(self, weights: Float64s) -> float:
        """Computes how many times as large the whole city looks as its fleet was declared. weights: of a day's HATs."""
        return float(weights.sum() / (self.vehicles * self.vehicle_weight))


class RowMakers(NamedTuple):
    """Makes the rows of groups of HATs in both models."""

    counts: RowMaker
    speeds: RowMaker

    @staticmethod
    def of(design: Design) -> "RowMakers":
        of_counts = EffectLayout(design, 0)
        of_means = EffectLayout(design, 1, of_counts)
        return RowMakers(RowMaker(of_counts, design.of_hats), RowMaker(of_means, partial(columns_of, design)))


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """All that is kept of earlier releases.

    days: how many were taken in. recent: the last of them, as released, at least `least_recent`. counts, means: what
    the older ones say. start: where fits begin, once older days were folded in.
    """

    design: Design
    rows: RowMakers
    facts: Facts
    days: int
    recent: tuple[DayValues, ...]
    counts: Information
    means: DayInformation | None
    least_recent: int | None
    start: FitStart | None = None

    @staticmethod
    def new(design: Design, facts: Facts, least_recent: int | None = RECENT) -> "State":
        """Makes the state before the first day. least_recent: None keeps all days as released, to estimate each."""
        rows = RowMakers.of(design)
        return State(
            design=design,
            facts=facts,
            days=0,
            recent=(),
            rows=rows,
            counts=Information.none(rows.counts.layout),
            means=None,
            least_recent=least_recent,
        )
