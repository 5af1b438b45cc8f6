"""Plans, noisy nodes and readings of a HAT's tree.

A HAT's samples are counted in K bins of equal width over [0, U]. Released are the noisy masses of all nodes of a tree
over these bins, level by level; every reading (shares, quantiles, mean, variance) is post-processing of them. A user's
mass is its weight there, in units of 1 / UNITS_PER_SAMPLE sample; `total` is a HAT's. Errors, biases and rounding are
of shares of it below bins' edges. A shape is a tree with its levels' shares of epsilon. `law(*shape)` is the noise that
`cumulative` leaves in such shares, for mass and epsilon 1; `consistent` makes them a distribution function.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, lru_cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from dpops.forecast import Prior, transport_bias
from dpops.mechanism import Plan, PlanError, check_plan_input, facts_of, full_plan
from dpops.trees.readings import consistent, cumulative, law
from dpops.trees.shape import Tree, best_shares, best_tree
from dpops.types import CountsKnown, Float64s, Grid, Int64s

UNITS_PER_SAMPLE = 1 << 10  # units of mass per sample; a capped user's distribution is rounded to units


def weighted_leaves(histograms: Int64s, counts: Int64s, masses: Int64s, start: Int64s) -> Int64s:
    """Sums users' histograms, scaled to masses, int64 (HATs, K).

    histograms: int64 (users, K), non-negative, with the sums `counts`, c, each >= 1; start: first user of each HAT. A
    cumulative histogram is scaled by M / c, M its mass, and rounded down: it ends at M and never falls, so bins are
    non-negative and add up to M, whatever the values. So two users' differ by at most 2 M in l1, at the leaves and at
    every level above: rounding adds nothing to the sensitivity. Prefixes lose less than one unit a user.
    Raises ValueError for histograms of other sums, or masses whose products would not fit into 64 bits.
    """
    if histograms.size and (histograms.min() < 0 or counts.min() < 1):
        raise ValueError("a histogram has a negative bin, or a user no sample")
    if np.any(histograms.sum(axis=1) != counts):
        raise ValueError("the histograms do not have as many samples as were counted")
    if counts.size and int(counts.max()) * int(masses.max()) >= 1 << 62:
        raise ValueError("these counts are beyond the checked integer bounds (2**62)")
    scaled = np.cumsum(histograms, axis=1)
    plain, factor = masses % counts == 0, masses // counts  # whole factors multiply faster than each bin is divided
    scaled[plain] *= factor[plain, None]
    scaled[~plain] = scaled[~plain] * masses[~plain, None] // counts[~plain, None]
    return np.diff(np.add.reduceat(scaled, start, axis=0), prepend=0, axis=1)


DEFAULT_BINS = 65  # of 1 km/h each where U is 65 km/h


@dataclass(frozen=True, slots=True, kw_only=True)
class TreePlan(Plan):
    """Plan whose units are shares; masses: int64 (users,)."""

    masses: Int64s = field(repr=False, compare=False)

    def error(self) -> float:
        """Forecasts a share's mean absolute error at worst bias."""
        return min(1.0, self.bias_bound + scale_of(self) * share_error(shape_of(self)))


class PlannedTree(NamedTuple):
    """A plan's tree, with its levels' shares of epsilon."""

    tree: Tree
    shares: tuple[Fraction, ...]


@cache
def share_error(shape: PlannedTree) -> float:
    """Averages E|noise| of shares over inner edges, for mass and epsilon 1."""
    sds = law(*shape).prefix_sd()
    return float(sds.mean()) / math.sqrt(2) if sds.size else 0.0  # approximately: E|noise| as of one Laplace draw


@cache
def best_shape(bins: int) -> PlannedTree:
    """Chooses the tree of least error and its budgets."""
    tree = best_tree(bins)
    return PlannedTree(tree, best_shares(tree))


def check_counts(hat: CountsKnown, grid: Grid, epsilon: Fraction) -> None:
    """Raises PlanError unless counts times masses, for `weighted_leaves`, stay below 2**62."""
    check_plan_input(*hat, grid.upper_steps, epsilon)
    heaviest = int(hat.counts.max())  # samples; the mass is UNITS_PER_SAMPLE times as many at most
    if heaviest**2 * UNITS_PER_SAMPLE >= 1 << 62:
        raise PlanError(f"a user of {heaviest} samples is beyond the checked integer bounds (2**62)")


def tree_plan(
    mechanism: str, hat: CountsKnown, grid: Grid, epsilon: Fraction, bins: int, masses: Int64s, facts: Mapping[str, int]
) -> TreePlan:
    """Plans a tree; a user's mass may change bins: sensitivity is 2 max(masses).

    masses: int64 (users,), to which histograms are scaled, in units. bias_bound: part of the mass that is misplaced.
    rounding: a user's histogram, cut to units, loses less than one from each prefix. facts: the mechanism's own.
    """
    max_mass, total = int(masses.max()), int(masses.sum())
    shape = best_shape(bins)
    on_grid = {"grid_numerator": grid.step.numerator, "grid_denominator": grid.step.denominator}
    return TreePlan(
        mechanism=mechanism,
        epsilon=epsilon,
        step=Fraction(1, total),
        scale=2 * max_mass / (epsilon * min(shape.shares)),  # of the level with the least epsilon
        upper=Fraction(1),
        bias_bound=transport_bias(masses / total, hat.counts / hat.reported),
        sensitivity=2 * max_mass,
        rounding=hat.counts.size / total,
        facts={**facts_of(hat, grid), **on_grid, "total": total, **facts, **stored(shape)},
        masses=masses,
    )


def shape_of(plan: Plan) -> PlannedTree:
    """Reads a plan's tree from its facts, as `stored` writes them."""
    facts = plan.facts
    depths = range(1, facts["levels"] + 1)
    factors, numerators = (tuple(facts[f"{name}_{depth}"] for depth in depths) for name in ("factor", "share"))
    return _shape(facts["bins"], factors, numerators, denominator=facts["share_whole"])  # shares of one denominator


@cache
def _shape(bins: int, factors: tuple[int, ...], numerators: tuple[int, ...], denominator: int) -> PlannedTree:
    return PlannedTree(Tree(bins, factors), tuple(Fraction(numerator, denominator) for numerator in numerators))


@cache
def stored(shape: PlannedTree) -> Mapping[str, int]:
    """Writes a tree and its budgets as plan facts."""
    denominator = math.lcm(*(share.denominator for share in shape.shares))
    facts = {"bins": shape.tree.bins, "levels": len(shape.shares), "share_whole": denominator}
    for level, (factor, share) in enumerate(zip(shape.tree.branching, shape.shares, strict=True), start=1):
        facts |= {f"factor_{level}": factor, f"share_{level}": int(share * denominator)}
    return facts


def scale_of(plan: Plan) -> float:
    """Computes the scale of shares' noise, over that of mass and epsilon 1."""
    return plan.sensitivity / 2 / plan.facts["total"] / float(plan.epsilon)  # sensitivity: 2 max(masses)


def forecast_share_error(plan: Plan, counts: Int64s, prior: Prior) -> float:
    """Forecasts a share's absolute error by prior; counts: (users,)."""
    tree, level_shares = shape_of(plan)
    if tree.bins == 1:
        return 0.0
    upper = upper_of(plan)
    # Simulated errors, interpolated between NOISE_SCALES (1e-12: no log of 0); then the bias of misplaced weight, of a
    # share F with variance F (1 - F), whose mean absolute value is sqrt(2 / pi) of its standard deviation.
    log_scale = np.log(np.clip(scale_of(plan), NOISE_SCALES[0], NOISE_SCALES[-1]))
    log_errors = np.log(np.maximum(_share_errors(tree, level_shares, prior.mean, prior.sd, upper), 1e-12))
    noise = float(np.exp(np.interp(log_scale, np.log(NOISE_SCALES), log_errors)))
    expected = expected_cdfs(tree.bins, prior.mean, prior.sd, upper)
    weights = full_plan(plan, TreePlan).masses / plan.facts["total"]
    unit_sd = prior._replace(sd=1.0).spread(weights - counts / plan.facts["samples"], counts)  # of samples of sd 1
    bias = unit_sd * float(np.sqrt(expected * (1 - expected)).mean()) * math.sqrt(2 / math.pi)
    return math.hypot(noise, bias)


def upper_of(plan: Plan) -> float:
    """Computes U in units."""
    return plan.facts["upper_steps"] * plan.facts["grid_numerator"] / plan.facts["grid_denominator"]


NOISE_SCALES = np.geomspace(1e-6, 100.0, 65)  # as of `scale_of`; errors at these are simulated, others interpolated

_PRIOR_DRAWS = 48  # of the noise, for each size and each likely distribution


@lru_cache(maxsize=16)
def expected_cdfs(bins: int, prior_mean: float, prior_sd: float, upper: float) -> Float64s:
    """Lists equally likely distribution functions at bins' inner edges, (functions, bins - 1)."""
    edges = (np.arange(1, bins) * upper / bins).tolist()
    means = Prior(prior_mean, prior_sd).hat_means(upper).tolist()  # equally likely ones of a HAT
    return np.array([[NormalDist(mean, prior_sd).cdf(edge) for edge in edges] for mean in means]).reshape(-1, bins - 1)


@lru_cache(maxsize=16)
def _share_errors(tree: Tree, level_shares: tuple[Fraction, ...], mean: float, sd: float, upper: float) -> Float64s:
    """Simulates shares' mean errors at NOISE_SCALES; mean, sd: prior."""
    cases = expected_cdfs(tree.bins, mean, sd, upper)  # true ones, (cases, bins - 1)
    uniform = np.random.default_rng(1).random((_PRIOR_DRAWS, tree.nodes)) - 0.5  # a fixed seed: forecasts repeat
    # By the inverse of Laplace's distribution function: of scale 1, variance 2. The root's count is exact: 0 of noise.
    laplace = -np.sign(uniform) * np.log1p(-2 * np.abs(uniform))
    node_scales = np.sqrt(law(tree, level_shares).variances / 2)
    noise = cumulative(laplace * node_scales, total=0.0, tree=tree, shares=level_shares)
    true, noise = np.repeat(cases, _PRIOR_DRAWS, axis=0), np.tile(noise, (cases.shape[0], 1))
    return np.array([np.abs(consistent(true + scale * noise) - true).mean() for scale in NOISE_SCALES.tolist()])
