"""Coarser values from the same belief: weighted means of HATs over groups, each with a variance of its own."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dpops import fitted
from dpops.learning.chances import NODES, Chances, described_variances, factors_of
from dpops.learning.evidence import at_least
from dpops.learning.interval import LEAST_VEHICLES, PublishedNumbers, Status, chances_of, published
from dpops.learning.learner import Field, Learned
from dpops.learning.means import border_of, coefficients_of, traffic_of
from dpops.learning.queries import Groups
from dpops.learning.state import Facts
from dpops.types import Float64s, Int64s

SOURCES = ("", "parent", "day")
"""Of whom a value is: the HAT itself, its parent in that slot, its cell's whole day."""


def coarser(learned: Learned, belief: Field, groups: Groups) -> Field:
    """Estimates groups of HATs of the belief's day, (cell groups, slot groups).

    A group's value is the mean of its HATs' values, each weighing what its weight is expected to be. So values of all
    groupings agree: the mean of finer groups, weighted by theirs, is that of the coarser one. Variances come from the
    effects' joint covariance, and from how little the weights are known that HATs have in their group; vehicles are
    those of all HATs added up, a vehicle once for each HAT.
    """
    weights, design = groups.totals(belief.weights), learned.state.design
    share = belief.weights / groups.spread(weights)
    rows = learned.state.rows.speeds(groups, belief.hours)
    made = rows(share[..., None] * coefficients_of(traffic_of(learned.counts.hats(design, belief.hours))))
    described = made.variances(learned.means.solved, border_of(learned.means.solved, belief.day)).reshape(groups.shape)
    described = described + _of_day(belief, groups, share)
    values = groups.totals(share * belief.values)
    apart = share * (belief.values - groups.spread(values))
    spread = groups.totals(share * ((belief.values - groups.spread(values)) ** 2 + belief.variances)) - described
    more = fitted.APART**2 * spread + _through_weights(learned, belief, groups, apart)
    deviations, repeats = groups.totals(share**2 * belief.deviations), _repeats(learned.state.facts, belief, groups)
    through_standing = _through_standing(learned, belief, groups, apart)
    made_of_hats = replace(
        belief,
        values=values,
        variances=described + more + through_standing,
        deviations=deviations,
        repeats=repeats,
        is_seen=_is_seen(learned, belief, groups, repeats),
        misweighed=through_standing > fitted.MISWEIGHED * (described + more + deviations),
        weights=weights,
        vehicles=groups.totals(belief.vehicles),
        log_variances=_log_variances(learned, belief, groups, share),
        chances=_chances(chances_of(belief, 0.0), groups, share),
    )
    are_of_cells = groups.shape[0] == design.cells and groups.shape[1] < belief.hours.size
    return _of_cells(made_of_hats, described) if are_of_cells else made_of_hats


class Shown(NamedTuple):
    """What is published of a day's HATs, (cells, slots) each. source: int64, an index into SOURCES.

    values, lower95, upper95: of what source names, km/h; nan where it names nothing.
    """

    estimates: PublishedNumbers
    source: Int64s
    values: Float64s
    lower95: Float64s
    upper95: Float64s


def with_coarser(learned: Learned, belief: Field, upper_kmh: float) -> Shown:
    """Puts beside a HAT that is not known its parent's value in that slot where that is known, else its cell's day.

    Its status says so. The HAT's own value stays: of the HAT it is the better guess, and its interval is the HAT's.
    """
    own, design = published(belief, upper_kmh), learned.state.design
    cells, slots = np.arange(design.cells), np.arange(belief.hours.size)
    source = np.zeros(belief.values.shape, np.int64)
    beside = [np.full(source.shape, np.nan) for _ in range(3)]
    ways = Groups(cells=design.parents, slots=slots), Groups(cells=cells, slots=0 * slots)
    for number, groups in enumerate(ways, 1):
        coarse = published(coarser(learned, belief, groups), upper_kmh)
        is_known = groups.spread((coarse.status == Status.OK).astype(np.float64)) == 1
        taken = (own.status == Status.UNRELIABLE) & (source == 0) & is_known
        source = np.where(taken, number, source)
        columns = (coarse.values, coarse.lower95, coarse.upper95)
        beside = [np.where(taken, groups.spread(column), old) for column, old in zip(columns, beside, strict=True)]
    status = np.where(source > 0, Status.PARENT, own.status).astype(np.int64)
    return Shown(replace(own, status=status), source, *beside)


def _chances(hats: Chances, groups: Groups, share: Float64s) -> Chances:
    """Adds up chances of groups: their HATs have few vehicles together, or many, for they share what describes them."""
    nodes = range(NODES)
    return Chances(
        np.stack([groups.totals(hats.vehicles[..., node]) for node in nodes], axis=-1),
        np.stack([groups.totals(share**2 * hats.own[..., node]) for node in nodes], axis=-1),
        np.stack([groups.totals(share**2 * hats.traffic[..., node]) for node in nodes], axis=-1),
    )


def _of_cells(field_of_hats: Field, noisy: Float64s) -> Field:
    """Adds chances of how well noise lets the cell be known, for groups of one cell each.

    It depends on how many drive there, and so is doubtful. noisy: the variance of what describes them.
    """
    factors = factors_of(field_of_hats.log_variances, field_of_hats.unknown_log_variance)
    described = described_variances(noisy, factors, field_of_hats.unknown_variance)
    described = described + (field_of_hats.variances - noisy)[..., None]
    return replace(field_of_hats, chances=chances_of(field_of_hats)._replace(described=described))


def _of_day(belief: Field, groups: Groups, share: Float64s) -> Float64s:
    """Computes the variance of what a day to come deviates by, (cell groups, slot groups)."""
    if not belief.day.more.any():
        return np.zeros(groups.shape)
    by_hour = np.zeros((*groups.shape, belief.day.more.shape[0]))
    np.add.at(by_hour, (groups.cells[:, None], groups.slots, belief.hours), share)
    variances: Float64s = np.sum((by_hour @ belief.day.more) * by_hour, axis=-1)
    return variances


def _through_weights(learned: Learned, belief: Field, groups: Groups, apart: Float64s) -> Float64s:
    """Computes the variance of a group's mean that comes from its HATs' weights, (cell groups, slot groups).

    apart: each HAT's share times how far its value lies from the group's: what the mean moves by if its weight is e
    times as large. Weights are off by the effects that describe them, by the day's hour, and each by itself.
    """
    by_slot = np.zeros((*groups.shape, belief.hours.size))
    np.add.at(by_slot, (groups.cells[:, None], groups.slots, np.arange(belief.hours.size)), apart)
    own = groups.totals(apart**2 * (fitted.OVERDISPERSION + learned.state.facts.hat_weight / belief.weights))
    variances: Float64s = (
        _log_variances(learned, belief, groups, apart) + own + fitted.OVERDISPERSION * np.sum(by_slot**2, axis=-1)
    )
    return variances


def _through_standing(learned: Learned, belief: Field, groups: Groups, apart: Float64s) -> Float64s:
    """Squares what a group's mean moves by if vehicles that stand are given what they report.

    Returns (cell groups, slot groups). A release weighs each less, the more it is in one place, by a factor that the
    profile tells. How many stand, and how many pass by, nothing tells.
    """
    standing = np.exp(-((np.maximum(belief.values, 0.0) / fitted.STANDS_KMH) ** 2))
    moved = (learned.state.facts.standing - 1) * standing * apart
    of_cells = Groups(cells=np.arange(groups.cells.size), slots=groups.slots).totals(moved)
    totals: Float64s = Groups(cells=groups.cells, slots=np.arange(of_cells.shape[1])).totals(of_cells**2)
    return totals


def _is_seen(models: Learned, belief: Field, groups: Groups, repeats: Float64s) -> "np.typing.NDArray[np.bool_]":
    few = LEAST_VEHICLES * models.state.facts.hat_weight * repeats
    return at_least([recent.day for recent in models.recent], belief.hours, groups, few)


def _repeats(facts: Facts, belief: Field, groups: Groups) -> Float64s:
    """Estimates in how many HATs of a group one vehicle is, (cell groups, slot groups), by the profile.

    Of all in one hour it is in those of an hour, of one cell's whole day in those of a cell.
    """
    weights, slots = groups.totals(belief.weights), np.bincount(groups.slots, minlength=groups.shape[1])
    part = weights / weights.sum(axis=0)
    in_cell = np.maximum(facts.hats_in_cell * slots / groups.slots.size, 1.0)
    repeats: Float64s = (1 + (facts.hats_in_hour - 1) * part) * in_cell
    return repeats


def _log_variances(learned: Learned, belief: Field, groups: Groups, share: Float64s) -> Float64s:
    rows = learned.state.rows.counts(groups, belief.hours)
    return rows(share).variances(learned.counts.solved, learned.counts.border).reshape(groups.shape)
