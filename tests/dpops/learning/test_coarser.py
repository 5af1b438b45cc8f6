"""Values of groups agree with one another and with their HATs, and know as much more as they average."""

from dataclasses import replace

import numpy as np
import pytest

from dpops import fitted
from dpops.learning import Field, Groups, Learned, Status, coarser, learned, published, smooth_hours, with_coarser
from dpops.learning.field import NODES
from dpops.learning.latent import ratio_variances
from tests.dpops.learning.city import HOURS, after, design

OF = design()
CELLS = np.arange(OF.cells)
GROUPS = {
    "hat": Groups(cells=CELLS, slots=HOURS),
    "cell-day": Groups(cells=CELLS, slots=0 * HOURS),
    "cell-part": Groups(cells=CELLS, slots=HOURS // 4),
    "parent-hour": Groups(cells=OF.parents, slots=HOURS),
    "city-hour": Groups(cells=0 * CELLS, slots=HOURS),
}


@pytest.fixture(scope="module")
def model() -> Learned:
    return learned(after(3, 0.5))


@pytest.fixture(params=["estimate", "forecast"])
def posterior(model: Learned, request: pytest.FixtureRequest) -> Field:
    return model.estimate() if request.param == "estimate" else model.forecast(HOURS)


@pytest.mark.parametrize("name", GROUPS)
def test_finer_groups_average_to_coarser_ones(model, posterior, name):
    coarse = coarser(model, posterior, GROUPS[name])
    whole = np.sum(posterior.weights * posterior.values) / posterior.weights.sum()
    assert np.sum(coarse.weights * coarse.values) / coarse.weights.sum() == pytest.approx(whole)


@pytest.mark.parametrize("name", GROUPS)
def test_variances_are_those_of_the_joint_covariance_and_of_weights(model, name):
    """Against the covariance of HATs two by two, and against what means move by if weights do."""
    posterior, groups = model.estimate(), GROUPS[name]
    coarse = coarser(model, posterior, groups)
    single = Groups(cells=CELLS, slots=HOURS)
    for pair in ((0, 0), (coarse.values.shape[0] - 1, coarse.values.shape[1] - 1)):
        members = (groups.cells[:, None] == pair[0]) & (groups.slots == pair[1])
        share = np.where(members, posterior.weights, 0.0) / posterior.weights[members].sum()
        rows = model.speeds.rows(single, HOURS, posterior.day, np.ones(share.shape), model.regressors(HOURS))
        root = rows.times(model.speeds.posterior.samples)
        variance = np.mean((share.ravel() @ root) ** 2)
        assert coarse.variances[pair] == pytest.approx(variance + through_weights(model, posterior, members), rel=1e-4)


def through_weights(model: Learned, posterior: Field, members: np.ndarray) -> float:
    """Variance of the mean of some HATs through weights: slopes are found by trying."""
    tiny = 1e-5
    logs = np.zeros((*members.shape, *members.shape))

    def moved(by: np.ndarray) -> float:
        weights = np.where(members, posterior.weights * np.exp(tiny * by), 0.0)
        return float(np.sum(weights * posterior.values) / weights.sum())

    still, slopes = moved(0 * logs[0, 0]), np.zeros(members.shape)
    for cell, slot in np.argwhere(members):
        only = np.zeros(members.shape)
        only[cell, slot] = 1
        slopes[cell, slot] = (moved(only) - still) / tiny
    rows = model.weights.rows(Groups(cells=CELLS, slots=HOURS), HOURS, posterior.day, np.ones(members.shape))
    shared = np.mean((slopes.ravel() @ rows.times(model.weights.posterior.samples)) ** 2)
    of_vehicles = model.speeds.one_weights[posterior.day] / posterior.weights
    single_hats = np.sum(slopes**2 * (fitted.HAT_LOG_VARIANCE + of_vehicles))
    return float(shared + single_hats + fitted.HAT_LOG_VARIANCE * np.sum(slopes.sum(axis=0) ** 2))


def test_unknown_weights_scale_how_far_means_lie_from_the_citys(model):
    """A mean's distance is a ratio of a sum to a weight: against draws of weights, by HAT and by group."""
    logs = 0.6 * np.random.default_rng(5).standard_normal(1_000_000) - 0.6**2 / 2  # of a weight of mean 1
    ratio = ratio_variances(np.array([9.0, 11.0]), np.ones(2), np.full(2, 0.36))[0]  # 1 km/h from the city's mean
    assert ratio == pytest.approx(np.mean((np.exp(-logs) - 1) ** 2), rel=0.02)
    posterior = model.estimate()
    city = np.average(posterior.values, weights=posterior.weights)
    log_variances = model.weights.of_day(HOURS, 2)[1]
    of_weights = np.exp(3 * log_variances) - 2 * np.exp(log_variances) + 1
    assert np.allclose(posterior.of_ratios, of_weights * (posterior.values - city) ** 2)
    widened, alone = (published(field, 65).sd for field in (posterior, replace(posterior, of_ratios=0 * city)))
    assert widened**2 - alone**2 == pytest.approx(posterior.of_ratios, abs=0.5)  # rounded to .01 km/h
    assert np.allclose(coarser(model, posterior, GROUPS["hat"]).of_ratios, posterior.of_ratios, rtol=0.05)
    whole = coarser(model, posterior, Groups.everything(*posterior.values.shape))
    assert whole.of_ratios[0, 0] == pytest.approx(0, abs=1e-9)


def test_an_hour_of_the_city_differs_from_its_day_only_beyond_its_error(model):
    posterior = model.estimate()
    hours = coarser(model, posterior, GROUPS["city-hour"])
    day = coarser(model, posterior, Groups(cells=0 * CELLS, slots=0 * HOURS))
    error = np.sqrt(hours.variances + hours.deviations.mean(axis=-1))
    is_far = np.abs(hours.values - day.values) > error
    assert is_far.any()
    assert not is_far.all()
    shown = smooth_hours(hours, day)
    assert np.array_equal(shown.values, np.where(is_far, hours.values, day.values))
    assert np.array_equal(shown.variances[is_far], hours.variances[is_far])
    assert np.all(shown.variances[~is_far] > hours.variances[~is_far])


def test_beside_a_hat_that_is_not_known_stands_its_parent():
    model = learned(after(2, 0.1))
    posterior = model.estimate()
    shown, own = with_coarser(model, posterior, 65), published(posterior, 65)
    marked = shown.estimates.status == Status.PARENT
    assert marked.any()
    assert np.all(own.status[marked] == Status.UNRELIABLE)
    assert np.array_equal(np.isnan(shown.values), ~marked)
    parents = published(coarser(model, posterior, GROUPS["parent-hour"]), 65)
    assert np.array_equal(shown.values[marked], GROUPS["parent-hour"].to_hats(parents.values)[marked])
    assert (shown.upper95 - shown.lower95)[marked].mean() < (own.upper95 - own.lower95)[marked].mean()


def test_the_value_and_interval_of_a_hat_are_always_its_own():
    """A parent's interval is one of the parent's mean, and would not hold the HAT's."""
    model = learned(after(2, 0.1))
    posterior = model.estimate()
    shown, own = with_coarser(model, posterior, 65).estimates, published(posterior, 65)
    for name in ("values", "sd", "lower95", "upper95"):
        assert np.array_equal(getattr(shown, name), getattr(own, name))


def with_depot(model: Learned, kmh: float, standing: float = 3.0) -> tuple[Learned, Field]:
    """The first cell, a tenth of the weight, is found at so many km/h; vehicles that stand weigh so many times less
    than they report."""
    facts = replace(model.state.facts, standing=standing)
    posterior = model.estimate()
    depot, weights = (
        CELLS[:, None] == 0,
        np.where(CELLS[:, None] == 0, 0.1 * posterior.weights.sum(axis=0), posterior.weights),
    )
    values = np.where(depot, kmh, np.maximum(posterior.values, 15.0))
    state = replace(model.state, facts=facts)
    return replace(model, state=state), replace(posterior, values=values, weights=weights)


@pytest.mark.parametrize(("kmh", "standing", "told"), [(1.0, 3.0, True), (20.0, 3.0, False), (1.0, 1.0, False)])
def test_an_interval_holds_the_mean_that_standing_vehicles_would_make(model, kmh, standing, told):
    """A tenth of a fleet that stands in one cell had moved a city's hours by 5 km/h, with intervals of 2."""
    (of, belief), (alike, _) = with_depot(model, kmh, standing), with_depot(model, kmh, 1.0)
    city, usual = (coarser(models, belief, GROUPS["city-hour"]) for models in (of, alike))
    weights = belief.weights * np.where(CELLS[:, None] == 0, standing, 1.0)
    missed = np.abs(city.values[0] - np.sum(weights * belief.values, axis=0) / weights.sum(axis=0))
    sd, usual_sd = (np.sqrt(field.variances + field.deviations.mean(axis=-1))[0] for field in (city, usual))
    assert np.all(missed < 1.96 * sd)
    assert np.any(sd > 1.1 * usual_sd) == told
    alone, unmoved = (coarser(models, belief, GROUPS["cell-day"]).variances for models in (of, alike))
    assert np.allclose(alone, unmoved), "of one cell, nothing hangs on it"


def test_a_vehicle_counts_once_for_a_group_in_which_it_is_often(model):
    """Three vehicles in an hour of the city had counted as fifteen, and their mean as known."""
    often = replace(model.state.facts, hats_in_hour=5.0, hats_in_cell=4.0)
    of = replace(model, state=replace(model.state, facts=often))
    posterior = model.estimate()
    assert coarser(of, posterior, GROUPS["city-hour"]).repeats == pytest.approx(np.full((1, HOURS.size), 5.0))
    assert coarser(of, posterior, GROUPS["cell-day"]).repeats.min() > 4
    assert coarser(of, posterior, GROUPS["hat"]).repeats.max() < 2
    hours = coarser(model, posterior, GROUPS["city-hour"])
    few = replace(hours, vehicles=np.full((1, HOURS.size, NODES), 15.0))
    assert np.all(published(few, 65.0).status == Status.OK)
    assert np.all(published(replace(few, repeats=5.0), 65.0).status == Status.UNRELIABLE)
