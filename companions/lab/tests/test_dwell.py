"""Caps take reports of slow vehicles away; counting every vehicle once does not."""

from fractions import Fraction

import numpy as np
import pytest

from dpops.mechanism import Totals
from dpops.types import Grid
from hatstream_lab.evaluation import real
from hatstream_lab.evaluation.dwell import of_vehicles

GRID = Grid(step=Fraction(1, 100), upper_steps=6_500)
SLOW, FAST = 10, 2
HAT = (Totals(np.array([SLOW, FAST]), np.array([SLOW * 1_000, FAST * 4_000])), SLOW + FAST)
"""One vehicle reports ten times at 10 km/h, another twice at 40."""
TRUTH = (SLOW * 10 + FAST * 40) / (SLOW + FAST)


def test_the_mean_of_vehicles_has_no_bias_and_is_another_number() -> None:
    error = of_vehicles([HAT], np.array([TRUTH]), np.array([12.0]), GRID, "1000", 1)
    assert error.bias == pytest.approx(0, abs=1e-6)
    assert error.above == pytest.approx(25 - TRUTH)
    assert error.mean == pytest.approx(0, abs=1)


def test_the_bias_is_weighed_by_reports_and_holds_no_noise() -> None:
    hats = real.RealHats([HAT], np.array([TRUTH]), np.array([12.0]), np.array([2.0]))
    errors = {error.label: error for error in real.errors_of(hats, GRID, ["0.1"], 1, None, lambda *_: None)}
    assert errors["baseline"].bias == pytest.approx(0, abs=1e-6)
    assert errors["baseline"].mean > 0
    assert errors[real.CONSTANT].bias == 0
