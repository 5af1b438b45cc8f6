"""Inference of cells' value distributions from recorded class stages."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpops import fitted
from dpops.learning import Field, Groups, Learned, coarser, published
from dpops.learning.classes import ClassFit, ClassSums, OfCells, learn_classes, quantiles, tilted
from dpops.learning.field import STATUS_NAMES, rounded
from dpops.levels.defaults import Fleet
from dpops.levels.parts import MOVING, times_of
from dpops.levels.stages import Kind
from dpops.spread import LEAST_VEHICLES, Z95
from dpops.types import Float64s, Grid
from transforms.recorded.stage_plan import part_of
from transforms.recorded.units import StageEntry
from transforms.releases.periods.products import DISTRIBUTION, DISTRIBUTION_STATUS
from transforms.releases.periods.stages import LevelsPolicy, read_unit
from transforms.time.calendar import recorded_hours

LEVELS = 0.15, 0.5, 0.85  # of the percentiles that products show; the 85th is what traffic engineers use


class LearnedClasses(NamedTuple):
    """Posterior distributions, and (cells,) means and variances without class data, km/h."""

    posterior: ClassFit
    means: Float64s
    variances: Float64s


def edges_in_units(edges: Sequence[int], grid: Grid) -> Float64s:
    """Lists the edges of all classes in km/h, from inner edges in grid steps."""
    return np.array([0, *edges, grid.upper_steps]) * float(grid.step)


def learned_classes(entries: Sequence[StageEntry], models: Learned, policy: LevelsPolicy) -> LearnedClasses | None:
    """Fits cells' distributions to recorded class sums, if any."""
    if policy.classes is None:
        return None
    # Hours are numbered over working days and days off, see `dpops.learning.Design`.
    edges, hours = edges_in_units(policy.classes.edges, policy.value.standard), set[int]()
    sums = ClassSums.none(len(policy.region), edges.size - 1)
    for unit in (entry.unit for entry in entries if part_of(entry.unit) == "classes"):
        read = read_unit(unit, policy.region)
        (level,), classes = read.levels, len(read.stage.classes) + 1
        # (cells, classes): moving reports were summed MOVING times, lest standing ones fill norms; now all count alike.
        factors = times_of(classes) / MOVING
        sums = sums.after(level.weights.reshape(-1, classes) / factors, (level.weight_sd / factors) ** 2)
        hours |= set(recorded_hours(unit.slot_start, unit.slot_end, read.stage.laid.hats.hours))
    if not sums.days:
        return None
    design = models.state.design
    forecast = models.forecast(np.array(sorted(hours), np.int64))  # averaged over all hours below: one group of slots
    cells = coarser(models, forecast, Groups(cells=np.arange(design.cells), slots=0 * forecast.hours))
    weights, means, variances = (column[:, 0] for column in (cells.weights, cells.values, cells.variances))
    fleet_weight = policy.fleet.vehicles * weight_of_one(policy.fleet, policy.kind)
    posterior = learn_classes(sums, OfCells(weights, means, variances), edges, fleet_weight)
    return LearnedClasses(posterior, means, variances)


def weight_of_one(fleet: Fleet, kind: Kind) -> float:
    """Estimates a vehicle-day's total weight, whose norm is at most 1."""
    if kind == "laplace":
        return math.sqrt(MOVING)  # geometric mean of one that only moves, 1, and one that only stands, MOVING
    # Of a vector of norm 1 with n equal weights, the weights add up to sqrt(n): n cells times classes.
    return float(np.sqrt(fleet.profile.cells * fitted.CLASSES_OF_A_VEHICLE))


def distribution_columns(
    learned: LearnedClasses | None, groups: Field, status: NDArray[np.str_], upper_kmh: float
) -> dict[str, NDArray[Any]]:
    """Lists a product's columns of DISTRIBUTION, (cells, times) each, withheld where the mean is.

    A cell's distribution is tilted (reweighted exponentially) to the mean of each time. learned: None before the first
    release of classes; they also correct a cell's overall mean, which shifts all its times.
    """
    ok, unreliable, held_back, forecast = STATUS_NAMES[:4]  # in the order of `Status`
    if learned is None:
        return {key: np.full(status.shape, held_back if key == DISTRIBUTION_STATUS else np.nan) for key in DISTRIBUTION}
    posterior = learned.posterior
    means = groups.values + (posterior.means - learned.means)[:, None]
    # Classes narrow the variances of means too.
    shrinkage = np.minimum(1.0, posterior.mean_variances / learned.variances)[:, None]
    shares, visits = tilted(posterior, means), groups.vehicles.mean(axis=-1)  # (cells, times)
    mean_variances = groups.variances * shrinkage + groups.deviations.mean(axis=-1)  # last axis: NODES, see `Field`
    result = quantiles(posterior, shares, LEVELS, mean_variances, visits)
    percentiles = [rounded(np.clip(column, 0, upper_kmh)) for column in result]
    _, lower, upper = percentiles  # (LEVELS, cells, times); the widest interval is the last level's
    vehicles = published(groups, upper_kmh).vehicles
    is_narrower = (upper - lower)[-1] < 2 * Z95 * fitted.PLACES_KMH  # than a cell's 95 % interval without data
    # A vehicle counts in each of its HATs of a group, `repeats` times.
    is_known = (vehicles >= LEAST_VEHICLES * groups.repeats) & is_narrower
    is_withheld, best = status == held_back, np.where(status == forecast, forecast, ok)
    columns = [np.where(is_withheld, np.nan, column) for level in zip(*percentiles, strict=True) for column in level]
    statuses = np.where(is_withheld, held_back, np.where(is_known, best, unreliable))
    return dict(zip(DISTRIBUTION, [*columns, statuses], strict=True))
