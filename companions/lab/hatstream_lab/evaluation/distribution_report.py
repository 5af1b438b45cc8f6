"""What an evaluation of distributions shows: its tables."""

from collections.abc import Sequence
from itertools import groupby

from rich.table import Table

from hatstream_lab.evaluation.distributions import CONSTANT, Crossover, OutputErrors, TrueDistributions
from hatstream_lab.evaluation.tables import against, class_headings, table_of

UNITS = {"cdf": "share, averaged over the edges", "p50": "km/h", "p85": "km/h", "mean": "km/h"}


def crossover_table(crossovers: Sequence[Crossover]) -> Table:
    """Shows errors over that of a histogram; below 1 is better."""
    table = table_of(
        "squared error of all prefixes over that of the histogram's; below 1 is better",
        "exact factors: equal budgets. released tree: any factors, best budgets. combined: from all nodes.",
        [],
        ["bins", "direct", "binary", "exact factors", "", "released tree", "", "combined", "histogram combined"],
    )
    for crossover in crossovers:
        table.add_row(
            str(crossover.bins),
            _ratio(crossover.direct),
            _ratio(crossover.binary),
            _factors(crossover.factors),
            _ratio(crossover.of_factors),
            _factors(crossover.branching),
            _ratio(crossover.of_tree),
            _ratio(crossover.combined),
            _ratio(crossover.histogram_combined),
        )
    return table


def error_table(output: str, rows: Sequence[OutputErrors], truth: TrueDistributions, where: str) -> Table:
    """Shows the errors of one output by epsilon; a star marks what the city's constant does better."""
    bar = next(row for row in rows if row.label == CONSTANT)
    table = table_of(
        f"{where}: mean absolute error of {output} per HAT, {UNITS[output]}",
        "* worse than publishing the whole city's; columns to the right: HATs by vehicles.",
        ["released as"],
        ["epsilon", "all HATs", "by rows", *class_headings(truth.vehicles, " ")],
    )
    for row in rows:
        pairs = zip(_numbers(row), _numbers(bar), strict=True)
        table.add_row(row.label, row.epsilon, *(_against(output, *pair) for pair in pairs))
    return table


def dense_table(rows: Sequence[tuple[int, OutputErrors]]) -> Table:
    """Shows the made-up city: a line for each number of vehicles and epsilon."""
    lines = [(vehicles, errors) for vehicles, errors in rows if errors.label != CONSTANT]
    bars = {(vehicles, errors.output): errors.mean for vehicles, errors in rows if errors.label == CONSTANT}
    outputs = list(dict.fromkeys((errors.output, errors.label) for _, errors in lines))
    table = table_of(
        "dense made-up city: mean absolute error by vehicles in the HAT, km/h (cdf: share)",
        "constant: the whole city's value of the same output.",
        [],
        ["vehicles", "epsilon", *(f"{output} ({label})" for output, label in outputs)],
    )
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
    return against(value, level, digits=3 if output == "cdf" else 2)


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _factors(factors: tuple[int, ...]) -> str:
    return "x".join(map(str, factors))
