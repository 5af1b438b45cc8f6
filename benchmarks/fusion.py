"""Guards what fusion of local reports costs (measurements/performance.md): up to 10,000,000 users of SR, PM and SW.

Run: python -m benchmarks.fusion [--users 1000000,10000000]. Each ULE line is a process of its own, for its peak memory.
"""

import argparse
import resource
import time
from multiprocessing import get_context
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from dpops.noise import Noise
from hatstream_local.mechanisms.aggregate import aggregate
from hatstream_local.mechanisms.distributions import maximum_likelihood, smoothed
from hatstream_local.mechanisms.kinds import LOCAL_MECHANISMS
from hatstream_local.mechanisms.means import METHODS, per_user
from hatstream_local.mechanisms.mechanism import Reports, Service

BUCKETS = (256, 1024)
EPSILONS = (0.1, 0.6)
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", default="1000000,10000000", help="of ULE, separated by commas")
    sizes = [int(part) for part in parser.parse_args().users.split(",")]
    means(1_000_000)
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
