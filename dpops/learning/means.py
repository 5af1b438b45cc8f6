"""Mean speeds from noisy sums: linear-Gaussian effects, with each day's own deviation by hour."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from dpops import fitted
from dpops.learning.assembly import PartInformation, system_of
from dpops.learning.covariances import hat_variances, usual_hours
from dpops.learning.design import HABITS, HOURS, Design, Smoothness, both_kinds, hour_smoothness
from dpops.learning.information import Information
from dpops.learning.layout import EffectLayout
from dpops.learning.queries import GroupRows
from dpops.learning.system import Solved, learned_smoothness
from dpops.spread import USUAL_KMH
from dpops.types import Float64s, Int64s

DEFAULT = Smoothness(
    cells=fitted.MEAN_CELLS,
    hours=fitted.MEAN_OTHERS,
    parents=fitted.MEAN_OTHERS,
    off=fitted.MEAN_OTHERS,
    days=fitted.MEAN_OTHERS,
)
ROUNDS = 8
_SMALL_CHANGE = 0.03


@dataclass(frozen=True, slots=True)
class SpeedQueries:
    """Noisy values of linear combinations of HAT means.

    rows: made with `columns_of`. hats: (cells, slots, kinds), each HAT's coefficient in its group times its effects'.
    values, variances: (queries,), in coefficient times km/h; the variance counts noise and the HATs' own deviations.
    """

    rows: GroupRows
    hats: Float64s
    values: Float64s
    variances: Float64s


@dataclass(frozen=True, slots=True)
class Means:
    """Fitted effects in km/h, (columns + 1,); the last one is per unit of a HAT's traffic."""

    effects: Float64s
    solved: Solved

    @property
    def own(self) -> list[slice]:
        """Where the deviation by hour of each day that was fitted stands in the border, in their order."""
        return self.solved.system.spans

    def described(self, design: Design, hours: Int64s, traffic: Float64s) -> Float64s:
        """Computes the usual mean of each HAT, (cells, slots)."""
        usual: Float64s = design.described(self.effects[:-1], hours) + self.effects[-1] * traffic
        return usual

    def deviations(self, day: int) -> "Deviations":
        """Takes the deviations of one of the days that were fitted."""
        rows = usual_hours(self.solved)
        rows[:, self.own[day]] = both_kinds()
        return Deviations(both_kinds() @ self.solved.border[self.own[day]], rows, np.zeros((HABITS, HABITS)))

    def unknown_deviations(self) -> "Deviations":
        """Makes the deviations of a day that is still to come."""
        days = self.solved.smoothness.days
        spread: Float64s = np.linalg.inv(days * hour_smoothness()).astype(np.float64)
        return Deviations(np.zeros(HABITS), usual_hours(self.solved), both_kinds() @ spread @ both_kinds().T)


@dataclass(frozen=True, slots=True)
class Deviations:
    """A day's own deviation by hour, (48,). hours: (48, border), what describes an hour of that day in the border.

    more: (48, 48), covariance of what is not in the border.
    """

    values: Float64s
    hours: Float64s
    more: Float64s


@dataclass(frozen=True, slots=True)
class DayInformation:
    """What a number of days say of the lasting effects and of their own hours, which their information has as well."""

    information: Information
    days: float = 1.0

    def times(self, part: float) -> "DayInformation":
        """Makes days count for that part of what they were."""
        return DayInformation(self.information.times(part), part * self.days)

    def __add__(self, other: "DayInformation") -> "DayInformation":
        """Makes one day of both that is so much better known: its own hours are the mean of theirs."""
        return DayInformation(self.information + other.information, self.days + other.days)

    @property
    def part(self) -> PartInformation:
        return PartInformation(self.information, self.days)


def traffic_of(weights: Float64s) -> Float64s:
    """Takes the logarithm of each HAT's weight around the weighted mean of these, cut to [-3, 3]."""
    logs = np.log(weights)
    around: Float64s = np.clip(logs - np.sum(logs * weights) / weights.sum(), -3.0, 3.0)
    return around


def columns_of(design: Design, hours: Int64s, *more: int) -> Int64s:
    """Lists the effects that describe each HAT's mean, int64 (cells, slots, 5): the design's, and traffic.

    more: in the place of traffic, where that is not the only further column.
    """
    columns = design.of_hats(hours)
    further = np.broadcast_to(more or (design.columns,), (*columns.shape[:2], len(more) or 1))
    return np.concatenate([columns, further], axis=-1)


def coefficients_of(traffic: Float64s) -> Float64s:
    """Computes how much a HAT has of each effect of `columns_of`, (cells, slots, 5)."""
    return np.concatenate([np.ones((*traffic.shape, 4)), traffic[..., None]], axis=-1)


def day_information(layout: EffectLayout, queries: Sequence[SpeedQueries]) -> DayInformation:
    total = Information.none(layout)
    for query in queries:
        total = total + query.rows(query.hats).information(1 / query.variances, query.values)
    return DayInformation(total)


def fit_means(
    layout: EffectLayout,
    days: Sequence[DayInformation],
    start: Smoothness | None = None,
    most_rounds: int = ROUNDS,
) -> Means:
    """Fits effects to all days' information.

    Their smoothness is learned from it by EM, from the start or the default on. most_rounds: of EM.
    """
    default = DEFAULT.of(layout.design)
    smoothness, precision, value = start or default, np.zeros(layout.border.size), np.zeros(layout.border.size)
    precision[0], value[0] = fitted.CITY_SPREAD**-2, USUAL_KMH * fitted.CITY_SPREAD**-2
    precision[-1], value[-1] = fitted.SLOPE_KMH**-2, 1 / fitted.SLOPE_KMH
    system = system_of(layout, precision, value, [day.part for day in days])
    for index in range(most_rounds):
        solved = system.solved(smoothness)
        if index + 1 < most_rounds:
            lasting = learned_smoothness(solved, solved.effects, default)
            stronger = replace(lasting, days=_learned_days(solved, days)).beyond(smoothness)
            if stronger.is_near(smoothness, _SMALL_CHANGE):
                break
            smoothness = stronger
    return Means(solved.effects, solved)


def _learned_days(solved: Solved, days: Sequence[DayInformation]) -> float:
    """Learns how strongly days' own deviations are held together: by expectation-maximisation, as for other effects.

    The default is worth a day: whether days differ is told by days. One of which nothing was released tells nothing.
    """
    ring, energy, told = hour_smoothness(), HOURS / DEFAULT.days, 1
    for of_day, day in zip(solved.system.spans, days, strict=True):
        if day.information.wide or day.information.corner.any():
            values = solved.border[of_day]
            energy += day.days * float(values @ ring @ values + np.sum(ring * solved.spread[of_day, of_day]))
            told += 1
    return HOURS * told / energy


class MeanUncertainty(NamedTuple):
    """How well each HAT's described mean is known. variances: (cells, slots). unknown: see `spread_of`. constant: the
    expected squared error of the city's true mean, (km/h)^2."""

    variances: Float64s
    unknown: float
    constant: float


def spread_of(
    means: Means, deviations: Deviations, hours: Int64s, traffic: Float64s, weights: Float64s
) -> MeanUncertainty:
    """Computes variances of the described means, and what part of the city's pattern is not known.

    The second is the expected squared error of the described means over that of one constant, the city's true mean:
    0 where all is known, 1 where one constant would do as well, above 1 where not even that is known.
    """
    solved, share = means.solved, weights / weights.sum()
    last = traffic[..., None]
    own = variances_of(means, deviations, hours, last)
    with_mean = _with_mean(solved, deviations, hours, last, share)
    design = solved.system.layout.design
    values = means.described(design, hours, traffic) + deviations.values[hours]
    constant = (values - np.sum(share * values)) ** 2 + own - 2 * with_mean + np.sum(share * with_mean)
    of_constant = max(float(np.sum(share * constant)), 1e-9)
    return MeanUncertainty(own, float(np.sum(share * own)) / of_constant, of_constant)


def variances_of(means: Means, deviations: Deviations, hours: Int64s, last: Float64s) -> Float64s:
    """Computes the variances of the described means, (cells, slots).

    last: (cells, slots, columns), how much each HAT has of the last ones.
    """
    variances, these = (
        hat_variances(means.solved, deviations.hours, last.shape[-1]),
        _last(means.solved, last.shape[-1]),
    )
    both = last @ means.solved.spread[these, these] + 2 * variances.with_last[:, hours]
    own: Float64s = variances.variances[:, hours] + np.sum(both * last, axis=-1) + np.diag(deviations.more)[hours]
    return np.maximum(own, 0.0)


def border_of(solved: Solved, deviations: Deviations) -> Float64s:
    """Maps the lasting border to the whole one, (lasting, whole); hours also to the day's own."""
    layout = solved.system.layout
    place = np.eye(layout.border.size, solved.border.size)
    rows = deviations.hours.copy()
    rows[:, 0] = 0
    place[layout.hours] = rows
    return place


def traffic_at(solved: Solved) -> int:
    """Finds where the effect of traffic stands in the border."""
    return solved.system.layout.border.size - 1


def _last(solved: Solved, columns: int) -> slice:
    """Selects so many of the lasting columns in the border, that of traffic being the last."""
    return slice(traffic_at(solved) + 1 - columns, traffic_at(solved) + 1)


def _with_mean(solved: Solved, deviations: Deviations, hours: Int64s, last: Float64s, share: Float64s) -> Float64s:
    """Computes how each HAT's described mean covaries with the city's, (cells, slots).

    last: (cells, slots, columns).
    """
    layout, these = solved.system.layout, _last(solved, last.shape[-1])
    columns = layout.design.of_hats(hours)
    parts = np.broadcast_to(share[..., None], columns.shape)
    row = np.bincount(columns.ravel(), parts.ravel(), layout.width).astype(np.float64)
    by_hour = np.bincount(hours, share.sum(axis=0), HABITS)
    border = by_hour @ deviations.hours
    border[these] = np.sum(share[..., None] * last, axis=(0, 1))
    local, at_border = solved.times(row[layout.local], border)
    at_place = np.zeros(layout.width)
    at_place[layout.local] = local
    by_slot = (deviations.hours @ at_border + by_hour @ deviations.more)[hours]
    covariances: Float64s = at_place[columns[..., 1]] + at_place[columns[..., 3]] + by_slot + last @ at_border[these]
    return covariances
