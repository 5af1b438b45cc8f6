"""Statistics of a specification: their sums and outputs.

A column is a sum over a vehicle's samples in a HAT: `add_up(steps, group, groups)` takes the samples' grid steps and
the number of each one's group below `groups`, int64 (samples,), and returns a row for each group. Outputs are what rows
publish. A new statistic is an entry of `registered` and the mechanisms that name it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

import numpy as np

from dpops.types import Grid, Int64s

if TYPE_CHECKING:
    from dpops.mechanism import Mechanism

VALUE, SQUARED, SHARE = "{}", "({})^2", "1"  # units, as text in which the unit of the measured value is filled in


@dataclass(frozen=True, slots=True)
class PowerSum:
    """Sum of a power of the samples' grid steps."""

    name: str
    power: int

    def add_up(self, steps: Int64s, group: Int64s, groups: int) -> Int64s:
        """Sums powers of values by group."""
        total = np.zeros(groups, np.int64)
        np.add.at(total, group, steps**self.power)
        return total


@dataclass(frozen=True, slots=True)
class Histogram:
    """Samples per equal-width bin; U falls into the last."""

    bins: int
    upper_steps: int
    name: str = "histograms"

    def add_up(self, steps: Int64s, group: Int64s, groups: int) -> Int64s:
        """Counts values in bins by group."""
        return _counted(self.bins_of(steps), self.bins, group, groups)

    def bins_of(self, steps: Int64s) -> Int64s:
        """Computes the bins of values."""
        return np.minimum(steps * self.bins // self.upper_steps, self.bins - 1)


@dataclass(frozen=True, slots=True)
class Classes:
    """Samples per class; an edge is in the upper."""

    edges: tuple[int, ...]
    name: str = "classes"

    def add_up(self, steps: Int64s, group: Int64s, groups: int) -> Int64s:
        """Counts values in classes by group."""
        class_of = np.searchsorted(np.array(self.edges, np.int64), steps, side="right")
        return _counted(class_of, len(self.edges) + 1, group, groups)


Column = PowerSum | Histogram | Classes


def _counted(bin_of: Int64s, bins: int, group: Int64s, groups: int) -> Int64s:
    """Counts samples by group and bin, int64 (groups, bins)."""
    return np.bincount(group * bins + bin_of, minlength=groups * bins).astype(np.int64).reshape(groups, bins)


SUMS, SQUARES = PowerSum("sums", 1), PowerSum("squares", 2)


Needs = Callable[["Mechanism", Grid], Mapping[str, Column]]
"""Returns needed columns by the field of `Totals` that takes each."""


def moments(*sums: PowerSum) -> Needs:
    """Makes the needs of a statistic of power sums."""
    return lambda _mechanism, _grid: {column.name: column for column in sums}


def binned(mechanism: "Mechanism", grid: Grid) -> Mapping[str, Column]:
    """Lists the column that a distribution needs: a histogram of `bins`. Raises TypeError."""
    bins = getattr(mechanism, "bins", None)
    if not isinstance(bins, int):
        raise TypeError(f"{mechanism.name} does not say how many bins it needs")
    column = Histogram(bins, grid.upper_steps)
    return {column.name: column}


@dataclass(frozen=True, slots=True)
class Output:
    """Published output: number with interval, or a list."""

    name: str
    unit: str = VALUE
    is_list: bool = False


@dataclass(frozen=True, slots=True)
class Statistic:
    """Registry entry of a statistic.

    outputs: the first is a number, a row's value. default: mechanism. forecast_unit: of plans and forecasts, where it
    is not the value's. weighs_as: error that suppression counts. takes_caps: whether a cap on counts lessens a
    vehicle's weight.

    >>> named("distribution").unit, [output.name for output in named("distribution").outputs]
    ('{}', ['p50', 'p85', 'mean', 'variance', 'cdf'])
    """

    name: str
    needs: Needs
    outputs: tuple[Output, ...]
    default: str = "auto"
    forecast_unit: str | None = None
    weighs_as: Literal["mean", "variance"] = "mean"
    takes_caps: bool = True

    @property
    def unit(self) -> str:
        """Unit of the statistic; `{}` stands for the value's."""
        return self.outputs[0].unit

    @property
    def plan_unit(self) -> str:
        """Unit of plans and forecasts; `{}`: the measured value's."""
        return self.forecast_unit or self.unit

    @property
    def extras(self) -> tuple[Output, ...]:
        """Outputs with separate columns in rows."""
        return self.outputs if len(self.outputs) > 1 else ()

    def index_of(self, output: Output) -> int:
        """Indexes an output among numbers, or among lists."""
        return [same_kind for same_kind in self.outputs if same_kind.is_list == output.is_list].index(output)


_STATISTICS = (
    Statistic("mean", needs=moments(SUMS), outputs=(Output("mean"),)),
    Statistic("mean-of-vehicles", needs=moments(SUMS), outputs=(Output("mean"),), default="baseline", takes_caps=False),
    Statistic("variance", needs=moments(SUMS, SQUARES), outputs=(Output("variance", SQUARED),), weighs_as="variance"),
    Statistic(
        "distribution",
        needs=binned,
        outputs=(*map(Output, ("p50", "p85", "mean")), Output("variance", SQUARED), Output("cdf", SHARE, is_list=True)),
        default="tree",
        forecast_unit=SHARE,
    ),
)


COUNT = Statistic("count", needs=moments(), outputs=(Output("count", SHARE),), default="levels")
"""Released by `levels` alone, by no mechanism of HATs."""


def registered() -> dict[str, Statistic]:
    """Lists statistics by the name that a specification uses."""
    return {statistic.name: statistic for statistic in _STATISTICS}


def named(name: str) -> Statistic:
    """Returns a statistic by its name in stored files."""
    return COUNT if name == COUNT.name else registered()[name]


@dataclass(frozen=True, slots=True)
class RequestedStatistic:
    """One requested statistic, with its share of epsilon.

    >>> from dpops import Grid, registered
    >>> mean = RequestedStatistic("mean", registered()["baseline"](), Fraction(1))
    >>> list(mean.columns(Grid(step=Fraction(1, 100), upper_steps=6_500)))
    ['sums']
    """

    name: str
    mechanism: "Mechanism"
    share: Fraction

    def __post_init__(self) -> None:
        check_outputs(self.mechanism, self.statistic)

    @property
    def statistic(self) -> Statistic:
        """The statistic of that name."""
        return named(self.name)

    def columns(self, grid: Grid) -> Mapping[str, Column]:
        """Lists the needed columns by their field of `Totals`."""
        return self.statistic.needs(self.mechanism, grid)


def check_outputs(mechanism: "Mechanism", statistic: Statistic) -> None:
    """Raises ValueError unless mechanism and statistic have equal outputs."""
    outputs, columns = mechanism.outputs, tuple(output.name for output in statistic.extras)  # none: a single number
    if outputs != columns:
        output_text, column_text = (", ".join(names) or "one number" for names in (outputs, columns))
        raise ValueError(f"{mechanism.name} gives {output_text}, but {statistic.name} puts out {column_text}")


def columns_of(requested: Iterable[RequestedStatistic], grid: Grid) -> tuple[Column, ...]:
    """Lists needed columns by name. Raises ValueError on conflicts."""
    columns: dict[str, Column] = {}
    for statistic in requested:
        for column in statistic.columns(grid).values():
            if columns.setdefault(column.name, column) != column:
                raise ValueError(f"two statistics need different {column.name}")
    return tuple(columns[name] for name in sorted(columns))


def extras_of(names: Sequence[str]) -> tuple[Output, ...]:
    """Lists statistics' extra output columns, each once."""
    return tuple(dict.fromkeys(output for name in names for output in named(name).extras))
