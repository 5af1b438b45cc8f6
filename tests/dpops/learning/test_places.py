"""Places are learned from noisy sums, weights and means together, without belief in those that look busiest."""

from dataclasses import replace

import numpy as np
import pytest

from dpops.learning import DayValues, State, add_day, learned, places
from dpops.learning.places import LAWS, Around, PlaceFit, PlaceSums, learn_places, learned_traffic, whole_weight
from dpops.levels.defaults import RETAINED
from tests.dpops.learning.city import FACTS, HOURS, after, counted, design, error, released_day

PLACES, CELL_KMH = 600, 20.0
WEIGHT_SD, SPEED_SD = 8.0, 25.0


def city(seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """True weights, of which few have most, and true means."""
    rng = np.random.default_rng(seed)
    weights = np.exp(2 * rng.normal(size=PLACES)) * (rng.random(PLACES) < 0.6)
    return weights, CELL_KMH + 11 * rng.normal(size=PLACES)


def noisy_day(
    rng: np.random.Generator,
    weights: np.ndarray,
    means: np.ndarray,
    centres: np.ndarray,
    noise: tuple[float, float],
    day_weight: float = 1.0,
) -> places.PlaceDay:
    """noise: standard deviations of weights and of sums of speeds."""
    weight_sd, speed_sd = noise
    return places.PlaceDay(
        weights=day_weight * weights + weight_sd * rng.normal(size=PLACES),
        speeds=day_weight * weights * (means - centres) + speed_sd * rng.normal(size=PLACES),
        centres=centres,
        weight_variance=weight_sd**2,
        speed_variance=speed_sd**2,
        day_weight=day_weight,
    )


def summed(days: int, *, noise: float = 1.0, seed: int = 1) -> PlaceSums:
    weights, means = city()
    rng, sums = np.random.default_rng([seed, 5]), PlaceSums.none(PLACES)
    for _ in range(days):
        centres = CELL_KMH + 5 * rng.normal(size=PLACES)
        sums = sums.after(noisy_day(rng, weights, means, centres, (noise * WEIGHT_SD, noise * SPEED_SD)))
    return sums


def around_cells(sums: PlaceSums) -> Around:
    whole = places.whole_weight(sums, float(city()[0].sum()))
    return Around(values=np.full(PLACES, CELL_KMH), expected=np.full(PLACES, whole / PLACES))


def believed(sums: PlaceSums) -> PlaceFit:
    return learn_places(sums, around_cells(sums))


def test_without_a_day_a_place_is_its_cell() -> None:
    posterior = believed(PlaceSums.none(PLACES))
    assert posterior.values == pytest.approx(CELL_KMH)
    assert np.all(posterior.variances > 8**2)


def test_each_day_makes_the_map_better_and_none_makes_it_worse_than_its_cells() -> None:
    weights, means = city()
    share = weights / weights.sum()
    errors = [float(share @ np.abs(believed(summed(days)).values - means)) for days in (1, 4, 16)]
    copied = float(share @ np.abs(CELL_KMH - means))
    assert copied > errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.5 * copied


def test_until_releases_tell_places_apart_each_is_as_its_cell() -> None:
    one, many = believed(summed(1, noise=20.0)), believed(summed(8))
    assert np.array_equal(one.values, np.full(PLACES, CELL_KMH))
    assert np.median(one.variances) > 8**2
    assert many.evidence > places.EVIDENCE
    assert np.ptp(many.values) > 10


def test_of_a_place_that_may_weigh_little_the_mean_where_reports_are_is_published() -> None:
    """Sums say weight times difference: were the place quiet, it would lie far from its cell, but have few reports."""
    weights, means = city()
    share, errors = weights / weights.sum(), []
    for seed in range(4):
        sums = summed(4, seed=seed)
        expected, ratios = learned_traffic(sums, around_cells(sums).expected)
        around = replace(around_cells(sums), expected=expected)
        moments, _ = places._posterior(ratios, 0.0, sums, around, places.SDS_KMH)
        errors.append([float(share @ np.abs(part - means)) for part in (moments[1], moments[0])])
    assert np.mean(errors, axis=0)[0] < 0.97 * np.mean(errors, axis=0)[1]


def test_what_is_publicly_known_of_visits_is_worth_days() -> None:
    weights, means = city()
    share, around = weights / weights.sum(), around_cells(summed(4))
    visits = (weights + 0.05) * np.exp(0.5 * np.random.default_rng(7).normal(size=PLACES))
    told = replace(around, expected=visits * around.expected.sum() / visits.sum())
    errors = [
        [float(share @ np.abs(learn_places(summed(4, seed=seed), prior).values - means)) for prior in (around, told)]
        for seed in range(3)
    ]
    without, with_visits = np.mean(errors, axis=0)
    assert with_visits < 0.97 * without, "they were worth 6 % while places without them were known less well: 1.79"
    assert with_visits < 1.70, "a city in which places lie 6 km/h apart"


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    weights, means = city()
    held, ok_weights = [], []
    for seed in range(6):
        posterior = believed(summed(6, seed=seed))
        half = 1.96 * np.sqrt(posterior.variances)
        ok = (half < 8) & (posterior.weights > 1)
        held.append(np.abs(posterior.values - means)[ok] <= half[ok])
        ok_weights.append(weights[ok])
    assert np.concatenate(held).mean() >= 0.93
    assert np.mean(np.concatenate(ok_weights) < 0.5) < 0.01, "hardly a place looks known that nobody visits"


LINES_KMH = 16.0  # of segments of lines, each of which many buses pass
LINES_NOISE = 1.4, 4.0  # of 28 days together, at a total of 2.64 of which places have .3


def alike(seed: int) -> np.ndarray:
    """Weights of segments of lines that many buses pass."""
    return 1.3 * np.exp(0.5 * np.random.default_rng([seed, 1]).normal(size=PLACES))


def summed_lines(weights: np.ndarray, means: np.ndarray, seed: int, days: int = 28) -> PlaceSums:
    rng, sums, scale = np.random.default_rng([seed, 2]), PlaceSums.none(PLACES), np.sqrt(days)
    for _ in range(days):
        noise = scale * LINES_NOISE[0], scale * LINES_NOISE[1]
        sums = sums.after(noisy_day(rng, weights, means, np.full(PLACES, LINES_KMH), noise))
    return sums


def around_lines(weights: np.ndarray) -> Around:
    return Around(values=np.full(PLACES, LINES_KMH), expected=np.full(PLACES, weights.mean()))


def weight_of(traffic: tuple[np.ndarray, np.ndarray], sums: PlaceSums) -> np.ndarray:
    expected, ratios = traffic
    weights, log = places.weight_nodes(ratios, sums, expected, slice(0, PLACES))
    likely = np.exp(log - log.max(axis=1, keepdims=True))
    return np.sum(likely * weights, axis=1) / likely.sum(axis=1)


def missed(posterior: PlaceFit, means: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which places are known to 8 km/h, and which of these intervals hold."""
    half = 1.96 * np.sqrt(posterior.variances)
    is_known = (half < 8) & (posterior.weights - 1.64 * np.sqrt(posterior.weight_variances) > 1)
    return is_known, (np.abs(posterior.values - means) <= half)[is_known]


def test_the_mean_of_every_law_is_what_is_expected() -> None:
    assert pytest.approx(np.ones(len(LAWS)), abs=1e-3) == LAWS @ places.RATIOS
    assert LAWS.sum(axis=1) == pytest.approx(np.ones(len(LAWS)))


def test_how_far_weights_differ_is_found_where_noise_is_larger_than_they_are() -> None:
    for seed in range(4):
        weights = alike(seed)
        _, ratios = learned_traffic(
            summed_lines(weights, np.full(PLACES, LINES_KMH), seed), np.full(PLACES, weights.mean())
        )
        spread = np.sqrt(ratios @ places.RATIOS**2 - 1)
        assert spread == pytest.approx(np.std(weights) / weights.mean(), rel=0.4)


def test_places_that_look_busiest_are_not_believed_to_be() -> None:
    """A winner's curse: of many equal places those look busiest whose noise is largest."""
    believed, true = 0.0, 0.0
    for seed in range(6):
        weights = alike(seed)
        sums = summed_lines(weights, np.full(PLACES, LINES_KMH), seed)
        posterior = weight_of(learned_traffic(sums, np.full(PLACES, weights.mean())), sums)
        busiest = np.argsort(posterior)[-20:]
        believed, true = believed + posterior[busiest].sum(), true + weights[busiest].sum()
    assert 0.75 * true < believed < 1.1 * true, "where all laws count alike they are believed to be a third busier"


def test_what_cells_traffic_does_not_tell_of_places_is_left_out() -> None:
    weights = alike(3)
    sums = summed_lines(weights, np.full(PLACES, LINES_KMH), 3)
    wrong = np.exp(np.random.default_rng(9).normal(size=PLACES))
    assert np.ptp(learned_traffic(sums, wrong * weights.sum() / wrong.sum())[0]) == pytest.approx(0)
    right, _ = learned_traffic(sums, weights)
    assert np.corrcoef(np.log(right), np.log(weights))[0, 1] == pytest.approx(1)


def test_intervals_hold_where_slow_segments_have_more_reports() -> None:
    """Vehicles pass each segment alike, and report at equal intervals: a weight is a time."""
    held, sums_known = [], []
    for seed in range(2):
        rng = np.random.default_rng([seed, 4])
        means = np.clip(LINES_KMH + 9 * rng.normal(size=PLACES), 5, 55)
        weights = 18 / means * np.exp(0.2 * rng.normal(size=PLACES))
        means = means - (weights @ means / weights.sum() - LINES_KMH)  # the cell's value is by reports
        sums = summed_lines(weights, means, seed)
        passed, apart = (
            missed(learn_places(sums, replace(around_lines(weights), sizes=sizes)), means)
            for sizes in (np.ones(PLACES), None)
        )
        held.append(passed[1])
        sums_known.append((passed[0].sum(), apart[0].sum()))
    assert np.concatenate(held).mean() >= 0.94
    with_law, without = np.sum(sums_known, axis=0)
    assert with_law > 1.5 * without, "and more places are known"


# --- The whole weight of a city: what totals say is believed as far as they are precise. ------------------------------


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
