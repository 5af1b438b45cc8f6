"""Hierarchy of H3 cells: neighbours, parents, HATs."""

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import h3
import numpy as np

from dpops.levels.stages import PublicHats
from dpops.types import Int64s
from transforms.places.ground import Keys, Places, ancestors
from transforms.places.hexagons import cell_text

if TYPE_CHECKING:
    from dpops.learning import Design

PARENT, GRANDPARENT = 1, 2  # how many resolutions coarser
CITY = "city"  # in the place of a cell, where a row is about the whole region

SMALL = 8  # from this resolution on, neighbouring cells are nearly alike


def hats_of(region: Sequence[int], hours: Sequence[int]) -> PublicHats:
    """Lists a region's HATs, with local hours of slots."""
    if isinstance(region, Keys):  # whose only grandparent is the city
        return PublicHats(parents=region.parents, grandparents=(0,) * len(region), hours=_clock_hours(hours))
    parents, grandparents = (_ancestors(tuple(region), above) for above in (PARENT, GRANDPARENT))
    are_small = h3.get_resolution(cell_text(region[0])) >= SMALL  # all cells have one resolution
    return PublicHats(parents=parents, grandparents=grandparents, hours=_clock_hours(hours), are_small=are_small)


def hats_of_places(places: Places, hours: Sequence[int]) -> PublicHats:
    """Lists places' HATs; each place's parent is its cell."""
    cells = tuple(places.cell.tolist())
    return PublicHats(parents=cells, grandparents=cells, hours=_clock_hours(hours))


def _clock_hours(hours: Sequence[int]) -> tuple[int, ...]:
    """Maps hours of `calendar.hours_of` (24 more on days off) to the clock's hours."""
    from dpops.learning.releases import HOURS  # who learns nothing begins sooner without it

    return tuple(hour % HOURS for hour in hours)


@lru_cache(maxsize=4)  # a release asks for the same ones at each of its steps
def _ancestors(region: tuple[int, ...], above: int) -> tuple[int, ...]:
    """Numbers each cell's ancestor among the region's, from 0 by ascending index."""
    return tuple(np.unique(_coarser(region, above), return_inverse=True)[1].tolist())


def _coarser(region: Sequence[int], above: int) -> Int64s:
    """Computes each cell's ancestor so many resolutions above, if there are as many."""
    return ancestors(np.array(region, np.int64), max(h3.get_resolution(cell_text(region[0])) - above, 0))


def texts_of(region: Sequence[int] | None, cells: Int64s | None = None) -> list[str]:
    """Names a region's cells or keys, all by default."""
    if isinstance(region, Keys):
        return list(region.names) if cells is None else region.named(cells)
    return list(map("%x".__mod__, region or () if cells is None else cells.tolist()))


def parent_texts(region: Sequence[int], levels_up: int = PARENT) -> list[str]:
    """Names each cell's ancestor, or each key's group (at PARENT) or CITY (above)."""
    if isinstance(region, Keys):
        return [region.groups[parent] if levels_up == PARENT else CITY for parent in region.parents]
    return texts_of(region, _coarser(region, levels_up))


def design_of(region: Sequence[int]) -> "Design":
    """Gathers what the model knows of a region: neighbours, parents, size of cells."""
    from dpops.learning import Design

    if isinstance(region, Keys):  # names, such as of lines, which have no neighbours
        return Design(parents=np.array(region.parents), neighbours=np.zeros((0, 2), np.int64))
    number = {cell_text(cell): position for position, cell in enumerate(region)}
    pairs = [
        (position, number[neighbour])
        for cell, position in number.items()
        for neighbour in h3.grid_disk(cell, 1)
        if position < number.get(neighbour, -1)  # each pair once; -1: outside of the region
    ]
    hats = hats_of(region, hours=[0])  # only facts of cells are taken: any hour does
    return Design(
        parents=np.array(hats.parents, np.int64),
        neighbours=np.array(sorted(pairs), np.int64).reshape(-1, 2),
        are_small=hats.are_small,
    )
