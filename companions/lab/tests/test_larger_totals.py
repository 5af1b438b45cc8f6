"""A larger total does not give a larger error: cities drawn at random, that nothing was fitted on."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from benchmarks.cities import made_up
from benchmarks.drawn import GRID, _missed, drawn
from benchmarks.intervals import causal
from dpops.levels import Kind, Recipe
from dpops.noise import Noise
from hatstream_lab.evaluation.learned import recipe_for
from hatstream_lab.evaluation.learned_errors import DELTA
from hatstream_lab.evaluation.truth import TrueCity

TOTALS = tuple(Fraction(total) for total in ("1", "2.64", "10", "30"))
MOST_WORSE = 1.03
RUNS = 2


def error(city: TrueCity, how: Recipe, seed: int) -> float:
    """By reports, km/h, of all days, held back or not."""
    missed = 0.0
    for run in range(RUNS):
        fields = causal(city, how, Noise(np.random.default_rng([seed, run]).bytes)).causal
        missed += sum(_missed(day, field.values) for day, field in zip(city.days, fields, strict=True))
    return missed / RUNS / sum(float(day.reports.sum()) for day in city.days)


def grows(errors: list[float]) -> bool:
    return any(later > MOST_WORSE * before for before, later in pairwise(errors))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_a_larger_total_gives_no_larger_error(kind: Kind) -> None:
    """112 buses on four days; ten seconds of a core for both kinds."""
    seed = 31
    city = made_up(drawn(seed, 150, 4), GRID)
    recipes = [recipe_for(city, kind, total, DELTA) for total in TOTALS]
    errors = [error(city, how, seed) for how in recipes]
    assert not grows(errors)
    noisier = recipes[-1].with_spread(recipes[0].spread)
    assert grows([errors[-2], error(city, noisier, seed)]), "levels that are too fine for their noise are found out"
