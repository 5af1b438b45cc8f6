"""Distribution from a tree of arrays' normalised histograms."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dpops.means.arrays import Rule, lay_out_together
from dpops.trees.hats import DEFAULT_BINS, TreePlan, array_masses, check_counts, tree_plan
from dpops.trees.mechanism import TreeMechanism
from dpops.types import CountsKnown, Grid


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayTree(TreeMechanism):
    """Noisy tree counts of arrays' histograms of mass 1.

    A user lies in one array, so moves each level by at most twice an array's mass; each of its slots stands for its own
    distribution. Source: algorithms 10.5; the tree and its budgets are dpops.trees.shape's.
    """

    name = "array-tree"
    example_options = ({"bins": 65}, {"bins": 5, "m_ub": "argmax"}, {"bins": 64, "m_ub": 3})

    bins: int = DEFAULT_BINS
    m_ub: Rule = "median"

    def plans(self, hats: Sequence[CountsKnown], grid: Grid, epsilon: Fraction) -> list[TreePlan]:
        """Plans trees over the values of arrays."""
        for hat in hats:
            check_counts(hat, grid, epsilon)
        plans = []
        for hat, laid in zip(hats, lay_out_together(hats, grid, epsilon, self.m_ub), strict=True):
            masses = array_masses(laid.grouping, hat.counts.size, laid.m_ub)
            facts = {"m_ub": laid.m_ub, "arrays": laid.grouping.fills.size}
            plans.append(tree_plan(self.name, hat, grid, epsilon, self.bins, masses, facts))
        return plans
