"""Distributions of HATs: the public plan from users' masses, noisy nodes by it, and what the nodes say.

A HAT's samples are counted in K bins of equal width over [0, U]. Released are the noisy masses of all nodes of a tree
over these bins, level by level; every reading (shares, quantiles, mean, variance) is post-processing of them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from typing import NamedTuple

import numpy as np

from dpops.forecast import Prior, transport_bias
from dpops.mechanism import Plan, PlanError, Totals, check_plan_input, facts_of
from dpops.trees.combine import law
from dpops.trees.design import MOST_BINS, best_shares, best_tree
from dpops.trees.forecast import errors_at, expected_cdfs
from dpops.trees.shape import Tree
from dpops.trees.users import FINE
from dpops.types import CountsKnown, Grid, Int64s

DEFAULT_BINS = 65
"""Of 1 km/h each where U is 65 km/h."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreePlan(Plan):
    """A plan whose units are shares of samples: step is 1 / total mass, upper is 1.

    masses: int64 (users,), of each user in units; public, and remade from the counts.
    """

    masses: Int64s = field(repr=False, compare=False)

    def error(self) -> float:
        """Forecasts the mean absolute error of a share at the worst bias, over the inner edges, in shares."""
        return min(1.0, self.bias_bound + size_of(self) * share_error(shape_of(self)))


class PlannedTree(NamedTuple):
    """The tree of a plan and its levels' shares of epsilon."""

    tree: Tree
    shares: tuple[Fraction, ...]


@cache
def share_error(shape: PlannedTree) -> float:
    """Averages the noise of a share over the inner edges, E|noise| of a Laplace draw, in the law's unit."""
    spread = law(*shape).prefix_sd()
    return float(spread.mean()) / math.sqrt(2) if spread.size else 0.0


@cache
def best_shape(bins: int) -> PlannedTree:
    """Finds the tree of least error and its budgets."""
    tree = best_tree(bins)
    return PlannedTree(tree, best_shares(tree))


def check_bins(bins: int) -> None:
    """Raises ValueError for a number of bins that no tree is made for."""
    if isinstance(bins, bool) or not 1 <= bins <= MOST_BINS:
        raise ValueError(f"bins must be 1 to {MOST_BINS}, got {bins}")


def check_counts(hat: CountsKnown, grid: Grid, epsilon: Fraction) -> None:
    """Refuses what no tree can be planned for. A count times a mass, which is at most FINE counts, must fit 64 bits."""
    check_plan_input(*hat, grid.upper_steps, epsilon)
    heaviest = int(hat.counts.max())
    if heaviest**2 * FINE >= 1 << 62:
        raise PlanError(f"a user of {heaviest} samples is beyond the checked integer bounds (2**62)")


def tree_plan(
    mechanism: str,
    hat: CountsKnown,
    grid: Grid,
    epsilon: Fraction,
    bins: int,
    masses: Int64s,
    facts: Mapping[str, int],
) -> TreePlan:
    """Makes the plan for users of these masses, of counts that were checked.

    A user moves every level by at most 2 max M in l1, rounding included.
    bias_bound: the mass that lies elsewhere than in the plain distribution of all reported samples; it bounds the bias
    of every share. rounding: each user's prefix may lose less than a unit.
    """
    most, total = int(masses.max()), int(masses.sum())
    shape = best_shape(bins)
    on_grid = {"grid_numerator": grid.step.numerator, "grid_denominator": grid.step.denominator}
    return TreePlan(
        mechanism=mechanism,
        epsilon=epsilon,
        step=Fraction(1, total),
        scale=2 * most / (epsilon * min(shape.shares)),
        upper=Fraction(1),
        bias_bound=transport_bias(masses / total, hat.counts / hat.reported),
        sensitivity=2 * most,
        rounding=hat.counts.size / total,
        facts={**facts_of(hat, grid), **on_grid, "total": total, **facts, **stored(shape)},
        masses=masses,
    )


def shape_of(plan: Plan) -> PlannedTree:
    """Reads the tree from a plan's facts, so that an old release is read by the tree it was made with."""
    facts = plan.facts
    levels = range(1, facts["levels"] + 1)
    factors = tuple(facts[f"factor_{level}"] for level in levels)
    return _shape(facts["bins"], factors, tuple(facts[f"share_{level}"] for level in levels), facts["share_whole"])


def by_shape(plans: Sequence[Plan]) -> list[tuple[PlannedTree, list[int]]]:
    """Lists the trees, each with the places of the HATs that have it."""
    places: dict[PlannedTree, list[int]] = {}
    for index, plan in enumerate(plans):
        places.setdefault(shape_of(plan), []).append(index)
    return list(places.items())


@cache
def _shape(bins: int, factors: tuple[int, ...], parts: tuple[int, ...], whole: int) -> PlannedTree:
    return PlannedTree(Tree(bins, factors), tuple(Fraction(part, whole) for part in parts))


@cache
def stored(shape: PlannedTree) -> Mapping[str, int]:
    """Writes a tree and its budgets as whole numbers, for the facts of a plan."""
    whole = math.lcm(*(share.denominator for share in shape.shares))
    facts = {"bins": shape.tree.bins, "levels": len(shape.shares), "share_whole": whole}
    for level, (factor, share) in enumerate(zip(shape.tree.branching, shape.shares, strict=True), start=1):
        facts |= {f"factor_{level}": factor, f"share_{level}": int(share * whole)}
    return facts


def size_of(plan: Plan) -> float:
    """Computes the noise of a share in the law's unit: M / (epsilon total mass)."""
    return plan.sensitivity / 2 / plan.facts["total"] / float(plan.epsilon)


def forecast_share_error(plan: Plan, counts: Int64s, prior: Prior) -> float:
    """Forecasts the absolute error of a share over the inner edges, where samples are as the prior says."""
    tree, shares = shape_of(plan)
    if tree.bins == 1:
        return 0.0
    upper = upper_of(plan)
    noise = float(errors_at(size_of(plan), tree, shares, prior, upper).cdf)
    expected = expected_cdfs(tree.bins, prior.mean, prior.sd, upper)
    own = made(plan).masses / plan.facts["total"]
    spread = prior._replace(sd=1.0).spread(own - counts / plan.facts["samples"], counts)
    bias = spread * float(np.sqrt(expected * (1 - expected)).mean()) * math.sqrt(2 / math.pi)
    return math.hypot(noise, bias)


def upper_of(plan: Plan) -> float:
    """Computes U in units."""
    return plan.facts["upper_steps"] * plan.facts["grid_numerator"] / plan.facts["grid_denominator"]


def scales_of(plan: Plan, shape: PlannedTree) -> list[Fraction]:
    """Lists the scale of each node, by level: 2 max M / (share of epsilon); the plan's is that of the least share."""
    least = min(shape.shares)
    return [
        scale
        for share, size in zip(shape.shares, shape.tree.sizes, strict=True)
        for scale in [plan.scale * least / share] * size
    ]


def check_fit(totals: Sequence[Totals], plans: Sequence[TreePlan], bins: int) -> None:
    for total, plan in zip(totals, plans, strict=True):
        fits = total.counts.size == plan.masses.size and total.histograms.shape == (total.counts.size, bins)
        facts = plan.facts
        if not fits or (int(total.counts.sum()), int(total.counts.max())) != (facts["samples"], facts["heaviest"]):
            raise ValueError("totals do not fit their plans: other users, samples or bins")


def made(plan: Plan) -> TreePlan:
    """Checks that the plan has its masses. Raises TypeError for a plan that was read back, which has none."""
    if not isinstance(plan, TreePlan):
        raise TypeError("this needs the plan it made, not one read back")
    return plan
