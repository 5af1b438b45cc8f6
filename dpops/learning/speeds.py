"""Field of speeds, fitted to noisy sums of weights times (speed - centre)."""

import math
from collections.abc import Sequence

import numpy as np

from dpops.learning.effects import EffectLayout, Start
from dpops.learning.posterior import LatentField, LinearData, NoisySums
from dpops.learning.releases import DayValues
from dpops.learning.state import Facts
from dpops.learning.weights import WeightField
from dpops.spread import CAUTION, FLEET_SD, TYPICAL_KMH, VehicleSpread, growth
from dpops.types import Float64s

MAX_DOUBT_STEP = 0.5  # largest change of a day's doubt (the error of its log weight) in a round
_MAX_EXCESS = 8.0  # cap of squared residuals, in variances, so that no outlier decides
_MAX_VARIANCE_STEP = 0.7  # largest change of a log variance: about a factor of 2


class SpeedField(LatentField):
    """Field of HATs' mean speeds on each day, km/h.

    Attributes:
        values: posterior means of each day, (cells, slots).
        weights: expected ones of each day's HATs, (cells, slots), whose totals sums of speeds correct by "doubt".
        traffic: the field's regressor of that name on each day, (cells, slots).
        spread: learned variances of HATs' means around the field.
        one_weights: weight of one vehicle in a HAT, (days,).
    """

    def __init__(self, layout: EffectLayout, days: Sequence[DayValues], facts: Facts, start: Start | None) -> None:
        super().__init__(layout, days, strengths=None if start is None else start.speeds)
        self._facts = facts
        self.spread = VehicleSpread() if start is None else start.spread
        self.values = [np.full((layout.cells, day.hours.size), TYPICAL_KMH) for day in days]
        self._are_fitted = False

    def add(self, next_day: DayValues) -> None:
        """Appends a day without releases."""
        self.days = (*self.days, next_day)
        self.values.append(np.full((self.layout.cells, next_day.hours.size), TYPICAL_KMH))

    def fit(
        self, sums: Sequence[NoisySums], weights: WeightField, hats: Sequence[Float64s], rounds: int, *, is_last: bool
    ) -> None:
        """Fits effects, strengths, variances, and doubts: errors of days' log weights, in rounds.

        sums: released, of weights times (speed - centre). weights: fitted before. hats: expected weights of each day's
        HATs, (cells, slots), in typical vehicle-days. is_last: whether covariances of HATs are needed.
        """
        self.weights, self.traffic = list(hats), [weights.traffic(day) for day in weights.days]
        # An hour's weight is at most that of all the day's vehicles: if it is above, as where gaps in a feed leave
        # vehicles fewer HATs than declared, one vehicle weighs more in a HAT.
        one_weight = self._facts.hat_weight * math.exp(weights.retention)  # of a vehicle in a HAT, after clips
        most = [of_day.sum(axis=0).max() / self._facts.hats_in_hour for of_day in hats]  # if all drive in that hour
        self.one_weights = np.maximum(one_weight, most / np.array([number.upper95 for number in weights.numbers]))
        # The prior variance of a day's doubt is what weights leave open of its log total; at least a sd of 1 %.
        self.strengths["doubt"] = 1 / np.maximum(weights.total_variances, 1e-4)
        doubts, sums = np.zeros(len(self.days)), self.stack_rows(sums, regressors=("traffic", "doubt"))
        entries = [self.layout.index_of("doubt", day) for day in range(len(self.days))]
        is_first = not self._are_fitted
        for index in range(rounds):
            data = self._data(sums, doubts)
            self.solve(data, is_rough=not (is_last and index + 1 == rounds))
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

    def hat_variances(self, day: int) -> Float64s:
        """Computes variances of HATs' means around the field, (cells, slots)."""
        hats = np.maximum(self.weights[day], 1e-9)  # never divided by 0
        return self.spread.of(hats / self.one_weights[day], self.values[day])

    @property
    def cautious_spread(self) -> VehicleSpread:
        """Multiple of the learned spread, which releases barely identify, for cautious intervals."""
        return VehicleSpread(CAUTION * self.spread.vehicle, CAUTION * self.spread.floor)

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
        """Takes a Fisher scoring step of the spread's log variances, of prior sd FLEET_SD.

        Rows are scaled to variance 1, of which `slopes` are derivatives by log variances, (2, rows). A squared residual
        is expected to be 1 less the leverage (the part of the variance that the fit takes up): `excess` is the
        difference. A Gaussian score is half the slopes times it. Residuals vary by 1 less the leverage, so the Fisher
        information has its square. Neither variance falls below its prior, as releases hardly tell them.
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
