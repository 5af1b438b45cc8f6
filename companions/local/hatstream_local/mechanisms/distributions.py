"""Estimates the distribution behind reports: maximum likelihood or EMS."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hatstream_local.mechanisms.aggregate import Evaluation, ReportRows
from hatstream_local.mechanisms.mechanism import Float64s

TOLERANCE = 1e-9
_MOST_STEPS = 200
_SMALLEST = 1e-15
"""Smallest share: beside it the differences that make up a Hessian keep their digits."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """Estimated distribution; shares: (buckets,), >= 0 with sum 1.

    log_likelihood: per user, up to a constant. gap: the method's convergence gap, which decides `converged`.
    """

    shares: Float64s
    log_likelihood: float
    gap: float
    steps: int
    converged: bool


def maximum_likelihood(rows: ReportRows) -> Distribution:
    """Maximises the likelihood by sequential quadratic programming; EM's limit.

    gap: largest gradient - 1, in nats per user (see `Evaluation`): no distribution is likelier by more. It has no scale
    of its own: the same for any number of users. Where several distributions are likeliest (reports by stochastic
    rounding, SR, alone identify the mean only) one with few atoms is returned. Source: Kim, Carbonetto, Stephens,
    Anitescu 2020, "A Fast Algorithm for Maximum Likelihood Estimation of Mixture Proportions Using Sequential Quadratic
    Programming".
    """
    shares = np.full(rows.buckets, 1 / rows.buckets)  # of users whose value lies in each bucket: uniform at first
    here = rows.evaluate(shares)
    start = np.zeros(rows.buckets)  # of the quadratic solver: empty at first, later the last iterate
    for step in range(_MOST_STEPS):
        if here.gap <= TOLERANCE:
            return Distribution(shares, here.log_likelihood, here.gap, step, converged=True)
        target = _best_quadratic(here, shares, start)
        shares, values = _line_search(rows, shares, target, here)
        if values is here:
            break
        here, start = values, shares
    return Distribution(shares, here.log_likelihood, here.gap, step, converged=False)


def smoothed(rows: ReportRows, tolerance: float = TOLERANCE) -> Distribution:
    """Solves for the fixed point of EMS: an EM step, then smoothing.

    Smoothing is by (1, 2, 1) / 4, at the ends by (2, 1) / 3. EMS needs thousands of steps; here each is an implicit
    step of growing length, in the logarithms of the shares. gap: mass that the next Newton step would move.
    Source: Silverman et al. 1990, "A Smoothed EM Approach"; steps: Kelley, Keyes 1998, pseudo-transient continuation.
    """
    shares = np.full(rows.buckets, 1 / rows.buckets)
    length, last_distance = 1e3, np.inf
    for step in range(_MOST_STEPS):
        here = rows.evaluate(shares)
        moved = smooth(shares * here.gradient)
        total = moved.sum()
        image = np.maximum(moved / total, _SMALLEST)
        derivative = smooth(np.diag(here.gradient) - shares[:, None] * here.curvature) / total
        derivative -= np.outer(image, derivative.sum(axis=0))
        change = derivative * shares / image[:, None]  # of logarithms, by those of the shares
        distance = float(np.abs(image - shares).sum())
        length = length * 10 if distance < last_distance else length / 4
        last_distance = distance
        move = np.linalg.solve((1 + 1 / length) * np.eye(shares.size) - change, np.log(image / shares))
        gap = float(np.abs(move) @ shares)
        if gap <= tolerance:
            return Distribution(shares, here.log_likelihood, gap, step, converged=True)
        shares = shares * np.exp(move.clip(-2, 2))
        shares = np.maximum(shares / shares.sum(), _SMALLEST)
    return Distribution(shares, here.log_likelihood, gap, step, converged=False)


def smooth(columns: Float64s) -> Float64s:
    """Smooths shares along the first axis, without normalising."""
    out = columns / 2
    out[1:] += columns[:-1] / 4
    out[:-1] += columns[1:] / 4
    out[0] = (2 * columns[0] + columns[1]) / 3
    out[-1] = (2 * columns[-1] + columns[-2]) / 3
    return out


def _line_search(rows: ReportRows, shares: Float64s, target: Float64s, here: Evaluation) -> tuple[Float64s, Evaluation]:
    """Halves the step towards `target` until the likelihood rises enough; returns `here` if never."""
    slope = float((here.gradient - 1) @ (target - shares))
    part = 1.0
    while part > 1e-6:
        trial = shares + part * (target - shares)
        trial /= trial.sum()
        values = rows.evaluate(trial)
        if values.log_likelihood >= here.log_likelihood + 1e-4 * part * slope - 1e-15:
            return trial, values
        part /= 2
    return shares, here


def _best_quadratic(here: Evaluation, shares: Float64s, start: Float64s) -> Float64s:
    """Minimises the quadratic model of -log-likelihood + sum(y), y >= 0, with a ridge.

    An active set grows by the local minima of the slope and shrinks by what turns negative (Lawson, Hanson 1974).
    """
    ridge = 1e-9 * float(np.trace(here.curvature)) / shares.size
    matrix = here.curvature + ridge * np.eye(shares.size)
    linear = 1 - 2 * here.gradient - ridge * shares
    target, free = start.copy(), start > 1e-12
    target[~free] = 0
    tolerance = max(here.gap / 100, 1e-14)
    if free.any():
        _settle(matrix, linear, target, free)
    for _ in range(_MOST_STEPS):
        slope = matrix[:, free] @ target[free] + linear
        values = np.where(free, 0.0, slope)
        padded = np.concatenate([[np.inf], values, [np.inf]])
        enter = ((values <= padded[:-2]) & (values <= padded[2:])) & (slope < -tolerance) & ~free
        if not enter.any():
            break
        free |= enter
        _settle(matrix, linear, target, free)
    return target


def _settle(matrix: Float64s, linear: Float64s, target: Float64s, free: NDArray[np.bool_]) -> None:
    """Minimises over free coordinates in place; fixes negative ones."""
    while free.any():
        places = np.flatnonzero(free)
        best = np.linalg.solve(matrix[np.ix_(places, places)], -linear[places])
        if (best > 0).all():
            target[places] = best
            return
        now, falling = target[places], best <= 0
        reach = np.where(falling, now / np.where(falling, now - best, 1.0), np.inf)
        part = float(reach.min())
        target[places] = np.where(reach <= part, 0.0, now + part * (best - now))
        free[places[reach <= part]] = False
