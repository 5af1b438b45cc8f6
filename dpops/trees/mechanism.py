"""What the mechanisms that release a tree share: how they draw, and how their integers are read."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from dpops.claims import Adjacency
from dpops.estimate import Estimates
from dpops.forecast import Float64s, HatCounts
from dpops.mechanism import Integers, Mechanism, Plan, Totals
from dpops.noise import Noise
from dpops.trees.estimates import OUTPUTS, estimates
from dpops.trees.hats import forecast_share_error, release_trees


class TreeMechanism(Mechanism):
    """A mechanism whose plans are TreePlans; each adds how it weighs users."""

    statistics: ClassVar[frozenset[str]] = frozenset({"distribution"})
    outputs: ClassVar[tuple[str, ...]] = OUTPUTS
    adjacencies: ClassVar[frozenset[Adjacency]] = frozenset({"counts-public"})

    def forecasts(self, hats: HatCounts) -> Float64s:
        plans = self.plans(list(hats), hats.grid, hats.epsilon)
        counts = (hat.counts for hat in hats)
        return np.array([forecast_share_error(*planned, hats.prior) for planned in zip(plans, counts, strict=True)])

    def release(self, totals: Sequence[Totals], plans: Sequence[Plan], noise: Noise) -> list[Integers]:
        return release_trees(totals, plans, noise)

    @classmethod
    def estimates(cls, released: Sequence[Integers], plans: Sequence[Mapping[str, Any]], miss: float) -> Estimates:
        return estimates(released, [Plan.from_public(cls.name, plan) for plan in plans], miss)
