"""What a local mechanism is: it perturbs one value of one user before the value leaves the user's hands."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from dpops import Noise

Float64s = NDArray[np.float64]
Int64s = NDArray[np.int64]

STEP_BITS = 20
STEPS = 1 << STEP_BITS
"""The stated grid: a sampler knows a value in [-1, 1] only as one of 0..STEPS, each step worth 2 / STEPS."""

LEAST_EPSILON, MOST_EPSILON = 1e-4, 50.0

COIN_BITS = 62
"""A sampler's one biased choice is a comparison with a whole multiple of 2**-62."""

EXACT = Context(prec=80)
"""Constants of mechanisms are worked out with 80 digits, so that no difference of near numbers loses any at a small
epsilon and nothing overflows at a large one; only the finished constant is rounded to a double."""


class LocalMechanism(Protocol):
    """One file of this package holds one mechanism: a frozen dataclass with the epsilon of one report.

    Values v are in [-1, 1], the common domain. Any two values are neighbours: for every report x and all v, w,
    density(x | v) <= exp(epsilon) density(x | w). `low` and `high` bound the raw reports. Arrays broadcast.
    """

    name: ClassVar[str]

    @property
    def epsilon(self) -> float: ...
    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...

    def log_density(self, reports: Float64s, values: Float64s) -> Float64s:
        """Computes the log density of a raw report given the value (log probability where reports are few)."""
        ...

    def unbiased(self, reports: Float64s) -> Float64s:
        """Maps raw reports affinely, so that their mean is the value itself."""
        ...

    def variance(self, values: Float64s) -> Float64s:
        """Computes the variance of the unbiased report, in the common domain."""
        ...

    def sample(self, values: Float64s, noise: Noise) -> Float64s:
        """Draws one raw report for each value in [-1, 1], which is first rounded to the stated grid.

        Raises ValueError for a value outside [-1, 1] or not a number.
        """
        ...

    def real_epsilon(self) -> float:
        """Computes the sampler's epsilon on its finite grid: the largest log ratio of two exact probabilities."""
        ...


def check_epsilon(epsilon: float) -> None:
    if not LEAST_EPSILON <= epsilon <= MOST_EPSILON:
        raise ValueError(f"the epsilon of a local report must be from {LEAST_EPSILON:g} to {MOST_EPSILON:g}")


def exp(epsilon: float) -> Decimal:
    """Computes e**epsilon with 80 digits."""
    return EXACT.exp(Decimal(epsilon))


def to_steps(values: Float64s) -> Int64s:
    """Finds the grid's step 0..STEPS nearest to each value in [-1, 1]."""
    if not np.all(np.abs(values) <= 1):
        raise ValueError("a value to perturb must be in [-1, 1]")
    return np.rint((values + 1) * (STEPS / 2)).astype(np.int64)


def coin_below(share: Decimal) -> int:
    """Finds the largest T with T / 2**62 <= share: rounding goes to the side that tells less."""
    return math.floor(EXACT.multiply(share, Decimal(1 << COIN_BITS)))


def flip(threshold: int, size: int, noise: Noise) -> NDArray[np.bool_]:
    """Tosses independent coins that show heads with probability threshold / 2**62 exactly."""
    return noise.words(size) >> np.uint64(64 - COIN_BITS) < np.uint64(threshold)


@dataclass(frozen=True, slots=True)
class Service:
    """One receiver of reports; each user perturbs its value for it independently of the other services."""

    name: str
    mechanism: LocalMechanism


@dataclass(frozen=True, slots=True)
class Reports:
    """values: float64 (services, users), raw reports; NaN where a user has not answered a service.

    Services are kept in the order of their names, so that fusion gives the same bits in whatever order they came.
    """

    services: Sequence[Service]
    values: Float64s

    def __post_init__(self) -> None:
        names = [service.name for service in self.services]
        if not names or len(set(names)) != len(names):
            raise ValueError("reports need at least one service, and services need different names")
        if self.values.ndim != 2 or self.values.shape[0] != len(names):
            raise ValueError(f"reports of {len(names)} services need as many rows, got shape {self.values.shape}")
        order = sorted(range(len(names)), key=names.__getitem__)
        if order != list(range(len(names))):
            object.__setattr__(self, "services", [self.services[i] for i in order])
            object.__setattr__(self, "values", self.values[order])

    @property
    def users(self) -> int:
        return int(self.values.shape[1])

    def of(self, first: int, last: int) -> "Reports":
        """Takes the users first..last - 1."""
        return Reports(self.services, self.values[:, first:last])

    def leakage(self) -> float:
        """Computes the most epsilon that any of these users has given away: the sum over the services it answered."""
        epsilons = np.array([service.mechanism.epsilon for service in self.services])
        return float(np.max(epsilons @ ~np.isnan(self.values), initial=0.0))
