"""What an evaluation of distributions shows: its tables."""

from collections.abc import Sequence
from itertools import groupby

from rich.table import Table

from pipelines.lab.evaluation.distributions import CONSTANT, Crossover, OutputErrors, Truth
from pipelines.lab.evaluation.real import CLASSES, against, class_name, in_class

UNITS = {"cdf": "share, averaged over the edges", "p50": "km/h", "p85": "km/h", "mean": "km/h"}


def crossover_table(found: Sequence[Crossover]) -> Table:
    """Errors over that of a histogram; below 1 is better."""
    table = Table(
        title="squared error of all prefixes over that of the histogram's; below 1 is better",
        caption="exact factors: equal budgets. released tree: any factors, best budgets. combined: from all nodes.",
        title_justify="left",
        caption_justify="left",
    )
    names = ("bins", "direct", "binary", "exact factors", "", "released tree", "", "combined", "histogram combined")
    for name in names:
        table.add_column(name, justify="right")
    for each in found:
        table.add_row(
            str(each.bins),
            _ratio(each.direct),
            _ratio(each.binary),
            _factors(each.factors),
            _ratio(each.of_factors),
            _factors(each.branching),
            _ratio(each.of_tree),
            _ratio(each.combined),
            _ratio(each.histogram_combined),
        )
    return table


def error_table(output: str, rows: Sequence[OutputErrors], truth: Truth, where: str) -> Table:
    """Errors of one output by epsilon; a star marks what the city's constant does better."""
    bar = next(row for row in rows if row.label == CONSTANT)
    table = Table(
        title=f"{where}: mean absolute error of {output} per HAT, {UNITS[output]}",
        caption="* worse than publishing the whole city's; columns to the right: HATs by vehicles.",
        title_justify="left",
        caption_justify="left",
    )
    names = [f"{class_name(*bounds)} ({int(in_class(truth.vehicles, *bounds).sum())})" for bounds in CLASSES]
    table.add_column("released as")
    table.add_column("epsilon", justify="right")
    for name in ("all HATs", "by rows", *names):
        table.add_column(name, justify="right")
    for row in rows:
        pairs = zip(_numbers(row), _numbers(bar), strict=True)
        table.add_row(row.label, row.epsilon, *(_against(output, *pair) for pair in pairs))
    return table


def dense_table(rows: Sequence[tuple[int, OutputErrors]]) -> Table:
    """The made-up city: a line for each number of vehicles and epsilon."""
    table = Table(
        title="dense made-up city: mean absolute error by vehicles in the HAT, km/h (cdf: share)",
        caption="constant: the whole city's value of the same output.",
        title_justify="left",
        caption_justify="left",
    )
    lines = [(vehicles, errors) for vehicles, errors in rows if errors.label != CONSTANT]
    bars = {(vehicles, errors.output): errors.mean for vehicles, errors in rows if errors.label == CONSTANT}
    outputs = list(dict.fromkeys((errors.output, errors.label) for _, errors in lines))
    for name in ("vehicles", "epsilon", *(f"{output} ({label})" for output, label in outputs)):
        table.add_column(name, justify="right")
    for (vehicles, epsilon), of_fleet in groupby(lines, lambda line: (line[0], line[1].epsilon)):
        by = {(errors.output, errors.label): errors.mean for _, errors in of_fleet}
        table.add_row(str(vehicles), epsilon, *(_against(o, by[o, label], bars[vehicles, o]) for o, label in outputs))
    for vehicles in dict.fromkeys(vehicles for vehicles, _ in rows):
        table.add_row(
            str(vehicles), "constant", *(_against(o, bars[vehicles, o], bars[vehicles, o]) for o, _ in outputs)
        )
    return table


def _numbers(errors: OutputErrors) -> list[float | None]:
    return [errors.mean, errors.row_weighted, *errors.by_class]


def _against(output: str, value: float | None, level: float | None) -> str:
    if output == "cdf" and value is not None and level is not None:
        return f"{value:.3f}{' *' if value > level else '  '}"
    return against(value, level)


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _factors(factors: tuple[int, ...]) -> str:
    return "x".join(map(str, factors))
