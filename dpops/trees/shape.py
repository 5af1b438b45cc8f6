"""A level-uniform tree over bins: which bins each node covers, and the counts of its nodes."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from dpops.types import Int64s


@dataclass(frozen=True, slots=True)
class Tree:
    """Every node of level i has n_i children below a root that carries no noise; leaves are the bins.

    bins: K >= 1. branching: n_1, .., n_h from the root down, each >= 2, whose product N is at least K (for K = 1 the
    one factor 1). Leaves from K on are padding: no sample is ever there, so nodes of nothing else are left out, and
    the last node of a level may cover fewer bins.
    Source: algorithms 10.1.
    """

    bins: int
    branching: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.bins < 1:
            raise ValueError(f"a tree needs at least one bin, got {self.bins}")
        if self.branching != (1,) and any(factor < 2 for factor in self.branching):
            raise ValueError(f"every factor of a tree must be at least 2, got {self.branching}")
        if prod(self.branching) < self.bins or not self.branching:
            raise ValueError(f"the factors {self.branching} have fewer leaves than {self.bins} bins")

    @property
    def widths(self) -> tuple[int, ...]:
        """Bins below a node of each level, padding included, from the root down."""
        return tuple(prod(self.branching[level + 1 :]) for level in range(len(self.branching)))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Nodes of each level that cover a bin."""
        return tuple(-(-self.bins // width) for width in self.widths)

    @property
    def nodes(self) -> int:
        """Nodes of all levels together; columns of what `node_counts` returns."""
        return sum(self.sizes)

    def edges(self) -> tuple[Int64s, Int64s]:
        """Lists every node's first bin, and the bin after its last: int64 (nodes,), level by level, left to right."""
        low = [np.arange(size) * width for size, width in zip(self.sizes, self.widths, strict=True)]
        high = [np.minimum(start + width, self.bins) for start, width in zip(low, self.widths, strict=True)]
        return np.concatenate(low), np.concatenate(high)

    def split(self, nodes: Sequence[object]) -> list[slice]:
        """Splits the columns by level."""
        ends = np.cumsum(self.sizes).tolist()
        if len(nodes) != ends[-1]:
            raise ValueError(f"{len(nodes)} columns for a tree of {ends[-1]} nodes")
        return [slice(end - size, end) for end, size in zip(ends, self.sizes, strict=True)]

    def digit_sums(self) -> tuple[int, ...]:
        """Counts by level the nodes that all prefixes of 1, .., K - 1 bins need: sums of mixed-radix digits d_i(t)."""
        return tuple(
            digit_sum(self.bins, width, factor) for width, factor in zip(self.widths, self.branching, strict=True)
        )


def node_counts(leaves: Int64s, tree: Tree) -> Int64s:
    """Counts every node exactly. leaves: int64 (.., K); returns int64 (.., nodes)."""
    low, high = tree.edges()
    below = np.zeros((*leaves.shape[:-1], tree.bins + 1), np.int64)
    np.cumsum(leaves, axis=-1, out=below[..., 1:])
    return below[..., high] - below[..., low]


def digit_sum(bins: int, width: int, factor: int) -> int:
    """Sums (t // width) % factor over t < bins."""
    whole, rest = divmod(bins, width * factor)
    full, part = divmod(rest, width)
    return width * (whole * factor * (factor - 1) // 2 + full * (full - 1) // 2) + full * part
