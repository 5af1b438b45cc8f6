"""What releases HAT by HAT teach where counts are public: noisy means in, a value and an interval for each HAT out.

The effects are those of `dpops.learning.means`. How many vehicles are behind a HAT is public, so no weight is learned.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from dpops.learning.design import HOURS, Design
from dpops.learning.interval import Z95, rounded
from dpops.learning.layout import Layout
from dpops.learning.means import (
    DayInformation,
    Means,
    SpeedQueries,
    coefficients_of,
    columns_of,
    day_information,
    fit_means,
    spread_of,
    traffic_of,
)
from dpops.learning.queries import GroupRows, Groups
from dpops.types import Float64s, Int64s

PULL = 1.0, 1.0
"""Mean and standard deviation of the factor of `HatMeans.pull`, before any release."""
RECENT = 6
"""Days that keep a deviation of their own; what older ones say is added up."""
MOST_UNKNOWN = 0.6
"""Beyond it values are held back: see `spread_of`. In Austin model values are then nearer than the city's true mean."""
_FEWEST = 0.05
"""Vehicles in a HAT where none was seen: so its traffic has a logarithm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HatMeans:
    """Noisy means of HATs of one slot whose plans are public, (hats,) each.

    cells: int64, any numbers, each once and ascending. hour: the local hour in which the slot begins. vehicles: int64,
    >= 1. values: km/h, as released, not clamped. variances: of the noise; infinite where nothing is said. bias_kmh: how
    far the noiseless value may be from the true one. upper_kmh: the most that a speed may be.
    """

    cells: Int64s
    hour: int
    vehicles: Int64s
    values: Float64s
    variances: Float64s
    bias_kmh: Float64s
    upper_kmh: float

    def __post_init__(self) -> None:
        columns = (self.vehicles, self.values, self.variances, self.bias_kmh)
        if any(column.shape != self.cells.shape for column in columns) or np.any(np.diff(self.cells) <= 0):
            raise ValueError("a slot's HATs need ascending cells, and one number of each kind")
        if not (0 <= self.hour < HOURS and np.all(self.vehicles >= 1) and np.all(np.isfinite(self.values))):
            raise ValueError("a slot's HATs need an hour of the day, vehicles, and finite values")

    @property
    def errors(self) -> Float64s:
        """Expected squares of what lies between the values and the true ones but for their common pull, (km/h)^2."""
        found: Float64s = self.variances + self.bias_kmh**2 / 3
        return found

    @property
    def pull(self) -> Float64s:
        """How strongly each value is pulled where all are, km/h: caps take slow reports away, clips draw to the middle.

        In Austin the mean bias grows with the square of its bound: 0.7 times this by caps, 2 times by clips.
        """
        found: Float64s = self.bias_kmh**2 / self.upper_kmh
        return found


def own_variance(vehicles: Int64s) -> Float64s:
    """Variance of the mean of a HAT of so many vehicles around what describes it, (km/h)^2. Fitted on Austin's buses.

    `deviation_variance` is about vehicles as a release by `levels` expects them, which is another number.
    """
    found: Float64s = 2 + 300 / vehicles**1.1
    return found


_COLUMNS = ("vehicles", "precision", "weighted", "pulled")


@dataclass(frozen=True, slots=True)
class HatSums:
    """What was released of some slots, added up by cell and hour of the day.

    cells: int64 (cells,), ascending. slots: int64 (24,), how many in each hour. Of the HATs, (cells, 24) each:
    vehicles; precision of their noisy means around what describes them; that times the value, and times its pull.
    """

    cells: Int64s
    slots: Int64s
    vehicles: Float64s
    precision: Float64s
    weighted: Float64s
    pulled: Float64s

    @staticmethod
    def none() -> "HatSums":
        empty = np.zeros((0, HOURS))
        return HatSums(np.zeros(0, np.int64), np.zeros(HOURS, np.int64), *[empty] * len(_COLUMNS))

    @staticmethod
    def of(means: HatMeans) -> "HatSums":
        precision = 1 / (means.errors + own_variance(means.vehicles))
        columns = np.zeros((len(_COLUMNS), means.cells.size, HOURS))
        columns[:, :, means.hour] = means.vehicles, precision, precision * means.values, precision * means.pull
        return HatSums(means.cells, np.bincount([means.hour], minlength=HOURS), *columns)

    def on(self, cells: Int64s) -> "HatSums":
        """The same on more cells."""
        columns = np.zeros((len(_COLUMNS), cells.size, HOURS))
        columns[:, np.searchsorted(cells, self.cells)] = [getattr(self, name) for name in _COLUMNS]
        return HatSums(cells, self.slots, *columns)

    def __add__(self, other: "HatSums") -> "HatSums":
        cells = np.union1d(self.cells, other.cells)
        one, another = self.on(cells), other.on(cells)
        columns = [getattr(one, name) + getattr(another, name) for name in _COLUMNS]
        return HatSums(cells, one.slots + another.slots, *columns)


class HatDay(NamedTuple):
    """A local day by its name, and what was released of it."""

    name: str
    sums: HatSums


@dataclass(frozen=True, slots=True, kw_only=True)
class HatState:
    """All that is kept of earlier releases: a function of them in their order.

    days: the last ones, in the order in which they were first met. older: the others, added up, and their names.
    keep: how many days stand alone; None: all.
    """

    days: tuple[HatDay, ...] = ()
    older: HatSums
    older_names: frozenset[str] = frozenset()
    keep: int | None = RECENT

    @staticmethod
    def new(keep: int | None = RECENT) -> "HatState":
        return HatState(older=HatSums.none(), keep=keep)

    @property
    def whole(self) -> HatSums:
        return sum((day.sums for day in self.days), self.older)

    def after(self, day: str, means: HatMeans) -> "HatState":
        """The state after one more release of that day; one that is not among the last ones any more stays older."""
        sums = HatSums.of(means)
        if day in self.older_names:
            return replace(self, older=self.older + sums)
        known = {each.name: each.sums for each in self.days}
        known[day] = known.get(day, HatSums.none()) + sums
        days = tuple(HatDay(name, each) for name, each in known.items())
        if self.keep is None or len(days) <= self.keep:
            return replace(self, days=days)
        first, *rest = days
        names = self.older_names | {first.name}
        return replace(self, days=tuple(rest), older=self.older + first.sums, older_names=names)


class HatBelief(NamedTuple):
    """Of HATs, (hats,) each, in km/h, rounded. is_known: whether enough is known of the city to show them."""

    values: Float64s
    lower95: Float64s
    upper95: Float64s
    is_known: bool


@dataclass(frozen=True, slots=True)
class LearnedHats:
    """The model fitted to a state. cells: ascending, as the design numbers them. traffic: (cells, 24)."""

    design: Design
    cells: Int64s
    days: tuple[str, ...]
    traffic: Float64s
    means: Means

    def belief(self, day: str, means: HatMeans, upper_kmh: float) -> HatBelief:
        """Of HATs that the state has taken in; from them and all else in it. A day that is not kept is a usual one.

        What describes the HAT, moved towards its own noisy mean as far as that is to be believed. Not known is a city
        whose pattern, by the model's own account, is missed by more than MOST_UNKNOWN of what its true mean misses.
        """
        older = len(self.means.own) - len(self.days)
        deviations = self.means.deviations(older + self.days.index(day) if day in self.days else 0)
        hours, at = np.array([means.hour]), np.searchsorted(self.cells, means.cells)
        traffic, weights = self.traffic[:, hours], np.zeros((self.cells.size, 1))
        weights[at, 0] = means.vehicles
        spread = spread_of(self.means, deviations, hours, traffic, weights)
        described = (self.means.described(self.design, hours, traffic) + deviations.values[hours])[at, 0]
        own, pull = own_variance(means.vehicles), self.means.effects[self.design.columns]
        part = own / (own + means.errors)
        values = described + part * (means.values - pull * means.pull - described)
        reach = Z95 * np.sqrt((1 - part) ** 2 * spread.variances[at, 0] + (1 - part) * own)
        value, lower, upper = (
            rounded(np.clip(each, 0, upper_kmh)) for each in (values, values - reach, values + reach)
        )
        return HatBelief(value, lower, upper, spread.unknown <= MOST_UNKNOWN)


def learned_hats(state: HatState, design: Design) -> LearnedHats:
    """design: of the state's cells, of which there must be one."""
    layout, whole, hours = Layout(design, 2), state.whole, np.arange(HOURS)
    usual = whole.vehicles / np.maximum(whole.slots, 1)
    traffic = traffic_of(np.maximum(usual, _FEWEST))
    every = Groups(cells=np.arange(design.cells), slots=hours)
    columns = columns_of(design, hours, design.columns, design.columns + 1)
    rows, parts = GroupRows(every, columns, layout, b"hats"), coefficients_of(traffic)

    def said(sums: HatSums, days: int = 1) -> DayInformation:
        mine = sums.on(whole.cells)
        precision = np.maximum(mine.precision, 1e-300)
        hats = np.insert(parts, -1, mine.pulled / precision, axis=-1)
        query = SpeedQueries(rows, hats, (mine.weighted / precision).ravel(), 1 / precision.ravel())
        return replace(day_information(layout, [query]), days=days)

    days = [said(day.sums) for day in state.days]
    if state.older_names:
        days.insert(0, said(state.older, len(state.older_names)))
    return LearnedHats(
        design, whole.cells, tuple(day.name for day in state.days), traffic, fit_means(layout, days, [PULL])
    )
