"""Variances of what effects describe of each HAT, from the covariances of a few effects at a time."""

from dataclasses import dataclass

import numpy as np

from dpops.learning.design import HABITS, part_of
from dpops.learning.system import Solved
from dpops.types import Float64s


@dataclass(frozen=True, slots=True)
class HatVariances:
    """Variances of the sum of each cell's and hour's effects, (cells, 48), and its covariances with the last lasting
    columns, (cells, 48, columns)."""

    variances: Float64s
    with_last: Float64s


def usual_hours(solved: Solved) -> Float64s:
    """Builds the rows that describe an hour in the border, (48, border): the city's number and the hour's effect."""
    rows = np.zeros((HABITS, solved.spread.shape[0]))
    rows[:, 0] = 1
    rows[:, solved.system.layout.hours] = np.eye(HABITS)
    return rows


def hat_variances(solved: Solved, hours: Float64s, last: int = 1) -> HatVariances:
    """Adds up the variances of what describes each HAT.

    hours: (48, border), what describes each hour in the border. last: how many of the lasting columns.
    """
    layout, families = solved.system.layout, solved.families
    parents, part_of_hour = layout.design.parents, part_of(np.arange(HABITS))
    cell, parts = layout.cell_places, layout.part_places
    own_part = parts[parents][:, part_of_hour]
    local_hour = solved.mixed @ hours.T
    hour = np.sum((hours @ solved.spread) * hours, axis=1)
    with_part = families[layout.entry(np.repeat(cell, parts.shape[1]), parts[parents].ravel())]
    variances = (
        families[layout.entry(cell, cell)][:, None]
        + families[layout.entry(parts.ravel(), parts.ravel())].reshape(parts.shape)[parents][:, part_of_hour]
        + hour
        + 2 * with_part.reshape(parents.size, -1)[:, part_of_hour]
        + 2 * local_hour[cell]
        + 2 * local_hour[own_part, np.arange(HABITS)]
    )
    these = slice(layout.border.size - last, layout.border.size)
    mixed = solved.mixed[:, these]
    with_last = mixed[cell][:, None] + mixed[own_part] + hours @ solved.spread[:, these]
    return HatVariances(np.maximum(variances, 0.0), with_last)
