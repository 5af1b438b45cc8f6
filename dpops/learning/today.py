"""Today, while it lasts: what slots that ended say of the day's own deviation from what earlier days forecast."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from dpops import fitted
from dpops.learning.assembly import PartInformation, system_of
from dpops.learning.covariances import hat_variances, usual_hours
from dpops.learning.design import HOURS
from dpops.learning.information import Information
from dpops.learning.layout import EffectLayout
from dpops.learning.learner import Field, Learned
from dpops.learning.means import DEFAULT, columns_of
from dpops.learning.queries import GroupRows
from dpops.learning.releases import StageValues
from dpops.learning.system import Solved
from dpops.spread import USUAL
from dpops.types import Float64s, Int64s

DAY = replace(DEFAULT, cells=fitted.MEAN_OTHERS)
"""How a day's own deviations hold together, as those of other days do."""


@dataclass(frozen=True, slots=True)
class Live:
    """What is believed of a day's HATs by now. leans: (cells, slots), how far each value rests on today's slots: what
    part of the forecast's variance they took away, 0 to 1."""

    field: Field
    leans: Float64s


def live(learned: Learned, hours: Int64s, slots: Mapping[int, StageValues]) -> Live:
    """Estimates one day around the earlier days' posterior, from the slots that were released of it.

    learned: of earlier days only. hours: int64 (slots,), the local hour in which each slot of the day begins, see
    `Design`. slots: by their index in the day, each one's values over (cells, 1), in a day's units of weight (`Facts`).
    Only what is given is looked at, so a live value is a function of entries of earlier sequence. The deviation of the
    day is smooth effects of the same kinds as the usual ones, with zero mean; a Kalman step for each slot and one fit
    to all of them are the same.
    """
    forecast, clock = learned.forecast(hours), hours % HOURS
    factors = _factors(forecast.weights, slots)
    layout = learned.state.rows.speeds.layout
    total = Information.none(layout)
    for slot, values in slots.items():
        weights = (forecast.weights[:, slot] * factors[slot])[:, None]
        total = total + _slot_information(layout, clock[slot : slot + 1], values, forecast, slot, weights)
    before, after = (_solved(layout, information) for information in (Information.none(layout), total))
    usual, now = (
        hat_variances(information, usual_hours(information)).variances[:, clock] for information in (before, after)
    )
    moved = learned.state.design.described(after.effects[:-1], clock)
    left = np.minimum(now / usual, 1.0)
    field = replace(forecast, values=forecast.values + moved, variances=(forecast.variances + usual) * left)
    return Live(field, 1 - left)


def _solved(layout: EffectLayout, information: Information) -> Solved:
    precision = np.zeros(layout.border.size)
    precision[0], precision[-1] = fitted.CITY_SPREAD**-2, 1.0  # nothing is learned of traffic: its rows are zero
    return system_of(layout, precision, np.zeros(precision.size), [PartInformation(information)]).solved(DAY)


def _factors(weights: Float64s, slots: Mapping[int, StageValues]) -> dict[int, float]:
    """Estimates how much more each slot weighs than usual, shrunk: common to all slots, and each one's own.

    A day's weights are what clips left of them; a vehicle's hour is hardly clipped.
    """
    seen = {slot: _seen(weights[:, slot].sum(), values) for slot, values in slots.items()}
    precision = sum(1 / (variance + fitted.OVERDISPERSION) for _, variance in seen.values())
    told = sum(ratio / (variance + fitted.OVERDISPERSION) for ratio, variance in seen.values())
    before = fitted.FACTOR_SD**-2
    usual = max((before / fitted.COUNTED_KEPT + told) / (precision + before), 0.1)
    hour = fitted.OVERDISPERSION
    believed = {slot: usual + hour / (hour + variance) * (ratio - usual) for slot, (ratio, variance) in seen.items()}
    return {slot: float(np.clip(factor, usual / 3, 3 * usual)) for slot, factor in believed.items()}


def _seen(expected: float, values: StageValues) -> tuple[float, float]:
    """Computes the whole slot's weight over the expected one, and that ratio's variance: infinite if none is said."""
    for level in values.levels:
        if level.groups.shape == (1, 1) and np.all(np.isfinite(level.weight_variance)):
            variance = float(1 / level.weight_precision[0, 0])
            return float(level.weights[0, 0]) / expected, variance / expected**2
    return 1.0, np.inf


def _slot_information(
    layout: EffectLayout, hour: Int64s, values: StageValues, forecast: Field, slot: int, weights: Float64s
) -> Information:
    """Adds up what a slot's levels say of the deviation from the forecast. weights: (cells, 1), expected in it."""
    design, around = layout.design, forecast.values[:, slot : slot + 1] - values.centre
    columns, own = columns_of(design, hour)[..., :-1], weights**2 * USUAL.of(forecast.vehicles[:, [slot]])
    total = Information.none(layout)
    for index, level in enumerate(values.levels):
        if not np.all(np.isfinite(level.speed_variance)):
            continue
        rows = GroupRows(level.groups, columns, layout, bytes([slot, index]))(weights)
        precision = 1 / (level.speed_variance + level.groups.totals(own))
        missed = level.speeds - level.groups.totals(weights * around)
        total = total + rows.information(precision.ravel(), missed.ravel())
    return total
