"""Distributions from trees of noisy counts: capped users, arrays, or the better."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np

from dpops.forecast import Prior
from dpops.means.arrays import Rule, lay_out_together
from dpops.means.capping import CapRule, chosen
from dpops.trees import hats as trees
from dpops.trees.mechanism import TreeMechanism
from dpops.types import CountsKnown, Grid, Int64s


@dataclass(frozen=True, slots=True, kw_only=True)
class CappedTree(TreeMechanism):
    """Noisy tree counts, users capped at m samples.

    One user moves each level by at most 2 m samples; one of more keeps its own distribution with the weight of m. m_ub:
    "none" keeps whole users, a number caps each, "opt" takes the cap of least worst bias plus noise of a share.
    Source: algorithms 10.1 to 10.5; the tree and its budgets are dpops.trees.shape's.
    """

    name = "capped-tree"
    example_options = ({"bins": 65, "m_ub": "none"}, {"bins": 5}, {"bins": 61, "m_ub": 3})

    bins: int = trees.DEFAULT_BINS
    m_ub: CapRule = "opt"

    def plans(self, hats: Sequence[CountsKnown], grid: Grid, epsilon: Fraction) -> list[trees.TreePlan]:
        """Plans trees over capped samples; "opt" weighs a share's bias and noise."""
        rate, noise = float(epsilon), trees.share_error(trees.best_shape(self.bins))  # noise: of mass and epsilon 1
        plans = []
        for hat in hats:
            trees.check_counts(hat, grid, epsilon)
            # Of least bias plus noise of a share, which is proportional to cap / samples.
            cap = chosen(self.m_ub, *hat, lambda cap: cap.share_moved + noise / rate * cap.max_count / cap.samples)
            masses = trees.UNITS_PER_SAMPLE * np.minimum(hat.counts, cap.max_count)  # users' weights, in integers
            plans.append(trees.tree_plan(self.name, hat, grid, epsilon, self.bins, masses, {"m_ub": cap.max_count}))
        return plans


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayTree(TreeMechanism):
    """Noisy tree counts of arrays' histograms of mass 1.

    A user lies in one array, so moves each level by at most twice an array's mass; each of its samples there stands for
    all of its own. Source: algorithms 10.5; the tree and its budgets are dpops.trees.shape's.
    """

    name = "array-tree"
    example_options = ({"bins": 65}, {"bins": 5, "m_ub": "argmax"}, {"bins": 64, "m_ub": 3})

    bins: int = trees.DEFAULT_BINS
    m_ub: Rule = "median"

    def plans(self, hats: Sequence[CountsKnown], grid: Grid, epsilon: Fraction) -> list[trees.TreePlan]:
        """Plans trees over the values of arrays."""
        for hat in hats:
            trees.check_counts(hat, grid, epsilon)
        plans = []
        for hat, laid in zip(hats, lay_out_together(hats, grid, epsilon, self.m_ub), strict=True):
            # An array has room for m_UB samples, so that much mass; a user with r of the w in it owns r / w of that.
            group, masses = laid.grouping, np.zeros(hat.counts.size, np.int64)
            masses[group.user] = trees.UNITS_PER_SAMPLE * laid.m_ub * group.samples // group.fills[group.array]
            facts = {"m_ub": laid.m_ub, "arrays": group.fills.size}
            plans.append(trees.tree_plan(self.name, hat, grid, epsilon, self.bins, masses, facts))
        return plans


@dataclass(frozen=True, slots=True, kw_only=True)
class BestTree(TreeMechanism):
    """Each HAT's best tree variant, by public forecast.

    Candidates: whole users, the best cap, arrays by median and by argmax. Public information alone decides, so the
    choice costs nothing; the plan names it. prior: mean and standard deviation of single samples, in units, publicly
    known; without one the worst case decides. Source: algorithms 10.5.
    """

    name = "tree"
    example_options = ({}, {"bins": 20, "prior": Prior(20.0, 12.0)})

    bins: int = trees.DEFAULT_BINS
    prior: Prior | None = None

    def plans(self, hats: Sequence[CountsKnown], grid: Grid, epsilon: Fraction) -> list[trees.TreePlan]:
        """Plans each HAT's tree of smallest forecast error."""
        by_hat = zip(*(mechanism.plans(hats, grid, epsilon) for mechanism in _candidates(self.bins)), strict=True)
        pairs = zip(by_hat, hats, strict=True)
        return [min(plans, key=lambda plan: self._error(plan, hat.counts)) for plans, hat in pairs]

    def _error(self, plan: trees.TreePlan, counts: Int64s) -> float:
        return plan.error() if self.prior is None else trees.forecast_share_error(plan, counts, self.prior)


@cache
def _candidates(bins: int) -> tuple[CappedTree | ArrayTree, ...]:
    capped = (CappedTree(bins=bins, m_ub="none"), CappedTree(bins=bins))
    return *capped, ArrayTree(bins=bins), ArrayTree(bins=bins, m_ub="argmax")
