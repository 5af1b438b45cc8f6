"""Worst-case-optimal means of vectors: samples in the simplex {x >= 0, |x|_1 <= U} or in the cube [0, U]^d.

Source: S4 sections on d >= 2; the cube's rank is ceil(2 d / epsilon) for a total epsilon (erratum E4).
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from dpops.mechanism import check_plan_input
from dpops.noise import Noise
from dpops.types import Grid, Int64s


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorPlan:
    """The public plan of one vector release. bound: T, in grid steps. sensitivity: in l1, of one user.

    step: units per step of the noisy integers; scale: of the noise of each coordinate, in these steps. error: worst
    bias plus expected noise, in units: of the l1 distance in the simplex, of each coordinate in the cube.
    """

    domain: Literal["simplex", "cube"]
    epsilon: Fraction
    dimension: int
    bound: int
    upper_steps: int
    samples: int
    sensitivity: int
    scale: Fraction
    step: Fraction
    error: Fraction


def plan_vectors(
    domain: Literal["simplex", "cube"], counts: Int64s, dimension: int, grid: Grid, epsilon: Fraction
) -> VectorPlan:
    """T is the k-th largest U m, k = ceil(2 d / epsilon), or 0 where there are fewer users.

    counts: int64 (users,), each >= 1. dimension: d >= 1. epsilon: of the whole vector.
    Raises ValueError for what no plan can be made for.
    """
    if dimension < 1:
        raise ValueError(f"dimension must be at least 1, got {dimension}")
    check_plan_input(counts, int(counts.sum()), 2 * grid.upper_steps, epsilon)
    rank = math.ceil(2 * dimension / epsilon)
    bound = grid.upper_steps * int(np.sort(counts)[-rank]) if rank <= counts.size else 0
    samples = int(counts.sum())
    over = Fraction(int(np.maximum(counts * grid.upper_steps - bound, 0).sum()))
    if domain == "simplex":
        # scaled towards 0: l1 bias `over`, l1 sensitivity 2 T
        sensitivity, step = 2 * bound, grid.step / samples
        error = (over + dimension * Fraction(sensitivity) / epsilon) * step
    else:
        # half steps, as in one dimension; each of the d coordinates moves by at most 2 T half steps
        sensitivity, step = 2 * bound * dimension, grid.step / (2 * samples)
        error = (over + Fraction(sensitivity) / epsilon) * step
    return VectorPlan(
        domain=domain,
        epsilon=epsilon,
        dimension=dimension,
        bound=bound,
        upper_steps=grid.upper_steps,
        samples=samples,
        sensitivity=sensitivity,
        scale=sensitivity / epsilon,
        step=step,
        error=error,
    )


def release_vectors(counts: Int64s, sums: Int64s, plan: VectorPlan, noise: Noise) -> list[int]:
    """Noisy integers, one per coordinate. sums: int64 (users, d), of the samples' grid steps.

    Every sample stands at its user's mean. Raises ValueError for sums that no samples of the domain have.
    """
    top = counts * plan.upper_steps
    reach = sums.sum(axis=1) if plan.domain == "simplex" else sums.max(axis=1)
    fits = sums.shape == (counts.size, plan.dimension) and int(counts.sum()) == plan.samples
    if not fits or np.any(sums < 0) or np.any(reach > top):
        raise ValueError("sums do not fit the plan: other users or dimensions, or outside the domain")
    if plan.domain == "simplex":
        length = np.maximum(reach, 1)[:, None]
        # A user's sum s becomes s T / |s|_1 where that is shorter, rounded down; Python integers, for the products.
        scaled = (sums.astype(object) * plan.bound // length).astype(np.int64)
        kept = np.where(reach[:, None] > plan.bound, scaled, sums)
    else:
        kept = np.clip(2 * sums, (top - plan.bound)[:, None], (top + plan.bound)[:, None])
    drawn = noise.laplace([plan.scale] * plan.dimension)
    return [exact + z for exact, z in zip(kept.sum(axis=0).tolist(), drawn.tolist(), strict=True)]
