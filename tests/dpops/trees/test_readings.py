"""Readings of noisy distributions, against exact samples, their intervals, and what a released tree says of a HAT."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpops.forecast import Prior
from dpops.mechanism import PlanError, forecast_of_one
from dpops.mechanisms.trees import ArrayTree, CappedTree
from dpops.noise import Noise
from dpops.statistics import Histogram
from dpops.trees import readings
from dpops.trees.hats import shape_of
from dpops.trees.mechanism import QUANTILES, read_trees
from dpops.trees.readings import cumulative, law, mean, mean_sd, quantile, quantile_interval, standard_errors, variance
from dpops.trees.shape import Tree, best_shares, best_tree, node_counts
from dpops.types import CountsKnown, Float64s, Int64s
from tests.dpops.trees import examples
from tests.kit.grids import grid
from tests.statistical.checks import seeded

TREES = [best_tree(1), best_tree(2), best_tree(13), best_tree(65), Tree(27, (3, 3, 3))]
trees = pytest.mark.parametrize("tree", TREES, ids=str)


def _cdf(leaves: Int64s) -> Float64s:
    shares: Float64s = np.cumsum(leaves, axis=1)[:, :-1] / leaves.sum(axis=1)[:, None]
    return shares


# values


@trees
def test_mean_and_variance_are_those_of_samples_at_the_middle_of_their_bins(tree):
    leaves = np.random.default_rng(1).integers(0, 9, (4, tree.bins)) + np.eye(4, tree.bins, dtype=np.int64)
    leaves[:, 0] += 1
    cdf = _cdf(leaves)
    for row in range(4):
        samples = np.repeat(np.arange(tree.bins) + 0.5, leaves[row])
        assert mean(cdf)[row] == pytest.approx(samples.mean())
        assert variance(cdf)[row] == pytest.approx(samples.var(), abs=1e-9)


def test_a_quantile_lies_in_the_bin_of_the_samples_own():
    generator = np.random.default_rng(2)
    for _ in range(200):
        samples = np.sort(generator.integers(0, 12, 25))
        cdf = _cdf(np.bincount(samples, minlength=12)[None])
        for level in (0.15, 0.5, 0.85):
            own = samples[int(np.ceil(level * 25)) - 1]
            assert own <= quantile(cdf, level)[0] <= own + 1


@given(st.sampled_from(TREES), st.data())
def test_any_noisy_integers_give_a_distribution(tree, data):
    """Monotone, within [0, 1], quantiles ordered and within [0, U]; mean, variance and intervals in their ranges."""
    size = data.draw(st.sampled_from([3, 10**3, 10**9, 10**15]))
    noisy = np.array([[data.draw(st.integers(-size, size)) for _ in range(tree.nodes)]], np.int64)
    total = data.draw(st.integers(1, 10**12))
    shares = best_shares(tree)
    raw = cumulative(noisy, np.array([total]), tree, shares) / total
    cdf = readings.consistent(raw)
    assert np.all(np.diff(cdf) >= 0)
    assert np.all((cdf >= 0) & (cdf <= 1))
    levels = [0.01, 0.15, 0.5, 0.85, 0.99]
    quantiles = [quantile(cdf, level)[0] for level in levels]
    assert quantiles == sorted(quantiles)
    assert 0 <= quantiles[0] <= quantiles[-1] <= tree.bins
    assert 0.5 - 1e-9 <= mean(cdf)[0] <= tree.bins - 0.5 + 1e-9
    assert -1e-12 <= variance(cdf)[0] <= (tree.bins / 2) ** 2 + 1e-6
    half = np.full_like(raw, data.draw(st.floats(0, 3)))
    for level in levels:
        low, high = quantile_interval(raw, half, level)
        assert 0 <= low[0] < high[0] <= tree.bins


# intervals


def _exact_tail(weights: Float64s, points: Float64s) -> Float64s:
    """P(|S| > point) of a sum of independent Laplace draws of these scales, by inverting 1 / prod(1 + (a t)^2).

    P(|S| <= x) = 2 / pi times the integral of sin(x t) / t times that, cut where it is below 1e-9 of its start.
    """
    t = np.linspace(0, 300, 60_001)[1:] / np.sqrt((2 * weights**2).sum())
    logs = np.zeros_like(t)
    for weight in weights[np.abs(weights) > 1e-12]:
        logs += np.log1p((weight * t) ** 2)
    kernel = np.exp(-logs) / t
    inside = [2 / np.pi * (np.sin(x * t) * kernel).sum() * (t[1] - t[0]) + x * (t[1] - t[0]) / np.pi for x in points]
    return 1 - np.array(inside)


@pytest.mark.few(8)
@pytest.mark.parametrize("tree", [best_tree(2), best_tree(13), best_tree(65), Tree(64, (2,) * 6)], ids=str)
@pytest.mark.parametrize("miss", [0.5, 0.2, 0.05, 0.025])
def test_no_estimate_of_a_tree_leaves_its_interval_with_more_than_the_stated_probability(tree, miss):
    """The exact tails of prefixes, the mean, and nodes' own draws: computed, not simulated (to 1e-4)."""
    own = law(tree, best_shares(tree))
    functionals = [own.weights[:, t] for t in {0, (tree.bins - 1) // 2, tree.bins - 2}]
    functionals.append(own.weights.sum(axis=1))
    for functional in functionals:
        scales = functional * np.sqrt(own.variances / 2)
        sd = np.sqrt((2 * scales**2).sum())
        tail = _exact_tail(scales, np.array([standard_errors(miss) * sd]))[0]
        assert tail <= miss + 1e-4
        assert tail >= 0.3 * miss  # and it is not idle


SHAPES_OF_SPEEDS = ["one bin", "two ends", "middle", "spread"]


def _leaves(shape: str, bins: int) -> Int64s:
    leaves = np.zeros(bins, np.int64)
    if shape == "one bin":
        leaves[bins // 3] = 200
    elif shape == "two ends":
        leaves[[0, -1]] = 60, 140
    elif shape == "middle":
        leaves[:] = np.round(200 * np.exp(-((np.arange(bins) - bins * 0.6) ** 2) / (bins / 5) ** 2))
    else:
        leaves[:] = 7
    return leaves


@pytest.mark.parametrize("shape", SHAPES_OF_SPEEDS)
@pytest.mark.parametrize("bins", [2, 13, 65])
@pytest.mark.parametrize("epsilon", [0.3, 3.0])
def test_intervals_hold_what_they_are_of(shape, bins, epsilon):
    """4,000 draws, seeded; a coverage of 95 % has a standard error of 0.35 %, and 1.9 % are allowed.

    Power: half-widths too small by a fifth would cover less than 92 %.
    """
    tree, draws = best_tree(bins), 4_000
    shares = best_shares(tree)
    own = law(tree, shares)
    leaves = _leaves(shape, bins)[None]
    total = int(leaves.sum())
    true = _cdf(leaves)
    noise = np.random.default_rng(5).laplace(size=(draws, tree.nodes)) * np.sqrt(own.variances / 2) / epsilon
    raw = cumulative(node_counts(leaves, tree) + noise, np.full(draws, total), tree, shares) / total
    size = np.full(draws, 1 / (epsilon * total))
    widths = standard_errors(0.05)
    half = widths * size[:, None] * own.prefix_sd()
    least = 0.95 - 5.5 * (0.05 * 0.95 / draws) ** 0.5

    low, high = raw - half, raw + half
    assert ((low <= true + 1e-12) & (true <= high + 1e-12)).mean(axis=0).min() >= least
    low, high = readings.mean_interval(raw, own, size, widths)
    assert ((low <= mean(true)) & (mean(true) <= high)).mean() >= least
    low, high = readings.variance_interval(raw, own, size, standard_errors(0.025))
    assert ((low <= variance(true) + 1e-9) & (variance(true) <= high + 1e-9)).mean() >= least
    for level in (0.15, 0.5, 0.85):
        low, high = quantile_interval(raw, half, level)
        true_quantile = quantile(true, level)[0]
        if (true == level).any():  # an edge is a quantile as much as all that follows up to the next sample
            continue
        assert ((low <= true_quantile) & (true_quantile <= high)).mean() >= least


def test_the_noise_of_the_mean_is_that_of_simulation():
    tree = best_tree(65)
    own = law(tree, best_shares(tree))
    noise = np.random.default_rng(6).laplace(size=(20_000, tree.nodes)) * np.sqrt(own.variances / 2)
    raw = cumulative(noise, 0.0, tree, best_shares(tree))
    assert (mean(raw) - 64.5).std() == pytest.approx(mean_sd(own), rel=0.03)


# readings


@examples.every_example
@examples.every_counts
def test_without_noise_the_readings_are_those_of_the_samples(mechanism, counts):
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
def test_intervals_cover_the_truth_even_at_the_worst_bias(mechanism, counts):
    """False-alarm rate 4 x 1e-7 for each (5.5 standard errors of 1,000 draws). Power: an interval that leaves the bias
    out misses nearly always at a large epsilon."""
    draws, miss = 1_000, 0.05
    for epsilon in (examples.EPSILON, Fraction(1_000)):
        plan = mechanism.plan(CountsKnown.all_of(counts), examples.GRID, epsilon)
        bins = plan.facts["bins"]
        heavy = plan.masses / plan.facts["total"] > counts / counts.sum()
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
def test_forecasts_agree_with_simulation_where_speeds_are_as_the_prior_says(mechanism, epsilon):
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
def test_counts_whose_products_leave_64_bits_are_refused_and_those_below_are_exact(mechanism):
    with pytest.raises(PlanError, match="checked integer bounds"):
        examples.plan(mechanism, np.array([1 << 26], np.int64))
    counts = np.array([(1 << 26) - 1], np.int64)
    plan = examples.plan(mechanism, counts)
    rows = np.zeros((1, plan.facts["bins"]), np.int64)
    rows[:, -1] = counts
    nodes = examples.noiseless(mechanism, plan, [examples.totals(rows)])[0]
    assert nodes[-1] == plan.facts["total"]


@examples.every_example
def test_totals_that_do_not_fit_the_plan_are_refused(mechanism):
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
