"""What a released tree says of a HAT: readings, intervals, forecasts, and the edges of what can be planned."""

from fractions import Fraction

import numpy as np
import pytest

from dpops.forecast import Prior
from dpops.mechanism import Mechanism, PlanError, forecast_of_one
from dpops.mechanisms.trees import ArrayTree, CappedTree
from dpops.noise import Noise
from dpops.statistics import Histogram
from dpops.trees import readings
from dpops.trees.hats import shape_of
from dpops.trees.mechanism import QUANTILES, read_trees
from dpops.types import CountsKnown, Int64s
from tests.dpops.trees import examples
from tests.kit.grids import grid
from tests.statistical.checks import seeded

# readings


@examples.every_example
@examples.every_counts
def test_without_noise_the_readings_are_those_of_the_samples(mechanism: Mechanism, counts: Int64s) -> None:
    """Within what binning, rounding and the clipping of heavy users may do."""
    plan = examples.plan(mechanism, counts)
    bins = plan.facts["bins"]
    speeds = [np.random.default_rng(user).integers(0, 6_501, n) for user, n in enumerate(counts.tolist())]
    hat = examples.totals(
        np.stack([np.bincount(Histogram(bins, 6_500).bins_of(own), minlength=bins) for own in speeds])
    )
    estimates = examples.read(examples.noiseless(mechanism, plan, [hat]), plan)
    pooled = np.concatenate(speeds) / 100
    width, bias = 65 / bins, plan.bias_bound + plan.rounding
    edges = np.arange(1, bins) * width
    assert np.abs(estimates["cdf"].value - (pooled[:, None] < edges).mean(axis=0)).max(initial=0) <= bias + 1e-9
    assert abs(estimates["mean"].value - pooled.mean()) <= 65 * bias + width / 2 + 1e-9
    assert (
        abs(estimates["variance"].value - pooled.var())
        <= 65**2 * min(0.25, bias) + 65 * width / 2 + width**2 / 4 + 1e-6
    )
    for name, level in QUANTILES.items():
        for off, side in ((-bias - 1e-9, -width), (bias + 1e-9, width)):
            rank = np.quantile(pooled, min(max(level + off, 0), 1), method="inverted_cdf")
            if side < 0:
                assert estimates[name].value >= rank - width - 1e-9
            else:
                assert estimates[name].value <= rank + width + 1e-9


@examples.few_counts
@examples.every_example
def test_intervals_cover_the_truth_even_at_the_worst_bias(mechanism: Mechanism, counts: Int64s) -> None:
    """False-alarm rate 4 x 1e-7 for each (5.5 standard errors of 1,000 draws). Power: an interval that leaves the bias
    out misses nearly always at a large epsilon."""
    draws, miss = 1_000, 0.05
    for epsilon in (examples.EPSILON, Fraction(1_000)):
        plan = mechanism.plan(CountsKnown.all_of(counts), examples.GRID, epsilon)
        bins = plan.facts["bins"]
        heavy = plan.masses / plan.facts["total"] > counts / counts.sum()  # type: ignore[attr-defined]
        rows = np.zeros((counts.size, bins), np.int64)
        rows[np.arange(counts.size), np.where(heavy, bins - 1, 0)] = counts
        rows[0] = np.random.default_rng(5).multinomial(counts[0], np.full(bins, 1 / bins))
        hat = examples.totals(rows)
        true = np.cumsum(rows.sum(axis=0))[:-1] / counts.sum()
        released = mechanism.release([hat] * draws, [plan] * draws, seeded(6))
        estimates = read_trees(released, [plan] * draws, shape_of(plan), miss)
        least = 1 - miss - 5.5 * (miss * (1 - miss) / draws) ** 0.5
        width = 65 / bins
        truths = {
            "cdf": true,
            "mean": readings.mean(true[None])[0] * width,
            "variance": readings.variance(true[None])[0] * width**2,
        }
        for name, truth in truths.items():
            low, high = estimates[name].low, estimates[name].high
            assert ((low <= truth + 1e-9) & (truth <= high + 1e-9)).mean(axis=0).min() >= least
        for name, level in QUANTILES.items():
            true_quantile = readings.quantile(true[None], level)[0] * width
            held = (estimates[name].low <= true_quantile + 1e-9) & (true_quantile <= estimates[name].high + 1e-9)
            assert held.mean() >= least


# forecasts


@pytest.mark.parametrize(
    ("mechanism", "epsilon"),
    grid([CappedTree(bins=65), ArrayTree(bins=65), CappedTree(bins=13, m_ub="none")], [Fraction(1, 2), Fraction(4)]),
)
def test_forecasts_agree_with_simulation_where_speeds_are_as_the_prior_says(
    mechanism: Mechanism, epsilon: Fraction
) -> None:
    """Within 15 %: 300 HATs of 40 users each, drawn from the prior."""
    prior, hats = Prior(25.0, 12.0, 0.3), 300
    counts = np.array(sorted((1 + (i * i) % 23 for i in range(40)), reverse=True), np.int64)
    plan = mechanism.plan(CountsKnown.all_of(counts), examples.GRID, epsilon)
    generator = np.random.default_rng(7)
    centres = generator.choice(prior.hat_means(65.0), hats)
    bins, user = Histogram(plan.facts["bins"], 6_500), np.repeat(np.arange(counts.size), counts)
    drawn = []
    for centre in centres:
        own = centre + generator.normal(0, (0.3 * 144) ** 0.5, counts.size)
        speed = np.clip(own[user] + generator.normal(0, (0.7 * 144) ** 0.5, user.size), 0, 65)
        drawn.append(examples.totals(bins.add_up((speed * 100).astype(np.int64), user, counts.size)))
    true = np.array([np.cumsum(hat.histograms.sum(axis=0))[:-1] / counts.sum() for hat in drawn])
    released = mechanism.release(drawn, [plan] * hats, seeded(8))
    off = np.abs(read_trees(released, [plan] * hats, shape_of(plan), 0.05)["cdf"].value - true).mean()
    assert forecast_of_one(mechanism, CountsKnown.all_of(counts), examples.GRID, epsilon, prior) == pytest.approx(
        off, rel=0.15
    )


# edge cases


@examples.every_example
def test_counts_whose_products_leave_64_bits_are_refused_and_those_below_are_exact(mechanism: Mechanism) -> None:
    with pytest.raises(PlanError, match="checked integer bounds"):
        examples.plan(mechanism, np.array([1 << 26], np.int64))
    counts = np.array([(1 << 26) - 1], np.int64)
    plan = examples.plan(mechanism, counts)
    rows = np.zeros((1, plan.facts["bins"]), np.int64)
    rows[:, -1] = counts
    nodes = examples.noiseless(mechanism, plan, [examples.totals(rows)])[0]
    assert nodes[-1] == plan.facts["total"]


@examples.every_example
def test_totals_that_do_not_fit_the_plan_are_refused(mechanism: Mechanism) -> None:
    plan = examples.plan(mechanism, examples.COUNTS[3])
    right = examples.spread(examples.COUNTS[3], plan.facts["bins"])
    wrong = [
        examples.totals(right.histograms[:2]),
        examples.totals(right.histograms[:, :-1]),
        right._replace(histograms=right.histograms * 2),
        right._replace(histograms=np.zeros(0, np.int64)),
        examples.spread(np.array([5, 3, 2]), plan.facts["bins"]),
    ]
    for totals in wrong:
        with pytest.raises(ValueError, match=r"fit|samples"):
            mechanism.release([totals], [plan], Noise())
    with pytest.raises(ValueError, match="plans"):
        mechanism.release([right] * 2, [plan], Noise())
    assert mechanism.release([], [], Noise()) == []
