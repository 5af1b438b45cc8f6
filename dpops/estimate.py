"""Estimates of many HATs: values, intervals, noise and bias."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from operator import itemgetter
from typing import Any, Self

import numpy as np

from dpops.forecast import laplace_bound, laplace_std
from dpops.types import Float64s

OK, CONSTANT, NO_DATA = "ok", "constant", "no-data"
"""Statuses of a value: "constant" depends on no report; of "no-data" there are no reports, or none is left."""


@dataclass(frozen=True, eq=False)
class Estimates:
    """Published columns of a statistic; nan where missing.

    numbers: float64 (numbers, 3, HATs), by output: values and ends of intervals of known miss probability, in units.
    lists: a column for each list among the outputs. noise_std, bias_bound: float64 (HATs,), of the first output, in
    units. epsilon: float64 (HATs,), spent on each.

    >>> plan = {"step": "1/100", "scale": "200", "upper": "65", "epsilon": "1", "bias_bound": 0.0, "rounding": 0.005}
    >>> noisy_queries([2_150], [plan], miss=0.05).number(0)[:, 0].round(2).tolist()
    [21.5, 15.5, 27.5]
    """

    numbers: Float64s
    lists: Sequence[Sequence[tuple[float, ...] | None]]
    noise_std: Float64s
    bias_bound: Float64s
    epsilon: Float64s
    status: Sequence[str]

    def number(self, index: int) -> Float64s:
        """Picks a numeric output with its interval, (3, HATs)."""
        return self.numbers[index] if self.numbers.size else np.full((3, len(self.status)), np.nan)

    @classmethod
    def placed(cls, hats: int, groups: Sequence[tuple[Sequence[int], "Estimates"]]) -> Self:
        """Joins (HAT indices, estimates) groups to `hats` HATs; others have no data."""
        numbers = np.full((max((len(group.numbers) for _, group in groups), default=0), 3, hats), np.nan)
        most_lists = max((len(group.lists) for _, group in groups), default=0)
        lists: list[list[tuple[float, ...] | None]] = [[None] * hats for _ in range(most_lists)]
        floats, status = np.full((3, hats), np.nan), [NO_DATA] * hats
        for indices, group in groups:
            rows = np.array(indices, np.int64)
            numbers[: len(group.numbers), :, rows] = group.numbers
            floats[:, rows] = group.noise_std, group.bias_bound, group.epsilon
            for index, hat in enumerate(indices):
                status[hat] = group.status[index]
                for joined, group_list in zip(lists, group.lists, strict=False):  # a group may have fewer lists
                    joined[hat] = group_list[index]
        noise_std, bias_bound, epsilon = floats
        return cls(numbers, lists, noise_std, bias_bound, epsilon, status)


_noise_fields = itemgetter("step", "scale", "upper", "epsilon")  # stored fields that decide a plan's law


def noisy_queries(queries: Sequence[int], plans: Sequence[Mapping[str, Any]], miss: float) -> Estimates:
    """Converts noisy queries to values in [0, upper] with intervals.

    Intervals lie around the value clipped to [0, U], which is nearer to any true value there: they miss no more often.
    queries: noisy integers, in steps. plans: as `Plan.document` stores them. miss: chance that an interval misses.
    """
    if not plans:
        empty = np.zeros(0)  # a column of no HATs
        return Estimates(np.zeros((1, 3, 0)), lists=[], noise_std=empty, bias_bound=empty, epsilon=empty, status=[])
    step_ratios, floats = zip(*(_noise_numbers(*_noise_fields(plan), miss) for plan in plans), strict=True)
    noise, noise_std, upper, epsilon = np.array(floats).T  # noise: the bound that it exceeds with chance `miss`
    pairs = zip(queries, step_ratios, strict=True)  # Python's integers, as queries may exceed 2**53
    exact = np.array([query * numerator / denominator for query, (numerator, denominator) in pairs], np.float64)
    bias = np.array([plan["bias_bound"] for plan in plans], np.float64)
    rounding = np.array([plan.get("rounding", -1.0) for plan in plans], np.float64)
    for row in np.flatnonzero(rounding < 0).tolist():  # plans of means that store no rounding: it is half a step
        rounding[row] = upper[row] / (2 * plans[row]["facts"]["upper_steps"])
    value = np.minimum(np.maximum(exact, 0.0), upper)
    half = noise + bias + rounding
    is_old = np.array([plan.get("version", 1) < 2 for plan in plans], np.bool_)  # its bias lacks rounding
    return Estimates(
        numbers=np.stack([value, np.maximum(value - half, 0.0), np.minimum(value + half, upper)])[None],  # one output
        lists=[],
        noise_std=noise_std,
        bias_bound=np.where(is_old, bias, np.minimum(bias + rounding, upper)),
        epsilon=epsilon,
        status=np.where(epsilon > 0, OK, CONSTANT).tolist(),  # a constant draws nothing, so it costs nothing
    )


@lru_cache(maxsize=1 << 14)
def _noise_numbers(
    step: str, scale: str, upper: str, epsilon: str, miss: float
) -> tuple[tuple[int, int], tuple[float, float, float, float]]:
    """Converts a plan's texts: the step's ratio; noise's bound and sd, U and epsilon."""
    step_size, scale_steps = Fraction(step), Fraction(scale)  # the step in units, noise's scale in steps
    floats = laplace_bound(scale_steps, miss) * float(step_size), laplace_std(scale_steps) * float(step_size)
    return step_size.as_integer_ratio(), (*floats, float(Fraction(upper)), float(Fraction(epsilon)))
