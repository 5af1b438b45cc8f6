"""The whole weight of a city: what totals say is believed as far as they are precise."""

from dataclasses import replace

import numpy as np
import pytest

from dpops.learning import DayValues, State, add_day, learned
from dpops.learning.places import PlaceSums, whole_weight
from dpops.levels.defaults import RETAINED
from tests.dpops.learning.city import FACTS, HOURS, after, counted, design, error, released_day


def with_count(day: DayValues, vehicles: float) -> DayValues:
    return replace(day, stages=(counted(vehicles), *day.stages))


@pytest.mark.parametrize("expected", [1.0, 60.0, 1_000.0, 1e5])
def test_a_precise_total_is_believed_however_far_from_what_was_expected(expected: float) -> None:
    sums = replace(PlaceSums.none(2), weights=np.array([20.0, 40.0]), weight_precision=1.0, days=1)
    assert whole_weight(sums, expected) == pytest.approx(60, rel=0.03)


def test_a_total_below_zero_leaves_a_weight_above_it() -> None:
    sums = replace(PlaceSums.none(2), weights=np.full(2, -0.02), weight_precision=1 / 800, days=1)
    assert 0 < whole_weight(sums, 100.0) < 60


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("declared", [2, 5, 3_000])
def test_a_fleet_that_is_declared_many_times_too_small_or_large_takes_nothing_from_estimates(declared: int) -> None:
    state = State.new(design(), replace(FACTS, vehicles=declared))
    for day in range(3):
        centre = learned(state).forecast(HOURS).values
        state = add_day(state, released_day(design(), 0.1, day, centre))
    assert learned(state).estimate().weights.sum() == pytest.approx(100, rel=0.01)
    assert error(learned(state).estimate(), design()) < 0.5


def test_counted_vehicles_say_what_weight_is_expected_and_declared_ones_no_more() -> None:
    """Sums are of clipped weights, and so lie below what counted vehicles would weigh."""
    day = released_day(design(), 60.0, 3)
    weights = []
    for vehicles in (50.0, 200.0):
        state = add_day(State.new(design(), FACTS), with_count(day, vehicles))
        weights.append(learned(state).estimate().weights.sum() / (RETAINED * vehicles))
    assert weights == pytest.approx([1.0, 1.0], abs=0.25)


def test_a_day_off_with_a_tenth_of_the_fleet_is_no_usual_day() -> None:
    state = after(3, 1.0)
    quiet = released_day(design(), 1.0, 77)
    (stage,) = quiet.stages
    levels = tuple(replace(level, weights=0.1 * level.weights, speeds=0.1 * level.speeds) for level in stage.levels)
    state = add_day(state, DayValues(hours=HOURS + 24, stages=(replace(stage, levels=levels),)))
    belief = learned(state)
    assert belief.forecast(HOURS).weights.sum() == pytest.approx(100, rel=0.1)
    assert belief.estimate().weights.sum() < 30
