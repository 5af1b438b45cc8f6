"""Counts by key: over all small worlds a user moves the sums by a vector of bounded norm, and by what it did."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from dpops.levels.bounded import Rows, sum_up
from dpops.levels.defaults import BoundsOnly, Fleet, recipe
from dpops.levels.parts import counts_stage
from dpops.levels.stages import FIRST_CENTRE, UNIT, PublicHats

HATS = PublicHats(parents=(0, 0), grandparents=(0, 0), hours=(8, 9))
OTHERS = [(0, 0, 0, 2), (0, 1, 1, 1)]  # vehicle, key, slot, reports


def rows(entries):
    vehicle, key, slot, reports = (np.array(column, np.int64) for column in zip(*entries, strict=True))
    return Rows(vehicle, key, slot, reports, 0 * reports)


def sums_of(entries, stage):
    sums = sum_up(rows(entries), stage)
    return np.concatenate([sums.weights, sums.speeds])


@pytest.mark.parametrize("bound", [1, 3, 7])
@pytest.mark.parametrize("exponent", [Fraction(0), Fraction(1)])
def test_a_user_adds_its_counts_scaled_down_to_the_bound(bound, exponent):
    fleet = BoundsOnly(hats=HATS, fleet=Fleet(vehicles=50))
    like = recipe("gaussian", Fraction(2), Fraction(1, 10), fleet).later[-1]
    centres = np.full((HATS.cells, HATS.slots), FIRST_CENTRE, np.int64)
    stage = counts_stage(like, bound, exponent).on(HATS, centres, Fraction(1, 100))
    before = sums_of(OTHERS, stage)
    for counts in product((0, 1, 2, 9), repeat=HATS.size):
        own = [(1, index // 2, index % 2, number) for index, number in enumerate(counts) if number]
        moved = sums_of([*OTHERS, *own], stage) - before
        assert np.sum(moved.astype(object) ** 2) <= UNIT**2
        told = np.array(counts, float) if exponent else np.array(counts, bool).astype(float)
        norm = np.linalg.norm(told)
        expected = told * min(1.0, bound / norm) if norm else told
        shown = moved[: HATS.size] / UNIT / float(1 - stage.alpha) ** 0.5 * bound
        assert np.allclose(shown, expected, atol=1e-3)
