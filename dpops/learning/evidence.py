"""Whether released sums show by themselves that vehicles drove: smooth habits fill hours in which nobody may have."""

from collections.abc import Iterator, Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from dpops.learning.design import HOURS
from dpops.learning.queries import Groups
from dpops.learning.releases import DayValues
from dpops.types import Float64s, Int64s

LIKELY = NormalDist().inv_cdf(2 / 3)
"""So many standard deviations of its noise a sum must lie above what few vehicles weigh: there are more with a
probability of about 2/3, as of a HAT (`dpops.learning.chances`)."""


def at_least(days: Sequence[DayValues], hours: Int64s, groups: Groups, least: Float64s) -> NDArray[np.bool_]:
    """Says whether groups of HATs weigh so much, bool (cell groups, slot groups).

    False where a released sum over all of one, and perhaps over more, does not likely come to `least`, the same shape.
    True where none is released.

    The sums are means of the days whose hours are these, else of those at the same hours of the clock. Those over whole
    days say nothing of an hour, and are left out.
    """
    shown = np.ones(groups.shape, np.bool_)
    for level, sums, variances in _means_of(_alike(days, hours)):
        if level.shape[1] == 1:
            continue
        cells, slots = _whole(groups.cells, level.cells), _whole(groups.slots, level.slots)
        inside = (cells >= 0)[:, None] & (slots >= 0)
        surely = (sums - LIKELY * np.sqrt(variances))[cells[:, None], slots]
        shown &= ~inside | (surely >= least)
    return shown


def _alike(days: Sequence[DayValues], hours: Int64s) -> list[DayValues]:
    same = [day for day in days if np.array_equal(day.hours, hours)]
    return same or [day for day in days if np.array_equal(day.hours % HOURS, hours % HOURS)]


def _means_of(days: Sequence[DayValues]) -> Iterator[tuple[Groups, Float64s, Float64s]]:
    """Yields each kind of groups, its mean weights by precision over days and stages, and their noise's variances."""
    kinds: list[tuple[Groups, list[tuple[Float64s, Float64s]]]] = []
    for level in (level for day in days for level in day.levels):
        told = (level.weight_precision, level.weight_precision * level.weights)
        earlier = next((parts for groups, parts in kinds if groups.same(level.groups)), None)
        if earlier is None:
            kinds.append((level.groups, [told]))
        else:
            earlier.append(told)
    for groups, parts in kinds:
        precisions, values = (np.sum(columns, axis=0) for columns in zip(*parts, strict=True))
        variances = 1 / np.maximum(precisions, 1e-300)
        yield groups, values * variances, variances


def _whole(fine: Int64s, coarse: Int64s) -> Int64s:
    """Finds for each group of the one kind the group of the other that has all of it; -1 where none has."""
    least = np.full(int(fine.max()) + 1, np.iinfo(np.int64).max)
    most = np.full(least.size, -1)
    np.minimum.at(least, fine, coarse)
    np.maximum.at(most, fine, coarse)
    return np.where(least == most, most, -1)
