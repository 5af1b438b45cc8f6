"""A lower bound on the epsilon that a mechanism really spends, from its outputs on two neighbouring inputs."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from dpops.types import Int64s

Release = Callable[[int], Int64s]
"""Gives that many independent noisy integers, int64 (draws,), released from one and the same input."""


def epsilon_lower_bound(one: Release, other: Release, draws: int, alpha: float = 1e-6) -> float:
    """A bound that the true epsilon of the pair is below with probability at most alpha; never negative."""
    return bound_of_samples(one(draws), other(draws), alpha)


def bound_of_samples(first: Int64s, second: Int64s, alpha: float = 1e-6) -> float:
    """The same from as many independent outputs on each of the two inputs, int64 (draws,).

    A fifth of the draws chooses the event (a threshold, a tail and a direction); the rest, which the choice has not
    seen, bound its two probabilities by Clopper-Pearson at alpha / 2 each.
    """
    draws = first.size
    part = draws // 5
    threshold, tail, swap = _best_event(first[:part], second[:part], alpha)
    likely, rare = (second, first) if swap else (first, second)
    tested = draws - part
    low = binomial_lower(int(np.count_nonzero(tail * likely[part:] >= threshold)), tested, alpha / 2)
    high = binomial_upper(int(np.count_nonzero(tail * rare[part:] >= threshold)), tested, alpha / 2)
    return max(0.0, math.log(low / high)) if low > 0 else 0.0


def binomial_lower(hits: int, draws: int, alpha: float) -> float:
    """Clopper-Pearson: the p with P(Binomial(draws, p) >= hits) = alpha; 0 for no hit."""
    return float(betaincinv(hits, draws - hits + 1, alpha)) if hits else 0.0


def binomial_upper(hits: int, draws: int, alpha: float) -> float:
    """Clopper-Pearson: the p with P(Binomial(draws, p) <= hits) = alpha; 1 if every draw hits."""
    return 1.0 - binomial_lower(draws - hits, draws, alpha)


def _best_event(one: Int64s, other: Int64s, alpha: float) -> tuple[int, int, bool]:
    """(threshold, tail, swap): the event tail * z >= threshold with the best approximate bound; swap if `other` is
    the input that makes it likely."""
    best, event = -math.inf, (0, 1, False)
    for tail in (1, -1):
        left, right = np.sort(tail * one), np.sort(tail * other)
        both = np.concatenate([left, right])
        thresholds = np.unique(np.quantile(both, np.linspace(0.01, 0.99, 99), method="nearest"))
        for swap, (likely, rare) in enumerate([(left, right), (right, left)]):
            p = 1 - np.searchsorted(likely, thresholds) / likely.size
            q = 1 - np.searchsorted(rare, thresholds) / rare.size
            bound = _wilson(p, likely.size, -1, alpha) - _wilson(q, rare.size, 1, alpha)
            place = int(np.argmax(bound))
            if bound[place] > best:
                best, event = float(bound[place]), (int(thresholds[place]), tail, bool(swap))
    return event


def _wilson(share: NDArray[np.float64], draws: int, side: int, alpha: float) -> NDArray[np.float64]:
    """Log of Wilson's approximate bound below (side -1) or above (side 1); only for choosing an event."""
    z2 = 2 * math.log(1 / alpha)  # wide, so that a lucky rare event is not preferred
    centre = share + z2 / (2 * draws)
    spread = np.sqrt(z2 * (share * (1 - share) / draws + z2 / (4 * draws * draws)))
    return np.log(np.maximum((centre + side * spread) / (1 + z2 / draws), 1e-300))
