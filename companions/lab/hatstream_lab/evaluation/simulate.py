"""Runs mechanisms many times on a data set: the code that releases, with noise from a seeded generator."""

import hashlib
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from fractions import Fraction
from multiprocessing import get_context
from typing import Any

import numpy as np

from dpops import CountsKnown, Mechanism, Noise, Totals, forecast_of_one, registered
from hatstream_lab.evaluation import PROCESSES
from hatstream_lab.evaluation.datasets import GRID, UPPER_KMH, DataSet

_ENTRIES = 400_000  # users of one call to `release`: enough to be fast, little enough for memory


@dataclass(frozen=True)
class SimulatedCell:
    """One cell of a table: mean absolute error over the runs and its standard error, in km/h, as the papers have it;
    published: of values clamped into [0, U], as they are published, which is what is forecast.

    chosen: the mechanism that released, which `auto` names.
    """

    data: str
    label: str
    epsilon: str
    error: float
    standard_error: float
    published: float
    forecast: float
    worst_case: float
    chosen: str
    runs: int


def made(name: str, **options: Any) -> Mechanism:
    """Makes a registered mechanism with options."""
    kind: Any = registered()[name]
    mechanism: Mechanism = kind(**options)
    return mechanism


def contenders(data: DataSet) -> dict[str, Mechanism]:
    """Makes the mechanisms compared on a data set, by the label of their column."""
    kinds = registered()
    plain = ("baseline", "levy", "fixed-quantile", "epsilon-quantile", "opt-array", "worst-case-optimal", "akmv")
    return {
        "baseline": kinds["baseline"](),
        "array-average": made("array-average"),
        "array-average-argmax": made("array-average", m_ub="argmax"),
        "array-average-wrap-around": made("array-average", grouping="wrap-around"),
        **{name: kinds[name]() for name in plain[1:]},
        "worst-case-optimal-tie": kinds["worst-case-optimal"].candidates()[1],
        "auto": made("auto", prior=data.prior),
    }


def run_cell(data: DataSet, label: str, epsilon: str, runs: int, seed: int) -> SimulatedCell:
    """Releases a data set so many times with one mechanism."""
    mechanism = contenders(data)[label]
    counts = data.counts
    hat = CountsKnown.all_of(counts)
    plan = mechanism.plans([hat], GRID, Fraction(epsilon))[0]
    own = hashlib.sha256(f"{seed}/{data.name}/{label}/{epsilon}".encode()).digest()
    rng = np.random.default_rng(int.from_bytes(own[:8]))
    noise = Noise(rng.bytes)
    chunk = max(1, _ENTRIES // counts.size)
    errors, published = [], []
    for start in range(0, runs, chunk):
        number = min(chunk, runs - start)
        sums, truths = data.draw(rng, number)
        totals = [Totals(counts, row) for row in np.broadcast_to(sums, (number, counts.size))]
        released = mechanism.release(totals, [plan] * number, noise)
        values = np.array([integers[-1] for integers in released]) * float(plan.step)
        errors.append(np.abs(values - truths))
        published.append(np.abs(np.clip(values, 0, UPPER_KMH) - truths))
    all_errors = np.concatenate(errors)
    return SimulatedCell(
        data=data.name,
        label=label,
        epsilon=epsilon,
        error=float(all_errors.mean()),
        standard_error=float(all_errors.std() / math.sqrt(runs)),
        published=float(np.concatenate(published).mean()),
        forecast=forecast_of_one(mechanism, hat, GRID, Fraction(epsilon), data.prior),
        worst_case=plan.error(),
        chosen=plan.mechanism,
        runs=runs,
    )


Source = Callable[[], list[DataSet]]
"""Makes the data sets; unlike these it can be sent to another process."""

_made: dict[str, DataSet] = {}  # of a worker process


def _make(source: Source) -> None:
    _made.update({data.name: data for data in source()})


def _run_task(task: tuple[str, str, str], runs: int, seed: int) -> SimulatedCell:
    name, label, epsilon = task
    return run_cell(_made[name], label, epsilon, runs, seed)


def run_all(
    source: Source,
    tasks: Sequence[tuple[str, str, str]],
    runs: int,
    seed: int,
    report: Callable[[int, int], None],
    processes: int = PROCESSES,
) -> list[SimulatedCell]:
    """Simulates the cells of (data set, label, epsilon), in the order asked for."""
    if processes == 1:
        cells = []
        _make(source)
        for done, task in enumerate(tasks):
            cells.append(_run_task(task, runs, seed))
            report(done + 1, len(tasks))
        return cells
    with ProcessPoolExecutor(processes, get_context("spawn"), _make, (source,)) as pool:
        futures = [pool.submit(_run_task, task, runs, seed) for task in tasks]
        for done, _ in enumerate(as_completed(futures)):
            report(done + 1, len(tasks))
        return [future.result() for future in futures]
