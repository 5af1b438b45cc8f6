"""What is kept of older days, as arrays and back; and that their version changes when what they hold does."""

import numpy as np

from dpops.learning import State, learned
from dpops.learning.hats import RECENT, HatState
from dpops.learning.kept import VERSION, arrays_of, arrays_of_hats, hats_taken_up, taken_up
from tests.dpops.learning.city import FACTS, HOURS, after, design
from tests.dpops.learning.hats import after as after_hats

FOLDED, HATS = after(8, 0.5), after_hats(RECENT + 2, 15.0)[0]


def test_a_state_is_taken_up_as_it_was() -> None:
    again = taken_up(State.new(design(), FACTS), FOLDED.days, FOLDED.recent, arrays_of(FOLDED))
    assert np.array_equal(learned(again).forecast(HOURS).values, learned(FOLDED).forecast(HOURS).values)


def test_a_state_of_single_hats_is_taken_up_as_it_was() -> None:
    again = hats_taken_up(arrays_of_hats(HATS))
    assert (again.older_names, [day.name for day in again.days]) == (HATS.older_names, [day.name for day in HATS.days])
    assert arrays_of_hats(again).keys() == arrays_of_hats(HATS).keys()
    for name, column in arrays_of_hats(again).items():
        assert np.array_equal(column, arrays_of_hats(HATS)[name]), name


def test_a_state_before_the_first_release_is_taken_up_as_it_was() -> None:
    assert hats_taken_up(arrays_of_hats(HatState.new())).whole.cells.size == 0


def test_what_the_arrays_hold_changes_with_their_version_alone() -> None:
    """Where this fails, released entries give other arrays than before: count VERSION up, and write what it is now."""
    sums = [
        sum(float(np.abs(column).sum()) for column in arrays.values() if column.dtype == np.float64)
        for arrays in (arrays_of(FOLDED), arrays_of_hats(HATS))
    ]
    assert (VERSION, *(f"{each:.5g}" for each in sums)) == (1, "73841", "62945")
