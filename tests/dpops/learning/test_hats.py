"""What noisy means of single HATs teach: better values than theirs, honest intervals, and nothing where nothing is."""

from dataclasses import fields, replace

import numpy as np
import pytest

from dpops.learning.hat_model import learned_hats
from dpops.learning.hats import RECENT, HatErrors, HatMeans, HatState
from dpops.spread import USUAL as USUAL_VARIANCES
from tests.dpops.learning.city import HOURS, design
from tests.dpops.learning.hats import CELLS, UPPER, USUAL, after, errors, known_after, slot


def test_what_is_learned_is_nearer_than_what_was_released_and_than_the_citys_mean() -> None:
    model, means, true = known_after(3, 15.0)
    belief = model.belief("day 2", means, UPPER)
    errors = [np.abs(values - true).mean() for values in (belief.values, means.values, USUAL.mean())]
    assert belief.is_known
    assert errors[0] < min(errors[1:]) / 1.3


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    held = []
    for days in range(1, 13):
        model, means, true = known_after(days, 15.0)
        belief = model.belief(f"day {days - 1}", means, UPPER)
        held.append((belief.lower95 <= true) & (true <= belief.upper95))
    assert 0.9 < np.mean(held) < 0.99


def test_what_a_cap_takes_away_is_added_again_and_intervals_are_as_narrow_as_that_lets_them() -> None:
    """A bias of 12 km/h at worst pulls 20 vehicles' means by 1.3 km/h; beside it each is a kilometre an hour off."""
    rng, slots, bias, pull = np.random.default_rng(3), [], 12.0, 1.3
    for hour in [*HOURS.tolist()] * 3:
        means, true = slot(hour, 1.0, rng, vehicles=20)
        uneven = rng.normal(size=(2, CELLS.size)) * bias / np.sqrt(6 * 20)
        capped = means.values + pull + uneven[0]
        slots.append((replace(means, values=capped, errors=errors(1.0, bias, pull)), true + uneven[1]))
    beliefs, true = believed(slots)
    values, lower95, upper95 = beliefs
    released = np.concatenate([means.values for means, _ in slots[-HOURS.size :]])
    assert abs((values - true).mean()) < 0.25
    assert np.abs(values - true).mean() < np.abs(released - true).mean() / 1.2
    assert (upper95 - lower95).mean() / 2 < 4.2
    assert 0.93 < np.mean((lower95 <= true) & (true <= upper95)) < 0.99


def test_releases_that_show_no_pull_are_not_moved_by_one() -> None:
    """In this city caps take away reports that are as fast as others, where they usually take slow ones."""
    rng, slots = np.random.default_rng(4), []
    for hour in [*HOURS.tolist()] * 3:
        means, true = slot(hour, 0.3, rng, vehicles=20)
        pull = rng.uniform(0, 4, CELLS.size)
        slots.append((replace(means, errors=errors(0.3)._replace(pull_kmh=pull, pull_sd_kmh=pull / 3)), true))
    (values, _, _), true = believed(slots)
    assert np.abs(values - true).mean() < 0.6


def test_where_no_pull_is_shown_a_bias_that_may_be_moves_no_value_and_widens_intervals() -> None:
    """At worst each HAT of five vehicles might be 20 km/h off; releases lie off by noise alone, and show no pull."""
    rng, slots = np.random.default_rng(6), []
    for hour in [*HOURS.tolist()] * 3:
        means, true = slot(hour, 0.3, rng, vehicles=5)
        pull = rng.uniform(0, 4, CELLS.size)
        slots.append((replace(means, errors=errors(0.3, 20.0)._replace(pull_kmh=pull)), true))
    (values, lower95, upper95), true = believed(slots)
    released = np.concatenate([means.values for means, _ in slots[-HOURS.size :]])
    assert np.abs(values - true).mean() < 1.1 * np.abs(released - true).mean()
    assert np.median(upper95 - lower95) / 2 > 1.96 * np.sqrt(0.7 * 20**2 / (3 * 5))


def believed(slots: list[tuple[HatMeans, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Values and both ends of the last day's HATs, (3, hats), from whole days; and their true means."""
    state = HatState.new()
    for index, (means, _) in enumerate(slots):
        state = state.after(f"day {index // HOURS.size}", means)
    model, name = learned_hats(state, design()), state.days[-1].name
    beliefs = [np.stack(model.belief(name, means, UPPER)[:3]) for means, _ in slots[-HOURS.size :]]
    return np.concatenate(beliefs, axis=1), np.concatenate([true for _, true in slots[-HOURS.size :]])


def slow_where_vehicles_stay(*, is_told: bool) -> tuple[float, float]:
    """Each HAT has 1 to 8 reports a vehicle, and is 8 km/h slower where they are e times as many. Every third cell has
    a constant. Mean absolute errors of the others and of these."""
    rng, slots, noisy = np.random.default_rng(5), [], CELLS % 3 > 0
    for hour in [*HOURS.tolist()] * 3:
        means, true = slot(hour, 12.0, rng)
        times = rng.integers(1, 9, CELLS.size)
        true = true - 8 * np.log(times / 4)
        values = np.where(noisy, true + 12 * rng.normal(size=CELLS.size), 0.0)
        said = means.errors._replace(noise=np.where(noisy, 144.0, np.inf))
        counted = means.vehicles * (times if is_told else 3)
        slots.append((replace(means, values=values, reports=counted, errors=said), true))
    (values, _, _), true = believed(slots)
    off, released = np.abs(values - true), np.tile(noisy, HOURS.size)
    return float(off[released].mean()), float(off[~released].mean())


def test_how_often_vehicles_report_tells_how_slow_a_hat_is_also_where_nothing_is_released() -> None:
    told, untold = slow_where_vehicles_stay(is_told=True), slow_where_vehicles_stay(is_told=False)
    assert told[0] < untold[0] / 1.2
    assert told[1] < untold[1] / 1.2


@pytest.mark.parametrize("spread", [0.5, 1.8])
def test_a_city_whose_vehicles_differ_less_or_more_has_intervals_of_its_own(spread: float) -> None:
    held = []
    for days in (3, 4, 5):
        state, means, true = after(days, 3.0, spread=spread)
        belief = learned_hats(state, design()).belief(f"day {days - 1}", means, UPPER)
        held.append((belief.lower95 <= true) & (true <= belief.upper95))
    assert 0.9 < np.mean(held) < 0.995


def test_values_that_were_clipped_do_not_say_how_far_true_ones_lie() -> None:
    state, _, _ = after(3, 3.0, spread=0.3)
    clipped = HatState.new()
    for day in range(3):
        rng = np.random.default_rng(day)
        for hour in HOURS.tolist():
            means, _ = slot(hour, 3.0, rng, spread=0.3)
            clipped = clipped.after(f"day {day}", replace(means, errors=errors(3.0, 5.0, is_clipped=True)))
    learned, kept = (learned_hats(hat_state, design()).own.of(9, 18) for hat_state in (state, clipped))
    assert learned < kept / 1.5
    assert kept == pytest.approx(USUAL_VARIANCES.of(9, 18))


def test_a_bias_that_is_hardly_known_holds_values_back() -> None:
    state, means, _ = after(2, 3.0)
    unsure = replace(means, errors=errors(3.0, 40.0, 24.0))
    assert learned_hats(state, design()).belief("day 1", means, UPPER).is_known
    assert not learned_hats(state.after("day 1", unsure), design()).belief("day 1", unsure, UPPER).is_known


def test_without_noise_it_is_what_was_released() -> None:
    model, means, _ = known_after(1, 1e-3)
    assert np.abs(model.belief("day 0", means, UPPER).values - np.clip(means.values, 0, UPPER)).max() < 0.02


def test_noise_that_drowns_everything_is_not_known() -> None:
    model, means, _ = known_after(1, 300.0)
    assert not model.belief("day 0", means, UPPER).is_known


def test_a_value_that_rests_on_no_data_teaches_nothing() -> None:
    state, means, _ = after(1, 15.0)
    silent = replace(means, values=means.values + 30, errors=errors(np.inf))
    one, other = (
        learned_hats(state.after("day 0", released), design())
        for released in (silent, replace(silent, values=0 * means.values))
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
    return [getattr(whole, field.name) for field in fields(whole)]


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
        reports=np.array([3]),
        heaviest=np.array([2]),
        values=np.array([20.0]),
        errors=HatErrors(np.array([4.0]), *[np.zeros(1)] * 3, np.zeros(1, np.bool_)),
    )
    whole = state.after("day 1", more).whole
    assert whole.cells.tolist() == [3, *CELLS.tolist()]
    assert whole.vehicles.sum(axis=1).tolist() == [2, *state.whole.vehicles.sum(axis=1).tolist()]


@pytest.mark.parametrize(
    "wrong",
    [
        {"cells": CELLS[::-1]},
        {"hour": 24},
        {"vehicles": 0 * CELLS},
        {"reports": 0 * CELLS + 1},
        {"values": CELLS * np.nan},
    ],
)
def test_what_is_no_slot_is_refused(wrong: dict) -> None:
    means, _ = slot(8, 1.0, np.random.default_rng(1))
    with pytest.raises(ValueError, match="a slot's HATs need"):
        replace(means, **wrong)
