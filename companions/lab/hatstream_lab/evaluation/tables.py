"""Tables of errors: of HATs by how many vehicles each has, and beside those of a constant."""

import numpy as np
from numpy.typing import NDArray

from hatstream_lab.types import Float64s
from pipelines.commands.terminal import table_of as table_of

CLASSES = ((1, 1), (2, 3), (4, 7), (8, 15), (16, 31), (32, None))
"""HATs by number of vehicles, from and to, both included."""


def class_name(least: float, most: float | None) -> str:
    return f"{least:g}+" if most is None else f"{least:g}" if least == most else f"{least:g}-{most:g}"


def class_names() -> list[str]:
    return [class_name(*bounds) for bounds in CLASSES]


def in_class(vehicles: Float64s, least: int, most: int | None) -> NDArray[np.bool_]:
    return (vehicles >= least) & (vehicles <= (np.inf if most is None else most))


def means_by_class(errors: Float64s, vehicles: Float64s) -> list[float | None]:
    """Averages the errors of each class; None for one without HATs. errors, vehicles: float64 (HATs,)."""
    chosen = [in_class(vehicles, *bounds) for bounds in CLASSES]
    return [float(errors[rows].mean()) if rows.any() else None for rows in chosen]


def class_headings(vehicles: Float64s, between: str = "\n") -> list[str]:
    """Names each class for a table, with the number of its HATs. between: what separates the two."""
    return [f"{class_name(*bounds)}{between}({int(in_class(vehicles, *bounds).sum())})" for bounds in CLASSES]


def against(value: float | None, level: float | None, digits: int = 2) -> str:
    """Writes an error with a star where a constant's, the level, is smaller."""
    if value is None or level is None:
        return "-"
    return f"{value:.{digits}f}{' *' if value > level else '  '}"
