"""Tables of errors: of HATs by how many vehicles each has, and beside those of a constant."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from hatstream_lab.evaluation.experiment import Mean
from hatstream_lab.types import Float64s

CLASSES = ((1, 1), (2, 3), (4, 7), (8, 15), (16, 31), (32, None))
"""HATs by number of vehicles, from and to, both included."""


def table_of(title: str | None, caption: str | None, left: Sequence[str], right: Sequence[str]) -> Table:
    """Makes a table without rows. left: the columns of names, which are never broken. right: those of numbers."""
    table = Table(title=title, caption=caption, title_justify="left", caption_justify="left")
    for name in left:
        table.add_column(name, no_wrap=True)
    for name in right:
        table.add_column(name, justify="right")
    return table


def class_name(least: float, most: float | None) -> str:
    return f"{least:g}+" if most is None else f"{least:g}" if least == most else f"{least:g}-{most:g}"


def class_names() -> list[str]:
    return [class_name(*bounds) for bounds in CLASSES]


def in_class(vehicles: Float64s, least: int, most: int | None) -> NDArray[np.bool_]:
    return (vehicles >= least) & (vehicles <= (np.inf if most is None else most))


def means_by_class(errors: Float64s, vehicles: Float64s) -> list[float | None]:
    """Averages the errors of each class; None for one without HATs. errors, vehicles: float64 (HATs,)."""
    return [mean.value for mean in list(figures_by_class(errors, vehicles).values())[1:]]


def figures_by_class(errors: Float64s, vehicles: Float64s) -> dict[str, Mean]:
    """Averages the errors of all HATs, as `hats`, and of each class, by its name."""
    chosen = {class_name(*bounds): in_class(vehicles, *bounds) for bounds in CLASSES}
    return {"hats": Mean.of(errors)} | {name: Mean.of(errors[rows]) for name, rows in chosen.items()}


def class_headings(vehicles: Float64s, between: str = "\n") -> list[str]:
    """Names each class for a table, with the number of its HATs. between: what separates the two."""
    return [f"{class_name(*bounds)}{between}({int(in_class(vehicles, *bounds).sum())})" for bounds in CLASSES]


def against(value: float | None, level: float | None, digits: int = 2) -> str:
    """Writes an error with a star where a constant's, the level, is smaller."""
    if value is None or level is None:
        return "-"
    return f"{value:.{digits}f}{' *' if value > level else '  '}"
