"""Estimates means and distributions from several services' local reports.

Values v lie in [-1, 1]. `reports.values` are raw, (services, users), NaN where missing; `unbiased` turns them into
estimates of v, whose variance is affine in v^2. Shares, (buckets,), are of users by bucket of values; `point` is an
`Evaluation`: the log-likelihood of all reports at some shares, its gradient, and its curvature, the negative Hessian.
The log-likelihood is per user, so shares @ gradient is 1: the multiplier of the constraint that shares sum to 1.
"""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from hatstream_local.mechanisms.aggregate import Evaluation, ReportRows, middles, spans_of
from hatstream_local.mechanisms.mechanism import Float64s, LocalMechanism, Reports, StochasticRounding, Window

Method = Literal["fixed", "ua", "uwa"]
METHODS: tuple[Method, ...] = get_args(Method)
GRID = 100
"""Values of UWA's prior, equally likely: the middles of so many buckets, as in the code of the method's authors."""
_USERS_AT_ONCE = 1 << 12  # users of a chunk: its matrices of GRID values, 3 MB each, stay in the cache


@dataclass(frozen=True, slots=True)
class FusedMean:
    """Estimated mean over users, in the common domain."""

    value: float
    standard_error: float  # upper bound around these users' true mean, without UWA's bias
    users: int  # with a report


def fused_mean(reports: Reports, method: Method) -> FusedMean:
    """Averages `per_user` over users. Raises ValueError without any report.

    The standard error, about these users' own mean, is the smaller of two bounds: the noise at the value where it is
    largest, and (from 30 users on) the spread of the users' estimates, which holds noise and differences of users.
    A UWA estimate lies between the unbiased reports, so the sum of their variances bounds its mean square error.
    """
    estimates = per_user(reports, method)
    answers = ~np.isnan(estimates)
    users = int(answers.sum())
    if not users:
        raise ValueError("a fused mean needs at least one report")
    has_report = ~np.isnan(reports.values[:, answers])  # (services, users)
    if method == "uwa":
        squares = has_report
    else:
        shares = has_report * _weights(reports, method)[:, None]
        squares = (shares / shares.sum(axis=0)) ** 2
    ends = np.array([0.0, 1.0])  # variances are affine in v^2: largest at either end of its range
    variances = np.stack([service.mechanism.variance(ends) for service in reports.services])
    noise = float((squares.T @ variances).mean(axis=0).max())  # (users, ends): mean of users, worse end
    spread = float(np.var(estimates[answers], ddof=1)) if users >= 30 else math.inf
    return FusedMean(float(estimates[answers].mean()), math.sqrt(min(noise, spread) / users), users)


def per_user(reports: Reports, method: Method) -> Float64s:
    """Estimates users' values from reports; NaN without any.

    ua: the mean of unbiased reports. fixed: weights 1 / variance under a uniform prior, the same for all reports, so
    the estimate is unbiased. uwa: weights 1 / variance under the posterior; biased for that (algorithms 12.3).
    """
    if method == "uwa":
        return _weighted(reports, lambda part: 1 / posterior_variances(part))
    weights = _weights(reports, method)
    return _weighted(reports, lambda _: weights[:, None])


def _weights(reports: Reports, method: Method) -> Float64s:
    """Weighs services, (services,), by mean inverse variance, or all alike."""
    mechanisms = tuple(service.mechanism for service in reports.services)
    return fixed_weights(mechanisms) if method == "fixed" else np.ones(len(mechanisms))


@lru_cache(maxsize=1024)  # many groups share few sets of services
def fixed_weights(mechanisms: Sequence[LocalMechanism]) -> Float64s:
    """Weighs mechanisms by mean inverse variance: (services,), sum 1."""
    typical = np.array(1 / math.sqrt(3))  # variances are affine in v^2, whose mean under the uniform prior is 1/3
    inverse = np.array([1 / float(mechanism.variance(typical)) for mechanism in mechanisms])
    shares: Float64s = np.asarray(inverse / inverse.sum())
    shares.flags.writeable = False  # all callers get one array
    return shares


def posterior_variances(reports: Reports) -> Float64s:
    """Averages variances over users' posteriors: (services, users).

    Source: Ye et al. 2025, "Privacy for Free", Algorithm 2, with weights that sum to 1, and densities throughout.
    """
    rms = np.sqrt(second_moments(reports))  # variances are affine in v^2, so their average is that at the rms
    return np.stack([service.mechanism.variance(rms) for service in reports.services])


def second_moments(reports: Reports) -> Float64s:
    """Computes E[v^2 | reports] under a uniform prior: (users,)."""
    values, bucket = middles(GRID)[:, None], np.arange(GRID)[:, None]  # a grid stands in for the integral over v
    log_likelihood = np.zeros((GRID, reports.users))
    for service, row in zip(reports.services, reports.values, strict=True):
        mechanism, has_report = service.mechanism, ~np.isnan(row)
        # Terms that are the same for all values are left out: they cancel below.
        if isinstance(mechanism, Window):  # by buckets: at a large epsilon a window may lie between two values
            first, last = spans_of(mechanism, row, GRID)
            log_likelihood += mechanism.epsilon * ((first <= bucket) & (bucket < last))
        elif isinstance(mechanism, StochasticRounding):
            sides = np.array([mechanism.low, mechanism.high])
            log_likelihood += (mechanism.log_density(sides, values))[:, (row > 0).astype(np.intp)] * has_report
        else:
            log_likelihood += mechanism.log_density(np.nan_to_num(row), values) * has_report
    likelihood = np.exp(log_likelihood - log_likelihood.max(axis=0))
    return np.asarray(values[:, 0] ** 2 @ likelihood / likelihood.sum(axis=0))


def _weighted(reports: Reports, weights_of: Callable[[Reports], Float64s]) -> Float64s:
    """Averages users' unbiased reports, (users,), by weights of chunks, (services, users)."""
    starts = range(0, reports.users, _USERS_AT_ONCE)

    def estimate(start: int) -> Float64s:
        """Averages the reports of the users from `start` on, up to _USERS_AT_ONCE of them."""
        chunk = Reports(reports.services, reports.values[:, start : start + _USERS_AT_ONCE])
        has_report = ~np.isnan(chunk.values)
        pairs = zip(chunk.services, chunk.values, strict=True)
        unbiased = np.stack([service.mechanism.unbiased(row) for service, row in pairs])
        weights = has_report * weights_of(chunk)
        with np.errstate(invalid="ignore"):  # 0 / 0 is NaN, for a user without any report
            return np.asarray((weights * np.where(has_report, unbiased, 0)).sum(axis=0) / weights.sum(axis=0))

    if len(starts) == 1:  # threads take longer to start than a few users
        return estimate(start=0)
    with ThreadPoolExecutor(2) as pool:
        parts = list(pool.map(estimate, starts))
    return np.concatenate(parts) if parts else np.zeros(0)


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
        shares, next_point = _line_search(rows, shares, target, point)
        if next_point is point:  # no step helps any more
            break
        point, start = next_point, shares
    return Distribution(shares, point.log_likelihood, point.gap, step, converged=False)


def smoothed(rows: ReportRows, tolerance: float = TOLERANCE) -> Distribution:
    """Solves for the fixed point of EMS: an EM step, then smoothing.

    EMS needs thousands of steps; here each is an implicit step of growing length, in the logarithms of the shares. gap:
    mass that the next Newton step would move.
    Source: Silverman et al. 1990, "A Smoothed EM Approach"; steps: Kelley, Keyes 1998, pseudo-transient continuation.
    """
    shares = np.full(rows.buckets, 1 / rows.buckets)
    # Length of an implicit step: at an infinite one it is Newton's. It grows tenfold while the error falls.
    length, last_distance = 1e3, np.inf
    for step in range(_MOST_STEPS):
        point = rows.evaluate(shares)
        em_shares = smooth(shares * point.gradient)  # one step of EM, smoothed
        total = em_shares.sum()
        image = np.maximum(em_shares / total, _SMALLEST_SHARE)
        # The derivative of `image` by the shares; as it is divided by its total, the sum is taken off.
        derivative = smooth(np.diag(point.gradient) - shares[:, None] * point.curvature) / total
        derivative -= np.outer(image, derivative.sum(axis=0))
        change = derivative * shares / image[:, None]  # of logarithms, by those of the shares
        distance = float(np.abs(image - shares).sum())
        length = length * 10 if distance < last_distance else length / 4
        last_distance = distance
        # Implicit Euler step of d log(shares) / dt = log(image / shares), linearized.
        move = np.linalg.solve((1 + 1 / length) * np.eye(shares.size) - change, np.log(image / shares))
        gap = float(np.abs(move) @ shares)
        if gap <= tolerance:
            return Distribution(shares, point.log_likelihood, gap, step, converged=True)
        shares = shares * np.exp(move.clip(-2, 2))  # no share grows or shrinks by more than e^2 in a step
        shares = np.maximum(shares / shares.sum(), _SMALLEST_SHARE)
    return Distribution(shares, point.log_likelihood, gap, step, converged=False)


def smooth(by_bucket: Float64s) -> Float64s:
    """Smooths the first axis, buckets, by (1, 2, 1)/4, at ends by (2, 1)/3."""
    result = by_bucket / 2  # shares, (buckets,), or their derivatives, (buckets, buckets)
    result[1:] += by_bucket[:-1] / 4
    result[:-1] += by_bucket[1:] / 4
    result[0] = (2 * by_bucket[0] + by_bucket[1]) / 3
    result[-1] = (2 * by_bucket[-1] + by_bucket[-2]) / 3
    return result


def _line_search(rows: ReportRows, shares: Float64s, goal: Float64s, point: Evaluation) -> tuple[Float64s, Evaluation]:
    """Halves the step from `shares` to `goal` until the likelihood rises enough."""
    # Rise for a full step, to first order. `goal` need not sum to 1, but trials are scaled to it: hence less 1.
    slope = float((point.gradient - 1) @ (goal - shares))
    step_length = 1.0
    while step_length > _SHORTEST_STEP:
        trial = shares + step_length * (goal - shares)
        trial /= trial.sum()
        values = rows.evaluate(trial)
        if values.log_likelihood >= point.log_likelihood + _ARMIJO * step_length * slope - _ROUNDING:
            return trial, values
        step_length /= 2
    return shares, point  # no step raises it enough


def _best_quadratic(point: Evaluation, shares: Float64s, start: Float64s) -> Float64s:
    """Minimises the quadratic model of -log-likelihood + sum(y), y >= 0, at `shares`.

    An active set (Lawson, Hanson 1974): all coordinates but free ones are 0. One becomes free if its slope is below 0
    and the least among its neighbours, which fit nearly as well; it is free until it would turn negative. point:
    derivatives at `shares`. start: a guess of y.
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
