"""Computes posterior second moments of users' values.

All variances are affine in v^2, so this one moment is all that UWA's weights need. The likelihood is constant in each
PM and SW report's window, two-sided exponential in a Laplace report, and one of two lines in an SR report: between
the ends of the windows and the Laplace reports it is a constant times one of few curves, whose sums are kept.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hatstream_local.mechanisms.aggregate import middles, spans_of
from hatstream_local.mechanisms.laplace import Laplace
from hatstream_local.mechanisms.likelihood import Int32s
from hatstream_local.mechanisms.mechanism import Float64s, Reports
from hatstream_local.mechanisms.sign import StochasticRounding
from hatstream_local.mechanisms.window import Window

GRID = 100
"""Values of the prior, equally likely: the middles of so many buckets, as in the code of the method's authors."""

_TABLES = 1 << 12
"""Above that many possible curves only those that occur are made."""


def second_moments(reports: Reports) -> Float64s:
    """Computes E[v^2 | reports] under a uniform prior: (users,)."""
    pairs = list(zip((service.mechanism for service in reports.services), reports.values, strict=True))
    signs = [(mechanism, row) for mechanism, row in pairs if isinstance(mechanism, StochasticRounding)]
    windows = [(mechanism, row) for mechanism, row in pairs if isinstance(mechanism, Window)]
    slopes = [(mechanism, row) for mechanism, row in pairs if isinstance(mechanism, Laplace)]
    spans = np.array([spans_of(window, row, GRID) for window, row in windows], np.int32)
    spans = spans.reshape(len(windows), 2, reports.users)
    below = [
        np.ceil((np.nan_to_num(row).clip(-1, 1) + 1) * (GRID / 2) - 0.5) for _, row in slopes
    ]  # values of the grid
    turns = np.array(below, np.int32).reshape(len(slopes), reports.users)
    edges = np.sort(np.concatenate([spans.reshape(-1, reports.users), turns]), axis=0)
    starts = np.concatenate([np.zeros((1, reports.users), np.int32), edges])
    ends = np.concatenate([edges, np.full((1, reports.users), GRID, np.int32)])
    base = _digits([np.where(np.isnan(row), 2, row > 0) for _, row in signs], reports.users)
    curve = np.empty(starts.shape, np.int64)
    level = np.empty(starts.shape)
    for run, start in enumerate(starts):
        above = [np.where(np.isnan(row), 2, start >= turn) for (_, row), turn in zip(slopes, turns, strict=True)]
        curve[run] = base * 3 ** len(slopes) + _digits(above, reports.users)
        level[run] = _log_level(start, windows, spans, slopes, above)
    np.exp(level - level.max(axis=0), out=level)
    sums = _Sums([mechanism for mechanism, _ in signs], [mechanism for mechanism, _ in slopes])
    zeroth, second = sums.between(curve, starts, ends)
    return np.asarray((level * second).sum(axis=0) / (level * zeroth).sum(axis=0))


class _Sums:
    """Prefix sums of curve and curve * v^2 by SR reports and Laplace sides."""

    def __init__(self, signs: Sequence[StochasticRounding], slopes: Sequence[Laplace]) -> None:
        self._signs, self._slopes = signs, slopes
        self._number = 3 ** (len(signs) + len(slopes))

    def between(self, curve: NDArray[np.int64], starts: Int32s, ends: Int32s) -> tuple[Float64s, Float64s]:
        """Sums over the grid's values start..end - 1 of each run's curve."""
        values = np.arange(self._number)
        if self._number > _TABLES:
            values, inverse = np.unique(curve, return_inverse=True)
            curve = inverse.reshape(curve.shape)
        tables = np.stack([self._prefix(number) for number in values.tolist()], axis=1)
        last, first = curve * (GRID + 1) + ends, curve * (GRID + 1) + starts
        zeroth, second = tables.reshape(2, -1)
        return zeroth[last] - zeroth[first], second[last] - second[first]

    def _prefix(self, number: int) -> Float64s:
        """Sums from the curve's small side, without cancellation: (2, GRID + 1)."""
        values = middles(GRID)
        curve, slope = np.zeros(GRID), 0.0
        for laplace in reversed(self._slopes):
            number, side = divmod(number, 3)
            slope += (0.5 * laplace.epsilon, -0.5 * laplace.epsilon, 0.0)[side]
        for sign in reversed(self._signs):
            number, side = divmod(number, 3)
            if side < 2:
                curve += sign.log_density(np.array(2.0 * side - 1), values)
        terms = np.exp(curve + slope * values) * np.stack([np.ones(GRID), values**2])
        zero = np.zeros((2, 1))
        if slope >= 0:
            return np.concatenate([zero, np.cumsum(terms, axis=1)], axis=1)
        return -np.concatenate([np.cumsum(terms[:, ::-1], axis=1)[:, ::-1], zero], axis=1)


def _digits(columns: Sequence[NDArray[np.int64]], users: int) -> NDArray[np.int64]:
    """Combines digits 0, 1, 2 to numbers, highest first."""
    number = np.zeros(users, np.int64)
    for column in columns:
        number = number * 3 + column
    return number


def _log_level(
    start: Int32s,
    windows: Sequence[tuple[Window, Float64s]],
    spans: Int32s,
    slopes: Sequence[tuple[Laplace, Float64s]],
    above: Sequence[NDArray[np.int64]],
) -> Float64s:
    """Computes the log factor of each run, without its curve."""
    level = np.zeros(start.size)
    for (window, row), (first, last) in zip(windows, spans, strict=True):
        level -= window.epsilon * (((start < first) | (start >= last)) & ~np.isnan(row))
    for (laplace, row), side in zip(slopes, above, strict=True):
        # Beyond the range of values a report's distance to it is a factor common to all of them.
        report = np.nan_to_num(row).clip(-1, 1)
        level += laplace.epsilon / 2 * report * (side - 0.5) * 2 * (side < 2)
    return level
