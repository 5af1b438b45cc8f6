"""Pictures of learned estimates on telemetry. In a file of its own, for matplotlib takes a second to import."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipelines.lab.evaluation.learned_errors import CLASSES, CONSTANT, NO_NOISE, Coverage, Errors, Evaluated
from pipelines.lab.evaluation.learned_tables import span_name
from pipelines.lab.evaluation.truth import TrueCity
from pipelines.pictures import save

_COLOURS = {"causal": "#1f77b4", "whole": "#2ca02c", "forecast": "#ff7f0e"}
_MARKS = "osv^D<>pXh"


def draw_learned(found: Evaluated, city: TrueCity, folder: Path) -> list[Path]:
    """Errors by total, by day, and intervals by class, a picture each; none of intervals where no HAT is known."""
    drawn = [_draw_totals(found.errors, folder), _draw_days(found.errors, city, folder)]
    return [*drawn, _draw_intervals(found.coverage, folder)] if found.coverage else drawn


def _draw_totals(errors: Sequence[Errors], folder: Path) -> Path:
    figure = _figure(7.6)
    axes = figure.add_subplot()
    for what, colour in _COLOURS.items():
        for delta, style in ((None, "o--"), ("with", "s-")):
            mine = [each for each in errors if each.what == what and bool(each.delta) == bool(delta) and each.rows]
            label = f"{what}, {'delta 1e-6' if delta else 'pure'}"
            x = [float(each.total) for each in mine]
            axes.plot(x, [each.rows or 0.0 for each in mine], style, color=colour, markersize=5, label=label)
    _bars(axes, errors)
    axes.set_xscale("log")
    totals = sorted({float(error.total) for error in errors if error.total != "-"})
    axes.set_xticks(totals, [f"{total:g}" for total in totals], minor=False)
    axes.minorticks_off()
    _frame(axes, "total epsilon of a vehicle-day", "mean absolute error by rows, km/h")
    return save(figure, folder, "learned-totals")


def _draw_days(errors: Sequence[Errors], city: TrueCity, folder: Path) -> Path:
    figure = _figure(8.6)
    axes = figure.add_subplot()
    causal = [each for each in errors if each.what == "causal"]
    for number, each in enumerate(causal):
        at = [day for day, error in enumerate(each.rows_by_day) if error is not None]
        label = f"{each.total}{', delta 1e-6' if each.delta else ', pure'}"
        values = [error for error in each.rows_by_day if error is not None]
        style = "-" if each.delta else "--"
        axes.plot(at, values, style, marker=_MARKS[number % len(_MARKS)], color=f"C{number // 2}", label=label)
    for bar, style in ((CONSTANT, ":"), (NO_NOISE, "-.")):
        by_day = next(each.rows_by_day for each in errors if each.what == bar)
        values = [error or 0.0 for error in by_day]
        axes.plot(range(len(values)), values, style, marker="_", color="#4d4d4d", label=bar)
    axes.set_xticks(range(len(city.days)), [day.name for day in city.days], rotation=20)
    _frame(axes, "", "mean absolute error by rows, km/h")
    return save(figure, folder, "learned-days")


def _draw_intervals(coverage: Sequence[Coverage], folder: Path) -> Path:
    figure = _figure(9.4)
    held, width = figure.subplots(1, 2)
    held.axhspan(0.93, 0.97, color="#2ca02c", alpha=0.12, linewidth=0)
    held.axhline(0.95, color="#2ca02c", linewidth=0.8)
    classes = [least for least, _ in CLASSES]
    keys = list(dict.fromkeys((each.total, each.delta) for each in coverage))
    totals = list(dict.fromkeys(each.total for each in coverage))
    for number, key in enumerate(keys):
        mine = [each for each in coverage if each.by == "predicted" and (each.total, each.delta) == key]
        shift = (number - (len(keys) - 1) / 2) * 0.09
        at = [classes.index(each.least) + shift for each in mine]
        mark = {"marker": _MARKS[number % len(_MARKS)], "color": f"C{totals.index(key[0])}", "linestyle": "none"}
        fill = {} if key[1] else {"markerfacecolor": "none"}
        label = f"{key[0]}, {'delta 1e-6' if key[1] else 'pure'}"
        held.plot(at, [each.held for each in mine], label=label, **mark, **fill)
        width.plot(at, [each.half_width for each in mine], label=label, **mark, **fill)
    names = [span_name(*bounds) for bounds in CLASSES]
    for axes in (held, width):
        axes.set_xticks(range(len(names)), names)
        axes.set_xlim(0.5, len(names) - 0.5)
    held.set_ylim(min([0.8, *(each.held for each in coverage if each.by == "predicted")]) - 0.01, 1.005)
    width.set_ylim(bottom=0)
    held.set_xlabel("vehicles in the HAT, as predicted")
    held.set_ylabel("share of intervals that hold the truth")
    held.grid(visible=True, alpha=0.25)
    _frame(width, "vehicles in the HAT, as predicted", "half width of intervals, km/h")
    return save(figure, folder, "learned-intervals")


def _figure(width: float) -> Figure:
    figure = Figure(figsize=(width, 4.2), layout="constrained")
    figure.suptitle("NOT PRIVATE: compared with true values", fontsize=9)
    return figure


def _bars(axes: Axes, errors: Sequence[Errors]) -> None:
    for name, style in ((CONSTANT, ":"), (NO_NOISE, "-.")):
        axes.axhline(
            next(error.rows or 0.0 for error in errors if error.what == name), color="#4d4d4d", linestyle=style
        )
        axes.plot([], [], style, color="#4d4d4d", label=name)


def _frame(axes: Axes, x: str, y: str) -> None:
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(visible=True, alpha=0.25)
    axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.01, 0.5))
