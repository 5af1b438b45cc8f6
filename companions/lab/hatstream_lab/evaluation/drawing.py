"""Frames and writes pictures. In a file of its own, for matplotlib takes a second to import."""

from io import BytesIO
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image


def save(figure: Figure, path: Path) -> Path:
    """Writes the picture as a small PNG of a few colours."""
    path.parent.mkdir(parents=True, exist_ok=True)
    drawn = BytesIO()
    figure.savefig(drawn, format="png", dpi=96)
    Image.open(drawn).convert("RGB").quantize(64).save(path, format="png", optimize=True)
    return path


def frame(axes: Axes, x: str, y: str) -> None:
    """Names the axes, and puts a grid behind and the legend beside what is drawn."""
    axes.set(xlabel=x, ylabel=y)
    axes.grid(visible=True, which="major", alpha=0.25)
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
