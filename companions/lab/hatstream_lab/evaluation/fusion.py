"""Simulates fusion of local reports, beside reference figures.

A setting (`config`) gives each service, one of each kind of mechanism (stochastic rounding SR, Laplace, piecewise PM,
square wave SW), an epsilon. A method (`column`) is a service's reports alone, or a fusion of all: for means UA, a plain
average, fixed weights, or UWA, weights by each user's reports; for distributions ULE, the likelihood of users' reports,
by EMS, which is EM with smoothing. `reference`: the paper's figure. Variances of local mechanisms are affine in the
squared value, v^2. `agrees`: within 4 standard errors of an exact figure, or for UWA, which has none, within the sum of
4 standard errors and 1 % of the reference.
"""

import hashlib
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table as RichTable
from scipy.special import rel_entr

from dpops import Noise
from hatstream_lab.evaluation.experiment import Float64s, Mean, Progress, Row, Table, experiment
from hatstream_local.mechanisms.aggregate import aggregate
from hatstream_local.mechanisms.estimates import METHODS, fixed_weights, per_user, smoothed
from hatstream_local.mechanisms.mechanism import LOCAL_MECHANISMS, Reports, Service

_TOML_FIGURES = tomllib.loads(files(__package__).joinpath("fusion.toml").read_text())
EPSILONS: Mapping[str, Mapping[str, Sequence[float]]] = _TOML_FIGURES["epsilons"]
"""By table and name of a setting: the epsilon of each of KINDS, in their order."""
REFERENCE: Mapping[str, Mapping[str, Mapping[str, Sequence[float]]]] = _TOML_FIGURES["reference"]
"""Figures to compare with, by table, data and setting, in the order of _REFERENCE_COLUMNS."""
KINDS = {"mean": ("sr", "laplace", "pm", "sw"), "distribution": ("sr", "pm", "sw")}
COLUMNS = {"mean": (*KINDS["mean"], *METHODS), "distribution": (*KINDS["distribution"], "ule")}
BUCKETS = 256  # of estimated distributions on [-1, 1]
SCALE = 1_000_000  # errors of means are stated for that many users, whatever number is simulated
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
    """Draws values in [-1, 1], (users,), from a named distribution, or from `pool`."""
    if data == "beta":
        return 2 * rng.beta(2, 5, users) - 1
    if data == "beta+sin":
        # A half has the density 1 + sin(4 pi x) on [0, 1]: its distribution function is inverted on a grid.
        x = np.linspace(0, 1, 4_097)
        waves = np.interp(rng.random(users), x + (1 - np.cos(4 * np.pi * x)) / (4 * np.pi), x)
        return np.where(rng.random(users) < 0.5, 2 * rng.beta(2, 5, users) - 1, 2 * waves - 1)
    assert pool is not None  # "speeds": those of telemetry, scaled
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
    trial = _mean_trial if is_mean else _distribution_trial
    columns: dict[str, list[tuple[float, ...]]] = {}  # by method: the figures of each trial
    for _ in range(cell.trials):
        values = draw_values(cell.data, cell.users, rng, pool)
        noise = Noise(rng.bytes)
        services = _services(cell.table, cell.config)
        samples = np.stack([service.mechanism.sample(values, noise) for service in services])
        for column, figures in trial(values, Reports(services, samples)).items():
            columns.setdefault(column, []).append(figures)
    for column, results in columns.items():
        trials = np.array(results)
        if is_mean:
            # Moments of one user's error. A mean over n users has its variance divided by n; the mean square varies by
            # the fourth moment less the square of the second, divided by the number of users; bias**2 hardly varies.
            bias, square, fourth = trials.mean(axis=0).tolist()
            error = math.sqrt((fourth - square**2) / (cell.trials * cell.users)) / SCALE
            value, secondary = (square - bias**2) / SCALE, bias
        else:
            value, secondary = float(trials.mean()), float(np.sqrt(trials).mean())
            error = float(trials.std(ddof=1)) / math.sqrt(cell.trials) if cell.trials > 1 else math.inf
        labels = {"table": cell.table, "data": cell.data, "config": cell.config, "column": column}
        means = {"value": Mean(value), "error": Mean(error), "other": Mean(secondary)}
        yield {**labels, "trials": cell.trials, **means}


def _services(table: str, config: str) -> list[Service]:
    """Makes the services of a table's setting, each with its mechanism and epsilon."""
    pairs = zip(KINDS[table], EPSILONS[table][config], strict=True)
    return [Service(kind, LOCAL_MECHANISMS[kind](epsilon)) for kind, epsilon in pairs]


def _mean_trial(values: Float64s, reports: Reports) -> dict[str, tuple[float, ...]]:
    """Computes the first, second and fourth moment of users' errors, by service and method."""
    pairs = zip(reports.services, reports.values, strict=True)
    estimates = {service.name: service.mechanism.unbiased(row) for service, row in pairs}
    estimates |= {method: per_user(reports, method) for method in METHODS}
    errors = {column: estimate - values for column, estimate in estimates.items()}
    return {column: tuple(float((error**power).mean()) for power in (1, 2, 4)) for column, error in errors.items()}


def _distribution_trial(values: Float64s, reports: Reports) -> dict[str, tuple[float, ...]]:
    """Measures estimated distributions' divergence from the true one: by service, and of all ("ule")."""
    truth = np.histogram(values, BUCKETS, (-1, 1))[0] / values.size
    pairs = zip(reports.services, reports.values[:, None], strict=True)
    by_column = {service.name: Reports([service], row) for service, row in pairs} | {"ule": reports}  # all of them
    smooth = {column: smoothed(aggregate(table, BUCKETS), tolerance=1e-6) for column, table in by_column.items()}
    return {column: (divergence(estimate.shares, truth),) for column, estimate in smooth.items()}


def divergence(first: Float64s, second: Float64s) -> float:
    """Computes the Jensen-Shannon divergence in nats, from 0 to log 2."""
    middle = (first + second) / 2
    return max(float((rel_entr(first, middle) + rel_entr(second, middle)).sum()) / 2, 0.0)  # rounding may give less


def compare(users: int, trials: int, seed: int, pool: Float64s | None, report: Progress, processes: int = 1) -> Table:
    """Simulates the tables of means and distributions."""
    sets = {"mean": ["beta"], "distribution": ["beta", "beta+sin", *([] if pool is None else ["speeds"])]}
    cells = [
        FusionCell(table, data, config, trials, users, seed)
        for table, names in sets.items()
        for data in names
        for config in EPSILONS[table]
    ]
    table = experiment(pool, cells, measure, report=report, processes=processes)
    return table.with_figures({"reference": reference_of, "exact": exact_of, "agrees": agrees})


def reference_of(row: Mapping[str, Any]) -> float | None:
    """Reads the reference's figures for a row, if any."""
    figures = REFERENCE[row["table"]].get(row["data"], {}).get(row["config"], ())
    return dict(zip(_REFERENCE_COLUMNS[row["table"]], figures, strict=False)).get(row["column"])


def exact_of(row: Mapping[str, Any]) -> float | None:
    """Computes the noise variance of a mean over SCALE users; None if unknown."""
    if row["table"] != "mean" or row["data"] != "beta" or row["column"] == "uwa":  # uwa's weights depend on values
        return None
    services = sorted(_services("mean", row["config"]), key=lambda service: service.name)  # as in `Reports`
    value = np.array(math.sqrt(2 / 7))  # rms of 2 Beta(2, 5) - 1: as variances are affine in v^2, their mean is there
    variances = {service.name: float(service.mechanism.variance(value)) / SCALE for service in services}  # SCALE users
    if row["column"] in variances:
        return variances[row["column"]]
    is_fixed, mechanisms = row["column"] == "fixed", tuple(service.mechanism for service in services)
    weights = fixed_weights(mechanisms) if is_fixed else np.full(len(services), 1 / len(services))
    return sum(float(weight) ** 2 * variance for weight, variance in zip(weights, variances.values(), strict=True))


def agrees(row: Mapping[str, Any]) -> bool | None:
    """Checks a mean within 4 standard errors of the exact figure; None where incomparable.

    Figures of the reference lie up to 0.7 % from exact ones; its distributions follow another stopping rule.
    """
    exact, reference = exact_of(row), reference_of(row)
    if exact is not None:
        return bool(abs(row["value"] - exact) <= 4 * row["error"])
    if reference is None or row["table"] != "mean":
        return None
    return bool(abs(row["value"] - reference) <= 4 * row["error"] + reference / 100)


def tables(table: Table) -> Iterator[RichTable]:
    """Renders errors of means and divergences, with references."""

    def text(row: Mapping[str, Any]) -> str:  # value (reference), ! where they differ; `other`: mean distance (root)
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
        legend = "; ".join(f"{name} {', '.join(map(str, epsilons))}" for name, epsilons in EPSILONS[kind].items())
        rows = table.where(table=kind, data=data).grid("config", ("column",), text)
        yield rows.show(title, f"{notes[kind]}: {legend}", ("config",), COLUMNS[kind])


def pictures(table: Table, folder: Path) -> list[Path]:
    """Draws errors of means and divergences of distributions.

    A line is a method (`column`), its points settings (`config`), rings the papers' figures (`reference`). Means are of
    one data set, so their file does not name it.
    """
    paths = []
    for kind, data in dict.fromkeys((row["table"], row["data"]) for row in table.rows):
        stem = "fusion-means" if kind == "mean" else f"fusion-distributions-{data}"
        axes = "", "mean square error, 1,000,000 users" if kind == "mean" else f"Jensen-Shannon divergence, {data}"
        style: dict[str, Any] = {"series": ("column",), "axes": axes, "is_log": True, "rings": "reference"}
        rows = table.where(table=kind, data=data)
        paths.append(rows.draw(folder / f"{stem}.png", "config", "value", **style, title=stem))
    return paths
