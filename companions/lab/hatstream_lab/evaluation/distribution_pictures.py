"""Pictures of released distributions. In a file of its own, for matplotlib takes a second to import."""

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from dpops import Grid, Prior
from dpops.mechanisms.tree import BestTree
from hatstream_lab.evaluation.distributions import ARRAY_AVERAGE, CONSTANT, OutputErrors, TrueHat, released, truth_of
from pipelines.pictures import frame, save

_COLOURS = {"0.5": "#d62728", "1": "#ff7f0e", "4": "#1f77b4"}


def draw_cdfs(
    hats: Sequence[TrueHat], bins: int, grid: Grid, epsilons: Sequence[str], prior: Prior | None, folder: Path
) -> Path:
    """Draws true and released shares of HATs of few to many vehicles, with the interval at the largest epsilon."""
    order = np.argsort([hat.totals.counts.size for hat in hats], kind="stable")
    chosen = [hats[order[int(place)]] for place in np.linspace(0.5, 1, 6) * (len(hats) - 1)]
    true, edges = truth_of(chosen, bins, grid).values["cdf"], _edges(bins, grid)
    cdfs = {e: next(released(chosen, BestTree(bins=bins, prior=prior), grid, Fraction(e), 1))["cdf"] for e in epsilons}
    figure = Figure(figsize=(10, 5.6), layout="constrained")
    for index, axes in enumerate(figure.subplots(2, 3, sharex=True, sharey=True).flat):
        last = cdfs[epsilons[-1]]
        axes.fill_between(edges, last.low[index], last.high[index], color="#1f77b4", alpha=0.12, linewidth=0)
        for number, epsilon in enumerate(epsilons):
            colour = _COLOURS.get(epsilon, f"C{number}")
            axes.plot(edges, cdfs[epsilon].value[index], color=colour, linewidth=1.2, label=f"ε {epsilon}")
        axes.plot(edges, true[index], color="black", linewidth=1.4, label="true")
        axes.set_title(f"{chosen[index].totals.counts.size} vehicles, {chosen[index].reported} samples", fontsize=9)
        axes.grid(visible=True, alpha=0.25)
    figure.supxlabel("speed, km/h")
    figure.supylabel("share of samples below")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, [*labels], loc="outside upper center", ncols=4, frameon=False, fontsize=9)
    return save(figure, folder, "distribution-cdfs")


def draw_day(hats: Sequence[TrueHat], bins: int, grid: Grid, epsilon: str, prior: Prior | None, folder: Path) -> Path:
    """Draws P50 and P85 of the cell with most samples on its first day, with their intervals."""
    samples: dict[int, int] = {}
    for hat in hats:
        samples[hat.cell] = samples.get(hat.cell, 0) + hat.reported
    busiest = max(samples, key=lambda cell: samples[cell])
    of_cell = [hat for hat in hats if hat.cell == busiest]
    of_cell = [hat for hat in of_cell if hat.slot_s < of_cell[0].slot_s + 86_400]
    true = truth_of(of_cell, bins, grid).values
    drawn = next(released(of_cell, BestTree(bins=bins, prior=prior), grid, Fraction(epsilon), 1))
    hours = (np.array([hat.slot_s for hat in of_cell]) - of_cell[0].slot_s) / 3600
    figure = Figure(figsize=(8.6, 4), layout="constrained")
    axes = figure.add_subplot()
    for name, colour in (("p50", "#1f77b4"), ("p85", "#d62728")):
        axes.plot(hours, true[name], "--", color=colour, linewidth=1.2, label=f"{name.upper()}, true")
        axes.plot(
            hours, drawn[name].value, "o-", color=colour, linewidth=1.4, markersize=4, label=f"{name.upper()}, released"
        )
        axes.fill_between(hours, drawn[name].low, drawn[name].high, color=colour, alpha=0.1, linewidth=0)
    frame(axes, "hours after the first slot", "km/h")
    vehicles = [hat.totals.counts.size for hat in of_cell]
    told = f"busiest cell, {min(vehicles)} to {max(vehicles)} vehicles in a slot"
    axes.set_title(f"{told}, ε {epsilon} for each HAT; shaded: 95 % intervals", fontsize=9)
    axes.set_ylim(0, float(grid.upper))
    return save(figure, folder, "distribution-day")


def draw_dense(by_vehicles: Sequence[tuple[int, OutputErrors]], epsilon: str, folder: Path) -> Path:
    """Draws errors in the made-up city against the number of vehicles, at one epsilon."""
    figure = Figure(figsize=(7.4, 4.4), layout="constrained")
    axes = figure.add_subplot()
    lines = (
        ("p50", "tree", "#1f77b4", "o-"),
        ("p85", "tree", "#d62728", "s-"),
        ("mean", "tree", "#2ca02c", "^-"),
        ("mean", ARRAY_AVERAGE, "#9467bd", "v-"),
    )
    for output, label, colour, style in lines:
        points = [(v, e.mean) for v, e in by_vehicles if (e.output, e.label, e.epsilon) == (output, label, epsilon)]
        axes.plot(*zip(*points, strict=True), style, color=colour, markersize=4, label=f"{output} ({label})")
    for output, colour in (("p50", "#1f77b4"), ("p85", "#d62728"), ("mean", "#2ca02c")):
        points = [(v, e.mean) for v, e in by_vehicles if (e.output, e.label) == (output, CONSTANT)]
        axes.plot(*zip(*points, strict=True), ":", color=colour, linewidth=1, label=f"{output} (constant)")
    axes.set_xscale("log")
    axes.set_yscale("log")
    frame(axes, "vehicles in the HAT", f"mean absolute error at ε {epsilon}, km/h")
    return save(figure, folder, "distribution-dense-city")


def _edges(bins: int, grid: Grid) -> "np.typing.NDArray[np.float64]":
    return np.arange(1, bins) * float(grid.upper) / bins
