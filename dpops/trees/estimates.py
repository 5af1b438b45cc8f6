"""What the noisy nodes of HATs say: shares below the edges, quantiles, mean and variance, each with an interval."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dpops.forecast import Float64s
from dpops.mechanism import Integers, Plan
from dpops.trees import readings
from dpops.trees.combine import Law, cumulative, law
from dpops.trees.consistent import consistent
from dpops.trees.hats import PlannedTree, size_of, upper_of
from dpops.trees.readings import Between

QUANTILES: Mapping[str, float] = {"p50": 0.5, "p85": 0.85}
OUTPUTS = (*QUANTILES, "mean", "variance", "cdf")
"""What a tree gives, in this order: numbers, and the list last."""


class Reading(NamedTuple):
    """One reading of many HATs, float64 (HATs,) each; of shares float64 (HATs, K - 1).

    low, high: hold the reading of all reported samples with probability 1 - miss at least, at the worst bias.
    """

    value: Float64s
    low: Float64s
    high: Float64s


def read_alike(
    released: Sequence[Integers], plans: Sequence[Plan], shape: PlannedTree, miss: float
) -> dict[str, Reading]:
    """Reads HATs of one tree, as columns of all of them."""
    of = _Hats.of(released, plans, shape)
    widths, own = readings.standard_errors(miss), law(*shape)
    half = widths * (of.size[:, None] * own.prefix_sd()) + (of.bias + of.rounding)[:, None]
    cdf = consistent(of.raw)
    outputs = {"cdf": _around(cdf, readings.cdf_interval(of.raw, half))}
    for name, level in QUANTILES.items():
        value = readings.quantile(cdf, level)
        between = of.in_units(readings.quantile_interval(of.raw, half, level), of.grid / 2)
        outputs[name] = _around(value * of.width, between)
    outputs["mean"] = _mean(of, cdf, own, widths)
    outputs["variance"] = _variance(of, cdf, own, readings.standard_errors(miss / 2))
    return outputs


class _Hats(NamedTuple):
    """HATs of one tree. raw: unbiased shares, float64 (HATs, K - 1). The others float64 (HATs,): size of the noise in
    the law's unit, bias and rounding of a share, U, width of a bin and grid step in units."""

    raw: Float64s
    size: Float64s
    bias: Float64s
    rounding: Float64s
    upper: Float64s
    width: Float64s
    grid: Float64s

    @classmethod
    def of(cls, released: Sequence[Integers], plans: Sequence[Plan], shape: PlannedTree) -> "_Hats":
        columns = [
            (size_of(p), p.bias_bound, p.rounding, upper_of(p), float(p.facts["total"]), p.facts["upper_steps"])
            for p in plans
        ]
        size, bias, rounding, upper, total, steps = np.array(columns, np.float64).reshape(-1, 6).T
        noisy = np.array(released, np.float64).reshape(-1, shape.tree.nodes)
        raw = cumulative(noisy, total, *shape) / total[:, None]
        return cls(raw, size, bias, rounding, upper, upper / shape.tree.bins, upper / steps)

    def in_units(self, between: Between, margin: Float64s) -> Between:
        """Turns an interval in bins into one in units, wider by `margin`, within [0, U]."""
        low, high = between.low * self.width - margin, between.high * self.width + margin
        return Between(np.maximum(low, 0.0), np.minimum(high, self.upper))


def _around(value: Float64s, interval: Between) -> Reading:
    """Widens the interval of the unbiased estimate where consistency moved the value out of it."""
    return Reading(value, np.minimum(interval.low, value), np.maximum(interval.high, value))


def _mean(hats: _Hats, cdf: Float64s, law_of_tree: Law, widths: float) -> Reading:
    """Reads the mean with its interval.

    A share t of misplaced weight moves a mean by at most U t; the middle of its bin, a sample by half a width.
    """
    between = readings.mean_interval(hats.raw, law_of_tree, hats.size, widths)
    more = hats.upper * hats.bias + hats.upper * hats.rounding + (hats.width + hats.grid) / 2
    return _around(readings.mean(cdf) * hats.width, hats.in_units(between, more))


def _variance(hats: _Hats, cdf: Float64s, law_of_tree: Law, widths: float) -> Reading:
    """Reads the variance with its interval.

    A share t of misplaced weight moves a variance by at most U^2 t (1 - t), or U^2 / 4 from t = 1/2 on; moving every
    sample by at most e moves it by at most U e + e^2.
    """
    most = hats.upper**2 / 4
    share = np.minimum(hats.bias, 0.5)
    bias = hats.upper**2 * share * (1 - share)
    between = readings.variance_interval(hats.raw, law_of_tree, hats.size, widths)
    moved = (hats.width + hats.grid) / 2
    more = bias + hats.upper * moved + moved**2 + hats.upper**2 * hats.rounding
    low = np.maximum(between.low * hats.width**2 - more, 0.0)
    high = np.minimum(between.high * hats.width**2 + more, most)
    return _around(readings.variance(cdf) * hats.width**2, Between(low, high))
