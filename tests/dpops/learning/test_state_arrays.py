"""What is kept of older days, as arrays and back; and that their version changes when what they hold does."""

import numpy as np
import pytest

from dpops.learning import State, learned
from dpops.learning.hats import RECENT, HatState
from dpops.learning.state_arrays import VERSION, arrays_of, arrays_of_hats, hats_taken_up, taken_up
from tests.dpops.learning.city import FACTS, HOURS, after, design
from tests.dpops.learning.hats import after as after_hats


@pytest.fixture(scope="module")
def folded() -> State:
    """A state after more days than it keeps one by one."""
    return after(8, 0.5)


@pytest.fixture(scope="module")
def hats() -> HatState:
    """The same of single HATs."""
    return after_hats(RECENT + 2, 15.0)[0]


def test_a_state_is_taken_up_as_it_was(folded: State) -> None:
    again = taken_up(State.new(design(), FACTS), folded.days, folded.recent, arrays_of(folded))
    assert np.array_equal(learned(again).forecast(HOURS).values, learned(folded).forecast(HOURS).values)


def test_a_start_of_another_city_is_refused(folded: State) -> None:
    arrays = arrays_of(folded) | {"start.effects": np.zeros(3)}
    with pytest.raises(ValueError, match="another city"):
        taken_up(State.new(design(), FACTS), folded.days, folded.recent, arrays)


def test_a_state_of_single_hats_is_taken_up_as_it_was(hats: HatState) -> None:
    again = hats_taken_up(arrays_of_hats(hats))
    assert (again.older_names, [day.name for day in again.days]) == (hats.older_names, [day.name for day in hats.days])
    assert arrays_of_hats(again).keys() == arrays_of_hats(hats).keys()
    for name, column in arrays_of_hats(again).items():
        assert np.array_equal(column, arrays_of_hats(hats)[name]), name


def test_a_state_before_the_first_release_is_taken_up_as_it_was() -> None:
    assert hats_taken_up(arrays_of_hats(HatState.new())).whole.cells.size == 0


def test_what_the_arrays_hold_changes_with_their_version_alone(folded: State, hats: HatState) -> None:
    """Where this fails, released entries give other arrays than before: count VERSION up, and write what it is now."""
    sums = [
        sum(float(np.abs(column).sum()) for column in arrays.values() if column.dtype == np.float64)
        for arrays in (arrays_of(folded), arrays_of_hats(hats))
    ]
    assert (VERSION, *(f"{total:.5g}" for total in sums)) == (13, "89197", "1.8743e+05")
