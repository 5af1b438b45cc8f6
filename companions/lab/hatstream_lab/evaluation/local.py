"""Fusion of local reports on drawn values: errors of means and distances of distributions, trial by trial."""

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context

import numpy as np

from dpops import Noise
from hatstream_lab.types import Float64s
from hatstream_local.mechanisms.aggregate import aggregate
from hatstream_local.mechanisms.distributions import smoothed
from hatstream_local.mechanisms.means import METHODS, per_user
from hatstream_local.mechanisms.registry import LOCAL_MECHANISMS
from hatstream_local.mechanisms.reports import Reports, Service

MEANS: Mapping[str, tuple[float, ...]] = {
    "all 0.1": (0.1, 0.1, 0.1, 0.1),
    "all 0.6": (0.6, 0.6, 0.6, 0.6),
    "A1": (0.1, 0.2, 0.3, 0.4),
    "A2": (0.2, 0.4, 0.1, 0.3),
    "A3": (0.3, 0.1, 0.4, 0.2),
    "A4": (0.4, 0.3, 0.2, 0.1),
}
"""Epsilons of SR, Laplace, PM and SW."""

DISTRIBUTIONS: Mapping[str, tuple[float, ...]] = {
    "all 0.1": (0.1, 0.1, 0.1),
    "all 0.6": (0.6, 0.6, 0.6),
    "C1": (0.1, 0.2, 0.3),
    "C2": (0.2, 0.3, 0.1),
}
"""Epsilons of SR, PM and SW."""

MEAN_KINDS = ("sr", "laplace", "pm", "sw")
DISTRIBUTION_KINDS = ("sr", "pm", "sw")
MEAN_COLUMNS = (*MEAN_KINDS, *METHODS)
DISTRIBUTION_COLUMNS = (*DISTRIBUTION_KINDS, "ule")
BUCKETS = 256
SCALE = 1_000_000
"""Errors of means are stated for that many users, whatever number is simulated."""

_TOLERANCE = 1e-6
_CHUNK = 5  # trials of one task


@dataclass(frozen=True)
class LocalCell:
    """One cell of a table, of one set of values, configuration and column.

    value: of a mean the noise part of its mean square error at SCALE users on [-1, 1]; of a distribution the mean over
    trials of the Jensen-Shannon divergence from the users' own histogram. error: its standard error. other: of a mean
    the mean error with its sign, which holds what is left of the noise; of a distribution the mean of the root of the
    divergence, which is a distance.
    """

    table: str
    data: str
    config: str
    column: str
    value: float
    error: float
    other: float
    trials: int


Task = tuple[str, str, str, int]
"""Table, set of values, configuration, number of the chunk of trials."""

Sums = dict[str, list[tuple[float, ...]]]


def draw(data: str, users: int, rng: np.random.Generator, pool: Float64s | None) -> Float64s:
    """Draws values in [-1, 1]: Beta(2, 5); half of it and half 1 + sin; or from a pool of real ones."""
    if data == "beta":
        return 2 * rng.beta(2, 5, users) - 1
    if data == "beta+sin":
        waves = _sine(rng.random(users))
        return np.where(rng.random(users) < 0.5, 2 * rng.beta(2, 5, users) - 1, 2 * waves - 1)
    assert pool is not None
    return pool[rng.integers(0, pool.size, users)]


def _sine(uniform: Float64s) -> Float64s:
    """Draws values of density 1 + sin(4 pi x) on [0, 1], by its inverted distribution function."""
    x = np.linspace(0, 1, 4_097)
    return np.interp(uniform, x + (1 - np.cos(4 * np.pi * x)) / (4 * np.pi), x)


def run_task(task: Task, users: int, trials: int, seed: int, pool: Float64s | None) -> Sums:
    """Sums up trials, per column of the table a tuple for each: error, error^2, error^4; or a divergence."""
    table, data, config, chunk = task
    own = hashlib.sha256(f"{seed}/{table}/{data}/{config}/{chunk}".encode()).digest()
    rng = np.random.default_rng(int.from_bytes(own[:8]))
    one = _mean_trial if table == "mean" else _distribution_trial
    epsilons = (MEANS if table == "mean" else DISTRIBUTIONS)[config]
    sums: Sums = {}
    for _ in range(min(_CHUNK, trials - chunk * _CHUNK)):
        values = draw(data, users, rng, pool)
        for column, figures in one(values, epsilons, rng).items():
            sums.setdefault(column, []).append(figures)
    return sums


def _reports(values: Float64s, kinds: Sequence[str], epsilons: Sequence[float], rng: np.random.Generator) -> Reports:
    noise = Noise(rng.bytes)
    services = [Service(kind, LOCAL_MECHANISMS[kind](epsilon)) for kind, epsilon in zip(kinds, epsilons, strict=True)]
    return Reports(services, np.stack([service.mechanism.sample(values, noise) for service in services]))


def _mean_trial(values: Float64s, epsilons: Sequence[float], rng: np.random.Generator) -> dict[str, tuple[float, ...]]:
    reports = _reports(values, MEAN_KINDS, epsilons, rng)
    estimates = {
        service.name: service.mechanism.unbiased(row)
        for service, row in zip(reports.services, reports.values, strict=True)
    }
    estimates |= {method: per_user(reports, method) for method in METHODS}
    square = {column: (estimate - values) ** 2 for column, estimate in estimates.items()}
    return {
        column: (float((means - values).mean()), float(square[column].mean()), float((square[column] ** 2).mean()))
        for column, means in estimates.items()
    }


def _distribution_trial(
    values: Float64s, epsilons: Sequence[float], rng: np.random.Generator
) -> dict[str, tuple[float, ...]]:
    reports = _reports(values, DISTRIBUTION_KINDS, epsilons, rng)
    truth = np.histogram(values, BUCKETS, (-1, 1))[0] / values.size
    parts = {
        service.name: Reports([service], reports.values[index : index + 1])
        for index, service in enumerate(reports.services)
    }
    parts["ule"] = reports
    smooth = {column: smoothed(aggregate(part, BUCKETS), _TOLERANCE) for column, part in parts.items()}
    return {column: (divergence(estimate.shares, truth),) for column, estimate in smooth.items()}


def divergence(first: Float64s, second: Float64s) -> float:
    """Computes the Jensen-Shannon divergence in nats, without a root: from 0 to log 2. Its root is a distance."""
    middle = (first + second) / 2
    total = 0.0
    for shares in (first, second):
        held = shares > 0
        total += float((shares[held] * np.log(shares[held] / middle[held])).sum())
    return max(total / 2, 0.0)


def run_all(
    sets: Sequence[str],
    users: int,
    trials: int,
    seed: int,
    pool: Float64s | None,
    processes: int,
    report: Callable[[int, int], None],
) -> list[LocalCell]:
    """Simulates the tables of means (of the first set) and of distributions (of all sets)."""
    plan = [("mean", sets[0], config) for config in MEANS]
    plan += [("distribution", data, config) for data in sets for config in DISTRIBUTIONS]
    chunks = -(-trials // _CHUNK)
    tasks: list[Task] = [(*cell, chunk) for cell in plan for chunk in range(chunks)]
    results: dict[Task, Sums] = {}
    with ProcessPoolExecutor(processes, get_context("spawn")) as workers:
        futures = {workers.submit(run_task, task, users, trials, seed, pool): task for task in tasks}
        for done, future in enumerate(as_completed(futures)):
            results[futures[future]] = future.result()
            report(done + 1, len(tasks))
    cells = []
    for table, data, config in plan:
        columns = MEAN_COLUMNS if table == "mean" else DISTRIBUTION_COLUMNS
        for column in columns:
            every = [result for chunk in range(chunks) for result in results[table, data, config, chunk][column]]
            cells.append(cell_of(table, data, config, column, np.array(every), users))
    return cells


def cell_of(table: str, data: str, config: str, column: str, trials: Float64s, users: int) -> LocalCell:
    number = len(trials)
    if table == "mean":
        bias, square, fourth = trials.mean(axis=0).tolist()
        error = math.sqrt((fourth - square**2) / (number * users))
        return LocalCell(table, data, config, column, (square - bias**2) / SCALE, error / SCALE, bias, number)
    values = trials[:, 0]
    error = float(values.std(ddof=1)) / math.sqrt(number) if number > 1 else math.inf
    return LocalCell(table, data, config, column, float(values.mean()), error, float(np.sqrt(values).mean()), number)
