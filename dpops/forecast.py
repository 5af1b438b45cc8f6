"""Forecasts of discrete Laplace noise: spread, interval and error."""

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from statistics import NormalDist
from typing import Any, NamedTuple, Self

import numpy as np

from dpops.types import CountsKnown, Float64s, Grid, Int64s

BETWEEN_HATS = 0.25
"""Variance between HATs' means over the prior's. Without it a forecast would take the prior's mean for the truth, and
favour a constant near it."""
_LIKELY_MEANS = 8  # equally likely means of a HAT that a forecast averages over


class Prior(NamedTuple):
    """Public prior of samples, nearly normal; for forecasts only.

    between: the share of a HAT's variance that lies between users, because a user's samples resemble one another.

    >>> Prior(mean=20.0, sd=12.0).mean_sd(np.array([1, 4])).tolist()
    [12.0, 6.0]
    """

    mean: float
    sd: float
    between: float = 0.0

    def mean_sd(self, counts: Float64s | Int64s) -> Float64s:
        """Computes a user mean's standard deviation around the HAT's."""
        return self.sd * np.sqrt(self.between + (1 - self.between) / counts)

    def spread(self, weights: Float64s, counts: Int64s) -> Float64s:
        """Computes standard deviations of sums of users' weighted means."""
        return np.asarray(np.sqrt(((weights * self.mean_sd(counts)) ** 2).sum(axis=-1)))  # over users

    def of_squares(self) -> "Prior":
        """Makes the prior of samples' squared deviations from HATs' means.

        A user's offset b, whose variance is between sd^2, and residual e are independent normals. (b + e)^2 has the
        variance 2 sd^4, and its mean over a user's c samples has 2 sd^4 (between^2 + (1 - between^2) / c).
        """
        return Prior(self.sd**2, math.sqrt(2) * self.sd**2, self.between**2)

    def hat_means(self, upper: float) -> Float64s:
        """Lists equally likely HAT means within [0, U]."""
        return np.clip(self.mean + math.sqrt(BETWEEN_HATS) * self.sd * normal_scores(_LIKELY_MEANS), 0.0, upper)


@dataclass(frozen=True)
class HatCounts:
    """Counts and plan parameters of many HATs, for forecasts.

    counts: int64 (HATs, users) for each number of users, each >= 1, descending; all columns are in this order of HATs.
    reported: int64 (HATs,), samples before a cap. remembered: shared intermediate results.
    """

    counts: tuple[Int64s, ...]
    reported: Int64s
    grid: Grid
    epsilon: Fraction
    prior: Prior
    remembered: dict[Hashable, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, hats: Sequence[CountsKnown], grid: Grid, epsilon: Fraction, prior: Prior) -> tuple[Self, Int64s]:
        """Groups HATs by number of users; returns also their order, as indices of `hats`."""
        users = np.array([hat.counts.size for hat in hats], np.int64)
        order = np.argsort(users, kind="stable")
        ends = np.flatnonzero(np.diff(users[order], append=-1)) + 1  # of stretches with equally many users
        ordered = [hats[index] for index in order.tolist()]
        rows = [np.asarray(hat.counts, np.int64) for hat in ordered]
        matrices = tuple(np.stack(rows[start:end]) for start, end in pairwise([0, *ends.tolist()]))
        return cls(matrices, np.array([hat.reported for hat in ordered], np.int64), grid, epsilon, prior), order

    @property
    def upper(self) -> float:
        """Upper bound of values."""
        return float(self.grid.upper)

    @property
    def samples(self) -> Int64s:
        """Number of samples per HAT."""
        return np.asarray(self.of_each(lambda counts: counts.sum(axis=1)))

    def of_each(self, column: Callable[[Int64s], Any]) -> Any:
        """Applies `column` to each matrix, then concatenates over HATs."""
        return np.concatenate([column(counts) for counts in self.counts])

    def __iter__(self) -> Iterator[CountsKnown]:
        return map(CountsKnown, (row for counts in self.counts for row in counts), self.reported.tolist())


@lru_cache(maxsize=4096)
def normal_scores(number: int) -> Float64s:
    """Lists the standard normal law's equally likely points, ascending."""
    law = NormalDist()
    return np.array([law.inv_cdf((rank + 0.5) / number) for rank in range(number)])


@lru_cache(maxsize=4096)
def laplace_std(scale: Fraction) -> float:
    """Computes discrete Laplace noise's standard deviation, in steps."""
    if scale == 0:
        return 0.0
    rate = float(1 / scale)  # sqrt(2 p) / (1 - p), p = exp(-rate)
    return math.sqrt(2) * math.exp(-rate / 2) / -math.expm1(-rate)


@lru_cache(maxsize=4096)
def laplace_bound(scale: Fraction, miss: float) -> int:
    """Computes the least integer t with P(|noise| > t) <= miss."""
    if scale == 0:
        return 0
    rate = float(1 / scale)
    log_tail = math.log(2) - math.log1p(math.exp(-rate))  # P(|Z| > t) = 2 p**(t + 1) / (1 + p)
    return max(0, math.ceil((log_tail - math.log(miss)) / rate - 1))


def mean_absolute_error(bias: float, scale: float) -> float:
    """Computes E|bias + noise| for Laplace noise: |bias| + scale * exp(-|bias| / scale)."""
    return abs(bias) + (scale * math.exp(-abs(bias) / scale) if scale > 0 else 0.0)


def clamped_errors(mean: Float64s | float, upper: float, bias: Float64s, scale: Float64s | float) -> Float64s:
    """Computes E|clip(mean + bias + Z, 0, U) - mean| for Laplace noise Z.

    That is E|bias + Z|, less what clipping takes off: E max(0, mean + bias + Z - U) and E max(0, -mean - bias - Z).
    """
    width = np.maximum(scale, 1e-300)  # never divided by 0
    half = width / 2

    def tail(edge: Float64s) -> Float64s:
        """Integrates P(Z > t) = exp(-t / width) / 2 over t >= |edge|."""
        areas: Float64s = np.abs(edge) / -width
        np.exp(areas, out=areas)  # in place, as are the sums below, to save memory
        areas *= half
        return areas

    def beyond(edge: Float64s) -> Float64s:
        """Integrates P(Z > t) over t >= edge."""
        errors = tail(edge)
        errors -= np.minimum(edge, 0.0)  # for an edge below 0 it is |edge| more, as Z is symmetric
        return errors

    absolute = tail(bias)
    absolute += np.abs(bias) + absolute  # E|bias + Z| = |bias| + 2 tail(bias)
    errors = absolute - beyond(upper - mean - bias)
    errors -= beyond(mean + bias)
    return errors


def transport_bias(weights: Float64s, uniform: Float64s) -> float:
    """Computes the worst |sum (w - u) x| over x in [0, 1].

    It is the mass of max(0, w - u), as w sum to 1 and u, shares of reports, to 1 at most. Source: S0, clipping bias.
    """
    return float(np.maximum(weights - uniform, 0.0).sum())
