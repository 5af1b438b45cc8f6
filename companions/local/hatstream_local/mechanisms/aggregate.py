"""Users with equal likelihood over buckets, counted in rows."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hatstream_local.mechanisms.kinds import StochasticRounding, Window
from hatstream_local.mechanisms.likelihood import Int32s, ReportRows
from hatstream_local.mechanisms.mechanism import Float64s, Int64s, Reports

MOST_BUCKETS = 1 << 14

_USERS = 1 << 17
"""Users worked on at once."""

_DENSE = 1 << 25
"""Below that many possible keys, keys are counted in a table; above, they are sorted."""

_NONE = 2
"""The class of a missing SR report, after - and +."""


def middles(buckets: int) -> Float64s:
    """Computes the middles of equal buckets of [-1, 1]."""
    if not 2 <= buckets <= MOST_BUCKETS:
        raise ValueError(f"a distribution needs 2 to {MOST_BUCKETS} buckets, got {buckets}")
    return (2 * np.arange(buckets) + 1) / buckets - 1


def aggregate(reports: Reports, buckets: int) -> ReportRows:
    """Builds likelihood rows of users' reports, at buckets' middles.

    Laplace reports are left out: their likelihood has no finite set of values. Raises ValueError if no report is left.
    Source: algorithms 12.4, 12.5; Ye et al. 2025, "Privacy for Free", section 5.
    """
    values = middles(buckets)
    pairs = list(zip((service.mechanism for service in reports.services), reports.values, strict=True))
    signs = [(mechanism, row) for mechanism, row in pairs if isinstance(mechanism, StochasticRounding)]
    windows = [(mechanism, row) for mechanism, row in pairs if isinstance(mechanism, Window)]
    classes = [(np.where(np.isnan(row), _NONE, row > 0).astype(np.int32), 3) for _, row in signs]
    ladders = []
    for window, row in windows:
        ladder = np.zeros((2, 2 * buckets + 2), np.int32)
        ladder[1, -1] = buckets  # a missing report: a window over everything, with factor 1
        classes.append((_window_classes(window, row, buckets, ladder), 2 * buckets + 2))
        ladders.append(ladder)
    table, counts = _count(classes, reports.users)
    missing = [_NONE] * len(signs) + [2 * buckets + 1] * len(windows)
    heard = (table != np.array(missing, np.int32)[:, None]).any(axis=0)
    table, counts = table[:, heard], counts[heard]
    if not counts.size:
        raise ValueError("a distribution needs at least one SR, PM or SW report")
    curves, ends = _curves([mechanism for mechanism, _ in signs], table[: len(signs)], values)
    spans = np.array([ladder[:, row] for ladder, row in zip(ladders, table[len(signs) :], strict=True)], np.int32)
    spans = spans.reshape(len(windows), 2, counts.size)
    edges = np.sort(spans.reshape(-1, counts.size), axis=0)
    answered = table[len(signs) :] != 2 * buckets + 1
    levels = _levels([window.epsilon for window, _ in windows], spans, answered, edges)
    return ReportRows(curves, ends, edges, levels, counts.astype(np.float64))


def _window_classes(window: Window, row: Float64s, buckets: int, ladder: Int32s) -> Int32s:
    """Classifies reports by buckets, and fills the ladder."""
    classes = np.full(row.size, 2 * buckets + 1, np.int32)
    for start in range(0, row.size, _USERS):
        part = slice(start, start + _USERS)
        answered = ~np.isnan(row[part])
        spans = spans_of(window, row[part][answered], buckets)
        class_ = spans[0] + spans[1]
        classes[part][answered] = class_
        ladder[:, class_] = spans
    return classes


def spans_of(window: Window, row: Float64s, buckets: int) -> Int32s:
    """Finds buckets first..last - 1 whose windows hold each report, (2, users).

    A missing report has all buckets. A window between two middles is the nearest one's.
    """
    centre = (window.centres(row) + 1) * (buckets / 2)
    half = window.width * (buckets / 2)
    missing = np.isnan(row)
    centre[missing] = buckets / 2
    first = np.ceil(centre - half - 0.5).clip(0, buckets)
    last = np.floor(centre + half + 0.5).clip(0, buckets)
    if 2 * half < 1:
        first = np.where(last <= first, np.rint(centre - 0.5).clip(0, buckets - 1), first)
        last = np.maximum(last, first + 1)
    first[missing], last[missing] = 0, buckets
    return np.stack([first, last]).astype(np.int32)


def _count(classes: Sequence[tuple[Int32s, int]], users: int) -> tuple[Int32s, Int64s]:
    """Counts users by combination of classes, (services, rows), sorted."""
    table, index, counts = np.zeros((0, 1), np.int32), np.zeros(users, np.int64), np.array([users])
    for row, base in classes:
        index *= base
        index += row
        keys, counts = _renumber(index, table.shape[1] * base)
        table = np.concatenate([table[:, keys // base], (keys % base)[None].astype(np.int32)])
    return table, counts


def _renumber(index: Int64s, bound: int) -> tuple[Int64s, Int64s]:
    """Counts sorted unique keys, and replaces keys by positions."""
    if bound > max(_DENSE, index.size):
        keys, inverse, counts = np.unique(index, return_inverse=True, return_counts=True)
        index[:] = inverse
        return keys, counts
    counts = np.bincount(index, minlength=bound)
    keys = np.flatnonzero(counts)
    place = np.zeros(bound, np.int32)
    place[keys] = np.arange(keys.size)
    index[:] = place[index]
    return keys, counts[keys]


def _curves(signs: Sequence[StochasticRounding], table: Int32s, values: Float64s) -> tuple[Float64s, Int64s]:
    """Computes likelihood curves by combination of SR reports."""
    new = np.flatnonzero((np.diff(table, axis=1) != 0).any(axis=0)) + 1
    starts = np.concatenate([[0], new])
    curves = np.ones((starts.size, values.size))
    for mechanism, row in zip(signs, table[:, starts], strict=True):
        densities = [np.exp(mechanism.log_density(np.array(side), values)) for side in (-1.0, 1.0)]
        curves *= np.stack([*densities, np.ones(values.size)])[row]
    return curves, np.concatenate([new, [table.shape[1]]])


def _levels(epsilons: Sequence[float], spans: Int32s, answered: NDArray[np.bool_], edges: Int32s) -> Float64s:
    """Computes each run's likelihood: e^-epsilon for each window that misses it."""
    levels = np.zeros((len(edges) + 1, edges.shape[1]))
    for run, level in enumerate(levels):
        start = edges[run - 1] if run else np.zeros(edges.shape[1], np.int32)
        for epsilon, (first, last), heard in zip(epsilons, spans, answered, strict=True):
            level -= epsilon * (heard & ((start < first) | (start >= last)))
    return np.exp(levels, out=levels)
