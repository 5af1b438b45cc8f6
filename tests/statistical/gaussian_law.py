"""The exact law of discrete Gaussian noise, in cells for chi-square tests."""

import math
from fractions import Fraction
from itertools import pairwise
from statistics import NormalDist

import numpy as np

from dpops.types import Int64s
from tests.statistical.checks import LEAST, Cells

SUMMED = 20_000
"""Standard deviations up to which the law is summed up; beyond, the integral differs by less than 1e-10."""


def gaussian_cells(variance: Fraction, draws: int) -> Cells:
    """Cells for so many draws, each with at least LEAST expected; the tails are halved again and again."""
    sigma = math.sqrt(variance)
    if sigma < 8:
        reach = 0
        while draws * gaussian_below(-reach - 1, variance) >= LEAST:
            reach += 1
        edges = list(range(-reach, reach + 2))
    else:
        levels = [j / 32 for j in range(1, 16)] + [2.0**-j for j in range(6, 60) if draws * 2.0**-j >= 2 * LEAST]
        depths = {-round(NormalDist(0, sigma).inv_cdf(level)) for level in levels}
        edges = sorted({-a for a in depths} | {a + 1 for a in depths})
    below = [0.0, *(gaussian_below(edge, variance) for edge in edges), 1.0]
    return Cells(np.array(edges, np.int64), np.array([high - low for low, high in pairwise(below)]))


def gaussian_below(edge: int, variance: Fraction) -> float:
    """P(Z < edge) where P(z) is proportional to exp(-z^2 / (2 variance))."""
    sigma = math.sqrt(variance)
    if sigma > SUMMED:
        return NormalDist(0, sigma).cdf(edge - 0.5)
    reach = math.ceil(14 * sigma) + 2
    z = np.arange(-reach, reach + 1)
    law = np.exp(-(z.astype(np.float64) ** 2) / (2 * float(variance)))
    return float(law[z < edge].sum() / law.sum())


def gaussian_fit(sample: Int64s, variance: Fraction) -> float:
    """p-value of the sample under discrete Gaussian noise of that variance."""
    cells = gaussian_cells(variance, sample.size)
    return cells.p_value(cells.counts(sample))
