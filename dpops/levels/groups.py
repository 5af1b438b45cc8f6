"""Levels: the public ways to group the HATs of a day, each the product of a grouping of cells and one of slots."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from dpops.types import Int64s

BLOCK_H = 4
"""Hours of a part of the day."""


@dataclass(frozen=True, kw_only=True)
class PublicHats:
    """The public HATs of a day: every cell of the region in every slot of service, both numbered from 0.

    parents, grandparents: which of the coarser cells, numbered from 0, each cell lies in. hours: the local hour of the
    clock, 0 to 23, that each slot begins in; a day with a clock change may hold one twice, or not at all.
    are_small: whether cells are of about 1 km^2 or less, so that neighbours differ as streets do.
    """

    parents: tuple[int, ...]
    grandparents: tuple[int, ...]
    hours: tuple[int, ...]
    are_small: bool = False

    def __post_init__(self) -> None:
        if not self.parents or len(self.parents) != len(self.grandparents) or not self.hours:
            raise ValueError("a day needs cells, each with a parent and a grandparent, and slots")

    @property
    def cells(self) -> int:
        return len(self.parents)

    @property
    def slots(self) -> int:
        return len(self.hours)

    @property
    def size(self) -> int:
        return self.cells * self.slots


@dataclass(frozen=True)
class Level:
    """One grouping of the HATs. HAT (cell i, slot j) is in group cell_group[i] * slot_groups + slot_group[j].

    speed_share, weight_share: the parts of what the speeds and the weights of a vehicle-day may spend that this level
    takes; each adds up to 1 over the levels of a stage.
    """

    name: str
    speed_share: Fraction
    weight_share: Fraction
    cell_group: tuple[int, ...]
    slot_group: tuple[int, ...]

    @cached_property
    def slot_groups(self) -> int:
        return max(self.slot_group) + 1

    @cached_property
    def size(self) -> int:
        """The number of groups."""
        return (max(self.cell_group) + 1) * self.slot_groups

    @cached_property
    def cell_start(self) -> Int64s:
        """The first group of each cell, int64 (cells,)."""
        return np.array(self.cell_group, np.int64) * self.slot_groups

    @cached_property
    def of_slot(self) -> Int64s:
        """int64 (slots,)."""
        return np.array(self.slot_group, np.int64)

    def groups(self) -> Int64s:
        """Gives the group of every HAT, int64 (cells, slots)."""
        return self.cell_start[:, None] + self.of_slot[None, :]


def _numbered(values: Sequence[int]) -> tuple[int, ...]:
    """Numbers values from 0 in their ascending order; equal ones get one number."""
    number = {value: number_of_value for number_of_value, value in enumerate(sorted(set(values)))}
    return tuple(number[value] for value in values)


def _blocks(hats: PublicHats) -> tuple[int, ...]:
    return _numbered([hour // BLOCK_H for hour in hats.hours])


_Grouping = Callable[[PublicHats], tuple[tuple[int, ...], tuple[int, ...]]]

LEVELS: Mapping[str, _Grouping] = {
    "hat": lambda hats: (tuple(range(hats.cells)), tuple(range(hats.slots))),
    "cell-part": lambda hats: (tuple(range(hats.cells)), _blocks(hats)),
    "parent": lambda hats: (hats.parents, _blocks(hats)),
    "cell": lambda hats: (tuple(range(hats.cells)), (0,) * hats.slots),
    "parent-day": lambda hats: (hats.parents, (0,) * hats.slots),
    "grandparent-day": lambda hats: (hats.grandparents, (0,) * hats.slots),
    "city": lambda hats: ((0,) * hats.cells, (0,) * hats.slots),
    "hour": lambda hats: ((0,) * hats.cells, _numbered(hats.hours)),
    "part": lambda hats: ((0,) * hats.cells, _blocks(hats)),
    "parent-hour": lambda hats: (hats.parents, _numbered(hats.hours)),
    "cell-hour": lambda hats: (tuple(range(hats.cells)), _numbered(hats.hours)),
}
"""By name: a HAT, a cell in four hours, a parent in four hours, a cell's, a parent's, a grandparent's day, the whole
day, the city in an hour and in four hours, a parent in an hour, a cell in an hour."""


PLACE = "place"
"""The level of a stage of places: its HATs lie in places, not in cells, and each place's day is a group."""
CLASS = "class"
"""The level of a stage of speed classes: its HATs lie in the classes of each cell, and each one's day is a group."""


def level(name: str, hats: PublicHats, share: Fraction, weight_share: Fraction | None = None) -> Level:
    """Makes the level of that name on these HATs. weight_share: `share` where it is left out. Raises ValueError."""
    grouping = LEVELS["cell"] if name in (PLACE, CLASS) else LEVELS.get(name)
    if grouping is None:
        raise ValueError(f"there is no level {name!r}; there are {', '.join(LEVELS)}")
    cells, slots = grouping(hats)
    return Level(name, share, share if weight_share is None else weight_share, cells, slots)
