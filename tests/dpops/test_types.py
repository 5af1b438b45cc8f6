"""The grid refuses what is not one."""

from fractions import Fraction

import pytest

from dpops.types import Grid


def test_the_upper_bound_is_exact() -> None:
    assert Grid(step=Fraction(1, 3), upper_steps=195).upper == 65


@pytest.mark.parametrize(("step", "upper_steps"), [(Fraction(0), 1), (Fraction(-1), 1), (Fraction(1), 0)])
def test_an_empty_grid_is_refused(step: Fraction, upper_steps: int) -> None:
    with pytest.raises(ValueError, match="a grid needs"):
        Grid(step=step, upper_steps=upper_steps)
