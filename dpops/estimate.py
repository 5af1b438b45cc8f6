"""What a release says of one HAT: values with intervals, noise and bias, from noisy integers and their plan alone."""

from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple

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
