"""Coarser values: posterior means over groups, with variances."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dpops import fitted
from dpops.learning.effects import Item, Stack
from dpops.learning.field import NODES, Field, PublishedNumbers, Status, published
from dpops.learning.hat_posterior import Learned
from dpops.learning.releases import Groups
from dpops.learning.state import Facts
from dpops.learning.weights import ratio_variances
from dpops.types import Float64s


def coarser(models: Learned, posterior: Field, groups: Groups) -> Field:
    """Estimates a day's group means, (cell groups, slot groups).

    A group's value is the mean of its HATs' values by expected weight, so values of all groupings agree. Variances
    include effects' joint covariance, uncertain weights, HATs' deviations, and the weight of standing vehicles.
    """
    fit, day = models.fit, posterior.day
    weights = groups.totals(posterior.weights)
    share = posterior.weights / groups.to_hats(np.maximum(weights, 1e-12))
    rows = Stack(fit.speeds.layout, [Item(groups, day.hours, day.index, ("traffic",))], fit.coming + 1)  # all days
    variances = fit.speeds.posterior.variances_of_rows(rows([share], [day.regressors])).reshape(groups.shape)
    values = groups.totals(share * posterior.values)
    weight_slopes = share * (posterior.values - groups.to_hats(values))  # of values by HATs' log weights
    log_weight_rows = Stack(fit.weights.layout, [Item(groups, day.hours, day.index)], fit.coming + 1)
    log_variances = fit.weights.posterior.variances_of_rows(log_weight_rows([share])).reshape(groups.shape)
    variances = variances + _through_weights(models, posterior, groups, weight_slopes, log_weight_rows)
    variances = variances + _through_standing(models.state.facts, posterior, groups, weight_slopes)
    repeats = _repeats(models.state.facts, posterior, groups)
    kmh, precisions = posterior.values[..., None], posterior.precisions[..., None]
    deviations = posterior.spread.of_reports(posterior.vehicles, kmh, precisions)
    return replace(
        posterior,
        values=values,
        variances=variances,
        of_ratios=ratio_variances(values, weights, log_variances),  # of means over uncertain weights
        deviations=_pooled(groups, deviations, share) * repeats[..., None],  # a vehicle's is alike in all its HATs
        traffic_deviations=_pooled(groups, posterior.traffic_deviations, share),
        repeats=repeats,
        weights=weights,
        vehicles=_pooled(groups, posterior.vehicles, None),  # sums of numbers, not means
    )


def smooth_hours(hours: Field, day: Field) -> Field:
    """Gives hours the day's value within one standard error, and its bias."""
    difference = hours.values - day.values
    squared_error = hours.variances + hours.deviations.mean(axis=-1)
    is_noise = difference**2 <= squared_error
    return replace(
        hours,
        values=np.where(is_noise, day.values, hours.values),
        variances=hours.variances + np.where(is_noise, difference**2, 0.0),
    )


class Shown(NamedTuple):
    """Published numbers, with coarser values where shown, else nan."""

    estimates: PublishedNumbers
    values: Float64s
    lower95: Float64s
    upper95: Float64s


def with_coarser(models: Learned, posterior: Field, upper_kmh: float) -> Shown:
    """Adds reliable coarser values to HATs that are unreliable."""
    estimates = published(posterior, upper_kmh)
    groups = Groups(cells=models.state.design.parents, slots=np.arange(posterior.day.hours.size))
    coarse = published(coarser(models, posterior, groups), upper_kmh)
    chosen = (estimates.status == Status.UNRELIABLE) & groups.to_hats(coarse.status == Status.OK)
    arrays = (coarse.values, coarse.lower95, coarse.upper95)
    status = np.where(chosen, Status.PARENT, estimates.status).astype(np.int64)
    return Shown(replace(estimates, status=status), *(np.where(chosen, groups.to_hats(x), np.nan) for x in arrays))


def _pooled(groups: Groups, hats: Float64s, share: Float64s | None) -> Float64s:
    """Sums HATs' nodes, (cells, slots, NODES), over groups: vehicle numbers rise together."""
    # Variances add up by squared shares of the group's weight; without shares, numbers do.
    factor = 1.0 if share is None else share**2
    return np.stack([groups.totals(factor * hats[..., node]) for node in range(NODES)], axis=-1)


def _through_weights(models: Learned, posterior: Field, groups: Groups, slopes: Float64s, rows: Stack) -> Float64s:
    """Computes variances of group means from uncertain weights, by the delta method.

    slopes: of the mean by log weights, (cells, slots). These err by effects (`rows`), by each hour of the city
    (`by_slot`), and independently by HAT: in the field, and as a Poisson number of vehicles does (`of_vehicles`).
    """
    fit, day = models.fit, posterior.day
    by_slot = np.zeros((*groups.shape, day.hours.size))
    np.add.at(by_slot, (groups.cells[:, None], groups.slots, np.arange(day.hours.size)), slopes)
    of_vehicles = fit.speeds.one_weights[day.index] / posterior.weights
    hats = groups.totals(slopes**2 * (fitted.HAT_LOG_VARIANCE + of_vehicles))
    of_effects = fit.weights.posterior.variances_of_rows(rows([slopes])).reshape(groups.shape)
    return np.asarray(of_effects + hats + fitted.HAT_LOG_VARIANCE * np.sum(by_slot**2, axis=-1))


def _through_standing(facts: Facts, posterior: Field, groups: Groups, slopes: Float64s) -> Float64s:
    """Computes squared shifts of group means if standing vehicles counted fully.

    A release weighs vehicles less the longer they stay in a place, by the profile's factor; how many stand is open. A
    cell's hours shift together, cells independently: sums by cell are squared, then added up. slopes: of group means by
    log weights, (cells, slots).
    """
    standing = np.exp(-((np.maximum(posterior.values, 0.0) / fitted.STANDS_KMH) ** 2))
    shifts = (facts.standing - 1) * standing * slopes
    of_cells = Groups(cells=np.arange(groups.cells.size), slots=groups.slots).totals(shifts)
    return Groups(cells=groups.cells, slots=np.arange(of_cells.shape[1])).totals(of_cells**2)


def _repeats(facts: Facts, posterior: Field, groups: Groups) -> Float64s:
    """Estimates how many HATs of a group one of its vehicles visits.

    Cells of an hour (one, and the group's share of its others) times slots of a cell, (cell groups, slot groups).
    """
    weights, slot_counts = groups.totals(posterior.weights), np.bincount(groups.slots, minlength=groups.shape[1])
    share = weights / np.maximum(weights.sum(axis=0), 1e-12)
    in_cell = np.maximum(facts.hats_in_cell * slot_counts / groups.slots.size, 1.0)
    return np.asarray((1 + (facts.hats_in_hour - 1) * share) * in_cell)
