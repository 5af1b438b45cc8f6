"""Inference of value distributions per cell and time from recorded class stages."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpops.learning import Field, Groups, Learned, coarser, published
from dpops.learning.classes import ClassBelief, ClassDay, ClassSums, OfCells, learn_classes, quantiles, tilted
from dpops.learning.field import LEAST_VEHICLES, STATUS_NAMES, rounded
from dpops.levels.bounded import ReleasedStage
from dpops.levels.class_stage import MOVING, times_of
from dpops.levels.defaults import Fleet
from dpops.levels.stages import Kind
from dpops.types import Float64s, Grid
from transforms.recorded.stage_plan import is_of_classes
from transforms.recorded.units import StageEntry
from transforms.releases.periods.products import DISTRIBUTION, DISTRIBUTION_STATUS
from transforms.releases.periods.stages import LevelsPolicy, read_unit
from transforms.time.days_off import recorded_hours

LEVELS = 0.15, 0.5, 0.85
MOST_HALF_WIDTH_KMH = 12.0
"""A distribution is `ok` where the interval of its 85th percentile is narrower to either side."""
_CLASSES_OF_A_VEHICLE = 3.0
"""How many classes the reports of a vehicle in a cell lie in, roughly."""


class TaughtClasses(NamedTuple):
    """All that was released of classes. hours: in which slots began, see `Design`."""

    sums: ClassSums
    hours: frozenset[int]

    def after(self, read: ReleasedStage, hours: Sequence[int]) -> "TaughtClasses":
        """Takes in one more day."""
        (level,), classes = read.levels, len(read.stage.classes) + 1
        times = times_of(classes) / MOVING  # as if moving reports counted once too
        day = ClassDay(level.weights.reshape(-1, classes) / times, (level.weight_sd / times) ** 2)
        return TaughtClasses(self.sums.after(day), self.hours | set(hours))

    @staticmethod
    def none(cells: int, classes: int) -> "TaughtClasses":
        """Creates sums of no entry."""
        return TaughtClasses(ClassSums.none(cells, classes), frozenset())


class LearnedClasses(NamedTuple):
    """Posterior distributions of cells, and prior means and variances without class data, (cells,)."""

    belief: ClassBelief
    means: Float64s
    variances: Float64s


def taught_classes(entries: Sequence[StageEntry], policy: LevelsPolicy) -> TaughtClasses | None:
    """Reads class stages of all entries; None if the policy has none."""
    if policy.classes is None:
        return None
    result = TaughtClasses.none(len(policy.region), len(policy.classes.edges) + 1)
    for entry in entries:
        if is_of_classes(entry.unit):
            read, unit = read_unit(entry.unit, policy.region), entry.unit
            result = result.after(read, recorded_hours(unit.slot_start, unit.slot_end, read.stage.laid.hats.hours))
    return result


def edges_in_units(edges: Sequence[int], grid: Grid) -> Float64s:
    """Lists the edges of all classes in km/h. edges: those between them, in steps."""
    return np.array([0, *edges, grid.upper_steps]) * float(grid.step)


def learned_classes(
    taught: TaughtClasses, models: Learned, edges: Float64s, fleet: Fleet, kind: Kind
) -> LearnedClasses:
    """Fits cells' distributions to class sums and means; edges ascend from 0, in units."""
    design = models.state.design
    forecast = models.forecast(np.array(sorted(taught.hours), np.int64))
    cells = coarser(models, forecast, Groups(cells=np.arange(design.cells), slots=0 * forecast.day.hours))
    weights, means, variances = (column[:, 0] for column in (cells.weights, cells.values, cells.variances))
    fleet_weight = fleet.vehicles * weight_of_one(fleet, kind)
    belief = learn_classes(taught.sums, OfCells(weights, means, variances), edges, fleet_weight)
    return LearnedClasses(belief, means, variances)


def weight_of_one(fleet: Fleet, kind: Kind) -> float:
    """Estimates roughly what a vehicle-day weighs in all cells and classes together."""
    if kind == "laplace":
        return 1.5  # between one that only moves, 1, and one that only stands, MOVING
    return float(np.sqrt(fleet.profile.cells * _CLASSES_OF_A_VEHICLE))


class Distributions(NamedTuple):
    """Percentiles of cells in some times, (levels, cells, times) each, km/h. is_known: (cells, times)."""

    values: Float64s
    lower95: Float64s
    upper95: Float64s
    is_known: NDArray[np.bool_]


def distributions(learned: LearnedClasses, groups: Field, bound: float) -> Distributions:
    """Tilts cells' distributions to the means of (cells, times).

    The classes' correction of a cell's overall mean shifts all its times.
    """
    belief = learned.belief
    means = groups.values + (belief.means - learned.means)[:, None]
    shrinkage = np.minimum(1.0, belief.mean_variances / learned.variances)[:, None]
    shares, visits = tilted(belief, means), groups.vehicles.mean(axis=-1)
    result = quantiles(belief, shares, LEVELS, groups.variances * shrinkage + groups.deviations.mean(axis=-1), visits)
    values, lower, upper = (rounded(np.clip(part, 0, bound)) for part in result)
    vehicles = published(groups, bound).vehicles
    is_known = (vehicles >= LEAST_VEHICLES * groups.repeats) & ((upper - lower)[-1] < 2 * MOST_HALF_WIDTH_KMH)
    return Distributions(values, lower, upper, is_known)


def notes_of(result: Distributions | None, status: NDArray[np.str_]) -> dict[str, NDArray[Any]]:
    """Lists distribution columns, (cells, times), held back where the mean is.

    result: None before the first release of classes.
    """
    ok, unreliable, held_back, forecast = STATUS_NAMES[:4]
    if result is None:
        return {
            name: np.full(status.shape, held_back if name == DISTRIBUTION_STATUS else np.nan) for name in DISTRIBUTION
        }
    held, best = status == held_back, np.where(status == forecast, forecast, ok)
    three = zip(result.values, result.lower95, result.upper95, strict=True)
    columns = [np.where(held, np.nan, part) for of_level in three for part in of_level]
    said = np.where(held, held_back, np.where(result.is_known, best, unreliable))
    return dict(zip(DISTRIBUTION, [*columns, said], strict=True))
