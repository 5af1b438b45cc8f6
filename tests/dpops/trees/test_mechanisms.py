"""The two tree mechanisms: privacy claim, sensitivity, forecasts, intervals and refusals, as for every mechanism."""

import itertools
import json
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpops.forecast import Prior
from dpops.mechanism import Mechanism, Plan, PlanError, Totals
from dpops.mechanisms.array_tree import ArrayTree
from dpops.mechanisms.capped_tree import CappedTree
from dpops.mechanisms.tree import Tree
from dpops.noise import Noise
from dpops.registry import registered
from dpops.trees import readings, shape
from dpops.trees.estimates import QUANTILES, read, read_alike
from dpops.trees.hats import Shape, shape_of, stored
from dpops.trees.users import bins_of
from dpops.types import CountsKnown, Grid, Int64s
from tests.statistical.audit import bound_of_samples
from tests.statistical.checks import laplace_fit, seeded

GRID = Grid(step=Fraction(1, 100), upper_steps=6_500)
EPSILON = Fraction(2)
KINDS = [kind for kind in registered().values() if "distribution" in kind.statistics]
EXAMPLES = [example for kind in KINDS for example in kind.examples()]
COUNTS = [
    np.array(counts, np.int64)
    for counts in ([1], [7], [1, 1], [5, 3, 1], [3, 2, 2, 1, 1, 1, 1], [417, 60, 46, 46, 20, 9, 3, 1, 1])
]
every_example = pytest.mark.parametrize("mechanism", EXAMPLES, ids=repr)
every_counts = pytest.mark.parametrize("counts", COUNTS, ids=lambda c: f"{c.size}users-{c[0]}most")
DEEP = Shape(shape.Tree(4, (2, 2)), (Fraction(1, 3), Fraction(2, 3)))
"""A small tree of two levels, so that audits see several levels at once."""


def test_the_better_of_two_ways_to_user_level_is_planned() -> None:
    """Either way is the better one somewhere."""
    assert [ArrayTree, CappedTree, Tree] == KINDS
    chosen = set()
    for counts in (*COUNTS, np.array([30] + [2] * 40), np.array([9, 8, 5, 4, 4, 2])):
        for prior in (None, Prior(20.0, 12.0)):
            plan = _plan(Tree(bins=20, prior=prior), counts)
            chosen.add(plan.mechanism)
            for other in (CappedTree(bins=20), CappedTree(bins=20, m_ub="none"), ArrayTree(bins=20)):
                worse = _plan(other, counts)
                errors = (other.forecast(each, counts, prior) if prior else each.error() for each in (plan, worse))
                assert next(errors) <= next(errors) * (1 + 1e-9)
    assert chosen == {"capped-tree", "array-tree"}


# privacy


@pytest.mark.parametrize("kind", [CappedTree, ArrayTree])
@pytest.mark.parametrize("deep", [False, True])
@every_counts
def test_the_audit_of_the_worst_neighbours_stays_below_the_claim(
    kind: type[Mechanism], deep: bool, counts: Int64s
) -> None:
    """False-alarm rate 1e-6 for each audit. Power: see the mutants below."""
    plan = _small(kind, counts, deep)
    assert _audited(plan, counts, 6_000) <= EPSILON


@pytest.mark.parametrize("kind", [CappedTree, ArrayTree])
@pytest.mark.parametrize("mutant", ["sensitivity 1 for 2", "a quarter less noise", "all of epsilon at every level"])
def test_a_mutant_is_caught(kind: type[Mechanism], mutant: str) -> None:
    deep = mutant == "all of epsilon at every level"
    plan = _small(kind, COUNTS[3], deep)
    if mutant == "sensitivity 1 for 2":
        plan = replace(plan, scale=plan.scale / 2)
    elif mutant == "a quarter less noise":
        plan = replace(plan, scale=plan.scale * Fraction(3, 4))
    else:
        whole = Shape(DEEP.tree, (Fraction(1), Fraction(1)))
        plan = replace(plan, scale=plan.facts["sensitivity"] / plan.epsilon, facts={**plan.facts, **stored(whole)})
    assert _audited(plan, COUNTS[3], 22_000) > EPSILON  # a plan whose noise is too little claims more itself


@every_example
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_no_neighbours_differ_by_more_than_the_sensitivity_at_any_level(
    mechanism: Mechanism, data: st.DataObject
) -> None:
    """Every distribution of one user over two bins and many over all bins, the other users anywhere."""
    counts = np.array(sorted(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=4)))[::-1], np.int64)
    plan = mechanism.plan(CountsKnown.all_of(counts), GRID, EPSILON)
    bins = plan.facts["bins"]
    generator = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    user = data.draw(st.integers(0, counts.size - 1))
    base = np.stack([generator.multinomial(n, np.full(bins, 1 / bins)) for n in counts])
    ends = [np.eye(bins, dtype=np.int64)[at] * counts[user] for at in (0, bins - 1)]
    ends += [generator.multinomial(counts[user], generator.dirichlet(np.full(bins, 0.3))) for _ in range(6)]
    hats = []
    for own in ends:
        rows = base.copy()
        rows[user] = own
        hats.append(_totals(rows))
    nodes = np.array(_noiseless(mechanism, plan, hats))
    for level in shape_of(plan).tree.split(range(nodes.shape[1])):
        moved = [int(np.abs(one[level] - other[level]).sum()) for one, other in itertools.combinations(nodes, 2)]
        assert max(moved) <= plan.facts["sensitivity"]
        if user == 0:  # the heaviest, moved from one end to the other, attains it
            assert moved[0] == plan.facts["sensitivity"]


@every_example
@every_counts
def test_the_claim_is_epsilon_divided_over_the_levels(mechanism: Mechanism, counts: Int64s) -> None:
    for epsilon in (Fraction(1, 1000), Fraction(1, 3), Fraction(7)):
        plan = mechanism.plan(CountsKnown.all_of(counts), GRID, epsilon)
        _, shares = shape_of(plan)
        assert sum(shares) == 1
        assert plan.claim().epsilon == plan.epsilon == epsilon
        assert plan.scale == plan.facts["sensitivity"] / (epsilon * min(shares))


def test_every_node_has_noise_of_its_own_level_and_hat() -> None:
    """False-alarm rate 1e-8 for each. Power: noise of another level's or HAT's scale is off by far more than 5 %."""
    mechanism, repeats = CappedTree(bins=64), 1_500
    hats = [_spread(counts, 64) for counts in (COUNTS[3], COUNTS[5])]
    plans = [mechanism.plan(CountsKnown.all_of(hat.counts), GRID, EPSILON) for hat in hats]
    tree, shares = shape_of(plans[0])
    released = np.array(mechanism.release(hats * repeats, plans * repeats, seeded(3))).reshape(repeats, 2, -1)
    noise = released - np.array(mechanism.release(hats, [replace(plan, scale=Fraction(0)) for plan in plans], Noise()))
    for at, plan in enumerate(plans):
        for level, share in zip(tree.split(range(tree.nodes)), shares, strict=True):
            drawn = noise[:, at, level]
            assert laplace_fit(drawn.ravel(), plan.facts["sensitivity"] / (EPSILON * share)) > 1e-8
            signs = np.corrcoef(np.sign(drawn[:, :4]).T) - np.eye(4)
            assert np.abs(signs).max() < 6.5 / repeats**0.5


@every_example
def test_no_float_reaches_the_noise(mechanism: Mechanism) -> None:
    class Watching(Noise):
        def laplace(self, scales: Sequence[Fraction]) -> Int64s:
            assert {type(scale) for scale in scales} == {Fraction}
            drawn = super().laplace(scales)
            assert drawn.dtype == np.int64
            return drawn

    plans = [_plan(mechanism, counts) for counts in COUNTS]
    hats = [_spread(counts, plans[0].facts["bins"]) for counts in COUNTS]
    released = mechanism.release(hats, plans, Watching())
    assert {type(integer) for integers in released for integer in integers} == {int}
    for plan in plans:
        assert {type(value) for value in (plan.epsilon, plan.step, plan.scale, plan.upper)} == {Fraction}
        assert {type(fact) for fact in plan.facts.values()} == {int}


@every_example
def test_the_plan_cannot_see_a_value_and_survives_storage(mechanism: Mechanism) -> None:
    for counts in COUNTS:
        plan = _plan(mechanism, counts)
        hat = _spread(counts, plan.facts["bins"])
        released = mechanism.release([hat], [plan], seeded(4))
        assert _plan(mechanism, counts).public() == plan.public()
        stored_plan = Plan.from_public(plan.mechanism, json.loads(json.dumps(plan.public())))
        fresh, again = (read(released, [each], 0.05)[0] for each in (plan, stored_plan))
        for name, output in fresh.items():
            for one, other in zip(output, again[name], strict=True):
                np.testing.assert_array_equal(one, other)
        with pytest.raises(TypeError, match="read back"):
            mechanism.release([hat], [stored_plan], Noise())


@every_example
def test_a_hat_is_released_and_read_alike_alone_and_among_others(mechanism: Mechanism) -> None:
    plans = [_plan(mechanism, counts) for counts in COUNTS]
    hats = [_spread(counts, plans[0].facts["bins"]) for counts in COUNTS]
    silent = [replace(plan, scale=Fraction(0)) for plan in plans]
    together = mechanism.release(hats, silent, Noise())
    assert together == [mechanism.release([h], [p], Noise())[0] for h, p in zip(hats, silent, strict=True)]
    readings_ = read(together, plans, 0.05)
    for at, plan in enumerate(plans):
        alone = read([together[at]], [plan], 0.05)[0]
        for name, output in alone.items():
            np.testing.assert_allclose(readings_[at][name].value, output.value, rtol=1e-12, atol=1e-12)


# readings


@every_example
@every_counts
def test_without_noise_the_readings_are_those_of_the_samples(mechanism: Mechanism, counts: Int64s) -> None:
    """Within what binning, rounding and the clipping of heavy users may do."""
    plan = _plan(mechanism, counts)
    bins = plan.facts["bins"]
    speeds = [np.random.default_rng(user).integers(0, 6_501, n) for user, n in enumerate(counts.tolist())]
    hat = _totals(np.stack([np.bincount(bins_of(own, 6_500, bins), minlength=bins) for own in speeds]))
    found = read(_noiseless(mechanism, plan, [hat]), [plan], 0.05)[0]
    pooled = np.concatenate(speeds) / 100
    width, bias = 65 / bins, plan.bias_bound + plan.rounding
    edges = np.arange(1, bins) * width
    assert np.abs(found["cdf"].value - (pooled[:, None] < edges).mean(axis=0)).max(initial=0) <= bias + 1e-9
    assert abs(found["mean"].value - pooled.mean()) <= 65 * bias + width / 2 + 1e-9
    assert abs(found["variance"].value - pooled.var()) <= 65**2 * min(0.25, bias) + 65 * width / 2 + width**2 / 4 + 1e-6
    for name, level in QUANTILES.items():
        for off, side in ((-bias - 1e-9, -width), (bias + 1e-9, width)):
            rank = np.quantile(pooled, min(max(level + off, 0), 1), method="inverted_cdf")
            if side < 0:
                assert found[name].value >= rank - width - 1e-9
            else:
                assert found[name].value <= rank + width + 1e-9


@every_counts
@every_example
def test_intervals_cover_the_truth_even_at_the_worst_bias(mechanism: Mechanism, counts: Int64s) -> None:
    """False-alarm rate 4 x 1e-7 for each (5.5 standard errors of 1,500 draws). Power: an interval that leaves the bias
    out misses nearly always at a large epsilon."""
    draws, miss = 1_500, 0.05
    for epsilon in (EPSILON, Fraction(1_000)):
        plan = mechanism.plan(CountsKnown.all_of(counts), GRID, epsilon)
        bins = plan.facts["bins"]
        heavy = plan.masses / plan.facts["total"] > counts / counts.sum()  # type: ignore[attr-defined]
        rows = np.zeros((counts.size, bins), np.int64)
        rows[np.arange(counts.size), np.where(heavy, bins - 1, 0)] = counts
        rows[0] = np.random.default_rng(5).multinomial(counts[0], np.full(bins, 1 / bins))
        hat = _totals(rows)
        true = np.cumsum(rows.sum(axis=0))[:-1] / counts.sum()
        released = mechanism.release([hat] * draws, [plan] * draws, seeded(6))
        found = read_alike(released, [plan] * draws, shape_of(plan), miss)
        least = 1 - miss - 5.5 * (miss * (1 - miss) / draws) ** 0.5
        width = 65 / bins
        truths = {
            "cdf": true,
            "mean": readings.mean(true[None])[0] * width,
            "variance": readings.variance(true[None])[0] * width**2,
        }
        for name, truth in truths.items():
            low, high = found[name].low, found[name].high
            assert ((low <= truth + 1e-9) & (truth <= high + 1e-9)).mean(axis=0).min() >= least
        for name, level in QUANTILES.items():
            at = readings.quantile(true[None], level)[0] * width
            held = (found[name].low <= at + 1e-9) & (at <= found[name].high + 1e-9)
            assert held.mean() >= least


# forecasts


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(4)])
@pytest.mark.parametrize(
    "mechanism", [CappedTree(bins=65), ArrayTree(bins=65), CappedTree(bins=13, m_ub="none")], ids=repr
)
def test_forecasts_agree_with_simulation_where_speeds_are_as_the_prior_says(
    mechanism: Mechanism, epsilon: Fraction
) -> None:
    """Within 15 %: 300 HATs of 40 users each, drawn from the prior."""
    prior, hats = Prior(25.0, 12.0, 0.3), 300
    counts = np.array(sorted((1 + (i * i) % 23 for i in range(40)), reverse=True), np.int64)
    plan = mechanism.plan(CountsKnown.all_of(counts), GRID, epsilon)
    generator = np.random.default_rng(7)
    centres = generator.choice(prior.hat_means(65.0), hats)
    found = []
    for centre in centres:
        own = generator.normal(0, (0.3 * 144) ** 0.5, counts.size)
        rows = []
        for offset, n in zip(own, counts, strict=True):
            speed = np.clip(centre + offset + generator.normal(0, (0.7 * 144) ** 0.5, n), 0, 65)
            rows.append(
                np.bincount(
                    bins_of((speed * 100).astype(np.int64), 6_500, plan.facts["bins"]), minlength=plan.facts["bins"]
                )
            )
        found.append(_totals(np.stack(rows)))
    true = np.array([np.cumsum(hat.histograms.sum(axis=0))[:-1] / counts.sum() for hat in found])
    released = mechanism.release(found, [plan] * hats, seeded(8))
    off = np.abs(read_alike(released, [plan] * hats, shape_of(plan), 0.05)["cdf"].value - true).mean()
    assert mechanism.forecast(plan, counts, prior) == pytest.approx(off, rel=0.15)


@every_example
def test_the_worst_case_forecast_is_never_below_the_other(mechanism: Mechanism) -> None:
    for counts in COUNTS:
        plan = _plan(mechanism, counts)
        assert 0 < mechanism.forecast(plan, counts, Prior(20.0, 12.0)) <= plan.error() * 1.2 + 0.01


def test_a_cap_that_moves_nobody_is_none_and_opt_is_no_worse_than_any_number() -> None:
    for counts in COUNTS:
        best = _plan(CappedTree(bins=20), counts).error()
        for m in set(counts.tolist()):
            assert best <= _plan(CappedTree(bins=20, m_ub=m), counts).error() * (1 + 1e-9)
        whole, capped = (_plan(CappedTree(bins=20, m_ub=m), counts) for m in ("none", int(counts[0])))
        assert whole.public() == capped.public()


# edge cases


@every_example
@pytest.mark.parametrize(
    ("counts", "reported"), [([], 0), ([0], 0), ([3, 0], 3), ([3, -1], 2), ([3, 2], 4), ([1], 1 << 31)]
)
def test_counts_that_make_no_hat_are_refused(mechanism: Mechanism, counts: list[int], reported: int) -> None:
    with pytest.raises(ValueError, match="sample"):
        mechanism.plan(CountsKnown(np.array(counts, np.int64), reported), GRID, EPSILON)


@every_example
def test_counts_whose_products_leave_64_bits_are_refused_and_those_below_are_exact(mechanism: Mechanism) -> None:
    with pytest.raises(PlanError, match="checked integer bounds"):
        _plan(mechanism, np.array([1 << 26], np.int64))
    counts = np.array([(1 << 26) - 1], np.int64)
    plan = _plan(mechanism, counts)
    rows = np.zeros((1, plan.facts["bins"]), np.int64)
    rows[:, -1] = counts
    nodes = _noiseless(mechanism, plan, [_totals(rows)])[0]
    assert nodes[-1] == plan.facts["total"]


@every_example
def test_totals_that_do_not_fit_the_plan_are_refused(mechanism: Mechanism) -> None:
    plan = _plan(mechanism, COUNTS[3])
    right = _spread(COUNTS[3], plan.facts["bins"])
    wrong = [
        _totals(right.histograms[:2]),
        _totals(right.histograms[:, :-1]),
        right._replace(histograms=right.histograms * 2),
        right._replace(histograms=np.zeros(0, np.int64)),
        _spread(np.array([5, 3, 2]), plan.facts["bins"]),
    ]
    for totals in wrong:
        with pytest.raises(ValueError, match=r"fit|samples"):
            mechanism.release([totals], [plan], Noise())
    with pytest.raises(ValueError, match="plans"):
        mechanism.release([right] * 2, [plan], Noise())
    assert mechanism.release([], [], Noise()) == []


@pytest.mark.parametrize("bins", [0, -3, 10_001, True])
@pytest.mark.parametrize("kind", [CappedTree, ArrayTree])
def test_a_wrong_number_of_bins_is_refused(kind: type[CappedTree | ArrayTree], bins: int) -> None:
    with pytest.raises(ValueError, match="bins must be 1 to 10000"):
        kind(bins=bins)


@pytest.mark.parametrize("kind", [CappedTree, ArrayTree])
@pytest.mark.parametrize("bins", [1, 2, 3, 100])
def test_one_vehicle_and_any_bins_have_readings(kind: type[CappedTree | ArrayTree], bins: int) -> None:
    mechanism = kind(bins=bins)
    counts = np.array([4], np.int64)
    plan = _plan(mechanism, counts)
    found = read(mechanism.release([_spread(counts, bins)], [plan], seeded(9)), [plan], 0.05)[0]
    assert found["cdf"].value.shape == (bins - 1,)
    for name in ("p50", "p85", "mean"):
        assert 0 <= found[name].low <= found[name].value <= found[name].high <= 65
    assert 0 <= found["variance"].low <= found["variance"].value <= found["variance"].high <= 65**2 / 4


@every_example
@pytest.mark.parametrize("epsilon", [Fraction(1, 10**6), Fraction(10**6)])
def test_extreme_epsilons_have_readings(mechanism: Mechanism, epsilon: Fraction) -> None:
    plan = mechanism.plan(CountsKnown.all_of(COUNTS[4]), GRID, epsilon)
    found = read(mechanism.release([_spread(COUNTS[4], plan.facts["bins"])], [plan], seeded(10)), [plan], 0.05)[0]
    assert np.all(np.isfinite(found["cdf"].value))
    assert np.isfinite([found[name].value for name in ("p50", "p85", "mean", "variance")]).all()


# helpers


def _plan(mechanism: Mechanism, counts: Int64s) -> Plan:
    return mechanism.plan(CountsKnown.all_of(counts), GRID, EPSILON)


def _totals(histograms: Int64s) -> Totals:
    counts = histograms.sum(axis=1)
    return Totals(counts, counts, counts, histograms)


def _spread(counts: Int64s, bins: int) -> Totals:
    """Each user's samples in bins one behind another."""
    rows = np.zeros((counts.size, bins), np.int64)
    for user, n in enumerate(counts.tolist()):
        np.add.at(rows[user], (np.arange(n) + user) % bins, 1)
    return _totals(rows)


def _noiseless(mechanism: Mechanism, plan: Plan, hats: Sequence[Totals]) -> list[list[int]]:
    return mechanism.release(hats, [replace(plan, scale=Fraction(0))] * len(hats), Noise())


def _small(kind: type[Mechanism], counts: Int64s, deep: bool) -> Plan:
    """A plan over four bins, of one level or of two."""
    plan = kind(bins=4).plan(CountsKnown.all_of(counts), GRID, EPSILON)  # type: ignore[call-arg]
    if not deep:
        return plan
    scale = plan.facts["sensitivity"] / (EPSILON * min(DEEP.shares))
    return replace(plan, scale=scale, facts={**plan.facts, **stored(DEEP)})


def _audited(plan: Plan, counts: Int64s, draws: int) -> float:
    """A lower bound on epsilon from the best statistic there is: the log-likelihood ratio over all nodes, in 1e-6."""
    mechanism = registered()[plan.mechanism](bins=4)  # type: ignore[call-arg]
    rows = np.zeros((counts.size, 4), np.int64)
    rows[:, 1] = counts
    pair = []
    for at in (0, 3):
        own = rows.copy()
        own[0] = np.eye(4, dtype=np.int64)[at] * counts[0]
        pair.append(_totals(own))
    exact = [np.array(nodes) for nodes in _noiseless(mechanism, plan, pair)]
    tree, shares = shape_of(plan)
    weights = np.repeat([float(share) for share in shares], tree.sizes)
    noise = seeded(11)
    ratios = []
    for totals in pair:
        nodes = np.array(mechanism.release([totals] * draws, [plan] * draws, noise))
        ratio = ((np.abs(nodes - exact[1]) - np.abs(nodes - exact[0])) * weights).sum(axis=1)
        ratios.append(np.round(ratio / plan.facts["sensitivity"] * 1e6).astype(np.int64))
    return bound_of_samples(*ratios)
