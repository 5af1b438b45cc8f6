"""Distribution from a tree of users capped at m."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpops.means.capping import CapRule, CountCap, chosen
from dpops.trees.hats import DEFAULT_BINS, FINE, TreePlan, best_shape, check_counts, share_error, tree_plan
from dpops.trees.mechanism import TreeMechanism
from dpops.types import CountsKnown, Grid


@dataclass(frozen=True, slots=True, kw_only=True)
class CappedTree(TreeMechanism):
    """Noisy tree counts, users capped at m samples.

    One user moves each level by at most 2 m samples; one of more keeps its own distribution with the weight of m. m_ub:
    "none" keeps whole users, a number caps each, "opt" takes the cap of least worst bias plus noise of a share.
    Source: algorithms 10.1 to 10.5; the tree and its budgets are dpops.trees.shape's.
    """

    name = "capped-tree"
    example_options = ({"bins": 65, "m_ub": "none"}, {"bins": 5}, {"bins": 61, "m_ub": 3})

    bins: int = DEFAULT_BINS
    m_ub: CapRule = "opt"

    def plans(self, hats: Sequence[CountsKnown], grid: Grid, epsilon: Fraction) -> list[TreePlan]:
        """Plans trees over samples within a cap."""

        def cost(cap: CountCap) -> float:
            return cap.share_moved + level * cap.max_count / cap.samples

        plans = []
        for hat in hats:
            check_counts(hat, grid, epsilon)
            level = share_error(best_shape(self.bins)) / float(epsilon)
            cap = chosen(self.m_ub, hat.counts, hat.reported, cost)
            masses = FINE * np.minimum(hat.counts, cap.max_count)
            plans.append(tree_plan(self.name, hat, grid, epsilon, self.bins, masses, {"m_ub": cap.max_count}))
        return plans
