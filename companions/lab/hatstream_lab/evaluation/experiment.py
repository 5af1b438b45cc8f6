"""An experiment: data, settings that vary, and a measure of each run; its result is a table, and pictures of it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from rich.table import Table as RichTable

Label = str | int | None
Data = TypeVar("Data")
Setting = TypeVar("Setting")
WIDEST_LABEL = 24


class Mean(NamedTuple):
    """Part of a mean over all runs: a sum, and the weight that it is of."""

    total: float
    weight: float = 1.0

    @classmethod
    def of(cls, values: Any, weights: Any = None) -> "Mean":
        """Averages values, (entries,), by weights."""
        column = np.asarray(values, np.float64)
        weighed = np.ones(column.size) if weights is None else np.asarray(weights, np.float64)
        return cls(float(column @ weighed), float(weighed.sum()))

    @property
    def value(self) -> float | None:
        return self.total / self.weight if self.weight else None


class Worst(NamedTuple):
    """The largest value of all runs."""

    value: float | None


Figure = Mean | Worst
Row = Mapping[str, Label | Figure]
"""Labels that tell rows apart, and figures."""


@dataclass(frozen=True)
class Experiment(Generic[Data, Setting]):
    """Measures every setting in some runs. measure: rows of one run; its number seeds the noise."""

    data: Data
    vary: Sequence[Setting]
    measure: Callable[[Data, Setting, int], Iterable[Row]]

    def table(self, runs: int, report: Callable[[int, int], None] = lambda _done, _whole: None) -> "Table":
        """Joins rows of the same labels: means over all runs, or the worst of them."""
        joined: dict[tuple[tuple[str, Label], ...], dict[str, Figure]] = {}
        whole = runs * len(self.vary)
        for done, (setting, run) in enumerate(product(self.vary, range(runs)), 1):
            for row in self.measure(self.data, setting, run):
                labels = tuple((name, value) for name, value in row.items() if not isinstance(value, Mean | Worst))
                figures = joined.setdefault(labels, {})
                for name, value in row.items():
                    if isinstance(value, Mean | Worst):
                        figures[name] = _joined(figures.get(name), value)
            report(done, whole)
        return Table([dict(labels) | {name: of.value for name, of in row.items()} for labels, row in joined.items()])


def _joined(figure: Figure | None, run: Figure) -> Figure:
    if isinstance(run, Mean):
        mean = figure if isinstance(figure, Mean) else Mean(0.0, 0.0)
        return Mean(mean.total + run.total, mean.weight + run.weight)
    values = (None if figure is None else figure.value, run.value)
    return Worst(max((value for value in values if value is not None), default=None))


@dataclass(frozen=True)
class Table:
    """Rows of labels (text or numbers of things) and figures; None where there is none."""

    rows: list[dict[str, Any]] = field(default_factory=list)

    def where(self, **labels: Label | Sequence[Label]) -> "Table":
        """Keeps rows that have these labels, or one of several."""
        wanted = {name: value if isinstance(value, list | tuple) else (value,) for name, value in labels.items()}
        return Table([row for row in self.rows if all(row.get(name) in some for name, some in wanted.items())])

    def show(self, title: str, caption: str, labels: Sequence[str], figures: Mapping[str, str]) -> RichTable:
        """Makes a table for a terminal. figures: by the name of each its heading."""
        table = RichTable(title=title, title_justify="left", caption=caption, caption_justify="left")
        for name in labels:
            table.add_column(name, max_width=WIDEST_LABEL)
        for heading in figures.values():
            table.add_column(heading, justify="right")
        for row in self.rows:
            texts = ["-" if row.get(name) is None else str(row[name]) for name in labels]
            table.add_row(*texts, *(short(row.get(name)) for name in figures))
        return table

    def grid(self, title: str, caption: str, row: str, columns: Sequence[str], figure: str) -> RichTable:
        """Makes a table of one figure: a row for each value of a label, a column for each of other labels."""
        table = RichTable(title=title, title_justify="left", caption=caption, caption_justify="left")
        table.add_column(row)
        series = dict(_series(self, columns))
        for name in series:
            table.add_column(name, justify="right")
        for value in dict.fromkeys(line[row] for line in self.rows):
            of_value = [next((line[figure] for line in lines if line[row] == value), None) for lines in series.values()]
            table.add_row(str(value), *map(short, of_value))
        return table

    def draw(self, path: Path, x: str, figure: str, series: Sequence[str], axes: tuple[str, str]) -> Path:
        """Draws a figure over a label, a line for each of the series' labels, as a small PNG."""
        return _drawn(self, path, x, figure, series, axes)


def short(number: Any) -> str:
    """Writes a figure with two digits behind the point, or three where it is a share."""
    if number is None or number != number:
        return "-"
    return f"{number:,}" if isinstance(number, int) else f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def _drawn(table: Table, path: Path, x: str, figure: str, series: Sequence[str], axes: tuple[str, str]) -> Path:
    from matplotlib.figure import Figure as Canvas  # matplotlib takes a second to import

    from hatstream_lab.evaluation.drawing import frame, save

    canvas = Canvas(figsize=(8.2, 4.2), layout="constrained")
    canvas.suptitle("NOT PRIVATE: compared with true values", fontsize=9)
    panel = canvas.add_subplot()
    places = list(dict.fromkeys(str(row[x]) for row in table.rows if row.get(figure) is not None))
    for number, (name, rows) in enumerate(_series(table, series)):
        points = [row for row in rows if row.get(figure) is not None]
        if points:
            ticks = [places.index(str(row[x])) for row in points]
            mark = "os^Dv<>pXh"[number % 10]
            panel.plot(ticks, [row[figure] for row in points], marker=mark, markersize=5, linewidth=1.2, label=name)
    panel.set_xticks(range(len(places)), places)
    if places:
        frame(panel, *axes)
    return save(canvas, path)


def _series(table: Table, labels: Sequence[str]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    keys = dict.fromkeys(tuple(row.get(name) for name in labels) for row in table.rows)
    for key in keys:
        name = ", ".join(str(value) for value in key if value is not None)
        yield name, [row for row in table.rows if tuple(row.get(name) for name in labels) == key]
