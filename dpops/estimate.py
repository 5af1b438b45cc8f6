"""What a release says of one HAT: values with intervals, noise and bias, from noisy integers and their plan alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, Self

import numpy as np

from dpops.types import Float64s

OK, CONSTANT = "ok", "constant"


class Number(NamedTuple):
    """A value, and an interval around it that misses the true one with a known probability; all in its own units."""

    value: float
    lower: float
    upper: float


class Estimate(NamedTuple):
    """Everything that sinks, maps and reports show of one statistic of one HAT.

    numbers, lists: by the names of the statistic's outputs. noise_std: standard deviation of the noise of the first
    output, in units. bias_bound: worst-case distance of its noiseless value from the true one. epsilon: what was spent
    on it. status: "ok"; "constant", if the value says nothing of what was driven; or why there is no value.
    """

    numbers: Mapping[str, Number]
    lists: Mapping[str, tuple[float, ...]]
    noise_std: float | None
    bias_bound: float | None
    epsilon: Fraction | None
    status: str = OK


NO_DATA = Estimate(numbers={}, lists={}, noise_std=None, bias_bound=None, epsilon=None, status="no-data")
"""Nobody reported there, or nobody is left of those who did."""


@dataclass(frozen=True, eq=False)
class Estimates:
    """The estimates of many HATs in columns, an entry a HAT; nan where there is no number.

    numbers: float64 (3, HATs) by the names of outputs: values, lower and upper ends. lists: by the names of outputs,
    None where there is no list. noise_std, bias_bound, epsilon: float64 (HATs,). status: of each.
    """

    numbers: Mapping[str, Float64s]
    lists: Mapping[str, Sequence[tuple[float, ...] | None]]
    noise_std: Float64s
    bias_bound: Float64s
    epsilon: Float64s
    status: Sequence[str]

    @classmethod
    def of(cls, each: Sequence[Estimate]) -> Self:
        """Estimates that were made one by one."""
        outputs = dict.fromkeys(name for found in each for name in found.numbers)
        lists = dict.fromkeys(name for found in each for name in found.lists)
        nothing = (np.nan,) * 3
        return cls(
            numbers={name: np.array([found.numbers.get(name, nothing) for found in each]).T for name in outputs},
            lists={name: [found.lists.get(name) for found in each] for name in lists},
            noise_std=np.array([found.noise_std for found in each], np.float64),
            bias_bound=np.array([found.bias_bound for found in each], np.float64),
            epsilon=np.array([found.epsilon for found in each], np.float64),
            status=[found.status for found in each],
        )

    @classmethod
    def placed(cls, hats: int, parts: Sequence[tuple[Sequence[int], "Estimates"]]) -> Self:
        """Parts, each with the places of its HATs among so many; the others have no data."""
        numbers = {name: np.full((3, hats), np.nan) for _, part in parts for name in part.numbers}
        lists: dict[str, list[tuple[float, ...] | None]] = {n: [None] * hats for _, part in parts for n in part.lists}
        noise_std, bias_bound, epsilon = np.full((3, hats), np.nan)
        status = [NO_DATA.status] * hats
        for places, part in parts:
            mine = np.array(places, np.int64)
            for name, found in part.numbers.items():
                numbers[name][:, mine] = found
            noise_std[mine], bias_bound[mine], epsilon[mine] = part.noise_std, part.bias_bound, part.epsilon
            for at, said in zip(places, part.status, strict=True):
                status[at] = said
            for name, column in part.lists.items():
                for at, each in zip(places, column, strict=True):
                    lists[name][at] = each
        return cls(numbers, lists, noise_std, bias_bound, epsilon, status)
