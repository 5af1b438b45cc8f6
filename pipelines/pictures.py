"""Writes pictures. In a file of its own, for matplotlib takes a second to import."""

from io import BytesIO
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from PIL import Image

from transforms.atomic_files import replacing

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
