"""Distribution from a capped or array tree, by forecast."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from dpops.forecast import Prior
from dpops.mechanisms.array_tree import ArrayTree
from dpops.mechanisms.capped_tree import CappedTree
from dpops.trees.hats import DEFAULT_BINS, TreePlan, forecast_share_error
from dpops.trees.mechanism import TreeMechanism
from dpops.types import CountsKnown, Grid, Int64s


@dataclass(frozen=True, slots=True, kw_only=True)
class BestTree(TreeMechanism):
    """Each HAT's best tree variant, by public forecast.

    Candidates: whole users, the best cap, arrays by median and by argmax. Public information alone decides, so the
    choice costs nothing; the plan names it. prior: mean and standard deviation of single samples, in units, publicly
    known; without one the worst case decides. Source: algorithms 10.5.
    """

    name = "tree"
    example_options = ({}, {"bins": 20, "prior": Prior(20.0, 12.0)})

    bins: int = DEFAULT_BINS
    prior: Prior | None = None

    def plans(self, hats: Sequence[CountsKnown], grid: Grid, epsilon: Fraction) -> list[TreePlan]:
        """Plans each HAT's tree of smallest forecast error."""
        by_hat = zip(*(mechanism.plans(hats, grid, epsilon) for mechanism in _candidates(self.bins)), strict=True)
        return [
            min(plans, key=lambda plan: self._error(plan, hat.counts)) for plans, hat in zip(by_hat, hats, strict=True)
        ]

    def _error(self, plan: TreePlan, counts: Int64s) -> float:
        return plan.error() if self.prior is None else forecast_share_error(plan, counts, self.prior)


@cache
def _candidates(bins: int) -> tuple[CappedTree | ArrayTree, ...]:
    capped = (CappedTree(bins=bins, m_ub="none"), CappedTree(bins=bins))
    return *capped, ArrayTree(bins=bins), ArrayTree(bins=bins, m_ub="argmax")
