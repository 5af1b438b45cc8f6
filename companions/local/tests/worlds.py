"""Users whose values are known, their reports, and slow dense versions of what is computed fast."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hatstream.api import layout
from hatstream_local.mechanisms.aggregate import middles
from hatstream_local.mechanisms.mechanism import LOCAL_MECHANISMS, Reports, Service
from hatstream_local.specification import FusionSpecification, Hours
from tests.statistical.checks import seeded

Float64s = NDArray[np.float64]
GOOD = {"user": "a1", "service": "maps", "epsilon": 0.5, "mechanism": "pm", "time": "2026-03-01T10:20:00-06:00",
        "cell": "872830828ffffff", "report": 0.25}  # fmt: skip
"""A report that a service named maps accepts."""


def beta_values(users: int, seed: int = 1) -> Float64s:
    return 2 * np.random.default_rng(seed).beta(2, 5, users) - 1


def rules(services: Sequence[Service]) -> FusionSpecification:
    """Of hours in Chicago and cells of resolution 7; its layout has units alone."""
    texts: dict[str, Any] = {"name": "fusion", "spec_id": "", "mean": "fixed", "distribution": "ems"}
    places = {"hours": Hours("America/Chicago", 3600), "resolution": 7, "layout": layout("csv", {}, fields=())}
    return FusionSpecification(**texts, **places, services=services, upper_kmh=65.0, buckets=16, telemetry=None)


def reports_of(values: Float64s, kinds: Sequence[tuple[str, float]], *, missing: float = 0.0, seed: int = 2) -> Reports:
    """One service for each (mechanism, epsilon), named by its place; that share of reports is missing."""
    noise = seeded(seed)
    services = [Service(f"{place:02d}-{kind}", LOCAL_MECHANISMS[kind](eps)) for place, (kind, eps) in enumerate(kinds)]
    table = np.stack([service.mechanism.sample(values, noise) for service in services])
    table[np.random.default_rng(seed).random(table.shape) < missing] = np.nan
    return Reports(services, table)


def dense_log_likelihood(reports: Reports, buckets: int) -> Float64s:
    """(users, buckets) from the densities, one service after another; a missing report is a factor 1."""
    values = middles(buckets)
    total = np.zeros((reports.users, buckets))
    for service, row in zip(reports.services, reports.values, strict=True):
        heard = ~np.isnan(row)
        total[heard] += service.mechanism.log_density(row[heard, None], values)
    return total


def dense_em(log_likelihood: Float64s, steps: int) -> Float64s:
    """Plain EM from the uniform distribution."""
    rows = np.exp(log_likelihood - log_likelihood.max(axis=1, keepdims=True))
    shares = np.full(rows.shape[1], 1 / rows.shape[1])
    for _ in range(steps):
        shares = shares * (rows.T @ (1 / (rows @ shares))) / len(rows)
        shares /= shares.sum()
    return shares
