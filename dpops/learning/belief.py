"""What is believed of a day's HATs: posterior means, variances, and numbers of vehicles."""

from dataclasses import dataclass

import numpy as np

from dpops import fitted
from dpops.learning.chances import numbers_of, remaining_variances, traffic_variances
from dpops.learning.effects import Item
from dpops.learning.field import DayFields, Field, Gate
from dpops.learning.fit import Fit, fitted_fields, typical_traffic
from dpops.learning.groups import Groups
from dpops.learning.releases import DayValues
from dpops.learning.state import State
from dpops.spread import VehicleSpread
from dpops.types import Float64s, Int64s


@dataclass(frozen=True, slots=True)
class Learned:
    """The fields fitted to a state, and what they say of days."""

    fit: Fit

    @property
    def state(self) -> State:
        return self.fit.state

    def forecast(self, hours: Int64s) -> Field:
        """Describes a day that is still to come."""
        return self._field(DayValues(hours=hours), self.fit.coming)

    def estimate(self, back: int = 0) -> Field:
        """Describes the last day that was taken in, or one `back` days before it, by all that is learned.

        Raises:
            ValueError: for a day that is not kept as released, or before the first one.
        """
        recent = len(self.state.recent)
        if not 0 <= back < recent:
            raise ValueError(f"of {recent} recent days, none is {back} before the last: there is no estimate")
        index = self.fit.coming - 1 - back
        return self._field(self.fit.days[index], index)

    def _field(self, values: DayValues, index: int) -> Field:
        fit, hours = self.fit, values.hours
        field, posterior = fit.speeds.layout, fit.speeds.posterior
        hats, log_variances = fit.weights.of_day(values, index)
        if values.looks:
            hats = fit.speeds.weights[index]
        day = DayFields(
            index=index, hours=hours, weights=hats, regressors={"traffic": typical_traffic(fit.weights, values)}
        )
        means = field.hats(posterior.mean, hours, index, day.regressors)
        variances = posterior.variances_of_hats(hours, index, day.regressors)
        share, looks = hats / hats.sum(), values.looks
        moved = float(np.sum(share * (means - looks[-1].centre))) if looks else 0.0
        gate = Gate(
            ratio=self._ratio(day, means, variances),
            moved_kmh=moved,
            total_sd=float(fit.weights.total_variances[index]) ** 0.5 if looks else 0.0,
            is_early=self.state.days - (fit.coming - 1 - index) <= fitted.FIRST_DAYS,
        )
        one_weight = fit.speeds.one_weight
        spread = fit.speeds.cautious_spread
        single = _with_single_hats(values, means, hats, log_variances, one_weight, fit.speeds.spread)
        vehicles = single.weights / one_weight
        numbers = numbers_of(vehicles, log_variances + fitted.HAT_LOG_VARIANCE)
        around = spread.of(np.maximum(numbers, 1.0), single.values[..., None])
        return Field(
            values=single.values,
            variances=variances,
            deviations=remaining_variances(around, single.precisions),
            traffic_deviations=traffic_variances(around, single.precisions, spread.floor),
            precisions=single.precisions,
            spread=spread,
            weights=single.weights,
            vehicles=numbers,
            day=day,
            gate=gate,
        )

    def _ratio(self, day: DayFields, values: Float64s, variances: Float64s) -> float:
        """Computes the expected squared error of the map over that of the city's true mean."""
        layout, posterior = self.fit.speeds.layout, self.fit.speeds.posterior
        share = day.weights / day.weights.sum()
        city = Groups(cells=np.zeros(len(share), np.int64), slots=np.zeros(day.hours.size, np.int64))
        item = Item(city, day.hours, day.index, ("traffic",))
        rows = layout.stack([item], len(self.fit.days))([share], [day.regressors])
        covariance = posterior.solve(rows.adjoint(np.ones(1)))
        with_mean = layout.hats(covariance, day.hours, day.index, day.regressors)
        constant = (values - np.sum(share * values)) ** 2 + variances - 2 * with_mean + np.sum(share * with_mean)
        return float(np.sum(share * variances) / max(np.sum(share * constant), 1e-9))


@dataclass(frozen=True, slots=True)
class _SingleHats:
    """HATs after a release of single ones. precisions: what it says of their means."""

    values: Float64s
    weights: Float64s
    precisions: Float64s


def _with_single_hats(
    day: DayValues,
    values: Float64s,
    weights: Float64s,
    log_variances: Float64s,
    one_weight: float,
    spread: VehicleSpread,
) -> _SingleHats:
    """Adds what a release of single HATs says of weights and means: a scalar Kalman step of each."""
    precisions = np.zeros(values.shape)
    own = spread.of(weights / one_weight, values)
    for stage in day.looks:
        for level in stage.levels:
            if level.groups.shape != values.shape:
                continue
            variances = weights * (fitted.HAT_LOG_VARIANCE * weights + one_weight) + weights**2 * log_variances
            gain = variances / (variances + level.groups.to_hats(level.weight_variances))
            surprise = level.groups.to_hats(level.weights) - weights
            weights = np.maximum(weights + gain * surprise, 0.05 * weights)
            residual = values - stage.centre
            remaining = 1 / (1 / own + precisions)
            noise = level.groups.to_hats(level.speed_variances)
            noise = noise + (1 - gain) * variances * (remaining + residual**2)
            precision = weights**2 / noise
            part = remaining * precision / (1 + remaining * precision)
            values = values + part * (level.groups.to_hats(level.speeds) / weights - residual)
            precisions = precisions + precision
    return _SingleHats(values, weights, precisions)


def learned(state: State) -> Learned:
    """Fits the fields to a state."""
    return Learned(fitted_fields(state))
