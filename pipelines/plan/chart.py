"""The chart of a plan, and how pictures are written. Apart, for matplotlib is slow to import."""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from PIL import Image

from dpops.types import Float64s
from pipelines.plan.needs import MechanismNeeds
from pipelines.specification import Specification
from transforms.atomic_files import replacing

_COLOURS = ("#c6dbef", "#6baed6", "#08306b", "#fd8d3c", "#a63603")
_VEHICLES: Float64s = np.geomspace(1, 300, 60)


class Curve(NamedTuple):
    """hat: half-widths of a HAT in km/h, by number of vehicles. place: of a cell's whole day, where it is known."""

    epsilon: float
    hat: Float64s
    place: Float64s | None = None


def draw_plan(spec: Specification, within_kmh: float, needs: MechanismNeeds | None, folder: Path) -> Path:
    """Draws the chart of a plan. needs: where counts are public; None for `levels`."""
    if needs is None:
        from pipelines.plan.levels import half_width_curves  # a plan of HATs needs none of it

        curves = [Curve(*curve) for curve in half_width_curves(spec, _VEHICLES)]
        return draw_half_widths(f"{spec.name}: a day, by total of a vehicle", _VEHICLES, curves, within_kmh, folder)
    curves = [Curve(need.epsilon, np.array(need.half_widths_kmh)) for need in needs.by_epsilon]
    vehicles = np.array(needs.vehicles_in_a_hat, np.float64)
    title = f"{spec.name}: {needs.mechanism}, by epsilon of a HAT"
    return draw_half_widths(title, vehicles, curves, within_kmh, folder)


def draw_half_widths(title: str, vehicles: Float64s, curves: Sequence[Curve], within_kmh: float, folder: Path) -> Path:
    """Draws half-widths. Solid lines: a HAT. Dashed lines: the mean of a cell's whole day. Dotted: what is wanted."""
    figure = Figure(figsize=(8.6, 5.2), layout="constrained")
    axes = figure.add_subplot()
    for curve, colour in zip(curves, _COLOURS, strict=True):
        axes.plot(vehicles, curve.hat, color=colour, linewidth=2, label=f"epsilon {curve.epsilon:g}")
        if curve.place is not None:
            axes.plot(vehicles, curve.place, "--", color=colour, linewidth=1.3)
    if any(curve.place is not None for curve in curves):
        axes.plot([], [], "--", color="grey", linewidth=1.3, label="mean of a cell's whole day")
    axes.axhline(within_kmh, color="black", linestyle=":", linewidth=1, label=f"±{within_kmh:g} km/h")
    axes.set(title=title, xscale="log", yscale="log")
    number_plainly(axes.xaxis)
    number_plainly(axes.yaxis)
    frame(axes, "vehicles in the HAT", "half of the 95 % interval, km/h")
    return save(figure, folder, "half-widths")


DPI = 96
COLOURS = 64


def save(figure: Figure, folder: Path, stem: str) -> Path:
    """Writes the picture as a small PNG of a few colours, the same bytes for the same figure."""
    folder.mkdir(parents=True, exist_ok=True)
    path, drawn = folder / f"{stem}.png", BytesIO()
    figure.savefig(drawn, format="png", dpi=DPI)
    with replacing(path) as file:
        Image.open(drawn).convert("RGB").quantize(COLOURS).save(file, format="png", optimize=True)
    return path


def frame(axes: Axes, x: str, y: str) -> None:
    """Names the axes, and puts a grid behind and the legend beside what is drawn."""
    axes.set(xlabel=x, ylabel=y)
    axes.grid(visible=True, which="major", alpha=0.25)
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)


def number_plainly(axis: Axis) -> None:
    """Numbers a logarithmic axis by 1, 2, 5, 10 .. as they are."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=20))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())
