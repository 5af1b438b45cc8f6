"""The tree mechanisms with options, users to run them on, and what tests do with these."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dpops.mechanism import Integers, Mechanism, Plan, Totals
from dpops.mechanisms import registered
from dpops.noise import Noise
from dpops.trees import shape
from dpops.trees.hats import PlannedTree, shape_of, stored
from dpops.trees.mechanism import Reading, read_trees
from dpops.trees.readings import level_variances
from dpops.types import CountsKnown, Float64s, Grid, Int64s

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
few_counts = pytest.mark.parametrize(
    "counts",
    [pytest.param(c, id=f"{c.size}users-{c[0]}most", marks=[] if c.size == 9 else pytest.mark.slow) for c in COUNTS],
)
"""The others in the whole suite alone."""
DEEP = PlannedTree(shape.Tree(4, (2, 2)), (Fraction(1, 3), Fraction(2, 3)))
"""A small tree of two levels, so that audits see several levels at once."""


def plan(mechanism: Mechanism, counts: Int64s) -> Plan:
    """The plan for users of these counts."""
    return mechanism.plan(CountsKnown.all_of(counts), GRID, EPSILON)


def totals(histograms: Int64s) -> Totals:
    """Of users of these histograms: neither sums nor squares are looked at."""
    counts = histograms.sum(axis=1)
    return Totals(counts, counts, counts, histograms)


def spread(counts: Int64s, bins: int) -> Totals:
    """Each user's samples in bins one behind another."""
    rows = np.zeros((counts.size, bins), np.int64)
    for user, n in enumerate(counts.tolist()):
        np.add.at(rows[user], (np.arange(n) + user) % bins, 1)
    return totals(rows)


def read(released: Sequence[Integers], plan: Plan) -> dict[str, Reading]:
    """The outputs of one HAT: cdf (shares), p50, p85, mean (units), variance (units squared)."""
    outputs = read_trees(released, [plan], shape_of(plan), 0.05)
    return {name: Reading(*(part[0] for part in output)) for name, output in outputs.items()}


def noiseless(mechanism: Mechanism, plan: Plan, hats: Sequence[Totals]) -> list[list[int]]:
    """What would be released without noise."""
    return mechanism.release(hats, [replace(plan, scale=Fraction(0))] * len(hats), Noise())


def small(kind: type[Mechanism], counts: Int64s, deep: bool) -> Plan:
    """A plan over four bins, of one level or of two."""
    plan = kind(bins=4).plan(CountsKnown.all_of(counts), GRID, EPSILON)
    if not deep:
        return plan
    scale = plan.sensitivity / (EPSILON * min(DEEP.shares))
    return replace(plan, scale=scale, facts={**plan.facts, **stored(DEEP)})


def prefix_variances(tree: shape.Tree, shares: Sequence[Fraction]) -> Float64s:
    """Variance of the count of the first t bins, t = 1, .., K - 1: the sum of d_i(t) 2 (s / eps_i)^2, at epsilon 1."""
    t = np.arange(1, tree.bins)
    variances = np.zeros(t.size)
    for width, factor, variance in zip(tree.widths, tree.branching, level_variances(shares), strict=True):
        variances += t // width % factor * variance
    return variances
