"""Simulates fusion of local reports, beside reference figures."""

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table as RichTable

from dpops import Noise
from hatstream_lab.evaluation.experiment import Experiment, Float64s, Mean, Progress, Row, Table
from hatstream_local.mechanisms.aggregate import aggregate
from hatstream_local.mechanisms.distributions import smoothed
from hatstream_local.mechanisms.kinds import LOCAL_MECHANISMS
from hatstream_local.mechanisms.means import METHODS, fixed_weights, per_user
from hatstream_local.mechanisms.mechanism import Reports, Service

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
KINDS = {"mean": ("sr", "laplace", "pm", "sw"), "distribution": ("sr", "pm", "sw")}
COLUMNS = {"mean": (*KINDS["mean"], *METHODS), "distribution": (*KINDS["distribution"], "ule")}
BUCKETS = 256
SCALE = 1_000_000
"""Errors of means are stated for that many users, whatever number is simulated."""
_TOLERANCE = 1e-6
_REFERENCE = {
    ("mean", "beta", "all 0.1"): (4.00e-4, 7.96e-4, 5.19e-4, 5.20e-4, 1.39e-4, 1.31e-4),
    ("mean", "beta", "all 0.6"): (1.15e-5, 2.21e-5, 1.26e-5, 1.29e-5, 3.68e-6, 3.44e-6),
    ("mean", "beta", "A1"): (4.00e-4, 1.99e-4, 5.47e-5, 3.02e-5, 4.26e-5, 1.69e-5),
    ("mean", "beta", "A2"): (1.00e-4, 4.98e-5, 5.19e-4, 5.50e-5, 4.51e-5, 1.99e-5),
    ("mean", "beta", "A3"): (4.48e-5, 7.96e-4, 3.00e-5, 1.27e-4, 6.22e-5, 1.54e-5),
    ("mean", "beta", "A4"): (2.54e-5, 8.85e-5, 1.26e-4, 5.20e-4, 4.74e-5, 1.64e-5),
    ("distribution", "beta", "all 0.1"): (0.0548, 0.0368, 0.0345, 0.0196),
    ("distribution", "beta", "all 0.6"): (0.0544, 0.0045, 0.0060, 0.0034),
    ("distribution", "beta", "C1"): (0.0548, 0.0132, 0.0096, 0.0064),
    ("distribution", "beta", "C2"): (0.0515, 0.0081, 0.0345, 0.0067),
    ("distribution", "beta+sin", "all 0.1"): (0.0691, 0.0505, 0.0477, 0.0339),
}
"""Means of 1,000,000 users by SR, Laplace, PM, SW, UA, UWA; divergences by SR, PM, SW and ULE of EMS that was stopped
early, so not of the fixed point that is computed here."""
_REFERENCE_COLUMNS = {"mean": (*KINDS["mean"], "ua", "uwa"), "distribution": COLUMNS["distribution"]}


class FusionCell(NamedTuple):
    """Setting of trials on a set of values."""

    table: str
    data: str
    config: str
    trials: int
    users: int
    seed: int


def draw_values(data: str, users: int, rng: np.random.Generator, pool: Float64s | None) -> Float64s:
    """Draws values in [-1, 1] from a named distribution."""
    if data == "beta":
        return 2 * rng.beta(2, 5, users) - 1
    if data == "beta+sin":
        x = np.linspace(0, 1, 4_097)  # by its inverted distribution function
        waves = np.interp(rng.random(users), x + (1 - np.cos(4 * np.pi * x)) / (4 * np.pi), x)
        return np.where(rng.random(users) < 0.5, 2 * rng.beta(2, 5, users) - 1, 2 * waves - 1)
    assert pool is not None
    return pool[rng.integers(0, pool.size, users)]


def measure(pool: Float64s | None, cell: FusionCell, _run: int = 0) -> Iterator[Row]:
    """Measures a setting's trials, a row for each method.

    Figures: of a mean `value`, the noise part of its mean square error at SCALE users on [-1, 1], and `other`, its mean
    error with its sign; of a distribution `value`, the mean Jensen-Shannon divergence from the users' own histogram,
    and `other`, the mean of its root, which is a distance. `error`: the standard error of `value`.
    """
    digest = hashlib.sha256(f"{cell.seed}/{cell.table}/{cell.data}/{cell.config}".encode()).digest()
    rng = np.random.default_rng(int.from_bytes(digest[:8]))
    is_mean = cell.table == "mean"
    epsilons, trial = (MEANS, _mean_trial) if is_mean else (DISTRIBUTIONS, _distribution_trial)
    columns: dict[str, list[tuple[float, ...]]] = {}
    for _ in range(cell.trials):
        values = draw_values(cell.data, cell.users, rng, pool)
        noise = Noise(rng.bytes)
        services = _services(cell.table, epsilons[cell.config])
        samples = np.stack([service.mechanism.sample(values, noise) for service in services])
        for column, figures in trial(values, Reports(services, samples)).items():
            columns.setdefault(column, []).append(figures)
    for column, results in columns.items():
        trials = np.array(results)
        if is_mean:
            bias, square, fourth = trials.mean(axis=0).tolist()
            error = math.sqrt((fourth - square**2) / (cell.trials * cell.users)) / SCALE
            value, secondary = (square - bias**2) / SCALE, bias
        else:
            value, secondary = float(trials.mean()), float(np.sqrt(trials).mean())
            error = float(trials.std(ddof=1)) / math.sqrt(cell.trials) if cell.trials > 1 else math.inf
        labels = {"table": cell.table, "data": cell.data, "config": cell.config, "column": column}
        means = {"value": Mean(value), "error": Mean(error), "other": Mean(secondary)}
        yield {**labels, "trials": cell.trials, **means}


def _services(table: str, epsilons: Sequence[float]) -> list[Service]:
    pairs = zip(KINDS[table], epsilons, strict=True)
    return [Service(kind, LOCAL_MECHANISMS[kind](epsilon)) for kind, epsilon in pairs]


def _mean_trial(values: Float64s, reports: Reports) -> dict[str, tuple[float, ...]]:
    """Finds moments of the errors of each estimate."""
    pairs = zip(reports.services, reports.values, strict=True)
    estimates = {service.name: service.mechanism.unbiased(row) for service, row in pairs}
    estimates |= {method: per_user(reports, method) for method in METHODS}
    errors = {column: estimate - values for column, estimate in estimates.items()}
    return {
        column: (float(error.mean()), float((error**2).mean()), float((error**4).mean()))
        for column, error in errors.items()
    }


def _distribution_trial(values: Float64s, reports: Reports) -> dict[str, tuple[float, ...]]:
    """Measures how estimated distributions diverge from the true one: by service, and fused."""
    truth = np.histogram(values, BUCKETS, (-1, 1))[0] / values.size
    parts = {
        service.name: Reports([service], reports.values[index : index + 1])
        for index, service in enumerate(reports.services)
    } | {"ule": reports}
    smooth = {column: smoothed(aggregate(part, BUCKETS), _TOLERANCE) for column, part in parts.items()}
    return {column: (divergence(estimate.shares, truth),) for column, estimate in smooth.items()}


def divergence(first: Float64s, second: Float64s) -> float:
    """Computes the Jensen-Shannon divergence in nats, from 0 to log 2."""
    middle = (first + second) / 2
    total = 0.0
    for shares in (first, second):
        positive = shares > 0
        total += float((shares[positive] * np.log(shares[positive] / middle[positive])).sum())
    return max(total / 2, 0.0)


def compare(users: int, trials: int, seed: int, pool: Float64s | None, report: Progress, processes: int = 1) -> Table:
    """Simulates the tables of means and distributions."""
    sets = ("beta", "beta+sin") if pool is None else ("beta", "beta+sin", "speeds")
    plan = [("mean", "beta", config) for config in MEANS]
    plan += [("distribution", data, config) for data in sets for config in DISTRIBUTIONS]
    cells = [FusionCell(*cell, trials, users, seed) for cell in plan]
    table = Experiment(pool, cells, measure).table(1, report, processes)
    return table.with_figures({"reference": reference_of, "exact": exact_of, "agrees": agrees})


def reference_of(row: Mapping[str, Any]) -> float | None:
    """Reads the reference's figures for a row, if any."""
    figures = _REFERENCE.get((row["table"], row["data"], row["config"]), ())
    return dict(zip(_REFERENCE_COLUMNS[row["table"]], figures, strict=False)).get(row["column"])


def exact_of(row: Mapping[str, Any]) -> float | None:
    """Computes the expected noise part of a Beta(2, 5) mean; None for UWA."""
    if row["table"] != "mean" or row["data"] != "beta" or row["column"] == "uwa":
        return None
    services = _services("mean", MEANS[row["config"]])
    share = np.array(math.sqrt(2 / 7))
    variances = {service.name: float(service.mechanism.variance(share)) / SCALE for service in services}
    if row["column"] in variances:
        return variances[row["column"]]
    reports = Reports(services, np.zeros((len(services), 1)))
    weights = fixed_weights(reports) if row["column"] == "fixed" else np.full(len(services), 1 / len(services))
    pairs = zip(weights, reports.services, strict=True)
    return sum(float(weight) ** 2 * variances[service.name] for weight, service in pairs)


def agrees(row: Mapping[str, Any]) -> bool | None:
    """Checks a mean within 4 standard errors of the exact figure; None where incomparable.

    UWA has no exact figure: 1 % of the reference is allowed too, whose figures lie up to 0.7 % from exact ones.
    The reference's distributions follow another stopping rule.
    """
    exact, reference = exact_of(row), reference_of(row)
    if exact is not None:
        return bool(abs(row["value"] - exact) <= 4 * row["error"])
    if reference is None or row["table"] != "mean":
        return None
    return bool(abs(row["value"] - reference) <= 4 * row["error"] + reference / 100)


def tables(table: Table) -> Iterator[RichTable]:
    """Renders errors of means and divergences, with references."""

    def text(row: Mapping[str, Any]) -> str:
        reference, mark = row["reference"], " !" if row["agrees"] is False else ""
        if row["table"] == "mean":
            return f"{row['value']:.2e}{'' if reference is None else f' ({reference:.2e})'}{mark}"
        suffix = "" if reference is None else f" ({reference:.4f})"
        return f"{row['value']:.4f} ±{row['error']:.4f}{suffix} / {row['other']:.3f}"

    notes = {
        "mean": "measured (reference); ! differs by more than 4 standard errors from the exact figure, or for UWA, "
        "which has none, by these and 1 % from the reference. Epsilons of SR, Laplace, PM, SW",
        "distribution": "measured ± standard error (reference, of EMS stopped early); after / the mean of the root. "
        "Epsilons of SR, PM, SW",
    }
    for kind, data in dict.fromkeys((row["table"], row["data"]) for row in table.rows):
        title = (
            "means: noise part of the mean square error on [-1, 1] at 1,000,000 users, Beta(2, 5)"
            if kind == "mean"
            else f"distributions of {data}: Jensen-Shannon divergence (no root), and its root, the distance"
        )
        configs = MEANS if kind == "mean" else DISTRIBUTIONS
        legend = "; ".join(f"{name} {', '.join(map(str, epsilons))}" for name, epsilons in configs.items())
        rows = table.where(table=kind, data=data).grid("config", ("column",), text)
        yield rows.show(title, f"{notes[kind]}: {legend}", ("config",), COLUMNS[kind])


def pictures(table: Table, folder: Path) -> list[Path]:
    """Draws errors of means and divergences of distributions."""
    paths = []
    for kind, data in dict.fromkeys((row["table"], row["data"]) for row in table.rows):
        stem = "fusion-means" if kind == "mean" else f"fusion-distributions-{data}"
        axes = "", "mean square error, 1,000,000 users" if kind == "mean" else f"Jensen-Shannon divergence, {data}"
        style: dict[str, Any] = {"series": ("column",), "axes": axes, "is_log": True, "rings": "reference"}
        rows = table.where(table=kind, data=data)
        paths.append(rows.draw(folder / f"{stem}.png", "config", "value", **style, title=stem))
    return paths
