"""A small city under secret counts: its specification, and reports of as many buses as a test wants."""

import json
from collections.abc import Callable
from pathlib import Path

from tests import city

CELLS = ["8742d9d6bffffff", "8742d9d69ffffff", "8742d999affffff", "8742d9d68ffffff"]
"""Three cells in which buses drive, and one that nobody enters."""

SPEC = (
    city.SPEC.replace('"counts-public"', '"add-remove"')
    .replace("limit = 50", "limit = 2.64")
    .replace('region = "occupied"', f"region = {json.dumps(CELLS)}")
    .replace("epsilon = 1.0", "epsilon = 2.64")
    .replace('per = "hat"', 'per = "period"\nscope = "period"')
    .replace('"array-average"', '"levels"')
    .replace("[input]", "[fleet]\nvehicles = 50\n[input]")
)
DAYS = ("2022-01-01", "2022-01-02", "2022-01-03")


def rows(days: tuple[str, ...] = DAYS, buses: int = 4, hours: range = range(8, 11)) -> list[str]:
    """Buses that report four times an hour, each day alike."""
    return [
        f"PLATE{bus},{day}T{hour:02d}:{13 * i:02d}:0{bus % 10}+05:30,{21.17 + 0.02 * ((bus + i) % 3)},72.83,"
        f"{(7 * bus + 11 * i + hour) % 60}\n"
        for day in days
        for hour in hours
        for bus in range(buses)
        for i in range(4)
    ]


def write(folder: Path, *, spec: str = SPEC, lines: list[str] | None = None) -> tuple[Path, Path]:
    return city.write(folder, spec=spec, lines=rows() if lines is None else lines)


def opened(
    folder: Path, hatstream: Callable[..., tuple[int, str, str]], *, spec: str = SPEC, lines: list[str] | None = None
) -> Path:
    """Writes the city into a folder, which may be new, and opens its account."""
    return city.opened(folder, hatstream, spec=spec, lines=rows() if lines is None else lines)
