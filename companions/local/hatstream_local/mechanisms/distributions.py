"""Estimates the distribution behind reports: maximum likelihood or EMS."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hatstream_local.mechanisms.aggregate import Evaluation, ReportRows
from hatstream_local.mechanisms.mechanism import Float64s

TOLERANCE = 1e-9  # largest gap of a converged distribution
_MOST_STEPS = 200
_ARMIJO, _SHORTEST_STEP, _ROUNDING = 1e-4, 1e-6, 1e-15
"""Of a line search: share of the promised rise that must come; part of a step that is given up; error of a sum."""
_SMALLEST_SHARE = 1e-15  # smallest share: beside it the differences that make up a Hessian keep their digits


@dataclass(frozen=True, slots=True)
class Distribution:
    """Estimated distribution."""

    shares: Float64s  # (buckets,), >= 0 with sum 1
    log_likelihood: float  # per user, up to a constant
    gap: float  # distance from the method's solution, which decides `converged`
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
    point = rows.evaluate(shares)
    start = np.zeros(rows.buckets)  # of the quadratic solver: empty at first, later the last iterate
    for step in range(_MOST_STEPS):
        if point.gap <= TOLERANCE:
            return Distribution(shares, point.log_likelihood, point.gap, step, converged=True)
        target = _best_quadratic(point, shares, start)
        shares, values = _line_search(rows, shares, target, point)
        if values is point:  # no step helps any more
            break
        point, start = values, shares
    return Distribution(shares, point.log_likelihood, point.gap, step, converged=False)


def smoothed(rows: ReportRows, tolerance: float = TOLERANCE) -> Distribution:
    """Solves for the fixed point of EMS: an EM step, then smoothing.

    Smoothing is by (1, 2, 1) / 4, at the ends by (2, 1) / 3. EMS needs thousands of steps; here each is an implicit
    step of growing length, in the logarithms of the shares. gap: mass that the next Newton step would move.
    Source: Silverman et al. 1990, "A Smoothed EM Approach"; steps: Kelley, Keyes 1998, pseudo-transient continuation.
    """
    shares = np.full(rows.buckets, 1 / rows.buckets)
    # Length of an implicit step: at an infinite one it is Newton's. It grows tenfold while the error falls.
    length, last_distance = 1e3, np.inf
    for step in range(_MOST_STEPS):
        here = rows.evaluate(shares)
        moved = smooth(shares * here.gradient)  # one step of EM, smoothed
        total = moved.sum()
        image = np.maximum(moved / total, _SMALLEST_SHARE)
        # The derivative of `image` by the shares; as it is divided by its total, the sum is taken off.
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
        shares = shares * np.exp(move.clip(-2, 2))  # no share grows or shrinks by more than e^2 in a step
        shares = np.maximum(shares / shares.sum(), _SMALLEST_SHARE)
    return Distribution(shares, here.log_likelihood, gap, step, converged=False)


def smooth(columns: Float64s) -> Float64s:
    """Smooths along the first axis with the weights that `smoothed` names."""
    result = columns / 2
    result[1:] += columns[:-1] / 4
    result[:-1] += columns[1:] / 4
    result[0] = (2 * columns[0] + columns[1]) / 3
    result[-1] = (2 * columns[-1] + columns[-2]) / 3
    return result


def _line_search(rows: ReportRows, shares: Float64s, goal: Float64s, point: Evaluation) -> tuple[Float64s, Evaluation]:
    """Halves the step from `shares` to `goal` until the likelihood rises enough."""
    slope = float((point.gradient - 1) @ (goal - shares))  # 1 is the gradient of sum(y), which holds the sum at 1
    step_length = 1.0
    while step_length > _SHORTEST_STEP:
        trial = shares + step_length * (goal - shares)
        trial /= trial.sum()
        values = rows.evaluate(trial)
        if values.log_likelihood >= point.log_likelihood + _ARMIJO * step_length * slope - _ROUNDING:
            return trial, values
        step_length /= 2
    return shares, point  # it never does


def _best_quadratic(point: Evaluation, shares: Float64s, start: Float64s) -> Float64s:
    """Minimises the quadratic model of -log-likelihood + sum(y), y >= 0, at `shares`.

    Free coordinates may be above 0: one is freed where its slope is below 0 and least among its neighbours, which fit
    as well, until it turns negative: an active set (Lawson, Hanson 1974). point: derivatives. start: a guess of y.
    """
    ridge = 1e-9 * float(np.trace(point.curvature)) / shares.size  # reports may not tell two buckets apart
    matrix = point.curvature + ridge * np.eye(shares.size)
    linear = 1 - 2 * point.gradient - ridge * shares  # a mixture's curvature @ shares is its gradient: hence twice
    target, free = start.copy(), start > 1e-12  # y; smaller shares are 0 but for rounding
    target[~free] = 0
    tolerance = max(point.gap / 100, 1e-14)  # a hundredth of the error that this step is to remove
    if free.any():
        _minimise_free(matrix, linear, target, free)  # changes the last two
    for _ in range(_MOST_STEPS):
        slope = matrix[:, free] @ target[free] + linear  # the model's gradient: the other coordinates of y are 0
        values = np.where(free, 0.0, slope)
        padded = np.concatenate([[np.inf], values, [np.inf]])  # both ends may be local minima
        enter = ((values <= padded[:-2]) & (values <= padded[2:])) & (slope < -tolerance) & ~free
        if not enter.any():
            break
        free |= enter
        _minimise_free(matrix, linear, target, free)
    return target


def _minimise_free(matrix: Float64s, linear: Float64s, target: Float64s, free: NDArray[np.bool_]) -> None:
    """Minimises the quadratic function over free coordinates of `target`; changes both in place.

    It is y @ matrix @ y / 2 + linear @ y. target (y), free: (buckets,); what would turn negative is set to 0, not free.
    """
    while free.any():
        indices = np.flatnonzero(free)
        best = np.linalg.solve(matrix[np.ix_(indices, indices)], -linear[indices])
        if (best > 0).all():
            target[indices] = best
            return
        current, is_negative = target[indices], best <= 0
        # Part of the way to `best` at which each coordinate reaches 0: the nearest one ends the step.
        reach = np.where(is_negative, current / np.where(is_negative, current - best, 1.0), np.inf)
        step_length = float(reach.min())
        target[indices] = np.where(reach <= step_length, 0.0, current + step_length * (best - current))
        free[indices[reach <= step_length]] = False
