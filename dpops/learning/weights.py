"""Field of log weights, fitted to noisy sums."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpops import fitted
from dpops.learning.effects import EffectLayout, Effects, Item, Regressors, Start
from dpops.learning.posterior import LatentField, LinearData, NoisySums
from dpops.learning.releases import BLOCK_H, HOURS, DayValues, Groups
from dpops.levels.defaults import RETAINED
from dpops.spread import Z95
from dpops.types import Float64s, Int64s

TOTAL_PRECISION = fitted.RETAINED_SD**-2
"""Prior precision of a day's log weight around its vehicles'."""
MAX_LOG_STEP = 1.5
"""Largest change of a log weight in a Gauss-Newton step."""
MAX_LOG_VARIANCE = 4.0
"""Cap of log variances behind lognormal means, where nothing is known yet."""
_HALVINGS = 4
_CONVERGED, _STRENGTHS_CONVERGED = 0.03, 0.1
"""Largest changes of log weights and of log strengths in a round at which fits end."""
_CLIP = 30.0
"""Bound of log weights: exp of more has no meaning as a weight, and may overflow in squares."""


@dataclass(frozen=True)
class VehicleNumber:
    """A day's vehicle number, and its logarithm's variance; `is_counted`: not declared alone."""

    number: float
    log_variance: float
    is_counted: bool = True

    @property
    def upper95(self) -> float:
        """Computes the upper end of its 95 % interval; infinite if only declared."""
        return self.number * math.exp(Z95 * math.sqrt(self.log_variance)) if self.is_counted else math.inf


class WeightField(LatentField):
    """Field of daily HAT weights, in typical vehicle-days.

    Attributes:
        effects: where the field was last linearised.
        variances: of logarithms of each day's HATs, (cells, slots).
        total_variances: of the logarithm of each day's weight.
    """

    def __init__(
        self,
        layout: EffectLayout,
        days: Sequence[DayValues],
        numbers: Sequence[VehicleNumber],
        totals: Sequence[float | None],
        start: Start | None,
    ) -> None:
        super().__init__(layout, days, None if start is None else start.weights)
        self.numbers = tuple(numbers)
        self._total_precisions = np.full(len(days), TOTAL_PRECISION)
        self._at_retention = layout.index_of("retention")
        self.variances = [np.zeros((layout.cells, day.hours.size)) for day in days]
        self.total_variances = np.full(len(days), 1.0)
        self.effects = layout.zeros(len(days))
        if start is None:
            self.effects.border[self._at_retention] = math.log(RETAINED)
        else:
            for array, values in zip(self.effects, start.effects, strict=True):
                array[: values.size] = values
        self._begin(totals)

    def _begin(self, totals: Sequence[float | None]) -> None:
        """Starts the last days at released totals, else at vehicles times retention."""
        first = len(self.days) - len(totals)
        hats = self.weights(self.effects)[first:]
        for day, total, weights in zip(range(first, len(self.days)), totals, hats, strict=True):
            expected = math.log(self.numbers[day].number) + self.retention if total is None else math.log(total)
            self.effects.border[self.layout.index_of("day", day)] += expected - math.log(weights.sum())

    @property
    def retention(self) -> float:
        """Log share of a counted vehicle's weight after clipping."""
        return float(self.effects.border[self._at_retention])

    def weights(self, effects: Effects) -> list[Float64s]:
        """Computes expected weights of days' HATs, as lognormal means."""
        return [
            self._expected(effects, day, index, variances)
            for index, (day, variances) in enumerate(zip(self.days, self.variances, strict=True))
        ]

    def of_day(self, day: DayValues, index: int) -> tuple[Float64s, Float64s]:
        """Computes a day's expected weights and variances of logarithms."""
        variances = np.minimum(self.posterior.variances_of_hats(day.hours, index), MAX_LOG_VARIANCE)
        return self._expected(self.effects, day, index, variances), variances

    def _expected(self, effects: Effects, day: DayValues, index: int, variances: Float64s) -> Float64s:
        """Computes means of lognormal weights, exp(log + variance / 2), (cells, slots)."""
        logs = self.layout.hats(effects, day.hours, index)
        return np.asarray(np.exp(np.clip(logs + variances / 2, -_CLIP, _CLIP)))

    def traffic(self, day: DayValues) -> Float64s:
        """Computes centred logarithms of a day's typical weights, (cells, slots)."""
        logs = self.layout.hats(self.effects, day.hours, None)
        shares = np.exp(logs)
        return np.asarray(np.clip(logs - np.sum(logs * shares) / shares.sum(), -3, 3))  # a regressor without outliers

    def fit(self, sums: Sequence[NoisySums], rounds: int) -> None:
        """Fits effects by Gauss-Newton and strengths by Fellner-Schall steps.

        Variances behind weights stay fixed in the last two rounds, so that totals fit the released ones.
        """
        sums = self._lay(sums)
        for index in range(rounds):
            data = self._linear(sums)
            self.solve(data, is_rough=True)
            if index % 2 == 0 and (index + 2 < rounds or rounds < 3):
                self._update_variances()
            largest = self._step(sums, data)
            previous, self.strengths = self.strengths, self.posterior.next_strengths(self.effects)
            self._update_totals(data)
            learned = [block.name for block in self.layout.blocks if block.is_learned]
            changes = [np.max(np.abs(np.log(self.strengths[name] / previous[name]))) for name in learned]
            if largest < _CONVERGED and max(changes) < _STRENGTHS_CONVERGED:
                break

    def finish(self, sums: Sequence[NoisySums], next_day: DayValues, number: VehicleNumber) -> None:
        """Computes the posterior around effects, a coming day of `number` vehicles included."""
        self.days, self.numbers = (*self.days, next_day), (*self.numbers, number)
        self.effects = self.layout.padded(self.effects, len(self.days))
        self._total_precisions = np.append(self._total_precisions, TOTAL_PRECISION)
        self.variances = [*self.variances, np.zeros((self.layout.cells, next_day.hours.size))]
        self._begin([None])
        data = self._linear(self._lay(sums))
        self.solve(data, is_rough=False)
        self._update_variances()
        self._update_totals(data)

    def _linear(self, sums: Sequence[NoisySums]) -> LinearData:
        """Linearises released sums and daily totals around the effects."""
        # Derivatives of weights exp(x) are weights, of a log total shares; it is observed less the retention, so -1.
        weights = self.weights(self.effects)
        totals = np.array([hats.sum() for hats in weights])
        of_items = [weights[item.day] for item in sums]
        plain: Regressors = {}
        with_retention: list[Regressors] = [{"retention": np.array(-1.0)}] * len(weights)
        rows = self.stack(
            [*of_items, *(hats / total for hats, total in zip(weights, totals, strict=True))],
            [plain] * len(of_items) + with_retention,
        )
        precisions = [
            1 / (item.variances + fitted.HAT_LOG_VARIANCE * item.groups.totals(hats**2).ravel() + 1e-9)
            for item, hats in zip(sums, of_items, strict=True)
        ]
        uncertain = np.array([number.log_variance for number in self.numbers])
        precisions.append(1 / (1 / self._total_precisions + uncertain))
        residuals = self._residuals(sums, self.effects)
        values = residuals + rows.times(self.effects)
        return LinearData.of(rows, values, np.concatenate(precisions), self.wide)

    def _residuals(self, sums: Sequence[NoisySums], effects: Effects) -> Float64s:
        """Computes residuals of released sums, then of each day's log total."""
        weights = self.weights(effects)
        residuals = [item.values - item.groups.totals(weights[item.day]).ravel() for item in sums]
        logs = np.log([number.number for number in self.numbers]) - np.log([hats.sum() for hats in weights])
        return np.concatenate([*residuals, logs + effects.border[self._at_retention]])

    def _lay(self, sums: Sequence[NoisySums]) -> list[NoisySums]:
        """Lists rows of the linear system: the sums, then each day's total weight."""
        totals = [
            Item(Groups.everything(self.layout.cells, day.hours.size), day.hours, index, ("retention",))
            for index, day in enumerate(self.days)
        ]
        return self.lay(sums, wide_items=totals)

    def _step(self, sums: Sequence[NoisySums], data: LinearData) -> float:
        """Takes a step, halved while cost rises; returns the largest change."""
        change = Effects(*(new - old for new, old in zip(self.posterior.mean, self.effects, strict=True)))
        largest = max(
            float(np.abs(self.layout.hats(change, day.hours, index)).max()) for index, day in enumerate(self.days)
        )
        size = min(1.0, MAX_LOG_STEP / max(largest, 1e-9))
        prior = self.layout.prior(self.strengths, [day.count for day in self.days])

        def cost(effects: Effects) -> float:
            deviations = prior.rows_times(effects._replace(border=effects.border - prior.means))
            return float(deviations @ deviations + data.precisions @ self._residuals(sums, effects) ** 2)

        start = cost(self.effects)
        for _ in range(_HALVINGS):
            trial = Effects(*(old + size * delta for old, delta in zip(self.effects, change, strict=True)))
            if cost(trial) <= start + 1e-6:
                break
            size /= 2
        self.effects = trial
        return size * largest

    def _update_variances(self) -> None:
        """Recomputes variances of log weights, of all days at once."""
        sizes = [day.hours.size for day in self.days]
        hours, days = np.concatenate([day.hours for day in self.days]), np.repeat(np.arange(len(sizes)), sizes)
        variances = np.minimum(self.posterior.variances_of_hats(hours, days), MAX_LOG_VARIANCE)
        of_days = np.split(variances, np.cumsum(sizes)[:-1], axis=1)
        self.variances = [_of_parts(of_day, day.hours) for of_day, day in zip(of_days, self.days, strict=True)]

    def _update_totals(self, data: LinearData) -> None:
        """Updates the precision of each day's log weight around its vehicles'.

        The last rows of data hold one pseudo-observation a day: log weight less log vehicles is the retention. The law
        is Student's: each precision is its mean under a gamma prior worth PRIOR_WORTH degrees of freedom.
        """
        of_totals = slice(-len(self.days), None)
        rows, root = data.rows[of_totals], np.sqrt(data.precisions[of_totals])
        residuals = (data.values[of_totals] - rows.times(self.effects)) / root
        freedom = np.maximum(1 - self._total_precisions / root**2 * self.posterior.variances_of_rows(rows), 0)
        worth = fitted.PRIOR_WORTH
        self._total_precisions = (freedom + worth) / (residuals**2 + worth / TOTAL_PRECISION)
        # The variance of the log weight itself: without its row's -1 times the retention.
        without_retention = rows.border * (np.arange(rows.border.shape[1]) != self._at_retention)
        self.total_variances = self.posterior.variances_of_rows(replace(rows, border=without_retention)) / root**2


def _of_parts(variances: Float64s, hours: Int64s) -> Float64s:
    """Smooths sampled variances, (cells, slots): a cell-part mean plus an hour term."""
    blocks = hours % HOURS // BLOCK_H
    result = np.empty_like(variances)
    for block in np.unique(blocks):
        of_block = variances[:, blocks == block]
        of_cells = of_block.mean(axis=1, keepdims=True)
        result[:, blocks == block] = of_cells + of_block.mean(axis=0) - of_cells.mean()
    return result
