"""What the mechanisms that release a tree share: how they draw, and how their integers are read."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from dpops.claims import Adjacency
from dpops.estimate import OK, Estimates
from dpops.forecast import Float64s, HatCounts
from dpops.mechanism import Integers, Mechanism, Plan, Totals
from dpops.noise import Noise
from dpops.trees.estimates import OUTPUTS, read_alike
from dpops.trees.hats import by_shape, check_fit, forecast_share_error, made, scales_of, shape_of
from dpops.trees.shape import node_counts
from dpops.trees.users import weighted_leaves


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
        """Releases noisy masses of all nodes. All plans are of one tree. Raises ValueError for what does not fit."""
        if len(totals) != len(plans):
            raise ValueError(f"{len(totals)} totals for {len(plans)} plans")
        if not plans:
            return []
        tree_plans = [made(plan) for plan in plans]
        shape = shape_of(plans[0])
        if any(shape_of(plan) != shape for plan in plans[1:]):
            raise ValueError("the plans of one release are of several trees")
        check_fit(totals, tree_plans, shape.tree.bins)
        users = np.array([plan.masses.size for plan in tree_plans])
        masses = np.concatenate([plan.masses for plan in tree_plans])
        histograms = np.concatenate([total.histograms for total in totals])
        counts = np.concatenate([total.counts for total in totals])
        nodes = node_counts(weighted_leaves(histograms, counts, masses, np.cumsum(users) - users), shape.tree)
        scales = [scale for plan in plans for scale in scales_of(plan, shape)]
        drawn = noise.laplace(scales).reshape(nodes.shape)
        released: list[Integers] = (nodes + drawn).tolist()
        return released

    @classmethod
    def estimates(cls, released: Sequence[Integers], plans: Sequence[Mapping[str, Any]], miss: float) -> Estimates:
        """Reads all outputs with their intervals, but tells no noise or bias.

        The noise of the first output, a quantile, depends on the shape of the distribution; any bias may move it.
        """
        parts, read_plans = [], [Plan.from_public(cls.name, plan) for plan in plans]
        for shape, places in by_shape(read_plans):
            alike = [read_plans[place] for place in places]
            outputs = read_alike([released[hat] for hat in places], alike, shape, miss)
            unknown = np.full(len(alike), np.nan)
            part = Estimates(
                numbers=np.array([outputs[name][:3] for name in OUTPUTS[:-1]]),
                lists=[[(*row, 1.0) for row in outputs["cdf"].value.tolist()]],
                noise_std=unknown,
                bias_bound=unknown,
                epsilon=np.array([float(plan.epsilon) for plan in alike]),
                status=[OK] * len(alike),
            )
            parts.append((places, part))
        return Estimates.placed(len(plans), parts)
