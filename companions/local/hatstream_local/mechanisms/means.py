"""Mean over users from several services' local reports."""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from hatstream_local.mechanisms.aggregate import middles, spans_of
from hatstream_local.mechanisms.kinds import StochasticRounding, Window
from hatstream_local.mechanisms.mechanism import Float64s, LocalMechanism, Reports

Method = Literal["fixed", "ua", "uwa"]
METHODS: tuple[Method, ...] = get_args(Method)

GRID = 100
"""Values of UWA's prior, equally likely: the middles of so many buckets, as in the code of the method's authors."""
_USERS_AT_ONCE = 1 << 12  # users of a chunk: its matrices of GRID values, 3 MB each, stay in the cache
_THREADS = 2
_FEW_USERS = 30  # below that many users the spread among them is no measure of the noise


@dataclass(frozen=True, slots=True)
class FusedMean:
    """Estimated mean over users, in the common domain."""

    value: float
    standard_error: float  # upper bound around these users' true mean, without UWA's bias
    users: int  # with a report


def fused_mean(reports: Reports, method: Method) -> FusedMean:
    """Averages `per_user` over users. Raises ValueError without any report.

    The standard error is the smaller of two bounds: the noise at the value where it is largest, and (from 30 users on)
    the spread of the users' estimates, which holds the noise and the differences between users.
    """
    estimates = per_user(reports, method)
    answers = ~np.isnan(estimates)
    users = int(answers.sum())
    if not users:
        raise ValueError("a fused mean needs at least one report")
    worst = _worst_variance(reports, method, answers)
    variance = float(np.var(estimates[answers], ddof=1)) if users >= _FEW_USERS else math.inf
    return FusedMean(float(estimates[answers].mean()), math.sqrt(min(worst, variance) / users), users)


def per_user(reports: Reports, method: Method) -> Float64s:
    """Estimates users' values from reports; NaN without any.

    ua: the mean of unbiased reports. fixed: weights 1 / variance under a uniform prior, the same for all reports, so
    the estimate is unbiased. uwa: weights 1 / variance under the posterior; biased for that (algorithms 12.3).
    """
    if method == "uwa":
        return _weighted(reports, lambda part: 1 / posterior_variances(part))
    weights = fixed_weights(reports) if method == "fixed" else np.ones(len(reports.services))
    return _weighted(reports, lambda _: weights[:, None])


def fixed_weights(reports: Reports) -> Float64s:
    """Weighs services by mean inverse variance: (services,), sum 1."""
    return _weights(tuple(service.mechanism for service in reports.services))


@lru_cache(maxsize=1024)
def _weights(mechanisms: Sequence[LocalMechanism]) -> Float64s:
    """Computes weights once for each set of services: many groups share few sets."""
    typical = np.array(1 / math.sqrt(3))  # variances are affine in v^2, whose mean under the uniform prior is 1/3
    inverse = np.array([1 / float(mechanism.variance(typical)) for mechanism in mechanisms])
    shares: Float64s = np.asarray(inverse / inverse.sum())
    shares.flags.writeable = False  # all callers get one array
    return shares


def posterior_variances(reports: Reports) -> Float64s:
    """Averages variances over users' posteriors: (services, users).

    Source: Ye et al. 2025, "Privacy for Free", Algorithm 2, with weights that sum to 1, and densities throughout.
    """
    deviation = np.sqrt(second_moments(reports))  # as a value: variances are affine in v^2
    return np.stack([service.mechanism.variance(deviation) for service in reports.services])


def second_moments(reports: Reports) -> Float64s:
    """Computes E[v^2 | reports] under a uniform prior: (users,).

    All variances are affine in v^2, so this one moment is all that UWA's weights need.
    """
    values, bucket = middles(GRID)[:, None], np.arange(GRID)[:, None]
    log_likelihood = np.zeros((GRID, reports.users))
    for service, row in zip(reports.services, reports.values, strict=True):
        mechanism, answered = service.mechanism, ~np.isnan(row)
        # Terms that are the same for all values are left out: they cancel below.
        if isinstance(mechanism, Window):  # by buckets: at a large epsilon a window may lie between two values
            first, last = spans_of(mechanism, row, GRID)
            log_likelihood += mechanism.epsilon * ((first <= bucket) & (bucket < last))
        elif isinstance(mechanism, StochasticRounding):
            sides = np.array([mechanism.low, mechanism.high])
            log_likelihood += (mechanism.log_density(sides, values))[:, (row > 0).astype(np.intp)] * answered
        else:
            log_likelihood += mechanism.log_density(np.nan_to_num(row), values) * answered
    likelihood = np.exp(log_likelihood - log_likelihood.max(axis=0))
    return np.asarray(values[:, 0] ** 2 @ likelihood / likelihood.sum(axis=0))


def _weighted(reports: Reports, weights_of: Callable[[Reports], Float64s]) -> Float64s:
    """Averages users' unbiased reports, (users,), by weights of chunks, (services, users)."""
    starts = range(0, reports.users, _USERS_AT_ONCE)

    def estimate(start: int) -> Float64s:
        """Averages the reports of the users from `start` on, up to _USERS_AT_ONCE of them."""
        chunk = Reports(reports.services, reports.values[:, start : start + _USERS_AT_ONCE])
        answered = ~np.isnan(chunk.values)
        pairs = zip(chunk.services, chunk.values, strict=True)
        unbiased = np.stack([service.mechanism.unbiased(row) for service, row in pairs])
        weights = answered * weights_of(chunk)
        with np.errstate(invalid="ignore"):  # 0 / 0 is NaN, for a user without any report
            return np.asarray((weights * np.where(answered, unbiased, 0)).sum(axis=0) / weights.sum(axis=0))

    if len(starts) == 1:  # threads take longer to start than a few users
        return estimate(start=0)
    with ThreadPoolExecutor(_THREADS) as pool:
        parts = list(pool.map(estimate, starts))
    return np.concatenate(parts) if parts else np.zeros(0)


def _worst_variance(reports: Reports, method: Method, answers: NDArray[np.bool_]) -> float:
    """Averages the noise variance of users' estimates, for values at which it is largest.

    A UWA estimate lies between the unbiased reports, so the sum of their variances bounds its mean square error.
    answers: (users,), whether a user has a report.
    """
    answered = ~np.isnan(reports.values[:, answers])
    ends = np.array([0.0, 1.0])  # variances are affine in v^2: largest at either end of its range
    variances = np.stack([service.mechanism.variance(ends) for service in reports.services])
    if method == "uwa":
        return float((answered.T @ variances).mean(axis=0).max())
    weights = fixed_weights(reports) if method == "fixed" else np.ones(len(reports.services))
    shares = answered * weights[:, None]
    shares /= shares.sum(axis=0)
    return float(((shares**2).T @ variances).mean(axis=0).max())
