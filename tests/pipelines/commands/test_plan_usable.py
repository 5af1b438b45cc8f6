"""Usable shares that a plan expects: more of a larger total and of more days, up to what has the vehicles."""

from fractions import Fraction

import numpy as np
import pytest

from dpops import fitted
from dpops.claims import rho_within
from dpops.levels.defaults import BoundsOnly, Fleet, Profile, recipe
from dpops.levels.stages import Kind, PublicHats
from dpops.spread import LEAST_VEHICLES
from pipelines.plan.spans import usable_parts

HATS = PublicHats(
    parents=tuple(cell // 7 for cell in range(140)),
    grandparents=tuple(cell // 49 for cell in range(140)),
    hours=tuple(range(6, 22)),
)
TOTALS = (".01", ".1", ".3", "1", "2.64", "5", "9.9")  # up to 10, from which on levels are finer


def parts(kind: Kind, total: str, vehicles: int, days: int = 1) -> tuple[float, float]:
    bounds, epsilon = BoundsOnly(hats=HATS, fleet=Fleet(vehicles=vehicles, profile=Profile(hats=40))), Fraction(total)
    rho = rho_within(epsilon, Fraction(1, 10**6)) if kind == "gaussian" else None
    return usable_parts(recipe(kind, epsilon, rho, bounds).later[-1], bounds, days)


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
@pytest.mark.parametrize("vehicles", [300, 1_500, 5_000])
def test_a_larger_total_and_more_days_never_make_less_usable(kind: Kind, vehicles: int) -> None:
    """Where little is known all HATs are like the average: the more of them were usable, the smaller the total was."""
    by_total = [parts(kind, total, vehicles) for total in TOTALS]
    for series in (by_total, [parts(kind, "1", vehicles, days) for days in (1, 4, 28)]):
        for shares in zip(*series, strict=True):
            assert np.all(np.diff(shares) > -1e-3)
        assert all(0 <= rows <= reports + 1e-9 <= 1 for rows, reports in series)
    assert by_total[-1][1] >= by_total[0][1]


def test_of_a_city_that_is_known_what_has_the_vehicles_is_usable() -> None:
    rng = np.random.default_rng(1)
    usual = 1_500 * 40 / HATS.size
    numbers = rng.poisson(usual * np.exp(fitted.BUSIER * rng.normal(size=200_000) - fitted.BUSIER**2 / 2))
    rows, reports = parts("gaussian", "9", 1_500, 10_000)
    is_enough = numbers >= LEAST_VEHICLES
    assert 0.8 < rows / is_enough.mean() < 1
    assert 0.9 < reports / (numbers[is_enough].sum() / numbers.sum()) < 1
