"""What is learned day by day: better with every day, never from the data, and never a crash."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from dpops import fitted
from dpops.learning import (
    DayValues,
    Design,
    Groups,
    LevelValues,
    StageValues,
    State,
    Status,
    learned,
    published,
    taken_in,
)
from dpops.learning.counts import CountProblem
from dpops.learning.interval import held_back, missed
from dpops.learning.learner import Field
from dpops.learning.state import RECENT
from dpops.spread import USUAL
from tests.dpops.learning.city import FACTS, HOURS, after, design, error, known_hats, released_day, truth


def test_before_the_first_day_there_is_a_forecast_and_no_estimate() -> None:
    nothing = learned(State.new(design(), FACTS))
    before = nothing.forecast(HOURS)
    assert abs(np.average(before.values, weights=before.weights) - 20) < 0.5
    with pytest.raises(ValueError, match="there is no estimate"):
        nothing.estimate()


def test_with_little_noise_the_smooth_city_is_found() -> None:
    assert error(learned(after(2, 0.02)).estimate(), design()) < 0.7


@pytest.mark.slow
def test_errors_fall_with_the_days() -> None:
    first, later = [], []
    for seed in range(3):
        first.append(error(learned(after(1, 1.0, seed)).estimate(), design()))
        later.append(error(learned(after(6, 1.0, seed)).estimate(), design()))
    assert np.mean(later) < 0.8 * np.mean(first)


CELLS_DAYS = Groups(cells=np.arange(design().cells), slots=0 * HOURS)


def means_over_likeliest(noise: float) -> tuple[np.ndarray, np.ndarray]:
    """Of cells' days, after a release of so much noise; and the variances of their weights' logarithms."""
    state = after(1, noise)
    counts, rows = learned(state).counts, state.rows.counts(CELLS_DAYS, HOURS)
    weights = counts.hats(state.design, HOURS)
    share = weights / weights.sum(axis=1, keepdims=True)
    return counts.mean_over_likeliest(rows, weights)[:, 0], rows(share).variances(counts.solved, counts.border)


def test_a_weight_that_is_hardly_known_is_on_average_above_the_likeliest() -> None:
    ratios, _ = means_over_likeliest(0.02)
    assert np.all((ratios >= 1) & (ratios < 1.01))
    unknown, variances = means_over_likeliest(1e4)
    least_known = np.argmax(variances)
    assert unknown[least_known] == pytest.approx(np.exp(variances[least_known] / 2)), "the mean of e to a normal law"
    assert unknown[least_known] > 1.5


def test_a_forecast_is_close_to_the_next_days_estimate() -> None:
    state = after(4, 0.5)
    assert abs(error(learned(state).forecast(HOURS), design()) - error(learned(state).estimate(), design())) < 0.5


def test_intervals_hold_the_truth() -> None:
    held = []
    for seed in range(10):
        field = learned(after(2, 1.0, seed)).estimate()
        sd = np.sqrt(field.variances + 4)
        held.append(np.abs(field.values - truth(design())[1]) < 2 * sd)
    assert np.mean(held) > 0.9


@pytest.mark.slow
def test_what_is_kept_does_not_grow_and_what_is_folded_is_not_forgotten() -> None:
    state = after(2 * RECENT + 2, 1.0)
    assert len(state.recent) == RECENT + 2
    assert state.days == 2 * RECENT + 2
    fresh = State.new(state.design, FACTS)
    for day in state.recent:
        fresh = taken_in(fresh, day)
    folded, alone = learned(state).forecast(HOURS), learned(fresh).forecast(HOURS)
    assert folded.variances.mean() < 0.9 * alone.variances.mean()


@cache
def folded() -> State:
    return after(2 * RECENT, 1.0)


def test_a_fit_begins_where_the_last_fold_ended_and_ends_where_any_fit_does() -> None:
    state = folded()
    assert state.start is not None
    warm, cold = learned(state), learned(replace(state, start=None))
    assert np.allclose(warm.forecast(HOURS).values, cold.forecast(HOURS).values, atol=0.2)
    assert np.allclose(warm.counts.effects, cold.counts.effects, atol=0.1)


def test_what_was_folded_in_counts_for_less_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight days of one city, then four of another that is 6 km/h faster."""

    def after_a_change() -> State:
        state, moved = folded(), 6.0
        for day in range(RECENT):
            values = released_day(design(), 1.0, 900 + day, np.full((design().cells, HOURS.size), 20.0 - moved))
            (stage,) = values.stages
            values = replace(values, stages=(replace(stage, centre=stage.centre + moved),))
            state = taken_in(state, values)
        return state

    monkeypatch.setattr(fitted, "FORGOTTEN", 0.5)
    forgetting = after_a_change()
    monkeypatch.setattr(fitted, "FORGOTTEN", 0.0)
    keeping = after_a_change()
    assert forgetting.means is not None
    assert keeping.means is not None
    assert forgetting.means.days == 0.5 * RECENT + RECENT < keeping.means.days
    faster = learned(forgetting).forecast(HOURS).values.mean() - learned(keeping).forecast(HOURS).values.mean()
    assert faster > 0.2


def test_the_state_decides_what_is_learned() -> None:
    one, same = learned(after(3, 1.0)).estimate(), learned(after(3, 1.0)).estimate()
    assert np.array_equal(one.values, same.values)
    assert np.array_equal(one.variances, same.variances)


@pytest.mark.parametrize("noise", [1e-3, 10.0, 1e4, 1e9])
def test_any_noise_gives_finite_numbers(noise: float) -> None:
    field = learned(after(3, noise)).estimate()
    assert np.all(np.isfinite(field.values))
    assert np.all(field.vehicles > 0)
    assert np.all(np.isfinite(published(field, 65).sd))


def test_huge_noise_leaves_what_was_believed_before() -> None:
    before = learned(State.new(design(), FACTS)).forecast(HOURS).values
    assert np.allclose(learned(after(3, 1e6)).estimate().values, before, atol=1)


def test_one_cell_and_one_slot_are_enough() -> None:
    of = Design(parents=np.zeros(1, np.int64), neighbours=np.zeros((0, 2), np.int64))
    state = State.new(of, FACTS)
    hours = np.array([7])
    stage = known_hats((1, 1), 5, 31)
    field = learned(taken_in(state, DayValues(hours=hours, stages=(stage,)))).estimate()
    assert 25 < field.values[0, 0] < 31


def test_small_cells_are_believed_to_differ_from_their_neighbours() -> None:
    """A street lies beside a park: a noisy sum moves its own cell more, and the next ones less."""
    moved = []
    for are_small in (False, True):
        of = replace(design(), are_small=are_small)
        state, (weights, _) = State.new(of, FACTS), truth(of)
        groups = Groups(cells=np.arange(of.cells), slots=0 * HOURS)
        faster = np.zeros(groups.shape)
        faster[14] = 15
        level = LevelValues(
            groups=groups,
            weights=groups.totals(weights),
            speeds=groups.totals(weights) * faster,
            weight_variance=0.01,
            speed_variance=400.0,
        )
        stage = StageValues(centre=np.full(weights.shape, 20.0), levels=(level,))
        values = learned(taken_in(state, DayValues(hours=HOURS, stages=(stage,)))).estimate().values[:, 12]
        moved.append(values[14] - values[15])
    assert moved[1] > 1.3 * moved[0] > 0


OFF = HOURS + 24


def weeks(slower: float) -> State:
    """Two weeks of a city that is so much slower on days off, all day long."""
    state, rng = State.new(design(), FACTS), np.random.default_rng(3)
    weights, means = truth(design())
    for day in range(14):
        hours = OFF if day % 7 > 4 else HOURS
        centre = learned(state).forecast(hours).values
        released = released_day(design(), 0.3, int(rng.integers(1 << 30)), centre)
        (stage,) = released.stages
        moved = [
            replace(level, speeds=level.speeds - (slower if hours is OFF else 0.0) * level.groups.totals(weights))
            for level in stage.levels
        ]
        state = taken_in(state, DayValues(hours=hours, stages=(replace(stage, levels=tuple(moved)),)))
    assert means.min() > 10
    return state


def test_days_off_are_forecast_as_days_off_were() -> None:
    model = learned(weeks(6.0))
    assert error(model.forecast(HOURS), design()) < 1.0
    slower = replace(model.forecast(OFF), values=model.forecast(OFF).values + 6)
    assert error(slower, design()) < 1.5


def test_where_days_off_are_as_working_days_nothing_else_is_made_up() -> None:
    model = learned(weeks(0.0))
    assert error(model.forecast(OFF), design()) < 1.0


def test_a_day_without_any_release_changes_little() -> None:
    state = after(2, 0.5)
    quiet = taken_in(state, DayValues(hours=HOURS))
    assert np.allclose(learned(quiet).forecast(HOURS).values, learned(state).forecast(HOURS).values)


def test_lone_hats_are_said_to_be_unknown() -> None:
    estimates = published(learned(after(2, 0.1)).estimate(), 65)
    assert np.all(estimates.status[estimates.vehicles < 3.9] == Status.UNRELIABLE)
    assert np.any(estimates.status == Status.OK)


def test_nothing_is_published_of_a_city_that_is_not_known() -> None:
    assert np.all(published(learned(after(1, 1e4)).estimate(), 65).status == Status.HELD_BACK)


@cache
def field_of_four_days() -> Field:
    return learned(after(4, 0.1)).estimate()


def seen(
    unknown: float,
    *,
    larger: float = 1.0,
    city_variance: float = 0.0,
    explained: float = 10.0,
    off_centre_kmh: float = 0.0,
) -> Field:
    """A city of which so much is known."""
    return replace(
        field_of_four_days(),
        unknown=unknown,
        larger=larger,
        city_variance=city_variance,
        explained=explained,
        off_centre_kmh=off_centre_kmh,
    )


def test_held_back_is_a_whole_city_and_nothing_of_it_is_ok() -> None:
    assert np.all(published(seen(0.6), 65).status == Status.HELD_BACK)
    assert not np.any(published(seen(0.5), 65).status == Status.HELD_BACK)


def test_a_city_that_looks_larger_than_was_declared_is_held_back_sooner() -> None:
    assert not held_back(seen(0.5))
    assert not held_back(seen(0.5, larger=0.3)), "smaller is no reason"
    assert held_back(seen(0.5, larger=3.0))
    assert not held_back(seen(0.1, larger=3.0)), "seen well"


def test_a_city_whose_weight_is_hardly_known_is_held_back_however_sure_its_speeds_look() -> None:
    assert not held_back(seen(0.3, city_variance=0.14))
    assert held_back(seen(0.3, city_variance=0.16))


def test_a_city_that_looks_far_from_its_last_centres_is_held_back() -> None:
    assert not held_back(seen(0.3, off_centre_kmh=3.9))
    assert held_back(seen(0.3, off_centre_kmh=4.0))


def second_day(traffic: float, above_kmh: float) -> Field:
    """Of a city whose first day had that part of its traffic, looked at around centres so far above the truth."""
    of = design()
    first, second = (released_day(of, 1.0, seed, truth(of)[1] + above) for seed, above in ((0, 0.0), (1, above_kmh)))
    (stage,) = first.stages
    levels = tuple(
        replace(level, weights=traffic * level.weights, speeds=traffic * level.speeds) for level in stage.levels
    )
    quiet = replace(first, stages=(replace(stage, levels=levels),))
    return learned(taken_in(taken_in(State.new(of, FACTS), quiet), second)).estimate()


def bias(field: Field) -> float:
    weights, means = truth(design())
    return float(np.average(field.values - means, weights=weights))


def test_a_day_that_another_days_weight_makes_wrong_is_held_back() -> None:
    wrong, good, surprising = second_day(0.1, 6.0), second_day(1.0, 2.0), second_day(1.0, 6.0)
    assert bias(wrong) < -1.5
    assert max(abs(bias(good)), abs(bias(surprising))) < 0.3
    assert not held_back(replace(wrong, off_centre_kmh=0.0)), "no other rule sees it"
    assert held_back(wrong)
    assert not held_back(good)
    assert held_back(surprising), "the price: a day that really is so far from what was expected"


def test_a_city_whose_pattern_may_be_noise_is_held_back() -> None:
    assert not held_back(seen(0.3, explained=3.5))
    assert held_back(seen(0.3, explained=2.5))


@cache
def without_a_pattern() -> list[Field]:
    return [learned(after(2, noise, seed, pattern=0.0)).estimate() for noise, seed in ((2.0, 1), (2.0, 2), (6.0, 6))]


def test_a_city_without_a_pattern_is_held_back_where_what_was_found_would_do_harm() -> None:
    weights = truth(design())[0]
    for field in without_a_pattern():
        assert np.average(np.abs(field.values - 25), weights=weights) > 0.5, "all of it is noise"
        assert held_back(field)
    assert not held_back(learned(after(2, 2.0, seed=2)).estimate()), "the same noise, and a pattern"


def test_what_is_missed_is_never_less_than_what_is_not_known() -> None:
    for unknown in (0.0, 0.1, 0.9, 1.0, 1.7):
        for larger in (0.2, 1.0, 4.0):
            assert missed(seen(unknown, larger=larger)) >= unknown


@pytest.mark.parametrize("noise", [0.1, 5.0, 20.0])
def test_noise_does_not_make_a_city_look_large(noise: float) -> None:
    larger = [learned(after(1, noise, seed=seed)).estimate().larger for seed in range(4)]
    assert np.mean(larger) == pytest.approx(1, abs=0.2)


def test_the_likeliest_surface_alone_follows_noise_upwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups weigh more than nothing: those that noise takes below 0 give nothing back."""
    monkeypatch.setattr(CountProblem, "held", lambda problem, _: problem)
    larger = [learned(after(1, 20.0, seed=seed)).estimate().larger for seed in range(4)]
    assert np.mean(larger) > 1.25


def test_a_constant_would_do_where_nothing_is_known_and_not_where_much_is() -> None:
    assert learned(after(1, 1e4)).estimate().unknown > 1
    assert learned(after(4, 0.1)).estimate().unknown < 0.2


def test_a_day_with_a_doubled_hour_is_learned_from() -> None:
    of = design()
    state = after(2, 0.5)
    hours = np.sort(np.append(HOURS, 1))
    stage = known_hats((36, 25), 3, 30)
    field = learned(taken_in(state, DayValues(hours=hours, stages=(stage,)))).estimate()
    assert field.values.shape == (of.cells, 25)


@pytest.mark.parametrize("centre_kmh", [0.0, 20.0])
def test_what_a_single_hat_says_counts_for_less_where_its_weight_is_hardly_known(centre_kmh: float) -> None:
    """A released sum is weight times (mean - centre): half the weight, and the mean looks twice as far from the centre.
    With weights that were taken for certain, values would miss by 5 and 11 km/h here, what describes the HATs by 6."""
    of, rng, noise = design(), np.random.default_rng(1), 0.05
    weights, usual = truth(of)
    means = usual + np.sqrt(USUAL.of(weights / FACTS.hat_weight)) * rng.normal(size=usual.shape)
    centre = np.full(usual.shape, centre_kmh)
    single = LevelValues(
        groups=Groups(cells=np.arange(of.cells), slots=HOURS),
        weights=weights + noise * rng.normal(size=usual.shape),
        speeds=weights * (means - centre) + noise * rng.normal(size=usual.shape),
        weight_variance=noise**2,
        speed_variance=noise**2,
    )
    coarse = released_day(of, 0.1, 1, centre)
    day = DayValues(hours=HOURS, stages=(*coarse.stages, StageValues(centre=centre, levels=(single,))))
    models = learned(taken_in(State.new(of, FACTS), day))
    of_described, of_estimate = (
        float(np.sum(weights * np.abs(values - means)) / weights.sum())
        for values in (models.described()[0].values, models.estimate().values)
    )
    assert of_estimate < 0.8 * of_described
