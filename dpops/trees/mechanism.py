"""Release and readings of tree mechanisms, with intervals.

A shape is a tree over K bins with its levels' shares of epsilon. Users' histograms are scaled to their masses, which
are their weights in the release, and summed at every node (`weighted_leaves`, `node_counts`). Noisy nodes give unbiased
shares of samples below bins' edges, `raw` (`cumulative`), and these a distribution function, `cdf` (`consistent`).
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dpops.estimate import OK, Estimates
from dpops.forecast import HatCounts
from dpops.mechanism import Integers, Mechanism, Plan, Totals, check_totals, full_plan
from dpops.noise import Noise
from dpops.trees import readings
from dpops.trees.hats import PlannedTree, TreePlan, forecast_share_error, scale_of, shape_of, upper_of, weighted_leaves
from dpops.trees.readings import Between, consistent, cumulative, law
from dpops.trees.shape import MOST_BINS, node_counts
from dpops.types import Float64s

QUANTILES: Mapping[str, float] = {"p50": 0.5, "p85": 0.85}
OUTPUTS = (*QUANTILES, "mean", "variance", "cdf")  # outputs of a tree, in this order: numbers, and the list last


class Reading(NamedTuple):
    """A reading of HATs, with its worst-case intervals' ends."""

    value: Float64s
    low: Float64s
    high: Float64s


def read_trees(
    released: Sequence[Integers], plans: Sequence[Plan], shape: PlannedTree, miss: float
) -> dict[str, Reading]:
    """Reads HATs of one tree, (HATs,) by output; "cdf": (HATs, K - 1).

    miss: probability of an interval that misses. In plans bias_bound and rounding are shares of weight.
    """
    facts = [  # a row for each HAT
        (scale_of(plan), plan.bias_bound, plan.rounding, upper_of(plan), plan.facts["total"], plan.facts["upper_steps"])
        for plan in plans
    ]
    scale, bias, rounding, upper, total, steps = np.array(facts, np.float64).reshape(-1, 6).T
    noisy = np.array(released, np.float64).reshape(-1, shape.tree.nodes)
    raw = cumulative(noisy, total, *shape) / total[:, None]  # unbiased shares, (HATs, K - 1)
    width, grid = upper / shape.tree.bins, upper / steps  # of a bin and of a grid step, in units

    sds, noise_law = readings.standard_errors(miss), law(*shape)  # sds: how many, to either side
    half = sds * (scale[:, None] * noise_law.prefix_sd()) + (bias + rounding)[:, None]
    cdf = consistent(raw)
    outputs = {"cdf": _reading(cdf, Between(raw - half, raw + half), unit=1.0, margin=0.0, upper=1.0)}
    for name, level in QUANTILES.items():
        between = readings.quantile_interval(raw, half, level)
        value = readings.quantile(cdf, level)
        outputs[name] = _reading(value, between, width, margin=grid / 2, upper=upper)  # samples are rounded to the grid
    # A share t of misplaced weight moves a mean by at most U t; the middle of its bin, a sample by half a width.
    moved = (width + grid) / 2
    margin, between = upper * bias + upper * rounding + moved, readings.mean_interval(raw, noise_law, scale, sds)
    outputs["mean"] = _reading(readings.mean(cdf), between, width, margin, upper=upper)
    # t moves a variance by at most U^2 t (1 - t), or U^2 / 4 from t = 1/2 on; moving samples by e, by U e + e^2. Half
    # of `miss` is for the mean that it is around.
    share = np.minimum(bias, 0.5)
    margin = upper**2 * share * (1 - share) + upper * moved + moved**2 + upper**2 * rounding
    between = readings.variance_interval(raw, noise_law, scale, readings.standard_errors(miss / 2))
    outputs["variance"] = _reading(readings.variance(cdf), between, width**2, margin, upper=upper**2 / 4)
    return outputs


def _reading(
    value: Float64s, between: Between, unit: Float64s | float, margin: Float64s | float, upper: Float64s | float
) -> Reading:
    """Converts to units; widens intervals by a margin within [0, upper]."""
    value = value * unit
    low, high = np.maximum(between.low * unit - margin, 0.0), np.minimum(between.high * unit + margin, upper)
    return Reading(value, np.minimum(low, value), np.maximum(high, value))  # each holds its consistent value


class TreeMechanism(Mechanism):
    """Base of tree mechanisms, which plan their users' masses."""

    statistics = frozenset({"distribution"})
    outputs = OUTPUTS
    bins: int

    def __post_init__(self) -> None:
        Mechanism.__post_init__(self)
        if isinstance(self.bins, bool) or not 1 <= self.bins <= MOST_BINS:
            raise ValueError(f"bins must be 1 to {MOST_BINS}, got {self.bins}")

    def forecasts(self, hats: HatCounts) -> Float64s:
        """Forecasts absolute errors of shares of reports below a speed, (HATs,), under the prior."""
        plans = self.plans(list(hats), hats.grid, hats.epsilon)
        counts = (hat.counts for hat in hats)  # samples of each user, (users,)
        return np.array([forecast_share_error(*planned, hats.prior) for planned in zip(plans, counts, strict=True)])

    def release(self, totals: Sequence[Totals], plans: Sequence[Plan], noise: Noise) -> list[Integers]:
        """Releases noisy node masses of one tree. Raises ValueError."""
        check_totals(totals, plans)
        if not plans:
            return []
        tree_plans = [full_plan(plan, TreePlan) for plan in plans]
        shape = shape_of(plans[0])
        if any(shape_of(plan) != shape for plan in plans[1:]):
            raise ValueError("the plans of one release are of several trees")
        for total, plan in zip(totals, tree_plans, strict=True):
            size, facts = total.counts.size, plan.facts
            fits = size == plan.masses.size and total.histograms.shape == (size, shape.tree.bins)
            if not fits or (int(total.counts.sum()), int(total.counts.max())) != (facts["samples"], facts["heaviest"]):
                raise ValueError("totals do not fit their plans: other users, samples or bins")
        users = np.array([plan.masses.size for plan in tree_plans])
        masses = np.concatenate([plan.masses for plan in tree_plans])
        histograms = np.concatenate([total.histograms for total in totals])
        counts = np.concatenate([total.counts for total in totals])
        nodes = node_counts(weighted_leaves(histograms, counts, masses, np.cumsum(users) - users), shape.tree)
        # A node's noise scale goes with 1 over its level's share of epsilon; the plan's own is that of the least share.
        min_share, levels = min(shape.shares), list(zip(shape.shares, shape.tree.sizes, strict=True))
        by_level = ((plan.scale * min_share / share, size) for plan in plans for share, size in levels)
        scales = [scale for scale, size in by_level for _ in range(size)]
        drawn = noise.laplace(scales).reshape(nodes.shape)
        released: list[Integers] = (nodes + drawn).tolist()
        return released

    @classmethod
    def estimates(cls, released: Sequence[Integers], plans: Sequence[Mapping[str, Any]], miss: float) -> Estimates:
        """Reads all outputs, with intervals that miss with probability `miss`; noise, bias: nan.

        The first output is a quantile: its noise depends on the distribution's shape, and any bias may move it.
        """
        indexed_estimates, read_plans = [], [Plan.from_public(cls.name, plan) for plan in plans]
        by_shape: dict[PlannedTree, list[int]] = {}
        for index, plan in enumerate(read_plans):
            by_shape.setdefault(shape_of(plan), []).append(index)
        for shape, indices in by_shape.items():
            plans_of_shape = [read_plans[index] for index in indices]
            outputs = read_trees([released[hat] for hat in indices], plans_of_shape, shape, miss)
            unknown = np.full(len(plans_of_shape), np.nan)
            shape_estimates = Estimates(
                numbers=np.array([outputs[name] for name in OUTPUTS[:-1]]),  # not cdf: value, ends, (outputs, 3, HATs)
                lists=[[(*row, 1.0) for row in outputs["cdf"].value.tolist()]],  # up to the last edge, U
                noise_std=unknown,
                bias_bound=unknown,
                epsilon=np.array([float(plan.epsilon) for plan in plans_of_shape]),
                status=[OK] * len(plans_of_shape),
            )
            indexed_estimates.append((indices, shape_estimates))
        return Estimates.placed(len(plans), indexed_estimates)
