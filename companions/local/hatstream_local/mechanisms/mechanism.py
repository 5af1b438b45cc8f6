"""Defines a local mechanism, which perturbs one user's value."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpops import Noise

Float64s = NDArray[np.float64]
Int64s = NDArray[np.int64]

STEP_BITS = 20
STEPS = 1 << STEP_BITS
"""The stated grid: a sampler knows a value in [-1, 1] only as one of 0..STEPS, each step worth 2 / STEPS."""

LEAST_EPSILON, MOST_EPSILON = 1e-4, 50.0
"""Range of epsilons for which the samplers' grids are fine enough, see their classes."""

COIN_BITS = 62
"""A sampler's one biased choice is a comparison with a whole multiple of 2**-62."""

EXACT = Context(prec=80)
"""Constants of mechanisms are worked out with 80 digits, so that no difference of near numbers loses any at a small
epsilon and nothing overflows at a large one; only the finished constant is rounded to a double."""


@dataclass(frozen=True, slots=True)
class LocalMechanism(ABC):
    """Local mechanism: a frozen dataclass with the epsilon of one report.

    Values v are in [-1, 1], the common domain. Any two values are neighbours: for every report x and all v, w,
    density(x | v) <= exp(epsilon) density(x | w). `low` and `high` bound the raw reports. Arrays broadcast.
    """

    epsilon: float
    name: ClassVar[str]

    def __post_init__(self) -> None:
        """Checks the epsilon's range. Raises ValueError."""
        if not LEAST_EPSILON <= self.epsilon <= MOST_EPSILON:
            raise ValueError(f"the epsilon of a local report must be from {LEAST_EPSILON:g} to {MOST_EPSILON:g}")

    @property
    @abstractmethod
    def high(self) -> float:
        """Upper bound of raw reports."""

    @property
    def low(self) -> float:
        """Lower bound of raw reports."""
        return -self.high

    @abstractmethod
    def log_density(self, reports: Float64s, values: Float64s) -> Float64s:
        """Computes the log density of raw reports, given values."""

    def unbiased(self, reports: Float64s) -> Float64s:
        """Maps raw reports affinely to unbiased estimates of values."""
        return reports

    @abstractmethod
    def variance(self, values: Float64s) -> Float64s:
        """Computes the variance of the unbiased report."""

    @abstractmethod
    def sample(self, values: Float64s, noise: Noise) -> Float64s:
        """Draws raw reports for values, rounded to the grid.

        Raises ValueError for a value outside [-1, 1] or not a number.
        """

    @abstractmethod
    def real_epsilon(self) -> float:
        """Computes the sampler's exact epsilon."""


def exp(epsilon: float) -> Decimal:
    """Computes e**epsilon with 80 digits."""
    return EXACT.exp(Decimal(epsilon))


def to_steps(values: Float64s) -> Int64s:
    """Finds the nearest step, 0..STEPS, of each value."""
    if not np.all(np.abs(values) <= 1):
        raise ValueError("a value to perturb must be in [-1, 1]")
    return np.rint((values + 1) * (STEPS / 2)).astype(np.int64)


def coin_below(share: Decimal) -> int:
    """Computes the largest T with T / 2**62 <= share, the private side."""
    return math.floor(EXACT.multiply(share, Decimal(1 << COIN_BITS)))


def flip(threshold: int, size: int, noise: Noise) -> NDArray[np.bool_]:
    """Tosses independent coins that show heads with probability threshold / 2**62 exactly."""
    return noise.words(size) >> np.uint64(64 - COIN_BITS) < np.uint64(threshold)


@dataclass(frozen=True, slots=True)
class Service:
    """Receiver of independently perturbed reports."""

    name: str
    mechanism: LocalMechanism


@dataclass(frozen=True, slots=True)
class Reports:
    """Raw reports, (services, users); NaN where unanswered.

    Services are sorted by name, so that fusion gives the same bits in whatever order they came.
    """

    services: Sequence[Service]
    values: Float64s

    def __post_init__(self) -> None:
        """Sorts services, with their rows, by name. Raises ValueError for names or shape."""
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
        """Number of users."""
        return int(self.values.shape[1])

    def leakage(self) -> float:
        """Computes the largest sum of epsilons of one user's reports."""
        epsilons = np.array([service.mechanism.epsilon for service in self.services])
        return float(np.max(epsilons @ ~np.isnan(self.values), initial=0.0))
