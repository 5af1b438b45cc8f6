"""Computes posterior second moments of users' values on a grid, which UWA weighs by."""

import numpy as np

from hatstream_local.mechanisms.aggregate import middles, spans_of
from hatstream_local.mechanisms.mechanism import Float64s, Reports
from hatstream_local.mechanisms.sign import StochasticRounding
from hatstream_local.mechanisms.window import Window

GRID = 100
"""Values of the prior, equally likely: the middles of so many buckets, as in the code of the method's authors."""


def second_moments(reports: Reports) -> Float64s:
    """Computes E[v^2 | reports] under a uniform prior: (users,).

    All variances are affine in v^2, so this one moment is all that UWA's weights need.
    """
    values, bucket = middles(GRID)[:, None], np.arange(GRID)[:, None]
    log_likelihood = np.zeros((GRID, reports.users))
    for service, row in zip(reports.services, reports.values, strict=True):
        mechanism, answered = service.mechanism, ~np.isnan(row)
        if isinstance(mechanism, Window):  # at a large epsilon a window may lie between two values
            first, last = spans_of(mechanism, row, GRID)
            log_likelihood += mechanism.epsilon * ((first <= bucket) & (bucket < last))
        elif isinstance(mechanism, StochasticRounding):
            sides = np.array([mechanism.low, mechanism.high])
            log_likelihood += (mechanism.log_density(sides, values))[:, (row > 0).astype(np.intp)] * answered
        else:
            log_likelihood += mechanism.log_density(np.nan_to_num(row), values) * answered
    likelihood = np.exp(log_likelihood - log_likelihood.max(axis=0))
    return np.asarray(values[:, 0] ** 2 @ likelihood / likelihood.sum(axis=0))
