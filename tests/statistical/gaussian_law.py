"""The exact laws of discrete and of rounded Gaussian noise, in cells for chi-square tests."""

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from statistics import NormalDist

import numpy as np

from dpops.types import Int64s
from tests.statistical.checks import LEAST, Cells

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
