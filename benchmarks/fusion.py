"""Guards what fusion of local reports costs (measurements/performance.md): up to 10,000,000 users of SR, PM and SW.

Run: python -m benchmarks.fusion [--users 1000000,10000000]. Each ULE line is a process of its own, for its peak memory.
"""

import argparse
import resource
import time
from multiprocessing import get_context
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from dpops.noise import Noise
from hatstream_local.mechanisms.aggregate import aggregate, middles
from hatstream_local.mechanisms.estimates import METHODS, Distribution, maximum_likelihood, per_user, smoothed
from hatstream_local.mechanisms.mechanism import LOCAL_MECHANISMS, Reports, Service

BUCKETS = (256, 1024)
EPSILONS = (0.1, 0.6)
DENSE_USERS = 10_000
DENSE = ((16, 20_000), (32, 20_000), (256, 5_000))
"""Buckets and steps of plain EM: with few buckets it comes near its maximum, with many it does not in any patience."""
_CHUNK = 1 << 18
COLUMNS = {
    "users": "{:,}", "l": "{}", "epsilon": "{}", "rows": "{:,}", "aggregate": "{:.2f}", "maximum": "{:.2f}",
    "steps": "{}", "KKT gap": "{:.0e}", "CPU s": "{:.1f}", "EMS": "{:.2f}", "moved": "{:.0e}", "EMS CPU s": "{:.1f}",
    "GB": "{:.2f}",
}  # fmt: skip
"""Of a line of the table: users, buckets and epsilon, then what a `Fit` has; and how it is written."""


class Fit(NamedTuple):
    """rows: different likelihoods. gap: of the maximum, in nats per user; moved: of EMS, mass. maximum_cpu_s: with the
    aggregation."""

    rows: int
    aggregate_s: float
    maximum_s: float
    steps: int
    gap: float
    maximum_cpu_s: float
    smoothed_s: float
    moved: float
    smoothed_cpu_s: float
    peak_gb: float


def draw(users: int, epsilon: float, kinds: tuple[str, ...], seed: int = 1) -> Reports:
    """Reports of Beta(2, 5) values, from a seeded generator."""
    rng = np.random.default_rng(seed)
    noise = Noise(rng.bytes)
    services = [Service(kind, LOCAL_MECHANISMS[kind](epsilon)) for kind in kinds]
    table = np.empty((len(kinds), users))
    for start in range(0, users, _CHUNK):
        part = slice(start, min(start + _CHUNK, users))
        values = 2 * rng.beta(2, 5, part.stop - start) - 1
        for row, service in zip(table, services, strict=True):
            row[part] = service.mechanism.sample(values, noise)
    return Reports(services, table)


def fit(users: int, buckets: int, epsilon: float) -> Fit:
    reports = draw(users, epsilon, ("sr", "pm", "sw"))
    cpu, start = time.process_time(), time.perf_counter()
    rows = aggregate(reports, buckets)
    aggregated = time.perf_counter()
    best = maximum_likelihood(rows)
    maximised, maximised_cpu = time.perf_counter(), time.process_time()
    smooth = smoothed(rows)
    done = time.perf_counter()
    if not (best.converged and smooth.converged):
        raise ArithmeticError("a fit has not converged")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)
    return Fit(
        rows.counts.size, aggregated - start, maximised - aggregated, best.steps, best.gap, maximised_cpu - cpu,
        done - maximised, smooth.gap, time.process_time() - maximised_cpu, peak,
    )  # fmt: skip


def means(users: int) -> None:
    reports = draw(users, 0.5, ("laplace", "pm", "sr", "sw"))
    for method in METHODS:
        cpu, start = time.process_time(), time.perf_counter()
        per_user(reports, method)
        wall, spent = time.perf_counter() - start, time.process_time() - cpu
        print(f"{method}: {users:,} users, 4 services: {wall:.2f} s, {spent:.2f} s of CPU")


def dense(buckets: int, steps: int, epsilon: float = 0.6) -> None:
    """Plain EM on a matrix of users by buckets, against the same reports aggregated and maximised.

    How far either is from the maximum is bounded by its gap. EM also goes on from our maximum: it never falls, so that
    what it gains there is what we left.
    """
    reports = draw(DENSE_USERS, epsilon, ("sr", "pm", "sw"))
    start = time.perf_counter()
    fast: Distribution = maximum_likelihood(aggregate(reports, buckets))
    fast_s = time.perf_counter() - start
    start = time.perf_counter()
    values = middles(buckets)
    pairs = zip(reports.services, reports.values, strict=True)
    matrix = np.exp(sum(service.mechanism.log_density(row[:, None], values) for service, row in pairs))
    shares = _plain_em(matrix, np.full(buckets, 1 / buckets), steps)
    dense_s = time.perf_counter() - start
    on_from_ours = _plain_em(matrix, fast.shares, 100)
    by_em, by_ours, further = (_log_likelihood(matrix, law) for law in (shares, fast.shares, on_from_ours))
    gap = _gradient(matrix, shares).max() - 1
    print(f"plain dense EM, {DENSE_USERS:,} users, {buckets} buckets, epsilon {epsilon}:")
    print(f"  {steps:,} steps in {dense_s:.1f} s, gap {gap:.0e}")
    print(f"  ours {fast_s:.2f} s ({dense_s / fast_s:.0f} times faster), gap {fast.gap:.0e}")
    print(f"  log-likelihood {by_em:.5f} and {by_ours:.5f}: relative difference {(by_ours - by_em) / abs(by_em):.0e}")
    print(f"  100 steps of EM from ours gain {(further - by_ours) / abs(by_ours):.0e}")


def _plain_em(matrix: NDArray[np.float64], shares: NDArray[np.float64], steps: int) -> NDArray[np.float64]:
    for _ in range(steps):
        shares = shares * _gradient(matrix, shares)
    return shares


def _gradient(matrix: NDArray[np.float64], shares: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(matrix.T @ (1 / (matrix @ shares)) / len(matrix))


def _log_likelihood(matrix: NDArray[np.float64], shares: NDArray[np.float64]) -> float:
    return float(np.log(matrix @ shares).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", default="1000000,10000000", help="of ULE, separated by commas")
    sizes = [int(part) for part in parser.parse_args().users.split(",")]
    means(1_000_000)
    for buckets, steps in DENSE:
        dense(buckets, steps)
    table = Table(title="ULE from SR, PM and SW: seconds", title_justify="left")
    for name in COLUMNS:
        table.add_column(name, justify="right")
    context = get_context("spawn")
    for users in sizes:
        for buckets in BUCKETS:
            for epsilon in EPSILONS:
                with context.Pool(1) as pool:
                    result = pool.apply(fit, (users, buckets, epsilon))
                values = (users, buckets, epsilon, *result)
                table.add_row(*(form.format(value) for form, value in zip(COLUMNS.values(), values, strict=True)))
    Console(width=130).print(table)


if __name__ == "__main__":
    main()
