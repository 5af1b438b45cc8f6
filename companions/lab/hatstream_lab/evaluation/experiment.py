"""Runs experiments: data, settings and a measure of them.

A row has labels, which tell rows apart, and figures, which are joined over runs: means, or the worst run's. A measure
yields the rows of one setting and run. A series is the rows that make one line of a picture or one column of a grid.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from rich.table import Table as RichTable

Float64s = NDArray[np.float64]
Int64s = NDArray[np.int64]
Report = Callable[[str, int, int | None], None]  # called with a phase, the number done, and the total if known
NOT_PRIVATE = "NOT PRIVATE: these figures are functions of true values; do not publish them"
Label = str | int | None
Data = TypeVar("Data")
Setting = TypeVar("Setting")
Progress = Callable[[int, int], None]  # called with how many runs are done, and how many there are


class Mean(NamedTuple):
    """Part of a mean: a sum and its weight."""

    total: float
    weight: float = 1.0

    @classmethod
    def of(cls, values: Any, weights: Any = None) -> "Mean":
        """Sums weighted values, (entries,), and their weights, by default 1 each."""
        column = np.asarray(values, np.float64)
        weighed = np.ones(column.size) if weights is None else np.asarray(weights, np.float64)
        return cls(float(column @ weighed), float(weighed.sum()))

    @property
    def value(self) -> float | None:
        """Weighted mean, or None without weight."""
        return self.total / self.weight if self.weight else None


class Worst(NamedTuple):
    """The largest value of all runs."""

    value: float | None


Figure = Mean | Worst
Row = Mapping[str, Label | Figure]  # labels that tell rows apart, and figures


def experiment(
    data: Data,
    settings: Sequence[Setting],
    measure: Callable[[Data, Setting, int], Iterable[Row]],
    runs: int = 1,
    report: Progress = lambda _done, _runs: None,
    processes: int = 1,
) -> "Table":
    """Measures every setting in several runs, seeded by number; joins rows of equal labels.

    processes: of more than one, data, settings and `measure` must be picklable.
    """
    tasks = list(product(settings, range(runs)))  # (setting, number of the run)
    joined: dict[tuple[tuple[str, Label], ...], dict[str, Figure]] = {}
    with ExitStack() as stack:
        in_order: Any = map
        if processes > 1:
            in_order = stack.enter_context(ProcessPoolExecutor(processes, get_context("spawn"))).map
        for number, rows in enumerate(in_order(partial(_measure_task, measure, data), tasks), 1):
            for row in rows:
                labels = tuple((name, value) for name, value in row.items() if not isinstance(value, Mean | Worst))
                figures = joined.setdefault(labels, {})
                for name, value in row.items():
                    if isinstance(value, Mean | Worst):
                        figures[name] = _join(figures.get(name), value)
            report(number, len(tasks))
    return Table([dict(labels) | {name: x.value for name, x in row.items()} for labels, row in joined.items()])


def _measure_task(measure: Callable[..., Iterable[Row]], data: Any, task: tuple[Any, int]) -> list[Row]:
    """Measures one (setting, run), maybe in a worker process, which sends a list."""
    return list(measure(data, *task))


def _join(figure: Figure | None, run: Figure) -> Figure:
    """Adds a run to a figure: weighted means add up; the worst stays."""
    if isinstance(run, Mean):
        mean = figure if isinstance(figure, Mean) else Mean(total=0.0, weight=0.0)
        return Mean(mean.total + run.total, mean.weight + run.weight)
    values = (None if figure is None else figure.value, run.value)
    return Worst(max((value for value in values if value is not None), default=None))


@dataclass(frozen=True)
class Table:
    """Rows of labels and figures; None where missing."""

    rows: list[dict[str, Any]] = field(default_factory=list)

    def where(self, **labels: Label | Sequence[Label]) -> "Table":
        """Selects rows with given labels."""
        wanted = {name: value if isinstance(value, list | tuple) else (value,) for name, value in labels.items()}
        return Table([row for row in self.rows if all(row.get(name) in values for name, values in wanted.items())])

    def with_figures(self, figures: Mapping[str, Callable[[Mapping[str, Any]], Any]]) -> "Table":
        """Adds figures to each row, computed from it."""
        return Table([row | {name: figure(row) for name, figure in figures.items()} for row in self.rows])

    def show(
        self, title: str, caption: str, labels: Sequence[str], figures: Mapping[str, str] | Sequence[str]
    ) -> RichTable:
        """Renders labels and figures for a terminal; `figures` may map names to headings."""
        table = RichTable(title=title, title_justify="left", caption=caption, caption_justify="left")
        for name in labels:
            table.add_column(name, max_width=32)
        for name in figures:
            table.add_column(figures[name] if isinstance(figures, Mapping) else name, justify="right")
        for row in self.rows:
            texts = ["-" if row.get(name) is None else str(row[name]) for name in labels]
            table.add_row(*texts, *(short(row.get(name)) for name in figures))
        return table

    def grid(self, row: str, columns: Sequence[str], figure: str | Callable[[dict[str, Any]], str]) -> "Table":
        """Pivots rows: one for each value of `row`, with columns named by `columns`.

        figure: name of the figure that fills a cell of the table, or a function of the row that computes it.
        """
        cell = figure if callable(figure) else lambda line: line.get(figure)
        lines: dict[Any, dict[str, Any]] = {}
        for name, series in self._series(columns):
            for line in series:
                lines.setdefault(line[row], {row: line[row]})[name] = cell(line)
        return Table(list(lines.values()))

    def draw(
        self,
        path: Path,
        x: str,
        figure: str,
        series: Sequence[str],
        axes: tuple[str, str],
        *,
        title: str = "NOT PRIVATE: compared with true values",
        is_log: bool = False,
        rings: str = "",
    ) -> Path:
        """Draws a figure over a label as PNG.

        x, series: labels. figure: above them. axes: texts of both axes. rings: a figure whose values are open rings.
        """
        from matplotlib.figure import Figure as Canvas  # matplotlib takes a second to import

        canvas = Canvas(figsize=(8.4, 4.8), layout="constrained")
        canvas.suptitle(title, fontsize=9)
        panel = canvas.add_subplot()
        x_labels = list(dict.fromkeys(str(row[x]) for row in self.rows if row.get(figure) is not None))
        for number, (name, rows) in enumerate(self._series(series)):
            points = [(x_labels.index(str(row[x])), row[figure]) for row in rows if row.get(figure) is not None]
            # The plot has ten colours; 13 markers, and dashes for every other ten series, tell more apart.
            style: dict[str, Any] = {"marker": "os^Dv<>pXh*P8"[number % 13], "linestyle": ("-", "--")[number // 10 % 2]}
            if points:
                panel.plot(*zip(*points, strict=True), markersize=4, linewidth=1.2, label=name, **style)
        ring = [(x_labels.index(str(row[x])), row[rings]) for row in self.rows if row.get(rings) is not None]
        if ring:
            panel.plot(*zip(*ring, strict=True), "o", mfc="none", mec="grey", ms=9, label=rings)
        panel.set_xticks(range(len(x_labels)), x_labels)
        panel.set(xlabel=axes[0], ylabel=axes[1], yscale="log" if is_log else "linear")
        panel.grid(visible=True, which="major", alpha=0.25)
        if x_labels:
            panel.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
        return save_picture(canvas, path)

    def _series(self, labels: Sequence[str]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
        """Groups rows by the values of `labels`; yields each group's name and rows."""
        keys = dict.fromkeys(tuple(row.get(name) for name in labels) for row in self.rows)
        for key in keys:
            name = ", ".join(str(value) for value in key if value not in (None, ""))
            yield name, [row for row in self.rows if tuple(row.get(name) for name in labels) == key]


def save_picture(canvas: Any, path: Path) -> Path:
    """Writes a figure of matplotlib as PNG of 64 colours, enough for lines."""
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    png = BytesIO()
    canvas.savefig(png, format="png", dpi=96)
    Image.open(png).convert("RGB").quantize(64).save(path, format="png", optimize=True)
    return path


def short(number: Any) -> str:
    """Formats a figure with three significant digits."""
    if number is None or number != number:
        return "-"
    if isinstance(number, str):
        return number
    return f"{number:,}" if isinstance(number, int) else f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"
