"""What an evaluation shows: tables beside reference figures, and what `auto` is worth."""

import math
from collections.abc import Sequence

from rich.table import Table

from hatstream_lab.evaluation.reference import REFERENCE, last_digit
from hatstream_lab.evaluation.simulate import SimulatedCell
from hatstream_lab.evaluation.tables import table_of


def reference_of(cell: SimulatedCell) -> float | None:
    return REFERENCE.get(cell.data, {}).get(cell.label, {}).get(cell.epsilon)


def agrees(cell: SimulatedCell) -> bool | None:
    """Says whether the figures agree: within 4 standard errors of both (the reference's are of 10,000 runs) and half a
    unit of its last digit.

    None where there is no reference.
    """
    reference = reference_of(cell)
    if reference is None:
        return None
    both = math.hypot(cell.standard_error, cell.standard_error * math.sqrt(cell.runs / 10_000))
    return abs(cell.error - reference) <= 4 * both + last_digit(cell.data, cell.label, reference) / 2


def error_table(name: str, cells: Sequence[SimulatedCell], note: str, *, same_data: bool) -> Table:
    """Shows one data set's mean absolute errors: mechanism by epsilon, each with Monte-Carlo error and reference.

    same_data: whether these are the reference's own data, so that disagreement is marked.
    """
    epsilons = list(dict.fromkeys(cell.epsilon for cell in cells))
    names = [f"ε {epsilon}" for epsilon in epsilons]
    table = table_of(f"{name}: mean absolute error, km/h", note, ["mechanism"], names)
    by_label: dict[str, list[str]] = {}
    for cell in cells:
        reference = reference_of(cell)
        mark = " !" if same_data and agrees(cell) is False else ""
        beside = "" if reference is None else f" ({reference:g}){mark}"
        text = f"{_short(cell.error)} ±{_short(cell.standard_error)}{beside}"
        by_label.setdefault(cell.label, []).append(text)
    for label, row in by_label.items():
        table.add_row(label, *row)
    return table


def auto_table(cells: Sequence[SimulatedCell]) -> Table:
    """Shows how far `auto` and each single mechanism lie above the best one: worst cell, and on average, per set."""
    ratios = ratios_to_best(cells)
    names = list(dict.fromkeys(cell.data for cell in cells))
    table = table_of(
        "error over that of the best single mechanism: average (worst cell)",
        "1.00 is the best single mechanism of each data set and epsilon, chosen after the fact.",
        ["always"],
        [*names, "all"],
    )
    for label, row in ratios.items():
        parts = [row[name] for name in names]
        texts = [f"{_mean(part):.2f} ({max(part):.2f})" for part in parts]
        everything = [ratio for part in parts for ratio in part]
        table.add_row(label, *texts, f"{_mean(everything):.2f} ({max(everything):.2f})")
    return table


def ratios_to_best(cells: Sequence[SimulatedCell]) -> dict[str, dict[str, list[float]]]:
    """Divides, by label and data set, the error of each epsilon by that of the best single mechanism there."""
    best: dict[tuple[str, str], float] = {}
    for cell in cells:
        if cell.label != "auto":
            key = cell.data, cell.epsilon
            best[key] = min(best.get(key, math.inf), cell.error)
    ratios: dict[str, dict[str, list[float]]] = {}
    for cell in cells:
        ratio = cell.error / best[cell.data, cell.epsilon]
        ratios.setdefault(cell.label, {}).setdefault(cell.data, []).append(ratio)
    return ratios


def choice_table(cells: Sequence[SimulatedCell]) -> Table:
    """Shows what `auto` chose, and how its forecast compares with the error that was simulated."""
    table = Table(title="auto: its choice, forecast over simulated error", title_justify="left")
    chosen = [cell for cell in cells if cell.label == "auto"]
    for name in ("data set", "epsilon", "choice", "published error", "forecast", "forecast / error"):
        table.add_column(name, justify="left" if name in ("data set", "choice") else "right")
    for cell in chosen:
        ratio = f"{cell.forecast / cell.published:.2f}"
        table.add_row(cell.data, cell.epsilon, cell.chosen, _short(cell.published), _short(cell.forecast), ratio)
    return table


def _mean(numbers: Sequence[float]) -> float:
    return math.fsum(numbers) / len(numbers)


def _short(number: float) -> str:
    return f"{number:.3f}" if number < 10 else f"{number:.1f}"
