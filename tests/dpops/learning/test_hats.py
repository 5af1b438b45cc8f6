"""What noisy means of single HATs teach: better values than theirs, honest intervals, and nothing where nothing is."""

from dataclasses import replace

import numpy as np
import pytest

from dpops.learning.hats import RECENT, HatMeans, HatState, learned_hats
from tests.dpops.learning.city import HOURS, design
from tests.dpops.learning.hats import CELLS, UPPER, USUAL, after, known_after, slot


def test_what_is_learned_is_nearer_than_what_was_released_and_than_the_citys_mean() -> None:
    known, means, true = known_after(3, 15.0)
    found = known.belief("day 2", means, UPPER)
    errors = [np.abs(each - true).mean() for each in (found.values, means.values, USUAL.mean())]
    assert found.is_known
    assert errors[0] < min(errors[1:]) / 1.3


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    held = []
    for days in range(1, 13):
        known, means, true = known_after(days, 15.0)
        found = known.belief(f"day {days - 1}", means, UPPER)
        held.append((found.lower95 <= true) & (true <= found.upper95))
    assert 0.9 < np.mean(held) < 0.99


def test_a_pull_that_all_values_have_in_common_is_found_out() -> None:
    rng, state = np.random.default_rng(3), HatState.new()
    for day in range(3):
        for hour in HOURS.tolist():
            means, _ = slot(hour, 5.0, rng)
            bias = np.where(CELLS % 2, 16.0, 0.0)
            state = state.after(f"day {day}", replace(means, bias_kmh=bias, values=means.values + 2 * bias**2 / UPPER))
    pull = learned_hats(state, design()).means.effects[design().columns]
    assert 1.5 < pull < 2.3


def test_without_noise_it_is_what_was_released() -> None:
    known, means, _ = known_after(1, 1e-3)
    assert np.abs(known.belief("day 0", means, UPPER).values - np.clip(means.values, 0, UPPER)).max() < 0.02


def test_noise_that_drowns_everything_is_not_known() -> None:
    known, means, _ = known_after(1, 300.0)
    assert not known.belief("day 0", means, UPPER).is_known


def test_a_value_that_rests_on_no_data_teaches_nothing() -> None:
    state, means, _ = after(1, 15.0)
    silent = replace(means, values=means.values + 30, variances=np.full(CELLS.size, np.inf))
    one, other = (
        learned_hats(state.after("day 0", each), design())
        for each in (silent, replace(silent, values=0 * means.values))
    )
    assert np.array_equal(one.belief("day 0", silent, UPPER).values, other.belief("day 0", silent, UPPER).values)


def test_older_days_are_added_up_and_no_slot_is_lost() -> None:
    folded, _, _ = after(RECENT + 3, 15.0)
    alone, _, _ = after(RECENT + 3, 15.0, keep=None)
    assert (len(folded.days), len(folded.older_names)) == (RECENT, 3)
    for one, other in zip(_columns(folded), _columns(alone), strict=True):
        np.testing.assert_allclose(one, other)


def _columns(state: HatState) -> list[np.ndarray]:
    whole = state.whole
    return [whole.cells, whole.slots, whole.vehicles, whole.precision, whole.weighted]


def test_a_late_slot_of_an_older_day_is_learned_from_and_has_a_value() -> None:
    state, means, _ = after(RECENT + 1, 15.0)
    late = state.after("day 0", means)
    assert late.older.slots.sum() == state.older.slots.sum() + 1
    assert learned_hats(late, design()).belief("day 0", means, UPPER).is_known


def test_cells_that_are_met_later_join_those_before() -> None:
    state, _, _ = after(1, 15.0)
    more = HatMeans(
        cells=np.array([3]),
        hour=4,
        vehicles=np.array([2]),
        values=np.array([20.0]),
        variances=np.array([4.0]),
        bias_kmh=np.array([0.0]),
        upper_kmh=UPPER,
    )
    whole = state.after("day 1", more).whole
    assert whole.cells.tolist() == [3, *CELLS.tolist()]
    assert whole.vehicles.sum(axis=1).tolist() == [2, *state.whole.vehicles.sum(axis=1).tolist()]


@pytest.mark.parametrize(
    "wrong", [{"cells": CELLS[::-1]}, {"hour": 24}, {"vehicles": 0 * CELLS}, {"values": CELLS * np.nan}]
)
def test_what_is_no_slot_is_refused(wrong: dict) -> None:
    means, _ = slot(8, 1.0, np.random.default_rng(1))
    with pytest.raises(ValueError, match="a slot's HATs need"):
        replace(means, **wrong)
