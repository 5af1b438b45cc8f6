"""Of an hour in which hardly anybody drives nothing is `ok`, however smooth habits are."""

from dataclasses import replace

import numpy as np
import pytest

from dpops.learning import DayValues, Groups, LevelValues, StageValues, State, Status, coarser, learned, published
from dpops.learning import taken_in as after_day
from dpops.learning.chances import CAUTIOUS
from dpops.learning.evidence import at_least
from tests.dpops.learning.city import FACTS, HOURS, design, truth

OF = design()
CELLS = np.arange(OF.cells)
CITY_HOURS, PARENT_HOURS = Groups(cells=0 * CELLS, slots=HOURS), Groups(cells=OF.parents, slots=HOURS)
NIGHT = slice(0, 6)


def day(groups: Groups, weights: np.ndarray, sd: float) -> DayValues:
    level = LevelValues(
        groups=groups, weights=weights, speeds=0 * weights, weight_variance=sd**2, speed_variance=49 * sd**2
    )
    return DayValues(hours=HOURS, stages=(StageValues(centre=np.full((OF.cells, 24), 20.0), levels=(level,)),))


def shown(days: list[DayValues], groups: Groups, least: float) -> np.ndarray:
    return at_least(days, HOURS, groups, np.full(groups.shape, least))


def test_a_sum_shows_what_it_is_surely_above() -> None:
    weights = np.arange(24.0)[None]
    assert np.array_equal(shown([day(CITY_HOURS, weights, 0.01)], CITY_HOURS, 3.0)[0], np.arange(24) > 3)
    assert not shown([day(CITY_HOURS, weights, 100.0)], CITY_HOURS, 3.0).any()


def test_noise_averages_out_over_days() -> None:
    one = day(CITY_HOURS, np.full((1, 24), 4.0), 4.0)
    assert not shown([one], CITY_HOURS, 3.0).any()
    assert shown([one] * 4, CITY_HOURS, 3.0).all()


def test_a_group_has_no_more_vehicles_than_all_that_it_is_part_of() -> None:
    weights = np.where(np.arange(24) < 6, 0.1, 5.0)[None]
    of_parents = shown([day(CITY_HOURS, weights, 0.1)], PARENT_HOURS, 1.0)
    assert not of_parents[:, NIGHT].any()
    assert of_parents[:, 6:].all()


def test_what_does_not_hold_a_group_says_nothing_of_it() -> None:
    of_cells = Groups(cells=CELLS, slots=HOURS)
    assert shown([day(of_cells, np.zeros((OF.cells, 24)), 0.1)], CITY_HOURS, 1.0).all()
    whole_days = Groups(cells=CELLS, slots=0 * HOURS)
    assert shown([day(whole_days, np.zeros((OF.cells, 1)), 0.1)], of_cells, 1.0).all()
    assert shown([], CITY_HOURS, 1.0).all()


@pytest.fixture(scope="module")
def with_two_at_night() -> State:
    """A city that smooth habits would fill at night: its noise is a quarter of what an hour weighs by day."""
    rng, state = np.random.default_rng(3), State.new(OF, FACTS)
    weights, means = truth(OF)
    weights = np.concatenate([0.002 * weights[:, NIGHT], weights[:, 6:]], axis=1)
    for _ in range(3):
        levels = []
        for groups in (Groups(cells=CELLS, slots=0 * HOURS), CITY_HOURS):
            noise = rng.normal(size=(2, *groups.shape))
            if groups is CITY_HOURS:
                noise[:, :, NIGHT] = 0  # else one of six nights would look like more by luck
            levels.append(
                LevelValues(
                    groups=groups,
                    weights=groups.totals(weights) + noise[0],
                    speeds=groups.totals(weights * (means - 25)) + 7 * noise[1],
                    weight_variance=1.0,
                    speed_variance=49.0,
                )
            )
        stage = StageValues(centre=np.full(weights.shape, 25.0), levels=tuple(levels))
        state = after_day(state, DayValues(hours=HOURS, stages=(stage,)))
    return state


def test_hours_in_which_hardly_anybody_drives_are_unreliable(with_two_at_night: State) -> None:
    model = learned(with_two_at_night)
    status = published(coarser(model, model.estimate(), CITY_HOURS), 65.0).status[0]
    assert np.all(status[NIGHT] == Status.UNRELIABLE)
    assert np.count_nonzero(status[6:] == Status.OK) > 9


def test_without_it_some_of_these_hours_are_ok(with_two_at_night: State) -> None:
    """The test above finds what it is for."""
    model = learned(with_two_at_night)
    believed = replace(coarser(model, model.estimate(), CITY_HOURS), is_seen=True)
    assert np.any(published(believed, 65.0).status[0, NIGHT] == Status.OK)


def test_a_group_has_no_vehicle_for_each_hat_that_nobody_may_visit(with_two_at_night: State) -> None:
    """A HAT that a row is about has one at least; a part of a group may have none."""
    model = learned(with_two_at_night)
    of_hours = coarser(model, model.estimate(), CITY_HOURS)
    assert of_hours.chances is not None
    assert np.all(of_hours.chances.vehicles[0, NIGHT, CAUTIOUS] < OF.cells)
