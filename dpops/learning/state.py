"""What is kept of an account's releases to learn from, and what is public about its fleet."""

from dataclasses import dataclass
from typing import NamedTuple

from dpops.learning.city import speed_layout, weight_layout
from dpops.learning.design import Design
from dpops.learning.effects import EffectLayout
from dpops.learning.releases import DayValues
from dpops.learning.start import Start

RECENT = 2
"""Days that are kept as they were released, at least; older ones are folded into their mean day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Public facts about a fleet, in weights of a typical vehicle-day.

    Attributes:
        vehicles: expected on a day.
        hat_weight: weight of one of a vehicle's HATs.
        hats_in_hour, hats_in_cell: HATs of one vehicle in an hour that it drives in, and in a cell that it comes to.
        standing: ratio of what a typical vehicle's reports weigh to those of one that stands all day.
    """

    vehicles: float
    hat_weight: float
    hats_in_hour: float = 1.0
    hats_in_cell: float = 1.0
    standing: float = 1.0

    def __post_init__(self) -> None:
        if not min(self.vehicles, self.hat_weight) > 0:
            raise ValueError("a fleet's facts must be above 0")


class Layouts(NamedTuple):
    weights: EffectLayout
    speeds: EffectLayout


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """All that is kept of earlier releases.

    Attributes:
        days: how many were taken in.
        older: mean days of those folded in, one for each kind of hours.
        recent: the last days as released, at least `least_recent`; None keeps all.
        start: where fits begin, once days were folded in.
    """

    design: Design
    layouts: Layouts
    facts: Facts
    days: int = 0
    older: tuple[DayValues, ...] = ()
    recent: tuple[DayValues, ...] = ()
    least_recent: int | None = RECENT
    start: Start | None = None

    @staticmethod
    def new(design: Design, facts: Facts, least_recent: int | None = RECENT) -> "State":
        """Makes the state before the first day."""
        layouts = Layouts(weight_layout(design), speed_layout(design))
        return State(design=design, layouts=layouts, facts=facts, least_recent=least_recent)
