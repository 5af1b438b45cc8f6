"""Levy's private median bin: its law as the paper states it, by enumeration and by draws; and how its noise shrinks."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from dpops.means.arrays import FINE_PER_STEP, array_means
from dpops.mechanism import Plan, Totals
from dpops.mechanisms.levy import Levy
from dpops.types import CountsKnown, Grid, Int64s
from tests.kit.grids import grid
from tests.statistical.checks import chi_square_fit, laplace_fit, seeded

GRID = Grid(step=Fraction(1, 100), upper_steps=6_500)
LEVY = Levy()


COUNTS = [
    np.array(counts, np.int64) for counts in ([5, 3, 1], [4] * 6, sorted(1 + (i * i) % 23 for i in range(30))[::-1])
]


def drawn_bins(plan: Plan, totals: Totals, draws: int, seed: int) -> Int64s:
    released = LEVY.release([totals] * draws, [plan] * draws, seeded(seed))
    return np.array([integers[0] for integers in released], np.int64)


def bin_costs(means: Sequence[int], tau: int, upper: int) -> list[int]:
    """From the paper's text: nearest midpoint of each mean, lower on ties; the larger number on either side."""
    edges = [*range(0, upper, tau), upper]
    middles = [Fraction(a + b, 2) for a, b in itertools.pairwise(edges)]
    bins = [min(range(len(middles)), key=lambda j: (abs(middles[j] - mean), j)) for mean in means]
    return [max(sum(b < j for b in bins), sum(b > j for b in bins)) for j in range(len(middles))]


@cache
def levy_law(means: tuple[int, ...], tau: int, upper: int, epsilon: Fraction, over: int = 4) -> list[float]:
    weights = [math.exp(-float(epsilon) / over * cost) for cost in bin_costs(means, tau, upper)]
    return [w / math.fsum(weights) for w in weights]


def levy_loss(users: int, tau: int, upper: int, epsilon: Fraction, over: int) -> float:
    worst = 0.0
    for means in itertools.product(range(upper + 1), repeat=users):
        one = levy_law(means, tau, upper, epsilon, over)
        for value in range(upper + 1):
            other = levy_law((*means[1:], value), tau, upper, epsilon, over)
            worst = max(worst, *(abs(math.log(p / q)) for p, q in zip(one, other, strict=True)))
    return worst


def test_the_law_of_the_median_bin_loses_half_of_epsilon_and_at_rate_one_half_more() -> None:
    """Enumerated: every dataset of three arrays, every neighbour, every bin; the last bin is shorter."""
    epsilon = Fraction(2)
    assert levy_loss(3, 4, 9, epsilon, over=4) <= epsilon / 2 + Fraction(1, 10**9)
    assert levy_loss(3, 4, 9, epsilon, over=2) > epsilon / 2


SPEEDS = [(0, 0, 0, 0), (6_500, 0, 3_000, 3_000), (1_625, 3_250, 4_875, 6_500), (5_200, 5_850, 6_175, 100)]


@pytest.mark.parametrize(("speeds", "tau_steps"), grid(SPEEDS, [1_625, 2_600, 6_500]))
def test_the_drawn_bin_follows_that_law(speeds: tuple[int, ...], tau_steps: int) -> None:
    """False-alarm rate 1e-6 each; ties with midpoints and a short last bin included.

    Power: at half or twice the rate the noncentrality is above 500 in each quick case of more than one bin.
    """
    counts = np.full(4, 2, np.int64)
    plan = LEVY.plan(CountsKnown.all_of(counts), GRID, Fraction(2))
    upper, tau = GRID.upper_steps * FINE_PER_STEP, tau_steps * FINE_PER_STEP
    plan = replace(plan, facts={**plan.facts, "tau": tau, "bins": -(-upper // tau)})
    totals = Totals(counts, counts * np.array(speeds))
    drawn = drawn_bins(plan, totals, 10_000, 45)
    masses = levy_law(tuple(speed * FINE_PER_STEP for speed in speeds), tau, upper, plan.epsilon)
    assert len(masses) == plan.facts["bins"]
    if len(masses) > 1:
        assert chi_square_fit(np.bincount(drawn, minlength=len(masses)), masses) > 1e-6


def test_nearest_means_nearest_midpoint_and_not_least_distance() -> None:
    """Erratum E5: the paper prints min where it means argmin; a least distance is never above half a bin."""
    counts = np.full(20, 1, np.int64)
    plan = LEVY.plan(CountsKnown.all_of(counts), GRID, Fraction(1_000))
    plan = replace(plan, facts={**plan.facts, "tau": 1_000 * FINE_PER_STEP, "bins": 7})
    for speed, expected in ((100, 0), (1_000, 0), (1_001, 1), (5_700, 5), (6_400, 6)):
        bins = drawn_bins(plan, Totals(counts, counts * speed), 50, 46)
        assert set(bins.tolist()) == {expected}


@pytest.mark.parametrize("counts", COUNTS, ids=len)
def test_levys_noise_is_for_the_interval_that_was_drawn(counts: Int64s) -> None:
    """False-alarm rate 1e-6: among draws that share a bin, queries are the clipped sum plus noise of its own scale."""
    plan = LEVY.plan(CountsKnown.all_of(counts), GRID, Fraction(1, 2))
    totals = Totals(counts, counts * (np.arange(counts.size) * 997 % 6_500))
    drawn = LEVY.release([totals] * 20_000, [plan] * 20_000, seeded(44))
    for index in range(plan.facts["bins"]):
        of_bin = [integers for integers in drawn if integers[0] == index]
        if len(of_bin) > 1_000:
            tau, upper = plan.facts["tau"], GRID.upper_steps * FINE_PER_STEP
            middle = (index * tau + min((index + 1) * tau, upper)) // 2
            low, high = (0, upper) if plan.facts["bins"] == 1 else (middle - 3 * tau // 2, middle + 3 * tau // 2)
            exact = int(np.clip(array_means([totals], [plan]).means, max(low, 0), min(high, upper)).sum())
            assert (
                laplace_fit(
                    np.array([integers[-1] for integers in of_bin]) - exact, Levy.resolve([index, 0], plan).scale
                )
                > 1e-6
            )
