"""Evaluates the reports' likelihood by runs of buckets.

A window's likelihood takes two values over the buckets, so the product over a user's PM and SW reports is constant on
at most 2 J + 1 runs of buckets; SR multiplies it by one of few curves. With prefix sums of the distribution a user
costs O(J), and users with equal runs and curve are one row that is counted.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hatstream_local.mechanisms.mechanism import Float64s

Int32s = NDArray[np.int32]

_CHUNK = 1 << 17
"""Rows worked on at once: few, so that their columns stay in the cache, but many beside the cells of a Hessian."""


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
        """Computes the log-likelihood at shares, with gradient and Hessian."""
        buckets, users = self.buckets, self.users
        log_likelihood = 0.0
        gradient, hessian = np.zeros(buckets), np.zeros((buckets, buckets))
        for curve, parts in self._parts():
            prefix = np.concatenate([[0.0], np.cumsum(shares * curve)])
            slope, bend = np.zeros(buckets + 1), np.zeros((buckets + 1,) * 2)
            for part in parts:
                edges, levels, counts = self.edges[:, part], self.levels[:, part], self.counts[part]
                cumulative: Float64s | float = 0.0
                likelihood = np.zeros(edges.shape[1])
                for edge, level in zip(edges, levels, strict=False):
                    mass = prefix[edge]
                    likelihood += level * (mass - cumulative)
                    cumulative = mass
                likelihood += levels[-1] * (prefix[-1] - cumulative)
                log_likelihood += float(counts @ np.log(likelihood))
                jumps = np.concatenate([levels[:1], np.diff(levels, axis=0)])
                weight = counts / likelihood
                slope[0] += (jumps[0] * weight).sum()
                slope += np.bincount(edges.ravel(), (jumps[1:] * weight).ravel(), slope.size)
                _add_bend(bend, edges, jumps, weight / likelihood)
            gradient += curve * np.cumsum(slope)[:-1]
            bend += np.triu(bend, 1).T  # only pairs in order of their edges were added
            hessian += np.outer(curve, curve) * np.cumsum(np.cumsum(bend, 0), 1)[:-1, :-1]
        return Evaluation(log_likelihood / users, gradient / users, hessian / users)

    def _parts(self) -> Iterator[tuple[Float64s, list[slice]]]:
        start = 0
        for curve, end in zip(self.curves, self.ends.tolist(), strict=True):
            yield curve, [slice(index, min(index + _CHUNK, end)) for index in range(start, end, _CHUNK)]
            start = end


def _add_bend(bend: Float64s, edges: Int32s, jumps: Float64s, weight: Float64s) -> None:
    """Adds second differences of sum of weight row row^T, by pairs of jumps.

    The edges of a row are sorted, so pairs are added above the diagonal, the others being their mirror image.
    """
    size = len(bend)
    weighted = jumps * weight
    bend[0, 0] += weighted[0] @ jumps[0]
    bend[0] += np.bincount(edges.ravel(), (weighted[1:] * jumps[0]).ravel(), size)
    first, second = np.triu_indices(len(edges))
    pair = edges[first] * np.int32(size) + edges[second]
    products = weighted[1 + first] * jumps[1 + second]
    bend += np.bincount(pair.ravel(), products.ravel(), size * size).reshape(size, size)
