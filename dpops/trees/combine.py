"""The best linear unbiased distribution function from all noisy nodes of a tree, and its covariance.

Source: algorithms 10.4; it equals generalised least squares with the total as a constraint, in two passes.
"""

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from dpops.forecast import Float64s
from dpops.trees.shape import Tree
from dpops.types import Int64s

SENSITIVITY = 2
"""Nodes of one level that change by 1 when one sample moves to another bin."""


def cumulative(
    noisy: Int64s | Float64s, total: Int64s | Float64s | float, tree: Tree, shares: Sequence[Fraction]
) -> Float64s:
    """Combines all nodes to the counts of the first 1, .., K - 1 bins, float64 (.., K - 1).

    noisy: (.., nodes), counts of the nodes with noise of variance proportional to 1 / share^2 by level.
    total: known count of the root, broadcast over the leading axes.
    Up: a node's own count and the sum of its children are averaged by their precisions. Down: what a parent has more
    than its children is handed to them in proportion to their variances.
    """
    ups = _up(np.asarray(noisy, np.float64), tree, tuple(level_variances(shares)))
    above = np.broadcast_to(np.asarray(total, np.float64), noisy.shape[:-1])[..., None]
    for up, factor in zip(ups, tree.branching, strict=True):
        parent = np.arange(up.variance.size) // factor
        missing = above - _sums(up.value, factor)
        above = up.value + missing[..., parent] * (up.variance / _sums(up.variance, factor)[parent])
    return np.cumsum(above, axis=-1)[..., :-1]


class Law(NamedTuple):
    """How the noise of the nodes reaches the combined counts, for masses of 1 and epsilon 1.

    weights: float64 (nodes, K - 1). variances: float64 (nodes,). Public: of the tree and its shares alone.
    """

    weights: Float64s
    variances: Float64s

    def sd(self, functional: Float64s) -> Float64s:
        """Computes the standard deviation of linear functions of the prefixes. functional: float64 (K - 1, ..)."""
        reach = np.tensordot(self.weights, functional, axes=1)
        return np.sqrt(np.tensordot(self.variances, reach**2, axes=1))

    def prefix_sd(self) -> Float64s:
        """Computes the standard deviation of each combined prefix, float64 (K - 1,)."""
        return np.sqrt(self.variances @ self.weights**2)


@lru_cache(maxsize=16)
def law(tree: Tree, shares: tuple[Fraction, ...]) -> Law:
    """Combines each node alone to find the law, for the combination is linear."""
    weights = cumulative(np.eye(tree.nodes), 0.0, tree, shares)
    variances = np.repeat(level_variances(shares), tree.sizes)
    for shared in (weights, variances):
        shared.flags.writeable = False
    return Law(weights, variances)


class _Up(NamedTuple):
    """What nodes of a level know from below. value: float64 (.., size); variance: float64 (size,)."""

    value: Float64s
    variance: Float64s


def _up(noisy: Float64s, tree: Tree, variances: tuple[float, ...]) -> list[_Up]:
    """Averages from the leaves to the level below the root; returned from the root down."""
    levels = tree.split(noisy[(0,) * (noisy.ndim - 1)]) if noisy.size else tree.split(range(tree.nodes))
    sizes = list(tree.sizes)
    ups = [_Up(noisy[..., levels[-1]], np.full(sizes[-1], variances[-1]))]
    for level in range(len(sizes) - 2, -1, -1):
        below, factor = ups[-1], tree.branching[level + 1]
        summed, variance = _sums(below.value, factor), _sums(below.variance, factor)
        own = variances[level]
        ups.append(
            _Up(
                (noisy[..., levels[level]] * variance + summed * own) / (own + variance),
                own * variance / (own + variance),
            )
        )
    return ups[::-1]


def _sums(values: Float64s, factor: int) -> Float64s:
    """Sums each `factor` neighbours along the last axis; the last may be of fewer."""
    return np.add.reduceat(values, np.arange(0, values.shape[-1], factor), axis=-1)


def level_variances(shares: Sequence[Fraction]) -> list[float]:
    """Computes the noise variance of a node of each level: 2 (s / share)^2.

    For epsilon 1, Laplace noise and neighbours that differ in one sample's value. For mass M of one user multiply by
    M^2; the variance 2 b^2 of continuous noise is never below that of discrete noise. Source: algorithms 10.1, 10.2.
    """
    return [2 * float(SENSITIVITY / share) ** 2 for share in shares]
