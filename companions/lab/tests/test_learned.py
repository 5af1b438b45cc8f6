"""What is simulated is what a specification releases; and what that is worth where noise is heavy."""

from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from benchmarks.cities import made_up
from benchmarks.drawn import GRID, _missed, drawn
from benchmarks.fitted import OF_ESTIMATES
from benchmarks.intervals import causal
from dpops import fitted
from dpops.learning import StageValues, State
from dpops.learning.counts import Counts
from dpops.levels import Kind, count_stage
from dpops.noise import Noise
from hatstream_lab.evaluation import learned
from hatstream_lab.evaluation.learned import look, recipe_for
from hatstream_lab.evaluation.learned_errors import DELTA
from hatstream_lab.evaluation.truth import TrueCity
from transforms.places.hierarchy import design_of
from transforms.releases.periods.states import facts_of

TOTAL = Fraction("2.64")


@cache
def city() -> TrueCity:
    """153 buses on five days."""
    return made_up(drawn(301, 3000, 7), GRID)


def first_day(kind: Kind) -> tuple[StageValues, ...]:
    state, noise = State.new(design_of(city().region), facts_of(city().fleet)), Noise(np.random.default_rng(1).bytes)
    return look(city(), city().days[0], recipe_for(city(), kind, TOTAL, DELTA), None, state, noise)


@pytest.mark.parametrize(("kind", "power"), [("gaussian", 1), ("laplace", 2)])
def test_vehicles_are_counted_first_and_the_looks_share_what_that_leaves(
    kind: Kind, power: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = count_stage(recipe_for(city(), kind, TOTAL, DELTA).later[0], city().fleet.vehicles)
    assert count is not None
    counted, *looks = first_day(kind)
    assert counted.levels[0].groups.shape == (1, 1)
    monkeypatch.setattr(learned, "count_stage", lambda *_: None)
    for stage, whole in zip(looks, first_day(kind), strict=True):
        part = stage.levels[0].speed_precision / whole.levels[0].speed_precision
        assert part == pytest.approx(np.full(part.shape, float(1 - count.share) ** power))


def error() -> float:
    """By reports, km/h, of three releases without delta."""
    how, missed = recipe_for(city(), "laplace", TOTAL, DELTA), 0.0
    for seed in range(3):
        fields = causal(city(), how, Noise(np.random.default_rng(seed).bytes)).causal
        missed += sum(_missed(day, field.values) for day, field in zip(city().days, fields, strict=True))
    return missed / 3 / sum(float(day.reports.sum()) for day in city().days)


@pytest.mark.slow
def test_with_the_likeliest_weights_in_the_place_of_the_mean_ones_errors_are_larger(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of places that look idle they make speeds far from the centre."""
    of_mean_weights = error()
    monkeypatch.setattr(Counts, "mean_over_likeliest", lambda _counts, _rows, weights: np.ones(weights.shape))
    assert of_mean_weights < 0.99 * error()


def test_fitted_numbers_whose_effect_is_measured_are_there() -> None:
    assert [name for name in OF_ESTIMATES if not hasattr(fitted, name)] == []
