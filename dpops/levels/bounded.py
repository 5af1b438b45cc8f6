"""Bounded integer vectors of vehicle-days, and their noisy sums.

Vectors are a function of their vehicle's rows, the plan and recorded centres. Only + - * / and square roots of single
numbers, integers, and sums in the order of a vehicle's rows are used: they are rounded alike wherever other vehicles
stand in the arrays. (numpy.bincount adds one by one in the order given.) A query is an entry of a vector, by number.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpops.levels.stages import CENTRE_STEP_KMH, UNIT, Level, Stage
from dpops.noise import Noise
from dpops.types import Float64s, Int64s

_SHRINK = 1 - 2.0**-40  # shrinks a vehicle's norm by far more than floating point may round it up

_EXACT_COUNTS, _MOST_COUNT, _COUNTS_PER_STEP = 4096, 1 << 40, 64
"""Table of numbers of reports: each one up to the first, then in steps of 1/64, up to more than any day has."""


class Rows(NamedTuple):
    """Vehicles' counts in HATs, ascending by (vehicle, cell, slot).

    cell, slot: indices into the plan's HATs. reports: >= 1. total: sum of clipped speeds, in steps of the speed grid.
    """

    vehicle: Int64s
    cell: Int64s
    slot: Int64s
    reports: Int64s
    total: Int64s


class Vectors(NamedTuple):
    """Sparse integer vectors, int64 (entries,) each; vehicles from 0.

    Queries: the weights of all groups, level by level, then their speeds.
    """

    vehicle: Int64s
    query: Int64s
    value: Int64s


class Sums(NamedTuple):
    """Sums of vehicles' integers by group, exact or noisy."""

    weights: Int64s
    speeds: Int64s


def sum_up(rows: Rows, stage: Stage) -> Sums:
    """Adds up vehicle-days' vectors by group, in integers: their order does not matter."""
    entries = vectors(rows, stage)
    totals = np.zeros(2 * stage.groups, np.int64)  # weights of all groups, then speeds
    np.add.at(totals, entries.query, entries.value)
    return Sums(totals[: stage.groups], totals[stage.groups :])


def vectors(rows: Rows, stage: Stage) -> Vectors:
    """Computes vehicle-days' vectors; all 0 of those whose norm exceeds its bound.

    Norm: Euclidean for Gaussian noise, sum of absolute values for Laplace; bound: UNIT times the square root of the
    stage's share, or the share itself. Under public counts weights are exact, and the bound of speeds is half of it.
    Source: docs/released.md.
    """
    vehicle, query, value = unchecked(rows, stage)  # queries: weights of all groups, then their speeds
    is_noisy = query >= stage.groups if stage.counts_public else np.ones(query.size, np.bool_)  # of speeds alone
    exceeds = ~within(vehicle[is_noisy], value[is_noisy], stage)  # by vehicle
    is_dropped = is_noisy & exceeds[vehicle] if exceeds.any() else np.zeros(query.size, np.bool_)
    return Vectors(vehicle, query, np.where(is_dropped, 0, value))


def within(vehicle: Int64s, value: Int64s, stage: Stage) -> NDArray[np.bool_]:
    """Checks in integers whether norms of vehicles' noisy entries are within bounds, (vehicles,)."""
    norm = np.zeros(int(vehicle.max(initial=-1)) + 1, np.int64)  # squared, if Euclidean
    absolute = np.minimum(np.abs(value), 2 * UNIT)  # already more than any bound, and squares stay small
    np.add.at(norm, vehicle, absolute * absolute if stage.kind == "gaussian" else absolute)
    bound = Fraction(UNIT, 2 if stage.counts_public else 1)  # halves where one vector replaces another: both move it
    return norm <= math.floor(stage.share * (bound * bound if stage.kind == "gaussian" else bound))


class _TouchedGroups(NamedTuple):
    """Pairs (entries) of a vehicle and a group of one level that it touches."""

    of_row: Int64s  # index of each row's entry
    vehicle: Int64s  # of each entry
    group: Int64s


def unchecked(rows: Rows, stage: Stage) -> Vectors:
    """Computes vehicle-days' integer vectors, whose norms `within` then checks for errors here.

    As in docs/released.md, "What a vehicle-day contributes": of a HAT, u is a power of its reports, times UNIT, w its
    weight, v its weight times residual speed.
    """
    vehicle = np.cumsum(np.diff(rows.vehicle, prepend=rows.vehicle[:1]) != 0, dtype=np.int64)  # from 0: rows ascend
    touched = []  # by level: each row's index in the distinct pairs of vehicle and group, and these pairs
    for level in stage.levels:
        pair = vehicle * level.size + level.groups.index[rows.cell, rows.slot]  # code of vehicle, group
        entries, of_row = np.unique(pair, return_inverse=True)
        touched.append(_TouchedGroups(of_row, *np.divmod(entries, level.size)))
    u = units(rows.reports, stage).astype(np.float64)
    count = int(vehicle[-1]) + 1 if vehicle.size else 0  # of vehicles
    u_sums = [_sums(groups, u) for groups in touched]
    speed_shares = [float(level.speed_share) for level in stage.levels]
    alpha = Fraction(1) if stage.counts_public else stage.alpha  # speeds' part of the budget: exact weights take none
    shares = [float(alpha * level.speed_share + (1 - alpha) * level.weight_share) for level in stage.levels]
    # Weights are divided by a norm over both kinds' levels, by their budgets; speeds are clipped by that of theirs.
    norm, u_speed_norm = (_norm(touched, u_sums, level_shares, count, stage) for level_shares in (shares, speed_shares))
    w = u / np.maximum(norm, float(stage.least_norm * UNIT))[vehicle]  # by the least norm short days weigh less
    v = w * residuals(rows, stage)  # mean speeds of rows less their centres, km/h
    weights, speeds = [_sums(groups, w) for groups in touched], [_sums(groups, v) for groups in touched]
    speed_norm = _norm(touched, speeds, speed_shares, count, stage)
    # B times the norm, over levels of speeds, of weights whose norm over both kinds' is 1: B itself if levels agree.
    allowed = float(stage.bound_kmh) * (u_speed_norm / norm)
    scale = np.where(speed_norm > allowed, allowed / np.where(speed_norm > allowed, speed_norm, 1.0), 1.0)
    integers = _integers(touched, weights, speeds, scale, stage)
    return Vectors(*(np.concatenate(columns) for columns in zip(*integers, strict=True)))


def _sums(groups: _TouchedGroups, values: Float64s) -> Float64s:
    """Sums rows' values by touched group, (entries,)."""
    return np.bincount(groups.of_row, weights=values, minlength=groups.group.size).astype(np.float64)


def _norm(
    touched: list[_TouchedGroups], sums: list[Float64s], shares: list[float], count: int, stage: Stage
) -> Float64s:
    """Computes vehicles' norms over all levels' groups, weighted by `shares`, (vehicles,).

    touched, sums: pairs of vehicle and group, and their sums, by level, (entries,). count: number of vehicles. Sums are
    in the order of rows, hence rounded alike.
    """
    total = np.zeros(count)
    for groups, values, share in zip(touched, sums, shares, strict=True):
        terms = values * values if stage.kind == "gaussian" else np.abs(values)
        total = total + share * np.bincount(groups.vehicle, weights=terms, minlength=count)
    return np.sqrt(total) if stage.kind == "gaussian" else total


def residuals(rows: Rows, stage: Stage) -> Float64s:
    """Subtracts HATs' centres from rows' mean clipped speeds, km/h."""
    mean = rows.total / rows.reports * float(stage.laid.step_kmh)
    return mean - stage.laid.centres[rows.cell, rows.slot] / float(1 / CENTRE_STEP_KMH)  # by 100: .01 is no exact float


def _integers(
    touched: list[_TouchedGroups], weights: list[Float64s], speeds: list[Float64s], scale: Float64s, stage: Stage
) -> list[tuple[Int64s, Int64s, Int64s]]:
    """Scales sums of weights and speeds to integer steps; lists (vehicle, query, integer).

    weights, speeds: sums of w and v (see `unchecked`) by level, (entries,). scale: clips speeds, (vehicles,), up to 1.
    """
    start, lists = 0, []  # start: query of the level's first weight; `stage.groups` later that of its first speed
    for level, groups, w, v in zip(stage.levels, touched, weights, speeds, strict=True):
        per_weight, per_kmh = coefficients(level, stage)
        s = scale[groups.vehicle]
        weight = w if stage.counts_public else s * w  # the scale tells of speeds: exact weights must not depend on it
        lists.append((groups.vehicle, start + groups.group, _truncated(weight * per_weight)))
        lists.append((groups.vehicle, stage.groups + start + groups.group, _truncated(s * v * per_kmh)))
        start += level.size
    return lists


def coefficients(level: Level, stage: Stage) -> tuple[float, float]:
    """Computes a level's integer steps per unit of weight and per weighted km/h."""
    bound = float(stage.bound_kmh)  # `_norm_bound`: a vector's largest norm, in steps, by its part of the budget
    if stage.counts_public:  # exact weights need no share; a neighbour's speeds may be opposite, hence twice the bound
        return float(UNIT), _norm_bound(stage.share * level.speed_share, stage) / (2 * bound)
    weight = _norm_bound(stage.share * (1 - stage.alpha) * level.weight_share, stage)  # alpha: part of speeds
    return weight, _norm_bound(stage.share * stage.alpha * level.speed_share, stage) / bound


def _norm_bound(share: Fraction, stage: Stage) -> float:
    """Computes a vehicle-day's largest norm, in integer steps, under a share of the budget."""
    # Stages' and levels' squared norms add up under Gaussian noise, norms under Laplace.
    return UNIT * _SHRINK * (math.sqrt(share) if stage.kind == "gaussian" else float(share))


def _truncated(values: Float64s) -> Int64s:
    """Truncates towards zero; impossible non-finite values become 0."""
    return np.where(np.isfinite(values), values, 0.0).astype(np.int64)


def units(reports: Int64s, stage: Stage) -> Int64s:
    """Looks up u = floor(2^20 n^exponent) for numbers n of reports, coarser above 4096."""
    counts, powers = _table(int(4 * stage.exponent))
    return powers[np.searchsorted(counts, reports, side="right") - 1]  # of the largest number not above


@cache
def _table(quarters: int) -> tuple[Int64s, Int64s]:
    """Tabulates n and floor(2^20 n^(quarters / 4)), exactly: the fourth root of 2^80 n^quarters."""
    counts = list(range(1, _EXACT_COUNTS + 1))
    while counts[-1] < _MOST_COUNT:
        counts.append(counts[-1] + counts[-1] // _COUNTS_PER_STEP)  # in growing steps: not all would fit
    return np.array(counts, np.int64), np.array([math.isqrt(math.isqrt(n**quarters << 80)) for n in counts], np.int64)


@dataclass(frozen=True, kw_only=True)
class ReleasedLevel:
    """Noisy sums of one level, with noise standard deviations.

    weights: W_q = sum over vehicle-days of s w_q. speeds: S_q = sum of s v_q, km/h: weighted speeds less their centres.
    A deviation is infinite where the level had no share, and 0 for weights under public counts.
    """

    level: Level
    weights: Float64s = field(repr=False)
    speeds: Float64s = field(repr=False)
    weight_sd: float
    speed_sd: float


@dataclass(frozen=True, kw_only=True)
class ReleasedStage:
    """Noisy sums of one stage, level by level."""

    stage: Stage
    levels: tuple[ReleasedLevel, ...]


def release(sums: Sums, stage: Stage, noise: Noise) -> Int64s:
    """Adds noise to sums: all weights, then all speeds.

    Sums of levels without a share are 0, and get no noise; neither do weights under public counts.
    """
    integers = np.concatenate(sums)
    shares = [0 if stage.counts_public else level.weight_share for level in stage.levels]
    shares += [level.speed_share if stage.has_speeds else 0 for level in stage.levels]
    noisy = np.flatnonzero(np.repeat([share > 0 for share in shares], [level.size for level in stage.levels] * 2))
    gaussian = noise.rounded_gaussian if stage.accounting == "gdp" else noise.gaussian
    draw = gaussian if stage.kind == "gaussian" else noise.laplace
    integers[noisy] += draw([stage.spread] * noisy.size)
    return integers


def read(integers: Sequence[int] | Int64s, stage: Stage) -> ReleasedStage:
    """Turns a release's integers into weights and weighted km/h. Raises ValueError."""
    numbers = np.array(integers, np.float64)  # weights of all groups, level by level, then their speeds
    if numbers.size != 2 * stage.groups:
        raise ValueError(f"a release of {numbers.size} integers does not fit a stage of {2 * stage.groups}")
    weight_noise, start, levels = 0.0 if stage.counts_public else stage.noise_sd, 0, []
    for level in stage.levels:
        per_weight, per_kmh = coefficients(level, stage)  # 0 without a share
        zeros, end = np.zeros(level.size), start + level.size
        levels.append(
            ReleasedLevel(
                level=level,
                weights=numbers[start:end] / per_weight if per_weight else zeros,
                speeds=numbers[stage.groups + start : stage.groups + end] / per_kmh if per_kmh else zeros,
                weight_sd=weight_noise / per_weight if per_weight else np.inf,
                speed_sd=stage.noise_sd / per_kmh if per_kmh else np.inf,
            )
        )
        start = end
    return ReleasedStage(stage=stage, levels=tuple(levels))
