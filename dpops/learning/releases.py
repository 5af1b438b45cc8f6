"""One day's releases as they are learned from: noisy sums of groups around public centres."""

from dataclasses import dataclass

import numpy as np

from dpops.learning.design import HABITS
from dpops.learning.groups import Groups
from dpops.types import Float64s, Int64s


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelValues:
    """What one level says: noisy sums over each group, (cell groups, slot groups), in weights and weights times km/h.

    A variance is that of the noise: one number, or one for each group; infinite where nothing is said.
    """

    groups: Groups
    weights: Float64s
    speeds: Float64s
    weight_variance: float | Float64s
    speed_variance: float | Float64s

    def __post_init__(self) -> None:
        if not self.weights.shape == self.speeds.shape == self.groups.shape:
            raise ValueError(f"a level's values must be {self.groups.shape}, one per group")
        if not (np.all(np.isfinite(self.weights)) and np.all(np.isfinite(self.speeds))):
            raise ValueError("a level's values must be finite")
        if not (np.all(np.asarray(self.weight_variance) >= 0) and np.all(np.asarray(self.speed_variance) > 0)):
            raise ValueError("the noise of speeds must have a variance above 0, that of weights at least 0")

    @property
    def weight_variances(self) -> Float64s:
        """Per group. Exact weights count as known to a thousandth of a vehicle."""
        variances: Float64s = np.maximum(np.broadcast_to(self.weight_variance, self.groups.shape), 1e-6)
        return variances

    @property
    def speed_variances(self) -> Float64s:
        """Per group."""
        return np.broadcast_to(np.asarray(self.speed_variance, np.float64), self.groups.shape)

    @property
    def weight_precision(self) -> Float64s:
        """Per group."""
        precision: Float64s = 1 / self.weight_variances
        return precision

    @property
    def speed_precision(self) -> Float64s:
        """Per group."""
        precision: Float64s = 1 / self.speed_variances
        return precision


@dataclass(frozen=True, slots=True, kw_only=True)
class StageValues:
    """One look at a day: the centre in km/h, (cells, slots), around which residuals were taken, and its levels.

    counts_vehicles: it is no look, but counts them: each weighs what a typical vehicle-day does before any clip.
    """

    centre: Float64s
    levels: tuple[LevelValues, ...]
    counts_vehicles: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DayValues:
    """Everything released of one day. hours: int64 (slots,), in which each slot begins: 0 to 23, on a day off 24
    to 47."""

    hours: Int64s
    stages: tuple[StageValues, ...] = ()
    count: float = 1.0

    def __post_init__(self) -> None:
        if self.hours.size == 0 or self.hours.min() < 0 or self.hours.max() >= HABITS:
            raise ValueError("a day needs slots whose hours are 0 to 47")
        shapes = [(level.groups.cells.size, level.groups.slots.size) for s in self.stages for level in s.levels]
        shapes += [stage.centre.shape for stage in self.stages]
        if any(slots != self.hours.size for _, slots in shapes):
            raise ValueError("stages and hours are about different slots")

    @property
    def looks(self) -> list[StageValues]:
        return [stage for stage in self.stages if not stage.counts_vehicles]

    @property
    def levels(self) -> list[LevelValues]:
        """All levels of its looks."""
        return [level for stage in self.looks for level in stage.levels]

    @property
    def counted(self) -> list[LevelValues]:
        """Numbers of its vehicles, each of one group."""
        return [level for stage in self.stages if stage.counts_vehicles for level in stage.levels]
