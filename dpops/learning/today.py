"""Today, while it lasts: slots that ended are one more day of the same posterior."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from dpops.learning.belief import Learned, learned
from dpops.learning.field import Field, Gate
from dpops.learning.groups import Groups
from dpops.learning.releases import DayValues, LevelValues, StageValues
from dpops.learning.state import State
from dpops.types import Float64s, Int64s


@dataclass(frozen=True, slots=True)
class Live:
    """Belief about a day's HATs by now.

    Attributes:
        leans: (cells, slots), the share of the forecast's variance that today's slots removed, 0 to 1.
    """

    field: Field
    leans: Float64s


def live(models: Learned, hours: Int64s, slots: Mapping[int, StageValues]) -> Live:
    """Estimates one day from earlier days and from the slots that were released of it.

    Args:
        models: of earlier days only.
        hours: int64 (slots,), the local hour in which each slot of the day begins, see `Design`.
        slots: by their index in the day, values over (cells, 1), in a day's units of weight.
    """
    forecast = models.forecast(hours)
    if not slots:
        return Live(forecast, np.zeros(forecast.values.shape))
    stages = tuple(_of_the_day(hours, slot, values) for slot, values in sorted(slots.items()))
    state = models.state
    day = DayValues(hours=hours, stages=(_uncounted(state, stages[0].centre), *stages))
    today = learned(replace(state, recent=(*state.recent, day)))
    field = today.estimate()
    leans = 1 - np.minimum(field.variances / forecast.variances, 1.0)
    # A storm moves a day's mean, and slots leave its weight open: neither says that the city is unknown.
    return Live(replace(field, gate=Gate(ratio=field.gate.ratio)), leans)


def _uncounted(state: State, centre: Float64s) -> StageValues:
    """Leaves a day's weight open: vehicles' hours are hardly clipped, so they weigh more than in a day's sums."""
    cells, slots = (np.zeros(size, np.int64) for size in centre.shape)
    vehicles = np.array([[state.facts.vehicles]])
    level = LevelValues(
        groups=Groups(cells=cells, slots=slots),
        weights=vehicles,
        speeds=0 * vehicles,
        weight_variance=vehicles**2,
        speed_variance=np.inf,
    )
    return StageValues(centre=centre, levels=(level,), counts_vehicles=True)


def _of_the_day(hours: Int64s, slot: int, values: StageValues) -> StageValues:
    """Lays a slot's values on the day: of HATs in other slots nothing is said."""
    centre = np.repeat(values.centre, hours.size, axis=1)
    levels = tuple(_level_of_the_day(hours, slot, level) for level in values.levels)
    return StageValues(centre=centre, levels=levels)


def _level_of_the_day(hours: Int64s, slot: int, level: LevelValues) -> LevelValues:
    of_slots = np.where(np.arange(hours.size) == slot, 0, 1).astype(np.int64)
    groups = Groups(cells=level.groups.cells, slots=of_slots if hours.size > 1 else 0 * of_slots)
    columns = groups.shape[1]

    def wide(values: Float64s, fill: float) -> Float64s:
        result = np.full((groups.shape[0], columns), fill)
        result[:, 0] = values[:, 0]
        return result

    return LevelValues(
        groups=groups,
        weights=wide(level.weights, 0.0),
        speeds=wide(level.speeds, 0.0),
        weight_variance=wide(level.weight_variances, np.inf),
        speed_variance=wide(level.speed_variances, np.inf),
    )
