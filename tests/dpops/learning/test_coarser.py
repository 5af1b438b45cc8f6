"""Values of groups agree with one another and with their HATs, and know as much more as they average."""

from dataclasses import replace

import numpy as np
import pytest

from dpops import fitted
from dpops.learning import Groups, Learned, Status, coarser, learned, published, with_coarser
from dpops.learning.chances import NODES
from dpops.learning.coarser import _of_cells
from dpops.learning.interval import chances_of
from dpops.learning.learner import Field
from dpops.learning.means import _with_mean, traffic_of
from tests.dpops.learning.city import FACTS, HOURS, after, design

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
def belief(model: Learned, request: pytest.FixtureRequest) -> Field:
    return model.estimate() if request.param == "estimate" else model.forecast(HOURS)


def test_a_group_of_one_hat_is_that_hat(model: Learned, belief: Field) -> None:
    coarse = coarser(model, belief, GROUPS["hat"])
    for name in ("values", "variances", "deviations", "weights", "vehicles", "log_variances"):
        assert np.allclose(getattr(coarse, name), getattr(belief, name)), name


@pytest.mark.parametrize("name", GROUPS)
def test_finer_groups_average_to_coarser_ones(model: Learned, belief: Field, name: str) -> None:
    coarse = coarser(model, belief, GROUPS[name])
    whole = np.sum(belief.weights * belief.values) / belief.weights.sum()
    assert np.sum(coarse.weights * coarse.values) / coarse.weights.sum() == pytest.approx(whole)


@pytest.mark.parametrize("name", GROUPS)
def test_variances_are_those_of_the_joint_covariance_and_of_weights(model: Learned, name: str) -> None:
    """Against the covariance of HATs two by two: three groups' variances from one another's sums."""
    belief, groups = model.estimate(), GROUPS[name]
    coarse = coarser(model, belief, groups)
    for pair in ((0, 0), (coarse.values.shape[0] - 1, coarse.values.shape[1] - 1)):
        members = (groups.cells[:, None] == pair[0]) & (groups.slots == pair[1])
        share = np.where(members, belief.weights, 0.0) / belief.weights[members].sum()
        described = covariance(model, belief, share)
        spread = np.sum(share * ((belief.values - coarse.values[pair]) ** 2 + belief.variances)) - described
        more = fitted.APART**2 * spread
        assert coarse.variances[pair] == pytest.approx(
            described + more + through_weights(model, belief, members), rel=1e-4
        )


def through_weights(model: Learned, belief: Field, members: np.ndarray) -> float:
    """What the mean of some HATs moves by with each effect, slot and HAT of the count model, by trying."""
    columns, solved = OF.of_hats(belief.hours), model.counts.solved
    layout, tiny = solved.system.layout, 1e-5

    def moved(by: np.ndarray) -> float:
        weights = np.where(members, belief.weights * np.exp(tiny * by), 0.0)
        return float(np.sum(weights * belief.values) / weights.sum())

    still = moved(np.zeros(members.shape))
    row = np.array([moved((columns == column).sum(axis=-1)) - still for column in range(layout.width)]) / tiny
    in_border = np.zeros(solved.border.size)
    in_border[: layout.border.size] = row[layout.border]
    local, border = solved.times(row[layout.local], in_border)
    variance = float(row[layout.local] @ local + in_border @ border)
    for slot in range(belief.hours.size):
        in_slot = np.zeros(members.shape)
        in_slot[:, slot] = 1
        variance += fitted.OVERDISPERSION * ((moved(in_slot) - still) / tiny) ** 2
    for cell, slot in np.argwhere(members):
        alone = np.zeros(members.shape)
        alone[cell, slot] = 1
        own = fitted.OVERDISPERSION + FACTS.hat_weight / belief.weights[cell, slot]
        variance += own * ((moved(alone) - still) / tiny) ** 2
    return variance


def test_a_group_whose_hats_are_alike_does_not_care_for_their_weights(model: Learned) -> None:
    belief = replace(model.estimate(), values=np.full((OF.cells, HOURS.size), 30.0))
    alike, unlike = (coarser(model, field, GROUPS["city-hour"]).variances for field in (belief, model.estimate()))
    assert np.all(alike < unlike)


def test_a_cells_day_is_as_doubtful_as_how_many_drive_there() -> None:
    model = learned(after(3, 1.0))
    coarse = coarser(model, model.estimate(), GROUPS["cell-day"])
    assert coarse.chances is not None
    sure = replace(coarse, chances=coarse.chances._replace(described=None))
    wide, narrow = (published(field, 65) for field in (coarse, sure))
    assert (wide.upper95 - wide.lower95).mean() > 1.02 * (narrow.upper95 - narrow.lower95).mean()
    assert np.array_equal(wide.values, narrow.values)


def test_only_noise_is_doubtful_in_a_cells_day() -> None:
    """What a release weighs otherwise had counted times as much where fewer may drive: intervals held too often."""
    model = learned(after(3, 1.0))
    day = coarser(model, model.estimate(), GROUPS["cell-day"])
    without_noise, noise_alone = (_of_cells(day, noisy).chances for noisy in (0 * day.variances, day.variances))
    assert without_noise is not None
    assert noise_alone is not None
    assert without_noise.described == pytest.approx(np.repeat(day.variances[..., None], NODES, axis=-1))
    assert noise_alone.described is not None
    assert np.all(np.ptp(noise_alone.described, axis=-1) > 0)


def covariance(model: Learned, belief: Field, share: np.ndarray) -> float:
    """share' Cov share, from the solution's product with a vector."""
    traffic = traffic_of(model.counts.hats(OF, belief.hours))[..., None]
    return float(np.sum(share * _with_mean(model.means.solved, belief.day, belief.hours, traffic, share)))


def test_coarser_is_better_known(model: Learned, belief: Field) -> None:
    day, hour = (coarser(model, belief, GROUPS[name]) for name in ("cell-day", "city-hour"))
    assert np.all(day.variances + day.deviations <= (belief.variances + belief.deviations).max(axis=1))
    assert np.all(hour.deviations < belief.deviations.min(axis=0))


def test_beside_a_hat_that_is_not_known_stands_its_parent_or_its_day() -> None:
    model = learned(after(2, 0.1))
    belief = model.estimate()
    shown, own = with_coarser(model, belief, 65), published(belief, 65)
    marked = shown.source > 0
    assert np.array_equal(marked, shown.estimates.status == Status.PARENT)
    assert np.all(own.status[marked] == Status.UNRELIABLE)
    assert np.array_equal(np.isnan(shown.values), ~marked)
    parents = published(coarser(model, belief, GROUPS["parent-hour"]), 65)
    taken = shown.source == 1
    assert taken.any()
    assert np.array_equal(shown.values[taken], GROUPS["parent-hour"].spread(parents.values)[taken])
    assert (shown.upper95 - shown.lower95)[marked].mean() < (own.upper95 - own.lower95)[marked].mean()


def test_the_value_and_interval_of_a_hat_are_always_its_own() -> None:
    """A parent's interval is one of the parent's mean, and would not hold the HAT's."""
    model = learned(after(2, 0.1))
    belief = model.estimate()
    shown, own = with_coarser(model, belief, 65).estimates, published(belief, 65)
    for name in ("values", "sd", "lower95", "upper95"):
        assert np.array_equal(getattr(shown, name), getattr(own, name))


def test_nothing_is_shown_of_a_coarser_group_where_the_city_is_not_known() -> None:
    model = learned(after(1, 1e4))
    assert np.all(with_coarser(model, model.estimate(), 65).estimates.status == Status.HELD_BACK)


def with_depot(model: Learned, kmh: float, standing: float = 3.0) -> tuple[Learned, Field]:
    """The first cell, a tenth of the weight, is found at so many km/h; vehicles that stand weigh so many times less
    than they report."""
    facts = replace(model.state.facts, standing=standing)
    belief = model.estimate()
    depot, weights = (
        CELLS[:, None] == 0,
        np.where(CELLS[:, None] == 0, 0.1 * belief.weights.sum(axis=0), belief.weights),
    )
    values = np.where(depot, kmh, np.maximum(belief.values, 15.0))
    return replace(model, state=replace(model.state, facts=facts)), replace(belief, values=values, weights=weights)


@pytest.mark.parametrize(("kmh", "standing", "told"), [(1.0, 3.0, True), (20.0, 3.0, False), (1.0, 1.0, False)])
def test_a_mean_is_not_known_where_it_hangs_on_how_many_stand(
    model: Learned, kmh: float, standing: float, told: bool
) -> None:
    """A tenth of a fleet that stands in one cell had moved a city's hours by 5 km/h, with intervals of 2."""
    city = coarser(*with_depot(model, kmh, standing), GROUPS["city-hour"])
    usual = coarser(*with_depot(model, kmh, 1.0), GROUPS["city-hour"])
    assert bool(np.any(city.variances > usual.variances + 1e-6)) == told
    busiest = int(np.argmax(usual.weights))
    assert bool(city.misweighed[0, busiest]) == told
    statuses = published(city, 65.0).status[0]
    assert (statuses[busiest] == Status.OK) == (not told)
    alone = coarser(*with_depot(model, kmh, standing), GROUPS["cell-day"])
    assert not np.any(alone.misweighed), "of one cell, nothing hangs on it"


def test_a_vehicle_counts_once_for_a_group_in_which_it_is_often(model: Learned) -> None:
    """Three vehicles in an hour of the city had counted as fifteen, and their mean as known."""
    often = replace(model.state.facts, hats_in_hour=5.0, hats_in_cell=4.0)
    of = replace(model, state=replace(model.state, facts=often))
    belief = model.estimate()
    assert coarser(of, belief, GROUPS["city-hour"]).repeats == pytest.approx(np.full((1, HOURS.size), 5.0))
    assert coarser(of, belief, GROUPS["cell-day"]).repeats.min() > 4
    assert coarser(of, belief, GROUPS["hat"]).repeats.max() < 2
    hours = coarser(model, belief, GROUPS["city-hour"])
    few = replace(hours, chances=chances_of(hours)._replace(vehicles=np.full((1, HOURS.size, NODES), 15.0)))
    assert np.all(published(few, 65.0).status == Status.OK)
    assert np.all(published(replace(few, repeats=5.0), 65.0).status == Status.UNRELIABLE)
