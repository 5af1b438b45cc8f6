"""What releases HAT by HAT say where counts are public: noisy means slot by slot, and their sums by day."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpops import fitted
from dpops.learning.design import HOURS
from dpops.spread import USUAL
from dpops.types import Float64s, Int64s

RECENT = 6
"""Days that keep a deviation of their own; what older ones say is added up."""


class HatErrors(NamedTuple):
    """How noisy means may lie off the true ones, (hats,) each.

    noise: its variance, (km/h)^2; infinite where nothing is said. bias_kmh: the worst. pull_kmh, pull_sd_kmh: how far
    such a bias usually pulls values up, and how far one HAT's pull may be from that. is_clipped: whether speeds are
    clipped (`dpops.pull`).
    """

    noise: Float64s
    bias_kmh: Float64s
    pull_kmh: Float64s
    pull_sd_kmh: Float64s
    is_clipped: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class HatMeans:
    """Noisy means of HATs of one slot whose plans are public, (hats,) each.

    cells: int64, any numbers, each once and ascending. hour: the local hour in which the slot begins. vehicles,
    reports: int64, >= 1. heaviest: int64, reports of the vehicle that has most. values: km/h, as released, not clamped.
    """

    cells: Int64s
    hour: int
    vehicles: Int64s
    reports: Int64s
    heaviest: Int64s
    values: Float64s
    errors: HatErrors

    def __post_init__(self) -> None:
        columns = (self.vehicles, self.reports, self.heaviest, self.values, *self.errors)
        if any(column.shape != self.cells.shape for column in columns) or np.any(np.diff(self.cells) <= 0):
            raise ValueError("a slot's HATs need ascending cells, and one number of each kind")
        counted = np.all(self.vehicles >= 1) and np.all(self.reports >= self.vehicles) and np.all(self.heaviest >= 1)
        if not (0 <= self.hour < HOURS and counted and np.all(np.isfinite(self.values))):
            raise ValueError("a slot's HATs need an hour of the day, vehicles, reports, and finite values")

    @property
    def is_noisy(self) -> NDArray[np.bool_]:
        """Where anything is said of the data."""
        noisy: NDArray[np.bool_] = np.isfinite(self.errors.noise)
        return noisy

    @property
    def uneven(self) -> Float64s:
        """Variance of what a mechanism does to a HAT's mean beside its pull, (km/h)^2.

        A cap takes reports from some vehicles and not from others, and theirs are independent; so this falls with their
        number. In Austin and in made-up cities it is the square of the worst bias over three times the vehicles.
        """
        variance: Float64s = self.errors.bias_kmh**2 / (3 * self.vehicles)
        return np.where(self.is_noisy, variance, 0.0)

    @property
    def variances(self) -> Float64s:
        """Variances of released values around what their HATs have in common with the true ones but for the usual pull.

        The mean of vehicles that weigh alike and the mean of reports each vary around the mean that both stand for.
        """
        total: Float64s = self.errors.noise + self.otherwise
        return total

    @property
    def otherwise(self) -> Float64s:
        """What of these is not noise: what a mechanism does, beside its usual pull."""
        variance: Float64s = fitted.OF_RELEASED * self.uneven + self.errors.pull_sd_kmh**2
        return variance

    @property
    def dwell(self) -> Float64s:
        """Logarithm of the reports of a vehicle: the slower it is, the longer it stays in a cell and reports there."""
        logs: Float64s = np.log(self.reports / self.vehicles)
        return logs

    @property
    def teaches(self) -> NDArray[np.bool_]:
        """Whether a value's distance from what describes it tells of the true ones': clipped ones are nearer."""
        useful: NDArray[np.bool_] = self.is_noisy & (
            ~self.errors.is_clipped | (self.errors.bias_kmh < fitted.LITTLE_KMH)
        )
        return useful


_COLUMNS = ("vehicles", "reports", "precision", "weighted", "dwelt", "pulled", "unsure", "taught")


@dataclass(frozen=True, slots=True)
class HatSums:
    """What was released of some slots, added up by cell and hour of the day.

    cells: int64 (cells,), ascending. slots: int64 (24,), how many in each hour. Of the HATs, (cells, 24) each:
    vehicles; reports; precision of their noisy means around what describes them; that times the value, times dwell,
    times the usual pull and times its standard deviation; and the precision of those that teach how far HATs lie from
    what describes them.
    """

    cells: Int64s
    slots: Int64s
    vehicles: Float64s
    reports: Float64s
    precision: Float64s
    weighted: Float64s
    dwelt: Float64s
    pulled: Float64s
    unsure: Float64s
    taught: Float64s

    @staticmethod
    def none() -> "HatSums":
        empty = np.zeros((0, HOURS))
        return HatSums(np.zeros(0, np.int64), np.zeros(HOURS, np.int64), *[empty] * len(_COLUMNS))

    @staticmethod
    def of(means: HatMeans) -> "HatSums":
        precision = 1 / (means.variances + USUAL.of(means.vehicles, means.reports))
        columns = np.zeros((len(_COLUMNS), means.cells.size, HOURS))
        columns[:, :, means.hour] = (
            means.vehicles,
            means.reports,
            precision,
            precision * means.values,
            precision * means.dwell,
            precision * means.errors.pull_kmh,
            precision * means.errors.pull_sd_kmh,
            precision * means.teaches,
        )
        return HatSums(means.cells, np.bincount([means.hour], minlength=HOURS), *columns)

    def on(self, cells: Int64s) -> "HatSums":
        """Lays it on more cells."""
        columns = np.zeros((len(_COLUMNS), cells.size, HOURS))
        columns[:, np.searchsorted(cells, self.cells)] = [getattr(self, name) for name in _COLUMNS]
        return HatSums(cells, self.slots, *columns)

    def __add__(self, other: "HatSums") -> "HatSums":
        cells = np.union1d(self.cells, other.cells)
        one, another = self.on(cells), other.on(cells)
        columns = [getattr(one, name) + getattr(another, name) for name in _COLUMNS]
        return HatSums(cells, one.slots + another.slots, *columns)

    def mean(self, summed: Float64s) -> Float64s:
        """Divides what was added up times precision; 0 where there is none."""
        means: Float64s = np.divide(summed, self.precision, out=np.zeros(summed.shape), where=self.precision > 0)
        return means


class HatDay(NamedTuple):
    """A local day by its name, and what was released of it."""

    name: str
    sums: HatSums


@dataclass(frozen=True, slots=True, kw_only=True)
class HatState:
    """All that is kept of earlier releases: a function of them in their order.

    days: the last ones, in the order in which they were first met. older: the others, added up, and their names.
    newest: the day of the last release. keep: how many days stand alone; None: all.
    """

    days: tuple[HatDay, ...] = ()
    older: HatSums
    older_names: frozenset[str] = frozenset()
    newest: str = ""
    keep: int | None = RECENT

    @staticmethod
    def new(keep: int | None = RECENT) -> "HatState":
        return HatState(older=HatSums.none(), keep=keep)

    @property
    def whole(self) -> HatSums:
        return sum((day.sums for day in self.days), self.older)

    @property
    def before(self) -> "HatState":
        """Without the newest day, if that stands alone."""
        return replace(self, days=tuple(day for day in self.days if day.name != self.newest))

    def is_same(self, other: "HatState") -> bool:
        """Says whether both are made of the very same sums."""
        one, another = ([state.older, *(day.sums for day in state.days)] for state in (self, other))
        return len(one) == len(another) and all(ours is yours for ours, yours in zip(one, another, strict=True))

    def after(self, day: str, means: HatMeans) -> "HatState":
        """Adds one more release of that day; one that is not among the last ones any more stays older."""
        sums = HatSums.of(means)
        if day in self.older_names:
            return replace(self, older=self.older + sums, newest=day)
        sums_of = {day_before.name: day_before.sums for day_before in self.days}
        sums_of[day] = sums_of.get(day, HatSums.none()) + sums
        days = tuple(HatDay(name, day_before) for name, day_before in sums_of.items())
        if self.keep is None or len(days) <= self.keep:
            return replace(self, days=days, newest=day)
        first, *rest = days
        names = self.older_names | {first.name}
        return replace(self, days=tuple(rest), older=self.older + first.sums, older_names=names, newest=day)
