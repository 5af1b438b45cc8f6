"""Fields of log weights and of speeds, fitted to noisy sums by group.

Weights are in typical vehicle-days: a day's log total weight is the log number of its vehicles plus "retention", the
log of what clipping leaves, plus an error. Sums of speeds are of weights times (speed - centre); the error of the day's
log weight that they show is its "doubt". `hats` are numbers of a day's HATs, (cells, slots).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpops import fitted
from dpops.learning.effects import EffectLayout, Effects, Item, Regressors, Start
from dpops.learning.posterior import LatentField, LinearData, NoisySums
from dpops.learning.releases import HOURS, DayValues
from dpops.learning.state import Facts
from dpops.levels.defaults import RETAINED
from dpops.levels.stages import BLOCK_H, Groups
from dpops.spread import FLEET_SD, TYPICAL_KMH, Z95, VehicleSpread, growth
from dpops.types import Float64s, Int64s

TOTAL_PRECISION = fitted.RETAINED_SD**-2  # prior precision of a day's log weight around its vehicles'
MAX_LOG_STEP = 1.5  # largest change of a log weight in a Gauss-Newton step
MAX_LOG_VARIANCE = 4.0  # cap of log variances behind lognormal means, where nothing is known yet
_HALVINGS = 4  # at most, of a step that raises the cost
_CONVERGED, _STRENGTHS_CONVERGED = 0.03, 0.1  # changes of log weights and log strengths at which fits end
_CLIP = 30.0  # bound of log weights: exp of more has no meaning as a weight, and may overflow in squares
_MOST_TRAFFIC = 3  # bound of "traffic", a log weight less the mean, so that no outlier decides its effect


@dataclass(frozen=True)
class VehicleNumber:
    """Number of a day's vehicles, and its logarithm's variance; `is_counted`: else only declared."""

    number: float
    log_variance: float
    is_counted: bool = True

    @property
    def upper95(self) -> float:
        """Computes the upper end of its 95 % interval; infinite if only declared."""
        return self.number * math.exp(Z95 * math.sqrt(self.log_variance)) if self.is_counted else math.inf


def ratio_variances(kmh: Float64s, weights: Float64s, log_variances: Float64s) -> Float64s:
    """Computes variances of means, ratios of noisy sums to lognormal weights W.

    Unknown weights scale a mean's distance from the city's: E[(E[W] / W - 1)^2] = exp(3 s) - 2 exp(s) + 1, s the
    variance of the logarithm. kmh, weights: of all HATs or groups.
    """
    # Capped, lest exp be huge; distances: from the city's mean.
    variances, distances = np.minimum(log_variances, MAX_LOG_VARIANCE), kmh - np.average(kmh, weights=weights)
    return np.asarray((np.exp(3 * variances) - 2 * np.exp(variances) + 1) * distances**2)


class WeightField(LatentField):
    """Field of log weights of each day's HATs, in typical vehicle-days.

    Attributes:
        effects: around which the field is linearised next.
        variances: of the log weights of each day, (cells, slots).
        total_variances: of the log of each day's total weight, (days,).
        numbers: of each day's vehicles. `retention` is the log of the part of their weight that clips leave.
        stack, wide: rows of observations, and the first of them that touches most cells (see `LatentField`).
    """

    def __init__(
        self,
        layout: EffectLayout,
        days: Sequence[DayValues],
        numbers: Sequence[VehicleNumber],
        totals: Sequence[float | None],
        start: Start | None,
    ) -> None:
        """Starts the field at the effects of an earlier fit, else of the prior.

        numbers: vehicles by day. totals: released total weights of the last days; None where none was released.
        """
        super().__init__(layout, days, strengths=None if start is None else start.weights)  # of log weights' effects
        self.numbers = tuple(numbers)
        self._total_precisions = np.full(len(days), TOTAL_PRECISION)  # (days,), relearned by `_update_totals`
        self._at_retention = layout.index_of("retention")
        self.variances = [np.zeros((layout.cells, day.hours.size)) for day in days]
        self.total_variances = np.full(len(days), 1.0)  # until the first round
        self.effects = layout.padded(layout.zeros(days=0) if start is None else start.effects, len(days))
        if start is None:
            self.effects.border[self._at_retention] = math.log(RETAINED)
        self._start_days(totals)

    def _start_days(self, totals: Sequence[float | None]) -> None:
        """Sets "day" effects of the last days by total weights; None: vehicles times retention."""
        first = len(self.days) - len(totals)
        hats = self.weights(self.effects)[first:]  # of each such day, (cells, slots)
        for day, total, weights in zip(range(first, len(self.days)), totals, hats, strict=True):
            log_total = math.log(self.numbers[day].number) + self.retention if total is None else math.log(total)
            self.effects.border[self.layout.index_of("day", day)] += log_total - math.log(weights.sum())

    @property
    def retention(self) -> float:
        """Log of the part of a counted vehicle's weight that clipping leaves."""
        return float(self.effects.border[self._at_retention])

    def weights(self, effects: Effects) -> list[Float64s]:
        """Computes each day's expected weights of HATs, (cells, slots), at these effects."""
        days = enumerate(zip(self.days, self.variances, strict=True))
        return [self._expected(effects, day.hours, index, variances) for index, (day, variances) in days]

    def of_day(self, hours: Int64s, index: int) -> tuple[Float64s, Float64s]:
        """Computes a day's expected weights, and variances of their logs, (cells, slots) each."""
        variances = np.minimum(self.posterior.variances_of_hats(hours, index), MAX_LOG_VARIANCE)
        return self._expected(self.effects, hours, index, variances), variances

    def _expected(self, effects: Effects, hours: Int64s, index: int, variances: Float64s) -> Float64s:
        """Computes means of lognormal weights, exp(log + variance / 2), (cells, slots)."""
        logs = self.layout.hats(effects, hours, index)
        return np.asarray(np.exp(np.clip(logs + variances / 2, -_CLIP, _CLIP)))

    def traffic(self, hours: Int64s) -> Float64s:
        """Computes log weights of typical days in these hours, less their mean, (cells, slots)."""
        logs = self.layout.hats(self.effects, hours, day=None)
        traffic = logs - np.average(logs, weights=np.exp(logs))  # the mean by HATs' weights
        return np.asarray(np.clip(traffic, -_MOST_TRAFFIC, _MOST_TRAFFIC))  # lest an outlier decide its effect

    def fit(self, sums: Sequence[NoisySums], rounds: int) -> None:
        """Fits effects by Gauss-Newton and strengths by Fellner-Schall steps.

        Expected weights, exp(log + variance / 2), follow variances. These are costly, so every second round has new
        ones; not the last two, in which effects adapt so that expected totals fit the released ones again. A fit of
        fewer than three rounds begins with new ones: its effects come from an earlier fit, and hardly move.
        """
        sums = self._prepare_rows(sums)
        for index in range(rounds):
            data = self._linear(sums)
            self.solve(data, is_rough=True)
            if index % 2 == 0 and (index + 2 < rounds or rounds < 3):
                self._update_variances()
            largest_step = self._step(sums, data)  # in log weights
            previous, self.strengths = self.strengths, self.posterior.next_strengths(self.effects)
            self._update_totals(data)
            learned = [block.name for block in self.layout.blocks if block.is_learned]
            changes = [np.max(np.abs(np.log(self.strengths[name] / previous[name]))) for name in learned]
            if largest_step < _CONVERGED and max(changes) < _STRENGTHS_CONVERGED:
                break

    def finish(self, sums: Sequence[NoisySums], next_day: DayValues, number: VehicleNumber) -> None:
        """Appends a day without releases, of `number` vehicles; computes the final posterior."""
        self.days, self.numbers = (*self.days, next_day), (*self.numbers, number)
        self.effects = self.layout.padded(self.effects, len(self.days))
        self._total_precisions = np.append(self._total_precisions, TOTAL_PRECISION)
        self.variances = [*self.variances, np.zeros((self.layout.cells, next_day.hours.size))]  # until updated below
        self._start_days([None])  # the last day, which has no released total
        data = self._linear(self._prepare_rows(sums))
        del self.stack  # a large city's memory
        self.solve(data, is_rough=False)
        self._update_variances()
        self._update_totals(data)

    def _linear(self, sums: Sequence[NoisySums]) -> LinearData:
        """Linearises observations around the effects: released sums, then a log total of each day.

        The derivatives of a sum of weights exp(x) by x are the weights, those of its log their shares. A day's log
        total less the retention (hence its regressor -1) is observed as the log number of the day's vehicles.
        """
        weights = self.weights(self.effects)
        of_sums = [weights[item.day] for item in sums]
        with_retention: Regressors = {"retention": np.array(-1.0)}
        regressors: list[Regressors] = [{}] * len(of_sums) + [with_retention] * len(weights)
        # A row for each group of a sum, from HATs' weights, then one for each day, from their shares.
        rows = self.stack([*of_sums, *(hats / hats.sum() for hats in weights)], regressors)
        precisions = [  # a sum's variance is of noise, and of HATs around the field; never 0
            1 / (item.variances + fitted.HAT_LOG_VARIANCE * item.groups.totals(hats**2).ravel() + 1e-9)
            for item, hats in zip(sums, of_sums, strict=True)
        ]
        number_variances = np.array([number.log_variance for number in self.numbers])
        precisions.append(1 / (1 / self._total_precisions + number_variances))  # of log totals around log numbers
        values = self._residuals(sums, self.effects) + rows.times(self.effects)
        return LinearData.of(rows, values, np.concatenate(precisions), self.wide)

    def _residuals(self, sums: Sequence[NoisySums], effects: Effects) -> Float64s:
        """Computes residuals of released sums, then of log numbers around log totals less retention."""
        weights = self.weights(effects)
        of_sums = [item.values - item.groups.totals(weights[item.day]).ravel() for item in sums]
        of_totals = np.log([number.number for number in self.numbers]) - np.log([hats.sum() for hats in weights])
        return np.concatenate([*of_sums, of_totals + effects.border[self._at_retention]])

    def _prepare_rows(self, sums: Sequence[NoisySums]) -> list[NoisySums]:
        """Prepares rows of sums, then of days' totals, less "retention"; orders sums by rows."""
        totals = [
            Item(Groups.everything(self.layout.cells, day.hours.size), day.hours, index, regressors=("retention",))
            for index, day in enumerate(self.days)
        ]
        return self.stack_rows(sums, wide_items=totals)

    def _step(self, sums: Sequence[NoisySums], data: LinearData) -> float:
        """Steps to the posterior mean, halving while cost rises; returns the largest log change."""
        change = Effects(*(new - old for new, old in zip(self.posterior.mean, self.effects, strict=True)))
        changes = (self.layout.hats(change, day.hours, index) for index, day in enumerate(self.days))  # of log weights
        largest = max(float(np.abs(of_day).max()) for of_day in changes)
        length = min(1.0, MAX_LOG_STEP / max(largest, 1e-9))  # part of the full step: sums are linear only nearby
        prior = self.layout.prior(self.strengths, [day.count for day in self.days])  # roots of precisions

        def cost(effects: Effects) -> float:
            """Computes twice the negative log posterior density, up to a constant."""
            deviations = prior.rows_times(effects._replace(border=effects.border - prior.means))
            return float(deviations @ deviations + data.precisions @ self._residuals(sums, effects) ** 2)

        start = cost(self.effects)
        for _ in range(_HALVINGS):  # after so many the last trial is taken, even if cost rises
            trial = Effects(*(old + length * delta for old, delta in zip(self.effects, change, strict=True)))
            if cost(trial) <= start + 1e-6:  # equal but for rounding
                break
            length /= 2
        self.effects = trial
        return length * largest

    def _update_variances(self) -> None:
        """Recomputes log weights' variances, capped and smoothed.

        Within a part of the day effects differ by cell or by hour, not by both, so other differences of sampled
        variances are sampling errors: smoothed ones are a cell's mean plus an hour's deviation.
        """
        sizes = [day.hours.size for day in self.days]
        hours, days = np.concatenate([day.hours for day in self.days]), np.repeat(np.arange(len(sizes)), sizes)
        variances = np.minimum(self.posterior.variances_of_hats(hours, days), MAX_LOG_VARIANCE)  # faster at once
        parts = days * HOURS + hours % HOURS // BLOCK_H  # of each slot's day
        for part in np.unique(parts):
            of_part = variances[:, parts == part]
            of_cells = of_part.mean(axis=1, keepdims=True)
            variances[:, parts == part] = of_cells + of_part.mean(axis=0) - of_cells.mean()
        self.variances = np.split(variances, np.cumsum(sizes)[:-1], axis=1)

    def _update_totals(self, data: LinearData) -> None:
        """Updates precisions of days' log totals around vehicles times retention, and their variances.

        The law around is Student's: each day's precision is its mean given the residual, under a gamma prior worth
        PRIOR_WORTH degrees of freedom.
        """
        of_totals = slice(-len(self.days), None)  # the last rows, one a day, scaled to variance 1 by `root`
        rows, root = data.rows[of_totals], np.sqrt(data.precisions[of_totals])
        residuals = (data.values[of_totals] - rows.times(self.effects)) / root
        # Degrees of freedom of a residual: 1, less the fit's variance (`rows` are times `root`) over the law's.
        freedom = np.maximum(1 - self._total_precisions / root**2 * self.posterior.variances_of_rows(rows), 0)
        worth = fitted.PRIOR_WORTH
        self._total_precisions = (freedom + worth) / (residuals**2 + worth / TOTAL_PRECISION)  # gamma means
        # Variances of log totals themselves: of their rows without -1 times the retention.
        without_retention = rows.border * (np.arange(rows.border.shape[1]) != self._at_retention)
        self.total_variances = self.posterior.variances_of_rows(replace(rows, border=without_retention)) / root**2


MAX_DOUBT_STEP = 0.5  # largest change of a day's doubt (the error of its log weight) in a round
_MAX_EXCESS = 8.0  # cap of squared residuals, in variances, so that no outlier decides
_MAX_VARIANCE_STEP = 0.7  # largest change of a log variance: about a factor of 2


class SpeedField(LatentField):
    """Field of HATs' mean speeds on each day, km/h.

    Attributes:
        values: posterior means of each day, (cells, slots).
        weights: expected ones of each day's HATs, (cells, slots), whose totals sums of speeds correct by "doubt".
        traffic: the field's regressor of that name on each day, (cells, slots).
        spread: learned variances of HATs' means around the field: `vehicle`, over the number of vehicles, and `floor`.
        one_weights: weight of one vehicle in a HAT, (days,).
        stack, wide: rows of observations, and the first of them that touches most cells (see `LatentField`).
    """

    def __init__(self, layout: EffectLayout, days: Sequence[DayValues], facts: Facts, start: Start | None) -> None:
        super().__init__(layout, days, strengths=None if start is None else start.speeds)
        self._facts = facts
        self.spread = VehicleSpread() if start is None else start.spread
        self.values = [np.full((layout.cells, day.hours.size), TYPICAL_KMH) for day in days]
        self._are_fitted = False  # whether `values` are estimates

    def fit(
        self,
        sums: Sequence[NoisySums],
        weights: WeightField,
        hats: Sequence[Float64s],
        rounds: int,
        next_day: DayValues | None = None,
    ) -> None:
        """Fits effects, strengths, variances, and doubts: errors of days' log weights, in rounds.

        sums: released, of weights times (speed - centre). weights: fitted before. hats: expected weights of each day's
        HATs, (cells, slots), in typical vehicle-days. next_day: in the last fit, a day without releases to append;
        covariances of HATs are then computed too.
        """
        if next_day is not None:
            self.days = (*self.days, next_day)
            self.values.append(np.full((self.layout.cells, next_day.hours.size), TYPICAL_KMH))
        self.weights, self.traffic = list(hats), [weights.traffic(day.hours) for day in weights.days]
        self._set_one_weights(weights)
        # The prior variance of a day's doubt is what weights leave open of its log total; at least a sd of 1 %.
        self.strengths["doubt"] = 1 / np.maximum(weights.total_variances, 1e-4)
        doubts, sums = np.zeros(len(self.days)), self.stack_rows(sums, regressors=("traffic", "doubt"))
        entries = [self.layout.index_of("doubt", day) for day in range(len(self.days))]  # among border effects
        is_first = not self._are_fitted  # this is the field's first fit
        for index in range(rounds):  # effects, then doubts and with them weights, values, strengths and the spread
            data = self._data(sums, doubts)
            self.solve(data, is_rough=next_day is None or index + 1 < rounds)
            mean = self.posterior.mean
            if self._are_fitted:  # without fitted values "doubt" has no regressor
                doubts = doubts + np.clip(mean.border[entries] - doubts, -MAX_DOUBT_STEP, MAX_DOUBT_STEP)
                self.weights = [of_day * np.exp(doubt) for of_day, doubt in zip(hats, doubts, strict=True)]
            self._are_fitted = True
            self.values = [  # without "doubt", an error of weights, not of speeds
                self.layout.hats(mean, day.hours, number, {"traffic": traffic})
                for number, (day, traffic) in enumerate(zip(self.days, self.traffic, strict=True))
            ]
            if index + 1 < rounds:
                self.strengths = self.posterior.next_strengths()
                if index or not is_first:  # the very first residuals are not around fitted values
                    self._learn_spread(data)
            del data  # two at once exceed a large city's memory

    def _set_one_weights(self, weights: WeightField) -> None:
        """Sets what one vehicle weighs in a HAT, (days,).

        An hour's weight is at most that of all the day's vehicles: if it is above, as where gaps in a feed leave
        vehicles fewer HATs than declared, one vehicle weighs more in a HAT.
        """
        hat_weight = self._facts.hat_weight * math.exp(weights.retention)  # after clips
        # Weight of the busiest hour, over the HATs that one vehicle touches in it, then over all vehicles of the day.
        peaks = [hats.sum(axis=0).max() / self._facts.hats_in_hour for hats in self.weights]
        self.one_weights = np.maximum(hat_weight, peaks / np.array([number.upper95 for number in weights.numbers]))

    def hat_variances(self, day: int) -> Float64s:
        """Computes variances of HATs' means around the field, (cells, slots)."""
        hats = np.maximum(self.weights[day], 1e-9)  # never divided by 0
        return self.spread.of(hats / self.one_weights[day], self.values[day])

    def _data(self, sums: Sequence[NoisySums], doubts: Float64s) -> LinearData:
        """Turns released sums around centres into observations of sums of weights times speed.

        A sum's variance is its noise's, and that of HATs' means around the field: `vehicles` and `floor` are the
        factors of the spread's two parts, of which the first is proportional to speed (`growth`). If a day's log weight
        errs by d, sums err by d times the weights times `offset`, the day's mean distance from the centre: so it is the
        regressor of "doubt", the effect that estimates d. Doubts already in the weights are added back.
        """
        values, variances, regressors = [], [], []
        self._factors: list[tuple[Float64s, Float64s]] = []  # of `spread`, (groups,), for each sum
        for item in sums:
            hats, day, totals = self.weights[item.day], item.day, item.groups.totals
            offset = 0.0
            if self._are_fitted:  # else `values` are no estimates yet, and "doubt" has no regressor
                offset = float(np.sum(hats * (self.values[day] - item.centre)) / hats.sum())
            regressors.append({"traffic": self.traffic[day], "doubt": np.array(offset)})
            vehicles = totals(hats * self.one_weights[day] * growth(self.values[day])).ravel()
            floor = totals(hats**2).ravel()
            self._factors.append((vehicles, floor))
            variances.append(item.variances + self.spread.vehicle * vehicles + self.spread.floor * floor)
            values.append(item.values + totals(hats * (item.centre + doubts[day] * offset)).ravel())
        rows = self.stack([self.weights[item.day] for item in sums], regressors)
        precisions = 1 / np.concatenate([np.ones(0), *variances])  # an empty array, as there may be no sums
        return LinearData.of(rows, np.concatenate([np.zeros(0), *values]), precisions, self.wide)

    def _learn_spread(self, data: LinearData) -> None:
        """Takes a Fisher scoring step of the spread's two log variances.

        Their prior deviation is FLEET_SD. Rows are scaled to variance 1, of which `slopes` are derivatives by log
        variances, (2, rows). A squared residual is expected to be 1 less the leverage (the part of the variance that
        the fit takes up): `excess` is the difference. A Gaussian score is half the slopes times it. Residuals vary by 1
        less the leverage, so the Fisher information has its square. Neither variance falls below its prior, as releases
        hardly tell them.
        """
        posterior, prior = self.posterior, VehicleSpread()
        leverage = np.minimum(posterior.variances_of_rows(data.rows), 0.95)  # below 1, which samples may exceed
        excess = np.minimum((data.values - data.rows.times(posterior.mean)) ** 2 + leverage - 1, _MAX_EXCESS)
        # Derivatives of variances of sums by `vehicle` and `floor`; an empty pair first, as there may be no sums.
        vehicles, floor = (np.concatenate(column) for column in zip((np.zeros(0),) * 2, *self._factors, strict=True))
        slopes = data.precisions * np.stack([self.spread.vehicle * vehicles, self.spread.floor * floor])
        precision = np.identity(2) / FLEET_SD**2
        logs = np.log([self.spread.vehicle / prior.vehicle, self.spread.floor / prior.floor])
        information = 0.5 * (slopes * (1 - leverage) ** 2) @ slopes.T + precision
        step = np.linalg.solve(information, 0.5 * slopes @ excess - precision @ logs)
        step = np.clip(step, -_MAX_VARIANCE_STEP, _MAX_VARIANCE_STEP)
        vehicle, floor_variance = np.exp(step) * [self.spread.vehicle, self.spread.floor]
        self.spread = VehicleSpread(max(float(vehicle), prior.vehicle), max(float(floor_variance), prior.floor))
