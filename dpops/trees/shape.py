"""Trees over equal bins, and levels' shares of epsilon.

All is public. The prefix before a bin is a sum of nodes: at each level of the siblings that precede the bin's node;
their number is the bin's digit there. D_i sums level i's digits over bins; best shares are proportional to its cube
roots, and the error then to (sum D_i^(1/3))^3. For full trees D_i = K (n_i - 1) / 2. Source: algorithms 10.3.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import prod

import numpy as np

from dpops.types import Int64s


@dataclass(frozen=True, slots=True)
class Tree:
    """Tree whose leaves are bins; level i branches n_i-fold.

    The root has no noise. bins: K >= 1. branching: n_1, .., n_h, root first, each >= 2, of product N >= K (for
    K = 1 the one factor 1). Leaves from K on are padding; nodes of nothing else are left out. sizes, widths: by level,
    its number of nodes, and of leaves below one. Source: algorithms 10.1.
    """

    bins: int
    branching: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.bins < 1:
            raise ValueError(f"a tree needs at least one bin, got {self.bins}")
        if self.branching != (1,) and any(factor < 2 for factor in self.branching):
            raise ValueError(f"every factor of a tree must be at least 2, got {self.branching}")
        if prod(self.branching) < self.bins or not self.branching:
            raise ValueError(f"the factors {self.branching} give fewer leaves than {self.bins} bins")

    @property
    def widths(self) -> tuple[int, ...]:
        """Bins below a node of each level, padding included."""
        return tuple(prod(self.branching[level + 1 :]) for level in range(len(self.branching)))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Nodes of each level that cover a bin."""
        return tuple(-(-self.bins // width) for width in self.widths)

    @property
    def nodes(self) -> int:
        """Number of nodes in all levels of `node_counts`."""
        return sum(self.sizes)

    def edges(self) -> tuple[Int64s, Int64s]:
        """Lists nodes' first bins, and those after their last."""
        low = [np.arange(size) * width for size, width in zip(self.sizes, self.widths, strict=True)]
        high = [np.minimum(start + width, self.bins) for start, width in zip(low, self.widths, strict=True)]
        return np.concatenate(low), np.concatenate(high)

    def split(self, columns: int) -> list[slice]:
        """Returns each level's slice of a row of nodes. Raises ValueError."""
        ends = np.cumsum(self.sizes).tolist()
        if columns != ends[-1]:
            raise ValueError(f"{columns} columns for a tree of {ends[-1]} nodes")
        return [slice(end - size, end) for end, size in zip(ends, self.sizes, strict=True)]

    def digit_sums(self) -> tuple[int, ...]:
        """Counts by level the nodes that all prefixes need."""
        return tuple(digit_sum(self.bins, width, base) for width, base in zip(self.widths, self.branching, strict=True))


def node_counts(leaves: Int64s, tree: Tree) -> Int64s:
    """Sums leaves below nodes, from (.., K) to (.., nodes)."""
    low, high = tree.edges()
    below = np.zeros((*leaves.shape[:-1], tree.bins + 1), np.int64)
    np.cumsum(leaves, axis=-1, out=below[..., 1:])
    return below[..., high] - below[..., low]


def digit_sum(bins: int, width: int, factor: int) -> int:
    """Sums bins' places among `factor` siblings of `width` bins."""
    # A place is a digit. In a cycle of width * factor bins each stands `width` times; of the last cycle some do.
    cycles, remainder = divmod(bins, width * factor)
    full_digits, partial = divmod(remainder, width)
    return width * (cycles * factor * (factor - 1) // 2 + full_digits * (full_digits - 1) // 2) + full_digits * partial


MOST_BINS = 10_000
_SHARE_STEPS = 1_000_000  # shares are whole multiples of one millionth, so that budgets stay small rational numbers


@cache
def best_tree(bins: int) -> Tree:
    """Chooses the tree of least prefix error.

    Trees of all factors in every order, padded or not, are compared: D_i, a level's `digit_sum`, depends on the width
    below it and the factor alone: the best tree is the shortest path from width 1 to K (`bins`) at least, by D_i^(1/3).
    Raises ValueError for fewer than 1 or more than 10,000 bins.
    """
    if not 1 <= bins <= MOST_BINS:
        raise ValueError(f"a distribution needs 1 to {MOST_BINS} bins, got {bins}")
    best: dict[int, tuple[float, tuple[int, ...]]] = {1: (0.0, ())}  # least cost, and its factors, by width
    complete: list[tuple[float, tuple[int, ...]]] = []
    for width in range(1, bins):
        if width not in best:
            continue
        cost, below = best.pop(width)  # final: all ways to a width come from smaller ones
        for factor in range(2, -(-bins // width) + 1):
            extended = cost + digit_sum(bins, width, factor) ** (1 / 3), (factor, *below)
            if width * factor >= bins:
                complete.append(extended)
            else:
                best[width * factor] = min(extended, best.get(width * factor, extended))
    return Tree(bins, min(complete)[1] if complete else (1,))  # one bin is its own tree


@cache
def best_shares(tree: Tree) -> tuple[Fraction, ...]:
    """Divides epsilon over levels by digit sums' cube roots, rounded to rationals."""
    weights = [max(1, digits) for digits in tree.digit_sums()]  # 1: a level that no prefix needs is released too
    if len(set(weights)) == 1:  # equal shares need no rounding
        return (Fraction(1, len(weights)),) * len(weights)
    roots = [weight ** (1 / 3) for weight in weights]  # the sum of weight / share^2 is least at these
    numerators = [max(1, round(root / sum(roots) * _SHARE_STEPS)) for root in roots]
    return tuple(Fraction(numerator, sum(numerators)) for numerator in numerators)
