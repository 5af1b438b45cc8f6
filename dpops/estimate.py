"""What a release says of one HAT: values with intervals, noise and bias, from noisy integers and their plan alone."""

from collections.abc import Sequence
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

    numbers, lists: in the order of the statistic's outputs of either kind; none where there is no data. noise_std:
    standard deviation of the noise of the first output, in units. bias_bound: worst-case distance of its noiseless
    value from the true one. epsilon: what was spent on it. status: "ok"; "constant", if the value says nothing of what
    was driven; or why there is no value.
    """

    numbers: tuple[Number, ...]
    lists: tuple[tuple[float, ...], ...]
    noise_std: float | None
    bias_bound: float | None
    epsilon: Fraction | None
    status: str = OK


NO_DATA = Estimate(numbers=(), lists=(), noise_std=None, bias_bound=None, epsilon=None, status="no-data")
"""Nobody reported there, or nobody is left of those who did."""


@dataclass(frozen=True, eq=False)
class Estimates:
    """The estimates of many HATs in columns, an entry a HAT; nan where there is no number.

    numbers: float64 (numbers, 3, HATs), values, lower and upper ends, in the order of the statistic's outputs. lists:
    a column for each list among these, None where there is none. noise_std, bias_bound, epsilon: float64 (HATs,).
    status: of each.
    """

    numbers: Float64s
    lists: Sequence[Sequence[tuple[float, ...] | None]]
    noise_std: Float64s
    bias_bound: Float64s
    epsilon: Float64s
    status: Sequence[str]

    def number(self, place: int) -> Float64s:
        """The output at this place among the numbers, float64 (3, HATs); nan where no HAT has data."""
        return self.numbers[place] if self.numbers.size else np.full((3, len(self.status)), np.nan)

    def list_of(self, place: int) -> Sequence[tuple[float, ...] | None]:
        """The output at this place among the lists, an entry a HAT."""
        return self.lists[place] if self.lists else [None] * len(self.status)

    @classmethod
    def of(cls, each: Sequence[Estimate]) -> Self:
        """Estimates that were made one by one."""
        numbers = max((len(found.numbers) for found in each), default=0)
        lists = max((len(found.lists) for found in each), default=0)
        nothing = (Number(np.nan, np.nan, np.nan),) * numbers
        columns = np.array([found.numbers or nothing for found in each], np.float64)
        return cls(
            numbers=columns.reshape(len(each), numbers, 3).transpose(1, 2, 0),
            lists=[[found.lists[at] if found.lists else None for found in each] for at in range(lists)],
            noise_std=np.array([found.noise_std for found in each], np.float64),
            bias_bound=np.array([found.bias_bound for found in each], np.float64),
            epsilon=np.array([found.epsilon for found in each], np.float64),
            status=[found.status for found in each],
        )

    @classmethod
    def placed(cls, hats: int, parts: Sequence[tuple[Sequence[int], "Estimates"]]) -> Self:
        """Parts, each with the places of its HATs among so many; the others have no data."""
        numbers = np.full((max((len(part.numbers) for _, part in parts), default=0), 3, hats), np.nan)
        most = max((len(part.lists) for _, part in parts), default=0)
        lists: list[list[tuple[float, ...] | None]] = [[None] * hats for _ in range(most)]
        noise_std, bias_bound, epsilon = np.full((3, hats), np.nan)
        status = [NO_DATA.status] * hats
        for places, part in parts:
            mine = np.array(places, np.int64)
            numbers[: len(part.numbers), :, mine] = part.numbers
            noise_std[mine], bias_bound[mine], epsilon[mine] = part.noise_std, part.bias_bound, part.epsilon
            for at, said in zip(places, part.status, strict=True):
                status[at] = said
            for placed, column in zip(lists, part.lists, strict=False):
                for at, each in zip(places, column, strict=True):
                    placed[at] = each
        return cls(numbers, lists, noise_std, bias_bound, epsilon, status)
