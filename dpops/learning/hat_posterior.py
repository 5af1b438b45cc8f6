"""Posterior of a day's HATs and groups of HATs, past, coming or live.

Fields describe HATs by effects; releases of single HATs pull estimates from the field to the vehicles that were there.
A group's mean is that of its HATs by weight. `share` is a HAT's part of the weight of its day or group.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from dpops import fitted
from dpops.learning.effects import Regressors
from dpops.learning.field import NODES, Field, Gate, PublishedNumbers, Status, numbers_of, published, traffic_variances
from dpops.learning.fit import fitted_fields
from dpops.learning.latent import SpeedField, WeightField, ratio_variances
from dpops.learning.releases import DayValues, LevelValues, StageValues
from dpops.learning.state import RECENT, Facts, State
from dpops.levels.defaults import RETAINED
from dpops.levels.stages import Groups
from dpops.spread import FLEET_SD, TYPICAL_KMH, VehicleSpread
from dpops.types import Float64s, Int64s


@dataclass(frozen=True, slots=True)
class Learned:
    """Fields fitted to all days; the last one, index `coming`, has no releases yet."""

    state: State
    weights: WeightField
    speeds: SpeedField

    @property
    def coming(self) -> int:
        """Index of the day to come."""
        return len(self.speeds.days) - 1

    def forecast(self, hours: Int64s) -> Field:
        """Forecasts a coming day."""
        return self._field(DayValues(hours=hours), self.coming)

    def estimate(self, back: int = 0) -> Field:
        """Estimates the day `back` before the last. Raises ValueError."""
        recent = len(self.state.recent)
        if not 0 <= back < recent:
            raise ValueError(f"day -{back} is not kept; only the last {recent} are")
        index = self.coming - 1 - back
        return self._field(self.speeds.days[index], index)

    def regressors(self, hours: Int64s) -> Regressors:
        """Computes the regressors of HATs' speeds in these hours."""
        return {"traffic": self.weights.traffic(hours)}

    def _field(self, values: DayValues, index: int) -> Field:
        """Computes a day's HAT means, km/h, variances, and criteria of showing it (`gate`)."""
        hours, speed_stages, posterior = values.hours, values.speed_stages, self.speeds.posterior
        hats, log_variances = self.weights.of_day(hours, index)  # weights of HATs, and variances of their logs
        if speed_stages:  # sums of speeds have updated the day's total weight
            hats = self.speeds.weights[index]
        regressors, share = self.regressors(hours), hats / hats.sum()
        means = self.speeds.layout.hats(posterior.mean, hours, index, regressors)
        variances = posterior.variances_of_hats(hours, index, regressors)
        moved_kmh = float(np.sum(share * (means - speed_stages[-1].centre))) if speed_stages else 0.0
        gate = Gate(
            ratio=self._ratio(share, hours, index, means, variances),  # of the map's error to a constant's
            moved_kmh=moved_kmh,
            total_sd=float(self.weights.total_variances[index]) ** 0.5 if speed_stages else 0.0,
            is_early=self.state.days - (self.coming - 1 - index) < 2 * RECENT,  # so few days up to it: none is folded
        )
        one_weight = float(self.speeds.one_weights[index])  # of one vehicle
        spread = self.speeds.spread.cautious  # for intervals; updates use the learned one
        # The gate judges the field; releases of single HATs, with these `precisions`, are then added HAT by HAT.
        kmh, weights, precisions = _with_single_hats(values, means, hats, log_variances, one_weight, self.speeds.spread)
        vehicles = numbers_of(weights / one_weight, log_variances + fitted.HAT_LOG_VARIANCE)
        counts, nodes_kmh = np.maximum(vehicles, 1.0), kmh[..., None]  # a mean needs a vehicle; (.., NODES), (.., 1)
        return Field(
            values=kmh,
            variances=variances,
            of_ratios=ratio_variances(means, hats, log_variances),  # of means over uncertain weights
            deviations=spread.of_reports(counts, nodes_kmh, precisions[..., None]),  # of the vehicles that were there
            traffic_deviations=traffic_variances(spread.of(counts, nodes_kmh), precisions, spread.floor),
            precisions=precisions,
            spread=spread,
            weights=weights,
            vehicles=vehicles,
            hours=hours,
            day=index,
            gate=gate,
        )

    def _ratio(self, share: Float64s, hours: Int64s, day: int, values: Float64s, variances: Float64s) -> float:
        """Computes the map's expected squared error over that of the city's true mean.

        The latter stands in every HAT then. share: of the day's weight, by which HATs are averaged, (cells, slots).
        """
        regressors = self.regressors(hours)
        city_row = self.speeds.rows(Groups.everything(*share.shape), hours, day, share, regressors)  # its mean's
        with_effects = self.speeds.posterior.solve(city_row.adjoint(np.ones(1)))  # the mean's covariances with effects
        with_hats = self.speeds.layout.hats(with_effects, hours, day, regressors)  # and with HATs, (cells, slots)
        # Var(HAT - mean) = Var(HAT) - 2 Cov(HAT, mean) + Var(mean), which is the covariances' mean.
        constant_error = (values - np.sum(share * values)) ** 2 + variances - 2 * with_hats + np.sum(share * with_hats)
        # Known exactly, the city's mean of vehicles would still lie around that of unequal reports.
        unequal = self.speeds.spread.of_reports(self.weights.numbers[day].number, TYPICAL_KMH, np.inf)
        return float((np.sum(share * variances) + unequal) / max(np.sum(share * constant_error), 1e-9))


def _with_single_hats(
    day: DayValues, kmh: Float64s, weights: Float64s, log_variances: Float64s, one_weight: float, spread: VehicleSpread
) -> tuple[Float64s, Float64s, Float64s]:
    """Updates HATs by single-HAT releases, in scalar Kalman steps: weight, then speed.

    A weight varies by log variance, and as a Poisson number of vehicles of `one_weight` does; what stays unknown of it
    is noise of the released speed, weight times (mean - centre). Arrays: (cells, slots).

    Returns:
        Values, weights, and precisions of these releases' means, (cells, slots) each.
    """
    precisions = np.zeros(kmh.shape)
    mean_variances = spread.of(weights / one_weight, kmh)  # of HATs' means around the field
    for stage, level in day.speed_levels:
        if level.groups.shape != kmh.shape:  # its groups are of several HATs
            continue
        variances = weights * (fitted.HAT_LOG_VARIANCE * weights + one_weight) + weights**2 * log_variances
        gain = variances / (variances + level.groups.to_hats(level.weight_variances))
        surprise = level.groups.to_hats(level.weights) - weights
        weights = np.maximum(weights + gain * surprise, 0.05 * weights)  # any part above 0, as it divides
        offset_kmh = kmh - stage.centre
        posterior_variances = 1 / (1 / mean_variances + precisions)
        noise = level.groups.to_hats(level.speed_variances)
        noise = noise + (1 - gain) * variances * (posterior_variances + offset_kmh**2)  # E[(mean - centre)^2]
        precision = weights**2 / noise
        speed_gain = posterior_variances * precision / (1 + posterior_variances * precision)
        kmh = kmh + speed_gain * (level.groups.to_hats(level.speeds) / weights - offset_kmh)
        precisions = precisions + precision
    return kmh, weights, precisions


def learned(state: State) -> Learned:
    """Fits the fields to a state."""
    return Learned(state, *fitted_fields(state))


@dataclass(frozen=True, slots=True)
class Live:
    """Posterior of the current day; leans: part of the forecast variance that slots remove."""

    field: Field
    leans: Float64s


def live(models: Learned, hours: Int64s, by_slot: Mapping[int, StageValues]) -> Live:
    """Estimates a day from earlier days and released slots.

    models: of earlier days only. by_slot: by index in the day, values over (cells, 1), in a day's units of weight.
    """
    forecast = models.forecast(hours)
    if not by_slot:
        return Live(forecast, np.zeros(forecast.values.shape))
    stages = tuple(_slot_in_day(hours, index, values) for index, values in sorted(by_slot.items()))
    state = models.state
    count = _vague_count(state, stages[0].centre)  # of the declared vehicles, as slots clip less than days
    day = DayValues(hours=hours, stages=(count, *stages))
    field = learned(replace(state, recent=(*state.recent, day))).estimate()  # of today, now the last day
    leans = 1 - np.minimum(field.variances / forecast.variances, 1.0)  # part of the forecast's variance that is gone
    # Of the criteria of showing a day (`Gate`) only the ratio of errors holds live: a storm may move a day's mean.
    return Live(replace(field, gate=Gate(ratio=field.gate.ratio)), leans)


def _vague_count(state: State, centre: Float64s) -> StageValues:
    """Builds a vague count of vehicles, for live slots, which clip less than days."""
    vehicles = np.array([[state.facts.vehicles / RETAINED]])  # cancels RETAINED, which the model expects of days' clips
    level = LevelValues(
        groups=Groups.everything(*centre.shape),
        weights=vehicles,
        speeds=0 * vehicles,
        weight_variances=(FLEET_SD * vehicles) ** 2,
        speed_variances=np.array(np.inf),  # a count tells nothing of speeds
    )
    return StageValues(centre=centre, levels=(level,), counts_vehicles=True)


def _slot_in_day(hours: Int64s, index: int, values: StageValues) -> StageValues:
    """Extends a slot's values to its day; other slots are one group without information."""
    of_slots = (np.arange(hours.size) != index).astype(np.int64) if hours.size > 1 else 0 * hours  # 0: the slot

    def extended(column: Float64s, fill: float) -> Float64s:  # (cell groups, 1) to (cell groups, slot groups)
        return np.pad(column, ((0, 0), (0, min(hours.size, 2) - 1)), constant_values=fill)

    levels = tuple(
        LevelValues(
            groups=Groups(cells=level.groups.cells, slots=of_slots),
            weights=extended(level.weights, 0.0),
            speeds=extended(level.speeds, 0.0),
            weight_variances=extended(level.weight_variances, np.inf),
            speed_variances=extended(level.speed_variances, np.inf),
        )
        for level in values.levels
    )
    return StageValues(centre=np.repeat(values.centre, hours.size, axis=1), levels=levels)


def coarser(models: Learned, posterior: Field, groups: Groups) -> Field:
    """Estimates a day's group means, (cell groups, slot groups).

    A group's value is the mean of its HATs' values by expected weight, so values of all groupings agree. Variances
    include effects' joint covariance, uncertain weights, HATs' deviations, and the weight of standing vehicles.
    """
    hours, day, weights = posterior.hours, posterior.day, groups.totals(posterior.weights)
    share = posterior.weights / groups.to_hats(np.maximum(weights, 1e-12))
    values = groups.totals(share * posterior.values)
    weight_slopes = share * (posterior.values - groups.to_hats(values))  # of values by HATs' log weights
    log_variances = models.weights.group_variances(groups, hours, day, share)
    variances = models.speeds.group_variances(groups, hours, day, share, models.regressors(hours))
    variances = variances + _through_weights(models, posterior, groups, weight_slopes)
    variances = variances + _through_standing(models.state.facts, posterior, groups, weight_slopes)
    repeats = _repeats(models.state.facts, posterior, groups)
    kmh, precisions, squares = posterior.values[..., None], posterior.precisions[..., None], share[..., None] ** 2
    deviations = posterior.spread.of_reports(posterior.vehicles, kmh, precisions)  # of HATs, (.., NODES)
    return replace(
        posterior,
        values=values,
        variances=variances,
        of_ratios=ratio_variances(values, weights, log_variances),  # of means over uncertain weights
        # `_pooled` sums by group and node. A vehicle's deviation is alike in all its HATs of a group.
        deviations=_pooled(groups, squares * deviations) * repeats[..., None],
        traffic_deviations=_pooled(groups, squares * posterior.traffic_deviations),  # HATs' own, not vehicles'
        repeats=repeats,
        weights=weights,
        vehicles=_pooled(groups, posterior.vehicles),
    )


def smooth_hours(hours: Field, day: Field) -> Field:
    """Gives hours the day's value if within one standard error; variances count the bias."""
    difference = hours.values - day.values  # (cell groups, hours), less (cell groups, 1)
    squared_error = hours.variances + hours.deviations.mean(axis=-1)  # of field, and vehicles around it
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
    groups = Groups(cells=models.state.design.parents, slots=np.arange(posterior.hours.size))
    coarse = published(coarser(models, posterior, groups), upper_kmh)
    chosen = (estimates.status == Status.UNRELIABLE) & groups.to_hats(coarse.status == Status.OK)
    arrays = (coarse.values, coarse.lower95, coarse.upper95)  # shown where chosen, else nan
    status = np.where(chosen, Status.PARENT, estimates.status).astype(np.int64)
    return Shown(replace(estimates, status=status), *(np.where(chosen, groups.to_hats(x), np.nan) for x in arrays))


def _pooled(groups: Groups, hats: Float64s) -> Float64s:
    """Sums HATs' nodes, (cells, slots, NODES), over groups: vehicle numbers rise together."""
    return np.stack([groups.totals(hats[..., node]) for node in range(NODES)], axis=-1)


def _through_weights(models: Learned, posterior: Field, groups: Groups, slopes: Float64s) -> Float64s:
    """Computes variances of group means from uncertain weights, by the delta method.

    slopes: of the mean by log weights, (cells, slots). These err by effects (`of_effects`), by each hour of the city
    (`by_slot`, HAT_LOG_VARIANCE too), and independently by HAT: in the field, and as a Poisson number of vehicles does.
    """
    slots = np.arange(posterior.hours.size)
    by_slot = np.zeros((*groups.shape, slots.size))  # sums of a group's slopes in each slot
    np.add.at(by_slot, (groups.cells[:, None], groups.slots, slots), slopes)
    of_vehicles = models.speeds.one_weights[posterior.day] / posterior.weights
    hats = groups.totals(slopes**2 * (fitted.HAT_LOG_VARIANCE + of_vehicles))
    of_effects = models.weights.group_variances(groups, posterior.hours, posterior.day, slopes)
    return np.asarray(of_effects + hats + fitted.HAT_LOG_VARIANCE * np.sum(by_slot**2, axis=-1))


def _through_standing(facts: Facts, posterior: Field, groups: Groups, slopes: Float64s) -> Float64s:
    """Computes squared shifts of group means if standing vehicles counted fully.

    A release weighs vehicles less the longer they stay in a place, by the profile's factor; how many stand is open. A
    cell's hours shift together, cells independently: sums by cell are squared, then added up. slopes: of group means by
    log weights, (cells, slots).
    """
    # A guess at the part of vehicles that stand: all at 0 km/h, hardly any far above STANDS_KMH.
    standing = np.exp(-((np.maximum(posterior.values, 0.0) / fitted.STANDS_KMH) ** 2))
    shifts = (facts.standing - 1) * standing * slopes  # counted fully it weighs `facts.standing` times as much
    of_cells = Groups(cells=np.arange(groups.cells.size), slots=groups.slots).totals(shifts)
    return Groups(cells=groups.cells, slots=np.arange(of_cells.shape[1])).totals(of_cells**2)


def _repeats(facts: Facts, posterior: Field, groups: Groups) -> Float64s:
    """Estimates how many HATs of a group one of its vehicles visits.

    That is cells in an hour (one, and the group's share of the others of `hats_in_hour`) times slots in a cell
    (`hats_in_cell`, by the group's part of the day): (cell groups, slot groups).
    """
    weights, slot_counts = groups.totals(posterior.weights), np.bincount(groups.slots, minlength=groups.shape[1])
    share = weights / np.maximum(weights.sum(axis=0), 1e-12)  # of the city, in these slots
    in_cell = np.maximum(facts.hats_in_cell * slot_counts / groups.slots.size, 1.0)  # evenly over the day's slots
    return np.asarray((1 + (facts.hats_in_hour - 1) * share) * in_cell)
