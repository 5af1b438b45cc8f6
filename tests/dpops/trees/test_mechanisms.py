"""The tree mechanisms: claim, sensitivity, noise and plans; and user level, by enumeration."""

import itertools
import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpops.forecast import Prior
from dpops.mechanism import Plan, forecast_of_one
from dpops.mechanisms import registered
from dpops.mechanisms.trees import ArrayTree, BestTree, CappedTree
from dpops.noise import Noise
from dpops.statistics import Histogram
from dpops.trees.hats import UNITS_PER_SAMPLE, PlannedTree, shape_of, stored, weighted_leaves
from dpops.trees.mechanism import read_trees
from dpops.trees.shape import Tree, node_counts
from dpops.types import CountsKnown, Int64s
from tests.dpops.trees import examples
from tests.kit.grids import grid
from tests.statistical.audit import bound_of_samples
from tests.statistical.checks import laplace_fit, seeded


def test_the_better_of_two_ways_to_user_level_is_planned():
    """Either way is the better one somewhere."""
    assert [ArrayTree, CappedTree, BestTree] == examples.KINDS
    chosen = set()
    for counts in (*examples.COUNTS, np.array([30] + [2] * 40), np.array([9, 8, 5, 4, 4, 2])):
        for prior in (None, Prior(20.0, 12.0)):
            tree, hat = BestTree(bins=20, prior=prior), CountsKnown.all_of(counts)
            chosen.add(examples.plan(tree, counts).mechanism)
            for other in (CappedTree(bins=20), CappedTree(bins=20, m_ub="none"), ArrayTree(bins=20)):
                best, worse = (
                    forecast_of_one(kind, hat, examples.GRID, examples.EPSILON, prior)
                    if prior
                    else examples.plan(kind, counts).error()
                    for kind in (tree, other)
                )
                assert best <= worse * (1 + 1e-9)
    assert chosen == {"capped-tree", "array-tree"}


# privacy


@pytest.mark.parametrize("kind", [CappedTree, ArrayTree])
@pytest.mark.parametrize("deep", [False, True])
@examples.few_counts
def test_the_audit_of_the_worst_neighbours_stays_below_the_claim(kind, deep, counts):
    """False-alarm rate 1e-6 for each audit. Power: see the mutants below."""
    plan = examples.small(kind, counts, deep)
    assert _audited(plan, counts, 6_000) <= examples.EPSILON


@pytest.mark.parametrize(
    ("kind", "mutant"),
    grid([CappedTree, ArrayTree], ["sensitivity 1 for 2", "a quarter less noise", "all of epsilon at every level"]),
)
def test_a_mutant_is_caught(kind, mutant):
    deep = mutant == "all of epsilon at every level"
    plan = examples.small(kind, examples.COUNTS[3], deep)
    if mutant == "sensitivity 1 for 2":
        plan = replace(plan, scale=plan.scale / 2)
    elif mutant == "a quarter less noise":
        plan = replace(plan, scale=plan.scale * Fraction(3, 4))
    else:
        whole = PlannedTree(examples.DEEP.tree, (Fraction(1), Fraction(1)))
        plan = replace(plan, scale=plan.sensitivity / plan.epsilon, facts={**plan.facts, **stored(whole)})
    draws = 22_000 if mutant == "a quarter less noise" else 6_000  # the others spend twice as much
    assert _audited(plan, examples.COUNTS[3], draws) > examples.EPSILON  # its own claim is larger too


@examples.every_example
@given(data=st.data())
def test_no_neighbours_differ_by_more_than_the_sensitivity_at_any_level(mechanism, data):
    """Every distribution of one user over two bins and many over all bins, the other users anywhere."""
    counts = np.array(sorted(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=4)))[::-1], np.int64)
    plan = mechanism.plan(CountsKnown.all_of(counts), examples.GRID, examples.EPSILON)
    bins = plan.facts["bins"]
    generator = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    user = data.draw(st.integers(0, counts.size - 1))
    base = np.stack([generator.multinomial(n, np.full(bins, 1 / bins)) for n in counts])
    ends = [np.eye(bins, dtype=np.int64)[end] * counts[user] for end in (0, bins - 1)]
    ends += [generator.multinomial(counts[user], generator.dirichlet(np.full(bins, 0.3))) for _ in range(6)]
    hats = []
    for own in ends:
        rows = base.copy()
        rows[user] = own
        hats.append(examples.totals(rows))
    nodes = np.array(examples.noiseless(mechanism, plan, hats))
    for level in shape_of(plan).tree.split(nodes.shape[1]):
        moved = [int(np.abs(one[level] - other[level]).sum()) for one, other in itertools.combinations(nodes, 2)]
        assert max(moved) <= plan.sensitivity
        if user == 0:  # the heaviest, moved from one end to the other, attains it
            assert moved[0] == plan.sensitivity


@examples.every_example
def test_the_claim_is_epsilon_divided_over_the_levels(mechanism):
    for counts, epsilon in itertools.product(examples.COUNTS, (Fraction(1, 1000), Fraction(1, 3), Fraction(7))):
        plan = mechanism.plan(CountsKnown.all_of(counts), examples.GRID, epsilon)
        _, shares = shape_of(plan)
        assert sum(shares) == 1
        assert plan.claim().epsilon == plan.epsilon == epsilon
        assert plan.scale == plan.sensitivity / (epsilon * min(shares))


def test_every_node_has_noise_of_its_own_level_and_hat():
    """False-alarm rate 1e-8 for each. Power: noise of another level's or HAT's scale is off by far more than 5 %."""
    mechanism, repeats = CappedTree(bins=64), 1_500
    hats = [examples.spread(counts, 64) for counts in (examples.COUNTS[3], examples.COUNTS[5])]
    plans = [mechanism.plan(CountsKnown.all_of(hat.counts), examples.GRID, examples.EPSILON) for hat in hats]
    tree, shares = shape_of(plans[0])
    released = np.array(mechanism.release(hats * repeats, plans * repeats, seeded(3))).reshape(repeats, 2, -1)
    noise = released - np.array(mechanism.release(hats, [replace(plan, scale=Fraction(0)) for plan in plans], Noise()))
    for index, plan in enumerate(plans):
        for level, share in zip(tree.split(tree.nodes), shares, strict=True):
            drawn = noise[:, index, level]
            assert laplace_fit(drawn.ravel(), plan.sensitivity / (examples.EPSILON * share)) > 1e-8
            signs = np.corrcoef(np.sign(drawn[:, :4]).T) - np.eye(4)
            assert np.abs(signs).max() < 6.5 / repeats**0.5


@examples.every_example
def test_the_plan_cannot_see_a_value_and_survives_storage(mechanism):
    for counts in examples.COUNTS:
        plan = examples.plan(mechanism, counts)
        hat = examples.spread(counts, plan.facts["bins"])
        released = mechanism.release([hat], [plan], seeded(4))
        assert examples.plan(mechanism, counts).public() == plan.public()
        stored_plan = Plan.from_public(plan.mechanism, json.loads(json.dumps(plan.public())))
        fresh, again = (examples.read(released, planned) for planned in (plan, stored_plan))
        for name, output in fresh.items():
            for one, other in zip(output, again[name], strict=True):
                np.testing.assert_array_equal(one, other)
        with pytest.raises(TypeError, match="the plan it made"):
            mechanism.release([hat], [stored_plan], Noise())


@examples.every_example
def test_a_hat_is_released_and_read_alike_alone_and_among_others(mechanism):
    plans = [examples.plan(mechanism, counts) for counts in examples.COUNTS]
    hats = [examples.spread(counts, plans[0].facts["bins"]) for counts in examples.COUNTS]
    silent = [replace(plan, scale=Fraction(0)) for plan in plans]
    together = mechanism.release(hats, silent, Noise())
    assert together == [mechanism.release([h], [p], Noise())[0] for h, p in zip(hats, silent, strict=True)]
    readings_ = read_trees(together, plans, shape_of(plans[0]), 0.05)
    for index, plan in enumerate(plans):
        alone = examples.read([together[index]], plan)
        for name, output in alone.items():
            np.testing.assert_allclose(readings_[name].value[index], output.value, rtol=1e-12, atol=1e-12)


def _audited(plan: Plan, counts: Int64s, draws: int) -> float:
    """A lower bound on epsilon from the best statistic there is: the log-likelihood ratio over all nodes, in 1e-6."""
    mechanism = registered()[plan.mechanism](bins=4)
    rows = np.zeros((counts.size, 4), np.int64)
    rows[:, 1] = counts
    pair = []
    for end in (0, 3):
        own = rows.copy()
        own[0] = np.eye(4, dtype=np.int64)[end] * counts[0]
        pair.append(examples.totals(own))
    exact = [np.array(nodes) for nodes in examples.noiseless(mechanism, plan, pair)]
    tree, shares = shape_of(plan)
    weights = np.repeat([float(share) for share in shares], tree.sizes)
    noise = seeded(11)
    ratios = []
    for totals in pair:
        nodes = np.array(mechanism.release([totals] * draws, [plan] * draws, noise))
        ratio = ((np.abs(nodes - exact[1]) - np.abs(nodes - exact[0])) * weights).sum(axis=1)
        ratios.append(np.round(ratio / plan.sensitivity * 1e6).astype(np.int64))
    return bound_of_samples(*ratios)


START = np.zeros(1, np.int64)


def _histograms(samples: int, bins: int) -> list[tuple[int, ...]]:
    """All histograms of so many samples."""
    return [histogram for histogram in itertools.product(range(samples + 1), repeat=bins) if sum(histogram) == samples]


def _nodes(user: tuple[int, ...], mass: int, tree: Tree) -> Int64s:
    one = np.array([user], np.int64)
    return node_counts(weighted_leaves(one, one.sum(axis=1), np.array([mass]), START), tree)[0]


@pytest.mark.parametrize(("samples", "mass"), [(1, 3), (3, 2 * UNITS_PER_SAMPLE), (4, 5), (3, 7), (5, 2)])
def test_no_level_moves_by_more_than_twice_the_mass(samples, mass):
    """Every pair of distributions of one user is enumerated. Moving all from the first bin to the last attains it."""
    tree = Tree(5, (3, 2))
    released = [_nodes(histogram, mass, tree) for histogram in _histograms(samples, 5)]
    for level in tree.split(tree.nodes):
        moved = [int(np.abs(one[level] - other[level]).sum()) for one, other in itertools.combinations(released, 2)]
        assert max(moved) == 2 * mass


def test_rounding_each_bin_on_its_own_would_break_the_bound():
    """A mutant: shares rounded to the nearest unit, bin by bin, move a level by more than twice the mass."""
    mass = 3
    rounded = [[round(count * mass / 6 + 1e-9) for count in histogram] for histogram in _histograms(6, 6)]
    moved = max(sum(abs(a - b) for a, b in zip(*pair, strict=True)) for pair in itertools.combinations(rounded, 2))
    assert moved > 2 * mass


@given(st.data())
def test_the_weighted_sum_has_the_users_masses_and_is_off_by_less_than_a_unit_a_user(data):
    bins, users = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 6))
    rows = st.lists(st.integers(0, 30), min_size=bins, max_size=bins).filter(sum)
    histograms = np.array([data.draw(rows) for _ in range(users)], np.int64)
    counts = histograms.sum(axis=1)
    masses = np.array([data.draw(st.integers(0, 5 * UNITS_PER_SAMPLE)) for _ in range(users)], np.int64)
    leaves = weighted_leaves(histograms, counts, masses, START)
    assert leaves.shape == (1, bins)
    assert leaves.min() >= 0
    assert leaves.sum() == masses.sum()
    for t in range(1, bins):
        exact = sum(Fraction(int(h[:t].sum() * m), int(c)) for h, m, c in zip(histograms, masses, counts, strict=True))
        assert exact - users < leaves[0, :t].sum() <= exact


@given(st.lists(st.integers(1, 40), min_size=1, max_size=30), st.integers(1, 40))
def test_arrays_have_mass_one_each_and_no_user_more_than_one_array(counts, m_ub):
    ordered = np.array(sorted(counts, reverse=True), np.int64)
    plan = ArrayTree(bins=4, m_ub=m_ub).plan(CountsKnown.all_of(ordered), examples.GRID, examples.EPSILON)
    masses, arrays, length = plan.masses, plan.facts["arrays"], min(m_ub, int(ordered[0]))
    assert masses.min() >= UNITS_PER_SAMPLE
    assert masses.max() == UNITS_PER_SAMPLE * length
    assert arrays * UNITS_PER_SAMPLE * length - ordered.size < masses.sum() <= arrays * UNITS_PER_SAMPLE * length


def test_values_at_public_edges_lie_in_the_bin_above_and_the_largest_in_the_last():
    values = np.array([0, 99, 100, 101, 6_499, 6_500])
    assert Histogram(65, 6_500).bins_of(values).tolist() == [0, 0, 1, 1, 64, 64]
    assert Histogram(3, 7).bins_of(np.arange(8)).tolist() == [0, 0, 0, 1, 1, 2, 2, 2]


@pytest.mark.parametrize(
    ("histogram", "count", "mass", "what"),
    [
        ([2, -1], 1, 5, "negative bin"),
        ([0, 0], 0, 5, "no sample"),
        ([1, 1], 3, 5, "as many samples"),
        ([1 << 31, 0], 1 << 31, 1 << 31, "integer bounds"),
    ],
)
def test_what_the_sensitivity_does_not_hold_for_is_refused(histogram, count, mass, what):
    with pytest.raises(ValueError, match=what):
        weighted_leaves(np.array([histogram]), np.array([count]), np.array([mass]), START)
