"""The statistics that a specification can ask for: what each needs of a vehicle's samples, and what it puts out.

A new statistic is an entry of `registered` and the mechanisms that name it; where it needs another column of samples
than there is, also a field of `dpops.mechanism.Totals`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, Protocol

import numpy as np

from dpops.mechanism import Mechanism
from dpops.types import Grid, Int64s

SPEED, SQUARED_SPEED, SHARE = "{}", "({})^2", "1"
"""Units, as text in which the unit of a speed is filled in."""


class Column(Protocol):
    """What of its samples in a HAT a vehicle adds up to; the columns of two parts of its samples add up to the whole's.

    name: of the field of `Totals` that takes it.
    """

    @property
    def name(self) -> str: ...

    def add_up(self, steps: Int64s, group: Int64s, groups: int) -> Int64s:
        """int64 (groups,) or (groups, K), zero for a group without samples.

        steps: int64 (samples,), grid steps in [0, upper_steps]. group: of each sample, below `groups`.
        """
        ...


@dataclass(frozen=True, slots=True)
class PowerSum:
    """The sum of a power of the samples' grid steps."""

    name: str
    power: int

    def add_up(self, steps: Int64s, group: Int64s, groups: int) -> Int64s:
        total = np.zeros(groups, np.int64)
        np.add.at(total, group, steps**self.power)
        return total


@dataclass(frozen=True, slots=True)
class Histogram:
    """Samples in each of so many equally wide bins of [0, U]: bin floor(steps bins / upper_steps), U in the last."""

    bins: int
    upper_steps: int
    name: str = "histograms"

    def add_up(self, steps: Int64s, group: Int64s, groups: int) -> Int64s:
        counts = np.bincount(group * self.bins + self.bins_of(steps), minlength=groups * self.bins)
        return counts.astype(np.int64).reshape(groups, self.bins)

    def bins_of(self, steps: Int64s) -> Int64s:
        found: Int64s = np.minimum(steps * self.bins // self.upper_steps, self.bins - 1)
        return found


SUMS, SQUARES = PowerSum("sums", 1), PowerSum("squares", 2)


@dataclass(frozen=True, slots=True)
class Moments:
    """A statistic of sums of powers."""

    sums: tuple[PowerSum, ...]

    def columns(self, mechanism: Mechanism, grid: Grid) -> tuple[Column, ...]:  # noqa: ARG002 - as Binned has it
        return self.sums


@dataclass(frozen=True, slots=True)
class Binned:
    """A statistic of histograms; its mechanisms have the number of bins as an option, `bins`."""

    def columns(self, mechanism: Mechanism, grid: Grid) -> tuple[Column, ...]:
        bins = getattr(mechanism, "bins", None)
        if not isinstance(bins, int):
            raise TypeError(f"{mechanism.name} does not say how many bins it needs")
        return (Histogram(bins, grid.upper_steps),)


@dataclass(frozen=True, slots=True)
class Output:
    """One thing that is published of a statistic: a number with an interval, or a list of numbers."""

    name: str
    unit: str = SPEED
    is_list: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistic:
    """A registry entry.

    outputs: the first is a number, and what a row shows as its value; rows have columns for all of them if there are
    several. default: the mechanism where a specification names none. forecast_unit: of its plans and forecasts, where
    these are not of the value. weighs_as: as which error suppression counts it. takes_caps: whether a cap on counts
    lessens a vehicle's weight in it.
    """

    name: str
    needs: Moments | Binned
    outputs: tuple[Output, ...]
    default: str = "auto"
    forecast_unit: str | None = None
    weighs_as: Literal["mean", "variance"] = "mean"
    takes_caps: bool = True

    def __post_init__(self) -> None:
        names = [output.name for output in self.outputs]
        if not names or self.outputs[0].is_list or len(set(names)) != len(names):
            raise ValueError(f"{self.name}: its outputs have names of their own, and the first of them is a number")

    @property
    def unit(self) -> str:
        """Of the value, with that of a speed to be filled in."""
        return self.outputs[0].unit

    @property
    def plan_unit(self) -> str:
        """Of plans and forecasts, with that of a speed to be filled in."""
        return self.forecast_unit or self.unit

    @property
    def extras(self) -> tuple[Output, ...]:
        """The outputs that rows have columns of their own for."""
        return self.outputs if len(self.outputs) > 1 else ()

    def place(self, output: Output) -> int:
        """Where an output stands among those of its kind, numbers or lists, as `dpops.estimate` has them."""
        return [each for each in self.outputs if each.is_list == output.is_list].index(output)


_ALL = (
    Statistic(name="mean", needs=Moments((SUMS,)), outputs=(Output("mean"),)),
    Statistic(
        name="mean-of-vehicles",
        needs=Moments((SUMS,)),
        outputs=(Output("mean"),),
        default="baseline",
        takes_caps=False,
    ),
    Statistic(
        name="variance",
        needs=Moments((SUMS, SQUARES)),
        outputs=(Output("variance", SQUARED_SPEED),),
        weighs_as="variance",
    ),
    Statistic(
        name="distribution",
        needs=Binned(),
        outputs=(
            Output("p50"),
            Output("p85"),
            Output("mean"),
            Output("variance", SQUARED_SPEED),
            Output("cdf", SHARE, is_list=True),
        ),
        default="tree",
        forecast_unit=SHARE,
    ),
)


def registered() -> dict[str, Statistic]:
    """Statistics by the name that a specification uses."""
    return {statistic.name: statistic for statistic in _ALL}


@dataclass(frozen=True, slots=True)
class RequestedStatistic:
    """One statistic of a specification. share: its part of the HAT's epsilon; the shares add up to 1.

    Raises ValueError as `check_outputs` does.
    """

    name: str
    mechanism: Mechanism
    share: Fraction

    def __post_init__(self) -> None:
        check_outputs(self.mechanism, registered()[self.name])


def check_outputs(mechanism: Mechanism, statistic: Statistic) -> None:
    """Raises ValueError for a mechanism that gives other outputs than the statistic has, or in another order."""
    given, wanted = mechanism.outputs, tuple(output.name for output in statistic.extras)
    if given != wanted:
        said, asked = (", ".join(names) or "one number" for names in (given, wanted))
        raise ValueError(f"{mechanism.name} gives {said}, but {statistic.name} puts out {asked}")


def columns_of(requested: Iterable[RequestedStatistic], grid: Grid) -> tuple[Column, ...]:
    """The columns that some statistics need together, by name. Raises ValueError for two that differ under one name."""
    found: dict[str, Column] = {}
    for each in requested:
        for column in registered()[each.name].needs.columns(each.mechanism, grid):
            if found.setdefault(column.name, column) != column:
                raise ValueError(f"two statistics need different {column.name}")
    return tuple(found[name] for name in sorted(found))


def extras_of(names: Sequence[str]) -> tuple[Output, ...]:
    """The further columns that rows of some statistics have, in the statistics' order."""
    known = registered()
    return tuple(dict.fromkeys(output for name in names for output in known[name].extras))
