"""What an evaluation of learned estimates shows on a terminal: tables of 80 columns."""

from collections.abc import Sequence

from rich.table import Table

from hatstream_lab.evaluation.classes import FROM_VEHICLES, SpreadErrors
from hatstream_lab.evaluation.learned_errors import CLASSES, CONSTANT, NO_NOISE, Coverage, Errors
from hatstream_lab.evaluation.products import ProductErrors
from hatstream_lab.evaluation.tables import class_name, table_of
from hatstream_lab.evaluation.truth import TrueCity


def error_table(errors: Sequence[Errors]) -> Table:
    table = table_of(
        "NOT PRIVATE: actual mean absolute error of learned estimates, km/h",
        "Published days alone; 10+, 30+: HATs with so many vehicles. Of the constant, by rows: worst day, mean over "
        "the runs; feed, all published days, in the worst run. Held back: share of days. With δ: 1e-6. Half: causal, "
        "against a random half of the vehicles.",
        ("total", "estimate"),
        ("HATs", "rows", "10+", "30+", "worst day", "feed", "held back"),
    )
    for error in errors:
        numbers = (error.hats, error.rows, error.from_10, error.from_30, error.worst_day, error.feed, error.held_back)
        table.add_row(_total(error), error.what, *(_two(number) for number in numbers))
    return table


def class_table(errors: Sequence[Errors]) -> Table:
    """Shows causal estimates by the true number of vehicles."""
    table = table_of(
        "NOT PRIVATE: the same by vehicles in the HAT, causal estimates",
        "* worse than the city's true mean over all days",
        ("total", "estimate"),
        tuple(span_name(*bounds) for bounds in CLASSES),
    )
    bar = errors[0].by_class
    for error in _causal(errors):
        worse = [
            "*" if a is not None and b is not None and a > b else "" for a, b in zip(error.by_class, bar, strict=True)
        ]
        cells = (_two(number) + mark for number, mark in zip(error.by_class, worse, strict=True))
        table.add_row(_total(error), error.what, *cells)
    return table


def day_table(errors: Sequence[Errors], city: TrueCity) -> Table:
    """Shows causal estimates by day, a column a total."""
    chosen = _causal(errors)
    names = [error.what if error.total == "-" else _total(error) for error in chosen]
    table = table_of("NOT PRIVATE: the same by day, rows, causal estimates", "-: held back", ("day",), tuple(names))
    for index, day in enumerate(city.days):
        table.add_row(day.name, *(_two(error.rows_by_day[index]) for error in chosen))
    return table


def coverage_table(coverage: Sequence[Coverage]) -> Table:
    table = table_of(
        "NOT PRIVATE: intervals of estimates with status ok",
        "held: share of HATs whose true mean lies inside. half width: mean, km/h.",
        ("total", "vehicles"),
        ("HATs", "held", "half width"),
    )
    for row in coverage:
        span = "all" if row.by == "all" else f"{row.by} {span_name(row.least, row.most)}"
        table.add_row(_total(row), span, f"{row.hats:.0f}", f"{row.held:.3f}", f"{row.half_width:.1f}")
    return table


def product_table(products: Sequence[ProductErrors]) -> Table:
    table = table_of(
        "NOT PRIVATE: coarser products, rows with status ok",
        "held: share of rows that hold the true mean, weighed as the release weighs; of all reports.",
        ("total", "product"),
        ("rows", "error", "half width", "held", "of reports"),
    )
    for product in products:
        shares = (f"{product.held:.3f}", f"{product.held_reports:.3f}")
        table.add_row(
            _total(product),
            product.product,
            f"{product.rows:.0f}",
            f"{product.error:.2f}",
            f"{product.half_width:.1f}",
            *shares,
        )
    return table


def spread_table(errors: Sequence[SpreadErrors]) -> Table:
    """Shows the errors of the first and the last day."""
    table = table_of(
        f"NOT PRIVATE: distributions of cells' days and parts with {FROM_VEHICLES} vehicles and more, km/h",
        "Error: mean absolute; of: that of the whole feed's own percentile. Held: share of intervals that hold the "
        "truth; of those with status ok.",
        ("total", "product", ""),
        ("day", "error", "of", "held", "half width", "ok", "held, ok"),
    )
    last = max(error.day for error in errors)
    for error in errors:
        if error.day in (1, last):
            numbers = (f"{error.error:.2f}", f"{error.error / max(error.constant, 1e-9):.2f}", f"{error.held:.3f}")
            shares = (
                f"{error.half_width:.1f}",
                f"{error.ok:.2f}",
                "-" if error.held_ok is None else f"{error.held_ok:.3f}",
            )
            table.add_row(_total(error), error.product, f"P{error.percentile}", f"{error.day}", *numbers, *shares)
    return table


def _causal(errors: Sequence[Errors]) -> list[Errors]:
    return [error for error in errors if error.what in (CONSTANT, NO_NOISE, "causal")]


def _total(result: Errors | Coverage | ProductErrors | SpreadErrors) -> str:
    return f"{result.total} δ" if result.delta else result.total


def span_name(least: float, most: float | None) -> str:
    """Names numbers of vehicles from the least on, below the most."""
    return class_name(least, None if most in (None, float("inf")) else most - 1)


def _two(number: float | None) -> str:
    return "-" if number is None else f"{number:.2f}"
