"""Counts users of equal likelihood over buckets, and evaluates it.

A window's (PM, SW) likelihood takes two values over the buckets, so the product over a user's J such reports is
constant on at most 2 J + 1 runs of buckets: its levels, between edges. Stochastic rounding (SR) multiplies it by one of
few curves. With prefix sums of the distribution a user costs O(J), and users with equal runs and curve are one row.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from hatstream_local.mechanisms.mechanism import Float64s, Int64s, Reports, StochasticRounding, Window

Int32s = NDArray[np.int32]
MOST_BUCKETS = 1 << 14
_ROWS_AT_ONCE = 1 << 17
"""Rows worked on at once: few, so that their columns stay in the cache, but many beside the cells of a Hessian."""
_SR_CLASSES, _SR_MISSING = 3, 2
"""Classes of an SR report: 0 for the lower end, 1 for the upper one, 2 where it is missing."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Log-likelihood per user at one distribution, with derivatives.

    gradient: (buckets,). curvature: the negative Hessian, (buckets, buckets).
    At the maximum the gradient is at most 1 everywhere, and 1 where there is mass (Karush, Kuhn, Tucker). The
    log-likelihood is concave, so no distribution can have one that is higher by more than `gap`, in nats per user.
    """

    log_likelihood: float
    gradient: Float64s
    curvature: Float64s

    @property
    def gap(self) -> float:
        """Largest gradient less 1, at least 0."""
        return max(float(self.gradient.max()) - 1, 0.0)


@dataclass(frozen=True, slots=True)
class ReportRows:
    """Likelihood of all reports over buckets, up to scaling.

    curves: (curves, buckets), the likelihood of each combination of SR reports that occurs. ends: (curves,), the row
    after the last one of each curve. edges: (2 J, rows), the sorted ends of the runs. levels: (2 J + 1, rows), the
    likelihood on each run, at most 1. counts: (rows,), users of each row.
    """

    curves: Float64s
    ends: NDArray[np.int64]
    edges: Int32s
    levels: Float64s
    counts: Float64s

    @property
    def buckets(self) -> int:
        """Number of buckets."""
        return int(self.curves.shape[1])

    @property
    def users(self) -> int:
        """Number of users."""
        return int(self.counts.sum())

    def evaluate(self, shares: Float64s) -> Evaluation:
        """Computes the log-likelihood at shares, (buckets,), with gradient and negative Hessian.

        A row's likelihood L is the sum over buckets b of shares[b] * curve[b] * level[b]. So gradient[b] is curve[b]
        times the sum of count / L * level[b] over rows; curvature[b, c] is curve[b] * curve[c] times the sum of
        count / L^2 * level[b] * level[c]. Levels change at a row's edges only: their jumps, and products of two jumps,
        are summed by edge over all rows, and cumulative sums over buckets make these sums of them.
        """
        buckets, users = self.buckets, self.users
        log_likelihood = 0.0
        gradient, curvature = np.zeros(buckets), np.zeros((buckets, buckets))
        for curve, (start, end) in zip(self.curves, pairwise([0, *self.ends.tolist()]), strict=True):
            prefix = np.concatenate([[0.0], np.cumsum(shares * curve)])  # mass of all buckets before an edge
            jump_sums, product_sums = np.zeros(buckets + 1), np.zeros((buckets + 1,) * 2)
            for first in range(start, end, _ROWS_AT_ONCE):
                chunk = slice(first, min(first + _ROWS_AT_ONCE, end))
                edges, levels, counts = self.edges[:, chunk], self.levels[:, chunk], self.counts[chunk]
                likelihood = _likelihoods(prefix, edges, levels)
                log_likelihood += float(counts @ np.log(likelihood))
                jumps = np.concatenate([levels[:1], np.diff(levels, axis=0)])  # the first one is from 0, at edge 0
                weight = counts / likelihood
                jump_sums[0] += (jumps[0] * weight).sum()
                jump_sums += np.bincount(edges.ravel(), (jumps[1:] * weight).ravel(), jump_sums.size)
                _add_products(product_sums, edges, jumps, weight / likelihood)
            gradient += curve * np.cumsum(jump_sums)[:-1]
            product_sums += np.triu(product_sums, 1).T  # only pairs in order of their edges were added
            curvature += np.outer(curve, curve) * np.cumsum(np.cumsum(product_sums, 0), 1)[:-1, :-1]
        return Evaluation(log_likelihood / users, gradient / users, curvature / users)


def _likelihoods(prefix: Float64s, edges: Int32s, levels: Float64s) -> Float64s:
    """Sums the mass of each run of buckets times its level, (rows,)."""
    mass_before: Float64s | float = 0.0  # of the run's start; `prefix` has the mass of all buckets before an edge
    likelihood = np.zeros(edges.shape[1])
    for edge, level in zip(edges, levels, strict=False):  # the last level has no edge after it
        likelihood += level * (prefix[edge] - mass_before)
        mass_before = prefix[edge]
    likelihood += levels[-1] * (prefix[-1] - mass_before)
    return likelihood


def _add_products(sums: Float64s, edges: Int32s, jumps: Float64s, weight: Float64s) -> None:
    """Adds weighted products of each row's pairs of jumps to `sums`, by their edges.

    The edges of a row are sorted, so pairs are added above the diagonal, the others being their mirror image. Of equal
    edges only the first has a jump that is not 0, so products of different jumps are 0 on the diagonal.

    sums: changed in place, (buckets + 1, buckets + 1). edges: (2 J, rows), of J windows, as in `ReportRows`. jumps: the
    level before the first edge, at edge 0, then changes of level at each edge, (2 J + 1, rows). weight: (rows,).
    """
    size = len(sums)
    weighted = jumps * weight
    sums[0, 0] += weighted[0] @ jumps[0]
    sums[0] += np.bincount(edges.ravel(), (weighted[1:] * jumps[0]).ravel(), size)
    first, second = np.triu_indices(len(edges))
    pair = edges[first] * np.int32(size) + edges[second]
    products = weighted[1 + first] * jumps[1 + second]
    sums += np.bincount(pair.ravel(), products.ravel(), size * size).reshape(size, size)


def middles(buckets: int) -> Float64s:
    """Computes the middles of equal buckets of [-1, 1], (buckets,). Raises ValueError."""
    if not 2 <= buckets <= MOST_BUCKETS:
        raise ValueError(f"a distribution needs 2 to {MOST_BUCKETS} buckets, got {buckets}")
    return (2 * np.arange(buckets) + 1) / buckets - 1


def aggregate(reports: Reports, buckets: int) -> ReportRows:
    """Counts users of equal likelihood over buckets, taken at the buckets' middles.

    A user's class of a service, an integer, determines its report's likelihood; users of equal classes are one row.
    Laplace reports are left out: their likelihood has no finite set of values. Raises ValueError if no report is left.
    Source: algorithms 12.4, 12.5; Ye et al. 2025, "Privacy for Free", section 5.
    """
    values, missing_window = middles(buckets), 2 * buckets + 1  # a window's class where a report is missing
    pairs = list(zip((service.mechanism for service in reports.services), reports.values, strict=True))
    roundings = [(mechanism, row) for mechanism, row in pairs if isinstance(mechanism, StochasticRounding)]
    windows = [(mechanism, row) for mechanism, row in pairs if isinstance(mechanism, Window)]
    # By service: each user's class, (users,), of SR 0, 1 or, if missing, 2; and the number of classes.
    classes = [(np.where(np.isnan(row), _SR_MISSING, row > 0).astype(np.int32), _SR_CLASSES) for _, row in roundings]
    spans_of_class = []  # by window: first and last bucket of each class, (2, classes)
    for window, row in windows:
        spans = spans_of(window, row, buckets)
        class_of_user = spans[0] + spans[1]  # 0 to 2 buckets; as windows slide by one width, equal sums are one span
        class_of_user[np.isnan(row)] = missing_window
        spans_of_class.append(np.zeros((2, missing_window + 1), np.int32))
        spans_of_class[-1][:, class_of_user] = spans
        classes.append((class_of_user, missing_window + 1))
    table, counts = _count(classes, reports.users)  # the combinations of classes that occur, (services, rows)
    missing = [_SR_MISSING] * len(roundings) + [missing_window] * len(windows)
    has_report = (table != np.array(missing, np.int32)[:, None]).any(axis=0)
    table, counts = table[:, has_report], counts[has_report]
    if not counts.size:
        raise ValueError("a distribution needs at least one report by sr, pm or sw")
    rounding_rows, window_rows = np.split(table, [len(roundings)])
    # Rows are sorted, so that those of one curve are together: `ends` are the rows after them.
    curves, ends = _curves([mechanism for mechanism, _ in roundings], rounding_rows, values)
    pairs_of_rows = zip(spans_of_class, window_rows, strict=True)
    row_spans = np.array([spans[:, row] for spans, row in pairs_of_rows], np.int32).reshape(-1, 2, counts.size)
    edges = np.sort(row_spans.reshape(-1, counts.size), axis=0)
    has_answer = window_rows != missing_window
    levels = _levels([window.epsilon for window, _ in windows], row_spans, has_answer, edges)
    return ReportRows(curves, ends, edges, levels, counts.astype(np.float64))


def spans_of(window: Window, row: Float64s, buckets: int) -> Int32s:
    """Finds buckets first..last - 1 whose middles' windows hold each report, (2, users).

    row: raw reports, (users,); a missing one has all buckets. A window between two middles is the nearest one's.
    """
    centre = (window.centres(row) + 1) * (buckets / 2)  # from [-1, 1] to buckets: bucket k's middle is k + 1/2
    half = window.width * (buckets / 2)
    first = np.ceil(centre - half - 0.5).clip(0, buckets)
    last = np.floor(centre + half + 0.5).clip(0, buckets)
    if 2 * half < 1:  # a window narrower than a bucket may hold no middle
        first = np.where(last <= first, np.rint(centre - 0.5).clip(0, buckets - 1), first)
        last = np.maximum(last, first + 1)
    first[np.isnan(row)], last[np.isnan(row)] = 0, buckets
    return np.stack([first, last]).astype(np.int32)


def _count(classes: Sequence[tuple[Int32s, int]], users: int) -> tuple[Int32s, Int64s]:
    """Counts users by combination of classes: combinations, (services, rows), sorted; users of each, (rows,).

    A combination is numbered by digits in mixed bases, compressed after each service to those that occur. classes: each
    service's class of every user, (users,), with the number of its classes.
    """
    table, index, counts = np.zeros((0, 1), np.int32), np.zeros(users, np.int64), np.array([users])
    for row, base in classes:
        keys, index, counts = np.unique(index * base + row, return_inverse=True, return_counts=True)
        table = np.concatenate([table[:, keys // base], (keys % base)[None].astype(np.int32)])
    return table, counts


def _curves(roundings: Sequence[StochasticRounding], table: Int32s, values: Float64s) -> tuple[Float64s, Int64s]:
    """Computes `ReportRows.curves`, (curves, buckets), and `ends` by `table`, (services, rows), of SR classes."""
    changes = np.flatnonzero((np.diff(table, axis=1) != 0).any(axis=0)) + 1  # rows that differ from the one before
    starts = np.concatenate([[0], changes])
    curves = np.ones((starts.size, values.size))  # values: the buckets' middles, in [-1, 1]
    for mechanism, classes in zip(roundings, table[:, starts], strict=True):
        densities = [np.exp(mechanism.log_density(np.array(side), values)) for side in (-1.0, 1.0)]
        curves *= np.stack([*densities, np.ones(values.size)])[classes]  # 0: the lower output, 1: the upper, 2: missing
    return curves, np.concatenate([changes, [table.shape[1]]])


def _levels(epsilons: Sequence[float], spans: Int32s, answered: NDArray[np.bool_], edges: Int32s) -> Float64s:
    """Computes runs' likelihoods, (2 J + 1, rows): e^-epsilon for each window that misses.

    spans: (J, 2, rows), of windows. answered: (J, rows). edges: (2 J, rows), sorted; a run is the buckets between two.
    """
    levels = np.zeros((len(edges) + 1, edges.shape[1]))
    for run, log_level in enumerate(levels):  # a row of `levels`, changed in place; logarithms until `exp` below
        start = edges[run - 1] if run else np.zeros(edges.shape[1], np.int32)  # a run is in a window if its start is
        for epsilon, (first, last), has_report in zip(epsilons, spans, answered, strict=True):
            log_level -= epsilon * (has_report & ((start < first) | (start >= last)))
    return np.exp(levels, out=levels)
