"""What is learned day by day: better with every day, never from the data, and never a crash."""

from dataclasses import replace

import numpy as np
import pytest

from dpops import fitted, learning
from dpops.learning import DayValues, Groups, LevelValues, StageValues, State, Status, add_day, learned, published
from dpops.learning.effects import EffectLayout
from dpops.learning.field import Gate
from dpops.learning.state import RECENT, weight_layout
from dpops.spread import PRIOR_SPREAD, VehicleSpread
from tests.dpops.learning.city import FACTS, HOURS, after, counted, design, error, known_hats, look, released_day, truth


def test_before_the_first_day_there_is_a_forecast_and_no_estimate() -> None:
    nothing = learned(State.new(design(), FACTS))
    before = nothing.forecast(HOURS)
    assert abs(np.average(before.values, weights=before.weights) - 20) < 0.5
    with pytest.raises(ValueError, match="is not kept"):
        nothing.estimate()


def test_with_little_noise_the_smooth_city_is_found() -> None:
    assert error(learned(after(2, 0.02)).estimate(), design()) < 0.7


@pytest.mark.slow
def test_a_forecast_is_close_to_the_next_days_estimate() -> None:
    state = after(4, 0.5)
    assert abs(error(learned(state).forecast(HOURS), design()) - error(learned(state).estimate(), design())) < 0.5


@pytest.mark.slow
def test_intervals_hold_the_truth() -> None:
    held = []
    for seed in range(4):
        field = learned(after(2, 1.0, seed)).estimate()
        sd = np.sqrt(field.variances + 4)
        held.append(np.abs(field.values - truth(design())[1]) < 2 * sd)
    assert np.mean(held) > 0.9


@pytest.mark.slow
def test_what_is_kept_does_not_grow_and_what_is_folded_is_not_forgotten() -> None:
    state = after(2 * RECENT + 2, 1.0)
    assert RECENT <= len(state.recent) < 2 * RECENT
    assert state.days == 2 * RECENT + 2
    fresh = State.new(state.design, FACTS)
    for day in state.recent:
        fresh = add_day(fresh, day)
    assert state.older[0].count == pytest.approx((1 - fitted.FORGOTTEN) * RECENT + RECENT), "the first fold counts less"
    folded, alone = learned(state).forecast(HOURS), learned(fresh).forecast(HOURS)
    assert folded.variances.mean() < 0.9 * alone.variances.mean()


@pytest.mark.slow
def test_a_fit_begins_where_the_last_fold_ended_and_ends_where_any_fit_does() -> None:
    state = after(2 * RECENT, 1.0)
    assert state.start is not None
    warm, cold = learned(state), learned(replace(state, start=None))
    assert np.allclose(warm.forecast(HOURS).values, cold.forecast(HOURS).values, atol=0.2)


@pytest.mark.few(1)
@pytest.mark.parametrize("noise", [1e-3, 10.0, 1e4, 1e9])
def test_any_noise_gives_finite_numbers(noise: float) -> None:
    field = learned(after(3, noise)).estimate()
    assert np.all(np.isfinite(field.values))
    assert np.all(field.vehicles > 0)
    assert np.all(np.isfinite(published(field, 65).sd))


def test_one_cell_and_one_slot_are_enough() -> None:
    of = learning.Design(parents=np.zeros(1, np.int64), neighbours=np.zeros((0, 2), np.int64))
    state = State.new(of, FACTS)
    hours = np.array([7])
    stage = known_hats((1, 1), 5, 31)
    field = learned(add_day(state, DayValues(hours=hours, stages=(stage,)))).estimate()
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
            weight_variances=0.01,
            speed_variances=400.0,
        )
        stage = StageValues(centre=np.full(weights.shape, 20.0), levels=(level,))
        values = learned(add_day(state, DayValues(hours=HOURS, stages=(stage,)))).estimate().values[:, 12]
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
        state = add_day(state, DayValues(hours=hours, stages=(replace(stage, levels=tuple(moved)),)))
    assert means.min() > 10
    return state


@pytest.mark.slow
def test_days_off_are_forecast_as_days_off_were() -> None:
    model = learned(weeks(6.0))
    assert error(model.forecast(HOURS), design()) < 1.0
    slower = replace(model.forecast(OFF), values=model.forecast(OFF).values + 6)
    assert error(slower, design()) < 1.5


def test_lone_hats_are_said_to_be_unknown() -> None:
    estimates = published(learned(after(2, 0.1)).estimate(), 65)
    assert np.all(estimates.status[estimates.vehicles < 3.9] == Status.UNRELIABLE)
    assert np.any(estimates.status == Status.OK)


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "seed"), [(2.0, 1), pytest.param(6.0, 6, marks=pytest.mark.slow)])
def test_a_city_without_a_pattern_is_held_back_where_what_was_found_would_do_harm(noise: float, seed: int) -> None:
    field = learned(after(2, noise, seed, pattern=0.0)).estimate()
    assert np.average(np.abs(field.values - 25), weights=truth(design())[0]) > 0.5, "all of it is noise"
    assert not field.gate.is_open
    assert learned(after(2, 2.0, 2)).estimate().gate.is_open, "the same noise, and a pattern"


def test_nothing_is_published_of_a_city_that_is_not_known() -> None:
    assert np.all(published(learned(after(1, 1e4)).estimate(), 65).status == Status.HELD_BACK)


def test_the_gate_looks_at_the_ratio_at_the_weight_and_at_how_far_the_mean_moved() -> None:
    field = learned(after(2, 0.1)).estimate()
    assert field.gate.is_open
    closed = (
        Gate(ratio=0.56),
        Gate(ratio=0.1, total_sd=0.26),
        Gate(ratio=0.1, moved_kmh=4.1),
        Gate(ratio=0.1, moved_kmh=-4.1),
        Gate(ratio=0.1, moved_kmh=2.6, is_early=True),
    )
    for gate in closed:
        assert np.all(published(replace(field, gate=gate), 65).status == Status.HELD_BACK), gate
    assert Gate(ratio=0.54, moved_kmh=3.9, total_sd=0.24).is_open
    assert Gate(ratio=0.54, moved_kmh=2.4, is_early=True).is_open


def quiet_start(factor: float, seed: int) -> State:
    """A first day of which a twentieth of the vehicles drives, then a day of all, at another speed than the centres."""
    state, rng = State.new(design(), FACTS), np.random.default_rng(seed)
    for day, busy in enumerate((0.05, 1.0)):
        centre = learned(state).estimate().values if day else np.full((36, 24), 20.0)
        released = released_day(design(), 0.5, int(rng.integers(1 << 30)), centre)
        (stage,) = released.stages
        weights, means = truth(design())
        levels = tuple(
            replace(
                level,
                weights=level.weights - (1 - busy) * level.groups.totals(weights),
                speeds=level.speeds
                - level.groups.totals(weights * (means - centre))
                + busy * level.groups.totals(weights * (factor * means - centre)),
            )
            for level in stage.levels
        )
        counting = counted(100 * busy + 3 * rng.normal(), 3.0)
        state = add_day(state, DayValues(hours=HOURS, stages=(counting, replace(stage, levels=levels))))
    return state


def harmful(state: State, factor: float) -> bool:
    """Says whether the last day is shown though one constant, the true mean, misses less."""
    field, (weights, means) = learned(state).estimate(), truth(design())
    means = factor * means
    errors = np.abs(field.values - means), np.abs(np.average(means, weights=weights) - means)
    return field.gate.is_open and bool(np.sum(weights * errors[0]) > 1.02 * np.sum(weights * errors[1]))


def test_no_day_after_a_quiet_first_one_is_shown_worse_than_a_constant() -> None:
    assert not any(harmful(quiet_start(factor, seed), factor) for factor in (0.4, 1.0) for seed in range(2))


@pytest.mark.slow
def test_without_weights_of_days_a_quiet_first_day_does_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    hours = {"parent x part", "hour", "day off", "own hours"}
    blocks = [
        replace(block, precision=1e4) if block.name in hours else replace(block, is_daily=False)
        for block in weight_layout(design()).blocks
    ]
    monkeypatch.setattr("dpops.learning.state.weight_layout", lambda _: EffectLayout(blocks))
    monkeypatch.setattr("dpops.learning.latent.TOTAL_PRECISION", 0.01)
    assert any(harmful(quiet_start(0.4, seed), 0.4) for seed in range(2))


@pytest.mark.slow
def test_a_constant_would_do_where_nothing_is_released_and_not_where_much_is() -> None:
    assert learned(after(1, 1e4)).estimate().gate.ratio > fitted.MAX_RATIO
    assert learned(after(4, 0.1)).estimate().gate.ratio < 0.2


@pytest.mark.parametrize("hats_in_hour", [1.0, 1e9])
def test_no_hour_of_a_feed_with_gaps_has_more_vehicles_than_its_day(hats_in_hour: float) -> None:
    """100 vehicles that are seen in three hours have the weight of a day: a HAT of these hours is not seven times as
    full. Without a bound, as of vehicles that are in any number of places at once, the test would fail."""
    of, noise = design(), 0.1
    weights = truth(of)[0] * np.isin(HOURS, [8, 9, 16])
    weights *= 100 / weights.sum()
    stages = (counted(100, 2.0), look(weights, np.full(weights.shape, 25.0), noise, np.full(weights.shape, 20.0)))
    facts = replace(FACTS, hats_in_hour=hats_in_hour)
    field = learned(add_day(State.new(of, facts), DayValues(hours=HOURS, stages=stages))).estimate()
    in_busiest_hour = field.vehicles.mean(axis=-1).sum(axis=0).max()
    assert (in_busiest_hour < 1.5 * 100) == (hats_in_hour == 1.0)


@pytest.mark.parametrize("centre_kmh", [0.0, 20.0])
def test_what_a_single_hat_says_counts_for_less_where_its_weight_is_hardly_known(centre_kmh: float) -> None:
    """A released sum is weight times (mean - centre): half the weight, and the mean looks twice as far from the centre.
    With weights that were taken for certain, values would miss by 5 and 11 km/h here, what describes the HATs by 6."""
    of, rng, noise = design(), np.random.default_rng(1), 0.05
    weights, usual = truth(of)
    means = usual + np.sqrt(PRIOR_SPREAD.of(weights / FACTS.hat_weight)) * rng.normal(size=usual.shape)
    centre = np.full(usual.shape, centre_kmh)
    single = LevelValues(
        groups=Groups(cells=np.arange(of.cells), slots=HOURS),
        weights=weights + noise * rng.normal(size=usual.shape),
        speeds=weights * (means - centre) + noise * rng.normal(size=usual.shape),
        weight_variances=noise**2,
        speed_variances=noise**2,
    )
    coarse = released_day(of, 0.1, 1, centre)
    day = DayValues(hours=HOURS, stages=(*coarse.stages, StageValues(centre=centre, levels=(single,))))
    models = learned(add_day(State.new(of, FACTS), day))
    posterior = models.estimate()
    field = models.speeds.values[posterior.day]
    of_field, of_estimate = (
        float(np.sum(weights * np.abs(values - means)) / weights.sum()) for values in (field, posterior.values)
    )
    assert of_estimate < 0.8 * of_field


def test_what_a_release_says_of_vehicles_leaves_what_unequal_reports_add() -> None:
    """Numbers of reports are lognormal; vehicles count alike in a release, and by their reports in the truth."""
    rng = np.random.default_rng(3)
    log_sd = np.sqrt(np.log(fitted.DESIGN_EFFECT))
    reports = np.exp(log_sd * rng.normal(size=(5_000, 200)))
    speeds = 10 * rng.normal(size=reports.shape)
    of_reports = np.sum(reports * speeds, axis=1) / reports.sum(axis=1)
    spread = VehicleSpread(vehicle=100.0, floor=0.0)
    numbers, kmh = np.array([200.0]), np.array([20.0])
    unknown, known = (float(spread.of_reports(numbers, kmh, np.array([p]))[0]) for p in (1e-9, 1e9))
    assert np.var(of_reports) == pytest.approx(unknown, rel=0.1)
    assert np.var(of_reports - speeds.mean(axis=1)) == pytest.approx(known, rel=0.1)


def test_of_few_vehicles_the_gate_counts_that_one_may_report_much() -> None:
    models = learned(after(2, 0.1))
    usual = models.estimate().gate
    models.weights.numbers = tuple(replace(number, number=2.0) for number in models.weights.numbers)
    few = models.estimate().gate
    assert usual.is_open
    assert not few.is_open


@pytest.mark.slow
def test_a_timetable_tells_where_vehicles_are_and_a_wrong_one_hardly_misleads() -> None:
    """Root mean square of errors of log weights, by weight, after one day of much noise."""
    of = design()
    weights, _ = truth(of)

    def log_error(visits: np.ndarray | None) -> float:
        known = replace(of, visits=None if visits is None else np.tile(visits, 2))
        state = add_day(State.new(known, FACTS), released_day(of, 3.0, 1))
        field = learned(state).estimate()
        return float(np.sqrt(np.sum(weights * np.log(field.weights / weights) ** 2) / weights.sum()))

    assert log_error(20 * weights) < 0.8 * log_error(None)
    assert log_error(20 * weights[::-1, ::-1]) < 1.1 * log_error(None)  # its elasticity is learned


def test_outskirts_below_the_noise_are_believed_thin(monkeypatch: pytest.MonkeyPatch) -> None:
    """The outer ring's share of traffic, .075: without the regressor it is believed to be .19."""
    of, ring = design(8), np.abs(np.linspace(-3.5, 3.5, 8))
    outer = np.maximum.outer(ring, ring).ravel() == 3.5
    cells = np.exp(-1.2 * np.maximum.outer(ring, ring).ravel())
    cells *= 100 / cells.sum() / HOURS.size

    def believed() -> float:
        state = add_day(State.new(of, FACTS), released_day(of, 1.5, 1, cells=cells))
        return float(learned(state).estimate().weights[outer].sum() / 100)

    thin, share = believed(), cells[outer].sum() * HOURS.size / 100
    monkeypatch.setattr("dpops.learning.state._popularity", lambda of: np.zeros((of.cells, 48)))
    assert share < thin < share + 0.7 * (believed() - share)
