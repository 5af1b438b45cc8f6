"""Writes pictures. In a file of its own, for matplotlib takes a second to import."""

from io import BytesIO
from pathlib import Path

from matplotlib.figure import Figure
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
