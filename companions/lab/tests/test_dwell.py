"""Caps take reports of slow vehicles away; counting every vehicle once does not."""

from fractions import Fraction

import numpy as np
import pytest

from dpops.mechanism import Totals
from dpops.mechanisms.baseline import Baseline
from dpops.noise import Noise
from dpops.types import Grid
from hatstream_lab.evaluation import real
from hatstream_lab.evaluation.dwell import Silent, of_vehicles, plans_of, published

GRID = Grid(step=Fraction(1, 100), upper_steps=6_500)
SLOW, FAST = 10, 2
HAT = (Totals(np.array([SLOW, FAST]), np.array([SLOW * 1_000, FAST * 4_000])), SLOW + FAST)
"""One vehicle reports ten times at 10 km/h, another twice at 40."""
TRUTH = (SLOW * 10 + FAST * 40) / (SLOW + FAST)


def without_noise(mechanism: Baseline) -> float:
    [value] = published(mechanism, [HAT[0]], plans_of(mechanism, [HAT], GRID, Fraction(1)), Silent())
    return float(value)


def test_a_cap_moves_the_mean_upwards_and_no_cap_does_not() -> None:
    assert without_noise(Baseline()) == pytest.approx(TRUTH)
    assert without_noise(Baseline(m_ub=2)) == pytest.approx(25, abs=0.01)


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


def test_silence_is_for_queries_alone() -> None:
    assert not Silent().laplace([Fraction(10)] * 100).any()
    assert Noise().laplace([Fraction(10)] * 100).any()
