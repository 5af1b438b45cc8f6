"""The exact laws of discrete and rounded noise, and chi-square checks of samples against them."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from dpops.noise import Noise
from dpops.types import Int64s

Float64s = NDArray[np.float64]

LEAST = 20  # least expected draws of a cell; below it the chi-square law is a poor approximation


def seeded(seed: int) -> Noise:
    """A noise source that repeats itself. For simulation only."""
    return Noise(np.random.default_rng(seed).bytes)


def laplace_below(edge: int, scale: Fraction) -> float:
    """P(Z < edge) of discrete Laplace noise, in its numerically safe tail: p**(1 - edge) / (1 + p) for edge <= 0."""
    rate = float(1 / scale)
    if edge <= 0:
        return math.exp(-rate * (1 - edge)) / (1 + math.exp(-rate))
    return 1.0 - laplace_below(1 - edge, scale)


def laplace_mass(first: int, last: int, scale: Fraction) -> float:
    """P(first <= Z <= last); cells right of zero are mirrored, so that no two numbers near one are subtracted."""
    if first > 0:
        first, last = -last, -first
    return laplace_below(last + 1, scale) - laplace_below(first, scale)


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """A partition of the integers: cell i holds edges[i-1] <= z < edges[i], and the outer two are open.

    edges: int64 (cells - 1,), increasing. masses: float64 (cells,), the probability of each cell.
    """

    edges: Int64s
    masses: Float64s

    def counts(self, sample: Int64s) -> Int64s:
        return np.bincount(np.searchsorted(self.edges, sample, side="right"), minlength=self.masses.size)

    def p_value(self, counts: Int64s) -> float:
        """Pearson's chi-square test of the counts against the masses."""
        expected = counts.sum() * self.masses
        return float(chdtrc(self.masses.size - 1, ((counts - expected) ** 2 / expected).sum()))


def laplace_cells(scale: Fraction, draws: int) -> Cells:
    """Cells for so many draws, each with at least LEAST expected.

    One integer a cell with pooled tails where that gives few cells and small tails; otherwise 31 cells of near equal
    probability, of which the outer two are halved again and again, because a fault may sit in the tails alone.
    """
    if draws < 1_000:
        raise ValueError(f"the chi-square law needs 1000 draws or more, got {draws}")
    reach = 0
    while reach < 40 and draws * min(_atom(reach + 1, scale), laplace_below(-reach - 1, scale)) >= LEAST:
        reach += 1
    if reach < 40 and laplace_below(-reach, scale) < 1 / 16:
        edges = list(range(-reach, reach + 2))
    else:
        levels = [j / 32 for j in range(1, 16)] + [2.0**-j for j in range(6, 60) if draws * 2.0**-j >= 2 * LEAST]
        # P(Z < -a) = level, hence P(Z > a) = level as well
        depths = {_depth(level, scale) for level in levels}
        edges = sorted({-a for a in depths} | {a + 1 for a in depths})
    bounds = [None, *edges, None]
    masses = [_cell(low, high, scale) for low, high in pairwise(bounds)]
    return Cells(np.array(edges, np.int64), np.array(masses))


def laplace_fit(sample: Int64s, scale: Fraction) -> float:
    """p-value of the sample under discrete Laplace noise of that scale."""
    cells = laplace_cells(scale, sample.size)
    return cells.p_value(cells.counts(sample))


def same_law(one: Int64s, other: Int64s) -> float:
    """p-value of the claim that two samples of one size have one law (two-sample chi-square, pooled cells)."""
    if one.size != other.size:
        raise ValueError("both samples must have one size")
    values, repeats = np.unique(np.concatenate([one, other]), return_counts=True)
    least = max(2 * LEAST, 2 * one.size // 64)
    edges, held = [], 0
    for value, number in zip(values.tolist(), repeats.tolist(), strict=True):
        held += number
        if held >= least:
            edges.append(value + 1)
            held = 0
    edges = edges[:-1]  # what remains joins the last cell
    left = np.bincount(np.searchsorted(edges, one, side="right"), minlength=len(edges) + 1)
    right = np.bincount(np.searchsorted(edges, other, side="right"), minlength=len(edges) + 1)
    return float(chdtrc(len(edges), ((left - right) ** 2 / (left + right)).sum()))


def independent(one: Sequence[bool] | NDArray[np.bool_], other: Sequence[bool] | NDArray[np.bool_]) -> float:
    """p-value of the independence of two paired events (chi-square of the 2 x 2 table)."""
    table = np.bincount(2 * np.asarray(one, np.int64) + np.asarray(other, np.int64), minlength=4).reshape(2, 2)
    expected = np.outer(table.sum(1), table.sum(0)) / table.sum()
    return float(chdtrc(1, ((table - expected) ** 2 / expected).sum()))


def _atom(z: int, scale: Fraction) -> float:
    rate = float(1 / scale)
    return math.tanh(rate / 2) * math.exp(-rate * abs(z))


def _depth(level: float, scale: Fraction) -> int:
    """The largest a >= 0 with P(Z < -a) >= level, or 0."""
    rate = float(1 / scale)
    return max(0, math.floor(-(math.log(level) + math.log1p(math.exp(-rate))) / rate) - 1)


def _cell(low: int | None, high: int | None, scale: Fraction) -> float:
    if low is None:
        return laplace_below(high, scale) if high is not None else 1.0
    if high is None:
        return laplace_below(1 - low, scale)  # the mirror image of Z >= low
    return laplace_mass(low, high - 1, scale)


def chi_square_fit(counts: Int64s, masses: list[float]) -> float:
    """The p-value of counts under these masses; where a mass is 0, nothing may be counted."""
    expected = np.array(masses) * counts.sum()
    seen = expected > 0
    assert not counts[~seen].any()
    return float(chdtrc(seen.sum() - 1, ((counts[seen] - expected[seen]) ** 2 / expected[seen]).sum()))


SUMMED = 20_000  # standard deviations up to which the law is summed up; beyond, the integral differs by less than 1e-10

Below = Callable[[int, Fraction], float]  # P(Z < edge) at a variance


def rounded_below(edge: int, variance: Fraction) -> float:
    """P(Z < edge) where Z is a normal number rounded to an integer."""
    return NormalDist(0, math.sqrt(variance)).cdf(edge - 0.5)


def gaussian_below(edge: int, variance: Fraction) -> float:
    """P(Z < edge) where P(z) is proportional to exp(-z^2 / (2 variance))."""
    sigma = math.sqrt(variance)
    if sigma > SUMMED:
        return rounded_below(edge, variance)
    reach = math.ceil(14 * sigma) + 2
    z = np.arange(-reach, reach + 1)
    law = np.exp(-(z.astype(np.float64) ** 2) / (2 * float(variance)))
    return float(law[z < edge].sum() / law.sum())


def gaussian_cells(variance: Fraction, draws: int, below_of: Below = gaussian_below) -> Cells:
    """Cells for so many draws, each with at least LEAST expected; the tails are halved again and again."""
    sigma = math.sqrt(variance)
    if sigma < 8:
        reach = 0
        while draws * below_of(-reach - 1, variance) >= LEAST:
            reach += 1
        edges = list(range(-reach, reach + 2))
    else:
        levels = [j / 32 for j in range(1, 16)] + [2.0**-j for j in range(6, 60) if draws * 2.0**-j >= 2 * LEAST]
        depths = {-round(NormalDist(0, sigma).inv_cdf(level)) for level in levels}
        edges = sorted({-a for a in depths} | {a + 1 for a in depths})
    below = [0.0, *(below_of(edge, variance) for edge in edges), 1.0]
    return Cells(np.array(edges, np.int64), np.array([high - low for low, high in pairwise(below)]))


def gaussian_fit(sample: Int64s, variance: Fraction, below_of: Below = gaussian_below) -> float:
    """p-value of the sample under Gaussian noise of that variance: discrete, or of another law."""
    cells = gaussian_cells(variance, sample.size, below_of)
    return cells.p_value(cells.counts(sample))
