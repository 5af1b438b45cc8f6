"""The tree of least error for a number of bins, and how epsilon is divided over its levels: public, before any data.

Source: algorithms 10.3. For given factors the best shares are proportional to the cube roots of D_i, the digits that
all prefixes use at level i; the error is then proportional to (sum D_i^(1/3))^3. For a full tree D_i = K (n_i - 1) / 2.
"""

from collections.abc import Sequence
from fractions import Fraction
from functools import cache

from dpops.trees.shape import Tree, digit_sum

MOST_BINS = 10_000

_PARTS = 1_000_000
"""Shares are whole multiples of one millionth, so that budgets stay small rational numbers."""


@cache
def best_tree(bins: int) -> Tree:
    """Finds the tree of least error of all its prefixes when every level has its best share of epsilon.

    Trees of all factors in every order, padded or not, are compared: D_i depends on the width below the level and the
    factor alone, so the best tree is the shortest path from width 1 to one of at least K, with edges D_i^(1/3).
    Raises ValueError for fewer than 1 or more than 10,000 bins.
    """
    if not 1 <= bins <= MOST_BINS:
        raise ValueError(f"a distribution needs 1 to {MOST_BINS} bins, got {bins}")
    best: dict[int, tuple[float, tuple[int, ...]]] = {1: (0.0, ())}
    whole: list[tuple[float, tuple[int, ...]]] = []
    for width in range(1, bins):
        if width not in best:
            continue
        cost, below = best.pop(width)
        for factor in range(2, -(-bins // width) + 1):
            step = cost + digit_sum(bins, width, factor) ** (1 / 3), (factor, *below)
            if width * factor >= bins:
                whole.append(step)
            else:
                best[width * factor] = min(step, best.get(width * factor, step))
    return Tree(bins, min(whole)[1] if whole else (1,))


def cube_root_shares(weights: Sequence[int]) -> tuple[Fraction, ...]:
    """Divides 1 into shares proportional to the cube roots of the weights, which are n_i - 1 or D_i.

    Rounded to millionths; no level is left without one. Equal weights have equal shares exactly.
    """
    if len(set(weights)) == 1:
        return (Fraction(1, len(weights)),) * len(weights)
    roots = [weight ** (1 / 3) for weight in weights]
    parts = [max(1, round(root / sum(roots) * _PARTS)) for root in roots]
    return tuple(Fraction(part, sum(parts)) for part in parts)


@cache
def best_shares(tree: Tree) -> tuple[Fraction, ...]:
    """Computes the level budgets of least error for a tree, as shares of epsilon."""
    return cube_root_shares([max(1, digits) for digits in tree.digit_sums()])
