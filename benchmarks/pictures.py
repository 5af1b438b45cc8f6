"""Pictures as small PNG files."""

from io import BytesIO
from pathlib import Path

from matplotlib.figure import Figure
from PIL import Image

from transforms.atomic_files import replacing

DPI = 96
COLOURS = 64


def save(figure: Figure, folder: Path, stem: str) -> Path:
    """Writes the picture with few colours, the same bytes for the same figure."""
    folder.mkdir(parents=True, exist_ok=True)
    path, drawn = folder / f"{stem}.png", BytesIO()
    figure.savefig(drawn, format="png", dpi=DPI)
    with replacing(path) as file:
        Image.open(drawn).convert("RGB").quantize(COLOURS).save(file, format="png", optimize=True)
    return path
