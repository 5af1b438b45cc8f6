"""Error-against-epsilon pictures. In a file of its own, for matplotlib takes a second to import."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from hatstream_lab.evaluation.drawing import frame, save
from hatstream_lab.evaluation.report import reference_of
from hatstream_lab.evaluation.simulate import SimulatedCell

_MARKERS = "osv^D<>pXh*P8"
_COLOURS = (
    "#4d4d4d", "#d62728", "#ff7f0e", "#8c564b", "#1f77b4", "#2ca02c", "#17becf", "#9467bd", "#e377c2", "#b8860b",
    "#6a3d9a",
)  # fmt: skip
_STYLES = (":", "-", "--", "-.", "-")


def draw_errors(name: str, cells: Sequence[SimulatedCell], folder: Path) -> Path:
    """Draws error against epsilon, a line a mechanism, the reference as open rings."""
    figure = Figure(figsize=(8.6, 5.2), layout="constrained")
    axes = figure.add_subplot()
    for number, label in enumerate(dict.fromkeys(cell.label for cell in cells)):
        of_label = [cell for cell in cells if cell.label == label]
        x, errors = [float(cell.epsilon) for cell in of_label], [cell.error for cell in of_label]
        if label == "auto":  # wide and behind, so that the mechanism it chose is seen
            axes.plot(x, errors, color="black", linewidth=7, alpha=0.25, label=label, zorder=1)
            continue
        colour, style = _COLOURS[number % len(_COLOURS)], _STYLES[number % len(_STYLES)]
        axes.plot(x, errors, style, marker=_MARKERS[number], markersize=4, label=label, color=colour, linewidth=1.3)
    rings = [(float(c.epsilon), reference) for c in cells if (reference := reference_of(c)) is not None]
    if rings:
        axes.plot(*zip(*rings, strict=True), "o", mfc="none", mec="grey", ms=9, label="reference")
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=20))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_title(name)
    frame(axes, "epsilon of the HAT", "mean absolute error, km/h")
    return save(figure, folder / f"error-{name}.png")
