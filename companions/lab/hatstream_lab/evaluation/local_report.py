"""What an evaluation of fusion shows: tables beside reference figures, and pictures."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from rich.table import Table

from hatstream_lab.evaluation.drawing import frame, save
from hatstream_lab.evaluation.local import (
    DISTRIBUTION_COLUMNS,
    DISTRIBUTIONS,
    MEAN_COLUMNS,
    MEAN_KINDS,
    MEANS,
    SCALE,
    LocalCell,
)
from hatstream_lab.evaluation.tables import table_of
from hatstream_local.mechanisms.means import fixed_weights
from hatstream_local.mechanisms.registry import LOCAL_MECHANISMS
from hatstream_local.mechanisms.reports import Reports, Service

_MEAN_REFERENCE = {
    "all 0.1": (4.00e-4, 7.96e-4, 5.19e-4, 5.20e-4, 1.39e-4, 1.31e-4),
    "all 0.6": (1.15e-5, 2.21e-5, 1.26e-5, 1.29e-5, 3.68e-6, 3.44e-6),
    "A1": (4.00e-4, 1.99e-4, 5.47e-5, 3.02e-5, 4.26e-5, 1.69e-5),
    "A2": (1.00e-4, 4.98e-5, 5.19e-4, 5.50e-5, 4.51e-5, 1.99e-5),
    "A3": (4.48e-5, 7.96e-4, 3.00e-5, 1.27e-4, 6.22e-5, 1.54e-5),
    "A4": (2.54e-5, 8.85e-5, 1.26e-4, 5.20e-4, 4.74e-5, 1.64e-5),
}
"""Of Beta(2, 5) values and 1,000,000 users, by SR, Laplace, PM, SW, UA, UWA; three digits."""
_MEAN_REFERENCE_COLUMNS = ("sr", "laplace", "pm", "sw", "ua", "uwa")

_DISTRIBUTION_REFERENCE = {
    ("beta", "all 0.1"): (0.0548, 0.0368, 0.0345, 0.0196),
    ("beta", "all 0.6"): (0.0544, 0.0045, 0.0060, 0.0034),
    ("beta", "C1"): (0.0548, 0.0132, 0.0096, 0.0064),
    ("beta", "C2"): (0.0515, 0.0081, 0.0345, 0.0067),
    ("beta+sin", "all 0.1"): (0.0691, 0.0505, 0.0477, 0.0339),
}
"""Divergences by SR, PM, SW and ULE of EMS that was stopped early, so not of the fixed point that is computed here."""


def reference_of(cell: LocalCell) -> float | None:
    row: tuple[float, ...]
    columns: tuple[str, ...]
    if cell.table == "mean":
        row, columns = _MEAN_REFERENCE.get(cell.config, ()) if cell.data == "beta" else (), _MEAN_REFERENCE_COLUMNS
    else:
        row, columns = _DISTRIBUTION_REFERENCE.get((cell.data, cell.config), ()), DISTRIBUTION_COLUMNS
    return dict(zip(columns, row, strict=False)).get(cell.column)


def exact_of(cell: LocalCell) -> float | None:
    """Finds for a mean of Beta(2, 5) values the expected noise part: variances are affine in v^2, whose mean is 2 / 7.

    None for UWA, whose weights depend on the reports, for other values, and for distributions.
    """
    if cell.table != "mean" or cell.data != "beta" or cell.column == "uwa":
        return None
    pairs = zip(MEAN_KINDS, MEANS[cell.config], strict=True)
    services = [Service(kind, LOCAL_MECHANISMS[kind](epsilon)) for kind, epsilon in pairs]
    share = np.array(math.sqrt(2 / 7))
    variances = {service.name: float(service.mechanism.variance(share)) / SCALE for service in services}
    if cell.column in variances:
        return variances[cell.column]
    reports = Reports(services, np.zeros((len(services), 1)))
    weights = fixed_weights(reports) if cell.column == "fixed" else np.full(len(services), 1 / len(services))
    return sum(
        float(weight) ** 2 * variances[receiver.name]
        for weight, receiver in zip(weights, reports.services, strict=True)
    )


def agrees(cell: LocalCell) -> bool | None:
    """Says whether figures agree. Of a mean: within 4 standard errors of the exact figure; of UWA, which has none,
    within those and 1 % of the reference, whose own figures lie up to 0.7 % from exact ones. None where there is
    neither, and for distributions, whose reference is of another stopping rule."""
    exact, reference = exact_of(cell), reference_of(cell)
    if exact is not None:
        return abs(cell.value - exact) <= 4 * cell.error
    if reference is None or cell.table != "mean":
        return None
    return abs(cell.value - reference) <= 4 * cell.error + reference / 100


def mean_table(cells: Sequence[LocalCell]) -> Table:
    table = table_of(
        "means: noise part of the mean square error on [-1, 1] at 1,000,000 users, Beta(2, 5)",
        "measured (reference); ! differs by more than 4 standard errors from the exact figure, or for UWA, "
        "which has none, by these and 1 % from the reference",
        [],
        ["epsilons [SR, Laplace, PM, SW]", *MEAN_COLUMNS],
    )
    for config, epsilons in MEANS.items():
        by_column = {cell.column: cell for cell in cells if cell.table == "mean" and cell.config == config}
        table.add_row(f"{config} {list(epsilons)}", *(_text(by_column[name], "{:.2e}") for name in MEAN_COLUMNS))
    return table


def distribution_table(cells: Sequence[LocalCell], data: str) -> Table:
    table = table_of(
        f"distributions of {data}: Jensen-Shannon divergence (no root), and its root, the distance",
        "measured ± standard error (reference, of EMS stopped early); after / the mean of the root",
        [],
        ["epsilons [SR, PM, SW]", *DISTRIBUTION_COLUMNS, "ULE's gain by the root"],
    )
    for config, epsilons in DISTRIBUTIONS.items():
        by_column = {
            cell.column: cell
            for cell in cells
            if (cell.table, cell.data, cell.config) == ("distribution", data, config)
        }
        best = min(by_column[name].other for name in DISTRIBUTION_COLUMNS[:-1])
        texts = [f"{_text(by_column[name], '{:.4f}')} / {by_column[name].other:.3f}" for name in DISTRIBUTION_COLUMNS]
        table.add_row(f"{config} {list(epsilons)}", *texts, f"{1 - by_column['ule'].other / best:.0%}")
    return table


def _text(cell: LocalCell, shape: str) -> str:
    reference = reference_of(cell)
    spread = f" ±{shape.format(cell.error)}" if cell.table == "distribution" else ""
    beside = "" if reference is None else f" ({shape.format(reference)})"
    return f"{shape.format(cell.value)}{spread}{beside}{' !' if agrees(cell) is False else ''}"


def draw(cells: Sequence[LocalCell], folder: Path) -> list[Path]:
    """Draws two pictures: errors of means, and distances of distributions, a group of bars for each configuration."""
    means = [cell for cell in cells if cell.table == "mean"]
    paths = [_bars(means, MEAN_COLUMNS, "mean square error, 1,000,000 users", folder, "fusion-means")]
    for data in dict.fromkeys(cell.data for cell in cells if cell.table == "distribution"):
        of_data = [cell for cell in cells if (cell.table, cell.data) == ("distribution", data)]
        name = f"Jensen-Shannon divergence, {data}"
        paths.append(_bars(of_data, DISTRIBUTION_COLUMNS, name, folder, f"fusion-distributions-{data}"))
    return paths


def _bars(cells: Sequence[LocalCell], columns: Sequence[str], name: str, folder: Path, stem: str) -> Path:
    figure = Figure(figsize=(8, 3.6), layout="constrained")
    axes = figure.add_subplot()
    configs = list(dict.fromkeys(cell.config for cell in cells))
    width = 0.8 / len(columns)
    for number, column in enumerate(columns):
        by_config = {cell.config: cell for cell in cells if cell.column == column}
        places = [place + (number - (len(columns) - 1) / 2) * width for place in range(len(configs))]
        axes.bar(places, [by_config[config].value for config in configs], width, label=column)
        rings = [
            (x, reference)
            for x, config in zip(places, configs, strict=True)
            if (reference := reference_of(by_config[config]))
        ]
        axes.plot([x for x, _ in rings], [y for _, y in rings], "o", mfc="none", mec="black", ms=4)
    axes.plot([], [], "o", mfc="none", mec="black", ms=4, label="reference")
    axes.set_yscale("log")
    axes.set_xticks(range(len(configs)), configs)
    frame(axes, "", name)
    return save(figure, folder / f"{stem}.png")
