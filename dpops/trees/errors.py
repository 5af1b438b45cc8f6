"""Exact errors of noisy distribution functions before any combination: trees, the histogram, prefixes, in counts.

Each is for epsilon 1, Laplace noise and neighbours that differ in one sample's value (l1 sensitivity 2 for a level).
For mass M of one user multiply by M^2; the variance 2 b^2 of continuous noise is never below that of discrete noise.
Source: algorithms 10.1 and 10.2.
"""

from collections.abc import Sequence
from fractions import Fraction

from dpops.trees.shape import Tree

SENSITIVITY = 2
"""Nodes of one level that change by 1 when one sample moves to another bin."""


def level_variances(shares: Sequence[Fraction]) -> list[float]:
    """Computes the noise variance of a node of each level at epsilon 1: 2 (s / share)^2."""
    return [2 * float(SENSITIVITY / share) ** 2 for share in shares]


def total_error(tree: Tree, shares: Sequence[Fraction]) -> float:
    """Sums the prefix variances. shares: of epsilon, by level, with the sum 1."""
    sums = zip(tree.digit_sums(), level_variances(shares), strict=True)
    return sum(digits * variance for digits, variance in sums)


def histogram_error(bins: int) -> float:
    """Computes the squared error of the prefixes of a noisy histogram: the sum of 2 s^2 t = 4 K (K - 1)."""
    return 4 * bins * (bins - 1)


def direct_error(bins: int) -> float:
    """Computes the squared error of K - 1 prefixes released themselves, all of which one sample moves: 2 (K - 1)^3."""
    return 2 * (bins - 1) ** 3


def binary_error(bins: int) -> float:
    """Computes the squared error of the binary tree over the least power of two that holds the bins; equal budgets."""
    depth = max(1, (bins - 1).bit_length())
    tree = Tree(bins, (2,) * depth)
    return total_error(tree, [Fraction(1, depth)] * depth)
