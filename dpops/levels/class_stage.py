"""Stage of speed classes: a day's reports by cell.

It has weights alone, under a separate norm; a cell's class takes the role of a HAT in a stage of means. Source:
docs/released.md, "Under a small total".
"""

from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpops.levels.bounded import Rows
from dpops.levels.stages import CLASS, PublicHats, Stage, alike, with_last
from dpops.types import Grid, Int64s

STANDING_KMH = 1
"""Below it a vehicle stands: a class of its own."""
MOVING = 4
"""Weight of a moving vehicle's report, where a standing one's is 1. Standing ones are often half of all, many at one
end of a line, and would take most of a norm; means tell their number too."""


def class_edges(classes: int, grid: Grid) -> tuple[int, ...]:
    """Lays class edges in grid steps. Raises ValueError."""
    first = max(round(STANDING_KMH / grid.step), 1)
    width = Fraction(grid.upper_steps - first, classes - 1)
    edges = tuple(first + round(width * index) for index in range(classes - 1))
    if len(set(edges)) < len(edges) or width < first:
        raise ValueError(f"{classes} classes of speeds need an upper bound above {classes * STANDING_KMH} km/h")
    return edges


def with_classes(stages: tuple[Stage, ...], share: Fraction, edges: tuple[int, ...]) -> tuple[Stage, ...]:
    """Adds a stage of speed classes, at a share."""
    parts, share_of_level = alike(((CLASS, Fraction(1)),)), Fraction(1)
    last = replace(stages[-1], parts=parts, alpha=Fraction(0), classes=edges, least_norm=0)
    return with_last(stages, replace(last, bound_kmh=share_of_level, exponent=share_of_level), share)


def hats_of_classes(hats: PublicHats, classes: int) -> PublicHats:
    """Replaces cells by classes, whose parents are the cells."""
    cells = tuple(cell for cell in range(hats.cells) for _ in range(classes))
    return PublicHats(parents=cells, grandparents=cells, hours=hats.hours)


def times_of(classes: int) -> Int64s:
    """Lists a report's weight in each class."""
    return np.array([1] + [MOVING] * (classes - 1), np.int64)


def rows_of_classes(vehicle: Int64s, cell: Int64s, counts: Int64s) -> Rows:
    """Sums a day's reports by vehicle, cell and class.

    vehicle, cell: int64 (parts,), ascending by both. counts: int64 (parts, classes), reports.
    """
    classes = counts.shape[1]
    first = np.flatnonzero(_changes(vehicle) | _changes(cell))
    if not first.size:
        return Rows(*[np.zeros(0, np.int64)] * len(Rows._fields))
    of_day = np.add.reduceat(counts, first, axis=0) * times_of(classes)
    pair, kind = np.nonzero(of_day)
    index = first[pair]
    nothing = np.zeros(index.size, np.int64)
    return Rows(vehicle[index], cell[index] * classes + kind, nothing, of_day[pair, kind], nothing)


def _changes(values: Int64s) -> NDArray[np.bool_]:
    """Marks values unlike their predecessor, and the first."""
    return np.concatenate([np.ones(min(values.size, 1), np.bool_), np.diff(values) != 0])
