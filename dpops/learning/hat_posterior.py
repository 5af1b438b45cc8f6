"""Posterior of a day's HATs, past, coming or live."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from dpops import fitted
from dpops.learning.effects import Item, Stack
from dpops.learning.field import DayFields, Field, Gate, numbers_of, traffic_variances
from dpops.learning.fit import Fit, fitted_fields
from dpops.learning.releases import DayValues, Groups, LevelValues, StageValues
from dpops.learning.state import RECENT, State
from dpops.learning.weights import ratio_variances
from dpops.levels.defaults import RETAINED
from dpops.spread import FLEET_SD, VehicleSpread
from dpops.types import Float64s, Int64s


@dataclass(frozen=True, slots=True)
class Learned:
    """Fitted fields, which estimate and forecast days."""

    fit: Fit

    @property
    def state(self) -> State:
        """State that the fit is a function of."""
        return self.fit.state

    def forecast(self, hours: Int64s) -> Field:
        """Forecasts a coming day."""
        return self._field(DayValues(hours=hours), self.fit.coming)

    def estimate(self, back: int = 0) -> Field:
        """Estimates the day `back` before the last. Raises ValueError."""
        recent = len(self.state.recent)
        if not 0 <= back < recent:
            raise ValueError(f"day -{back} is not kept; only the last {recent} are")
        index = self.fit.coming - 1 - back
        return self._field(self.fit.days[index], index)

    def _field(self, values: DayValues, index: int) -> Field:
        """Computes a day's HAT means, km/h, variances, and criteria of showing it (`gate`)."""
        fit, hours = self.fit, values.hours
        field, posterior = fit.speeds.layout, fit.speeds.posterior
        hats, log_variances = fit.weights.of_day(values, index)  # weights of HATs, and variances of their logs
        if values.speed_stages:  # sums of speeds have updated the day's total weight
            hats = fit.speeds.weights[index]
        day = DayFields(index=index, hours=hours, weights=hats, regressors={"traffic": fit.weights.traffic(values)})
        means = field.hats(posterior.mean, hours, index, day.regressors)
        variances = posterior.variances_of_hats(hours, index, day.regressors)
        share, speed_stages = hats / hats.sum(), values.speed_stages
        moved_kmh = float(np.sum(share * (means - speed_stages[-1].centre))) if speed_stages else 0.0
        gate = Gate(
            ratio=self._ratio(day, means, variances),
            moved_kmh=moved_kmh,
            total_sd=float(fit.weights.total_variances[index]) ** 0.5 if speed_stages else 0.0,
            is_early=self.state.days - (fit.coming - 1 - index) < 2 * RECENT,  # days up to it: `add_day` folds none
        )
        one_weight = float(fit.speeds.one_weights[index])
        spread = fit.speeds.cautious_spread
        # The gate judges the field; releases of single HATs are then added HAT by HAT.
        kmh, weights, precisions = _with_single_hats(values, means, hats, log_variances, one_weight, fit.speeds.spread)
        numbers = numbers_of(weights / one_weight, log_variances + fitted.HAT_LOG_VARIANCE)
        counts, nodes_kmh = np.maximum(numbers, 1.0), kmh[..., None]  # means are of one or more; (cells, slots, ..)
        return Field(
            values=kmh,
            variances=variances,
            of_ratios=ratio_variances(means, hats, log_variances),
            deviations=spread.of_reports(counts, nodes_kmh, precisions[..., None]),
            traffic_deviations=traffic_variances(spread.of(counts, nodes_kmh), precisions, spread.floor),
            precisions=precisions,
            spread=spread,
            weights=weights,
            vehicles=numbers,
            day=day,
            gate=gate,
        )

    def _ratio(self, day: DayFields, values: Float64s, variances: Float64s) -> float:
        """Computes the map's expected squared error relative to the city's true mean."""
        layout, posterior = self.fit.speeds.layout, self.fit.speeds.posterior
        share = day.weights / day.weights.sum()
        item = Item(Groups.everything(*share.shape), day.hours, day.index, ("traffic",))
        rows = Stack(layout, [item], len(self.fit.days))([share], [day.regressors])
        covariance = posterior.solve(rows.adjoint(np.ones(1)))
        with_mean = layout.hats(covariance, day.hours, day.index, day.regressors)
        # Var(HAT - mean) = Var(HAT) - 2 Cov(HAT, mean) + Var(mean), which is the covariances' mean.
        constant = (values - np.sum(share * values)) ** 2 + variances - 2 * with_mean + np.sum(share * with_mean)
        return float(np.sum(share * variances) / max(np.sum(share * constant), 1e-9))


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
    for stage in day.speed_stages:
        for level in stage.levels:
            if level.groups.shape != kmh.shape:  # its groups are of several HATs
                continue
            variances = weights * (fitted.HAT_LOG_VARIANCE * weights + one_weight) + weights**2 * log_variances
            gain = variances / (variances + level.groups.to_hats(level.weight_variances))
            surprise = level.groups.to_hats(level.weights) - weights
            weights = np.maximum(weights + gain * surprise, 0.05 * weights)  # any part above 0, as it divides
            residual = kmh - stage.centre
            posterior_variances = 1 / (1 / mean_variances + precisions)
            noise = level.groups.to_hats(level.speed_variances)
            noise = noise + (1 - gain) * variances * (posterior_variances + residual**2)  # E[(mean - centre)^2]
            precision = weights**2 / noise
            speed_gain = posterior_variances * precision / (1 + posterior_variances * precision)
            kmh = kmh + speed_gain * (level.groups.to_hats(level.speeds) / weights - residual)
            precisions = precisions + precision
    return kmh, weights, precisions


def learned(state: State) -> Learned:
    """Fits the fields to a state."""
    return Learned(fitted_fields(state))


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
    day = DayValues(hours=hours, stages=(_uncounted(state, stages[0].centre), *stages))
    today = learned(replace(state, recent=(*state.recent, day)))
    field = today.estimate()
    leans = 1 - np.minimum(field.variances / forecast.variances, 1.0)
    # Only the ratio decides whether a live map is shown: a storm moves a day's mean, and slots leave its weight open.
    return Live(replace(field, gate=Gate(ratio=field.gate.ratio)), leans)


def _uncounted(state: State, centre: Float64s) -> StageValues:
    """Builds a vague count of vehicles, as slots clip less than learned days."""
    vehicles = np.array([[state.facts.vehicles / RETAINED]])  # as the model believes that clips retain RETAINED
    level = LevelValues(
        groups=Groups.everything(*centre.shape),
        weights=vehicles,
        speeds=0 * vehicles,
        weight_variance=(FLEET_SD * vehicles) ** 2,
        speed_variance=np.inf,
    )
    return StageValues(centre=centre, levels=(level,), counts_vehicles=True)


def _slot_in_day(hours: Int64s, index: int, values: StageValues) -> StageValues:
    """Extends a slot's values to its day; other slots are one group without information."""
    of_slots = (np.arange(hours.size) != index).astype(np.int64) if hours.size > 1 else 0 * hours

    def extended(column: Float64s, fill: float) -> Float64s:  # (cell groups, 1) to (cell groups, slot groups)
        return np.pad(column, ((0, 0), (0, min(hours.size, 2) - 1)), constant_values=fill)

    levels = tuple(
        LevelValues(
            groups=Groups(cells=level.groups.cells, slots=of_slots),
            weights=extended(level.weights, 0.0),
            speeds=extended(level.speeds, 0.0),
            weight_variance=extended(level.weight_variances, np.inf),
            speed_variance=extended(level.speed_variances, np.inf),
        )
        for level in values.levels
    )
    return StageValues(centre=np.repeat(values.centre, hours.size, axis=1), levels=levels)
