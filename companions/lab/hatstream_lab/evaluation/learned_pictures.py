"""Pictures of learned estimates on telemetry. In a file of its own, for matplotlib takes a second to import."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hatstream_lab.evaluation.learned_errors import CLASSES, CONSTANT, NO_NOISE, Coverage, Errors, Evaluated
from hatstream_lab.evaluation.learned_tables import span_name
from hatstream_lab.evaluation.truth import TrueCity
from pipelines.pictures import frame, save

_COLOURS = {"causal": "#1f77b4", "whole": "#2ca02c", "forecast": "#ff7f0e"}
_MARKS = "osv^D<>pXh"


def draw_learned(evaluated: Evaluated, city: TrueCity, folder: Path) -> list[Path]:
    """Draws errors by total, by day, and intervals by class, a picture each; no intervals where no HAT is known."""
    drawn = [_draw_totals(evaluated.errors, folder), _draw_days(evaluated.errors, city, folder)]
    return [*drawn, _draw_intervals(evaluated.coverage, folder)] if evaluated.coverage else drawn


def _draw_totals(errors: Sequence[Errors], folder: Path) -> Path:
    figure = _figure(7.6)
    axes = figure.add_subplot()
    for what, colour in _COLOURS.items():
        for delta, style in ((None, "o--"), ("with", "s-")):
            of_noise = [
                of_total
                for of_total in errors
                if of_total.what == what and bool(of_total.delta) == bool(delta) and of_total.rows
            ]
            label = f"{what}, {'delta 1e-6' if delta else 'pure'}"
            x = [float(of_total.total) for of_total in of_noise]
            axes.plot(
                x, [of_total.rows or 0.0 for of_total in of_noise], style, color=colour, markersize=5, label=label
            )
    _bars(axes, errors)
    axes.set_xscale("log")
    totals = sorted({float(error.total) for error in errors if error.total != "-"})
    axes.set_xticks(totals, [f"{total:g}" for total in totals], minor=False)
    axes.minorticks_off()
    frame(axes, "total epsilon of a vehicle-day", "mean absolute error by rows, km/h")
    return save(figure, folder, "learned-totals")


def _draw_days(errors: Sequence[Errors], city: TrueCity, folder: Path) -> Path:
    figure = _figure(8.6)
    axes = figure.add_subplot()
    causal = [of_setting for of_setting in errors if of_setting.what == "causal"]
    for number, of_setting in enumerate(causal):
        days = [day for day, error in enumerate(of_setting.rows_by_day) if error is not None]
        label = f"{of_setting.total}{', delta 1e-6' if of_setting.delta else ', pure'}"
        values = [error for error in of_setting.rows_by_day if error is not None]
        style = "-" if of_setting.delta else "--"
        axes.plot(days, values, style, marker=_MARKS[number % len(_MARKS)], color=f"C{number // 2}", label=label)
    for bar, style in ((CONSTANT, ":"), (NO_NOISE, "-.")):
        by_day = next(of_setting.rows_by_day for of_setting in errors if of_setting.what == bar)
        values = [error or 0.0 for error in by_day]
        axes.plot(range(len(values)), values, style, marker="_", color="#4d4d4d", label=bar)
    axes.set_xticks(range(len(city.days)), [day.name for day in city.days], rotation=20)
    frame(axes, "", "mean absolute error by rows, km/h")
    return save(figure, folder, "learned-days")


def _draw_intervals(coverage: Sequence[Coverage], folder: Path) -> Path:
    figure = _figure(9.4)
    held, width = figure.subplots(1, 2)
    held.axhspan(0.93, 0.97, color="#2ca02c", alpha=0.12, linewidth=0)
    held.axhline(0.95, color="#2ca02c", linewidth=0.8)
    classes = [least for least, _ in CLASSES]
    keys = list(dict.fromkeys((row.total, row.delta) for row in coverage))
    totals = list(dict.fromkeys(row.total for row in coverage))
    for number, key in enumerate(keys):
        of_total = [row for row in coverage if row.by == "predicted" and (row.total, row.delta) == key]
        shift = (number - (len(keys) - 1) / 2) * 0.09
        places = [classes.index(row.least) + shift for row in of_total]
        mark = {"marker": _MARKS[number % len(_MARKS)], "color": f"C{totals.index(key[0])}", "linestyle": "none"}
        fill = {} if key[1] else {"markerfacecolor": "none"}
        label = f"{key[0]}, {'delta 1e-6' if key[1] else 'pure'}"
        held.plot(places, [row.held for row in of_total], label=label, **mark, **fill)
        width.plot(places, [row.half_width for row in of_total], label=label, **mark, **fill)
    names = [span_name(*bounds) for bounds in CLASSES]
    for axes in (held, width):
        axes.set_xticks(range(len(names)), names)
        axes.set_xlim(0.5, len(names) - 0.5)
    held.set_ylim(min([0.8, *(row.held for row in coverage if row.by == "predicted")]) - 0.01, 1.005)
    width.set_ylim(bottom=0)
    held.set_xlabel("vehicles in the HAT, as predicted")
    held.set_ylabel("share of intervals that hold the truth")
    held.grid(visible=True, alpha=0.25)
    frame(width, "vehicles in the HAT, as predicted", "half width of intervals, km/h")
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
