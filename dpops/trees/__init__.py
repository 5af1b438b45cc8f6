"""Noisy distributions over public bins: level-uniform trees, consistent estimates, quantiles and moments."""

from dpops.trees.consistent import consistent, isotonic
from dpops.trees.design import best_shares, best_tree
from dpops.trees.readings import mean, quantile, variance
from dpops.trees.shape import Tree

__all__ = [
    "Tree",
    "best_shares",
    "best_tree",
    "consistent",
    "isotonic",
    "mean",
    "quantile",
    "variance",
]
