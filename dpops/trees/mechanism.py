"""What the mechanisms that release a tree share: how they draw, and how their integers are read."""

from collections.abc import Sequence
from typing import ClassVar

from dpops.claims import Adjacency
from dpops.estimate import Estimate
from dpops.forecast import Prior
from dpops.mechanism import Integers, Mechanism, Plan, Totals
from dpops.noise import Noise
from dpops.trees.estimates import OUTPUTS, estimates
from dpops.trees.hats import forecast_share_error, release_trees
from dpops.types import Int64s


class TreeMechanism(Mechanism):
    """A mechanism whose plans are TreePlans; each adds how it weighs users."""

    statistics: ClassVar[frozenset[str]] = frozenset({"distribution"})
    outputs: ClassVar[tuple[str, ...]] = OUTPUTS
    adjacencies: ClassVar[frozenset[Adjacency]] = frozenset({"counts-public"})

    def forecast(self, plan: Plan, counts: Int64s, prior: Prior) -> float:
        return forecast_share_error(plan, counts, prior)

    def release(self, totals: Sequence[Totals], plans: Sequence[Plan], noise: Noise) -> list[Integers]:
        return release_trees(totals, plans, noise)

    @classmethod
    def estimate(cls, integers: Sequence[int], plan: Plan, miss: float) -> Estimate:
        (only,) = estimates([list(integers)], [plan], miss)
        return only

    @classmethod
    def estimates(cls, released: Sequence[Integers], plans: Sequence[Plan], miss: float) -> list[Estimate]:
        return estimates(released, plans, miss)
