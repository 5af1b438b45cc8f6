"""Coarser products of simulated releases against the truth: a cell's day, a parent cell or the city in an hour."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpops.learning import Groups, Learned, PublishedNumbers, Status, coarser, published
from dpops.learning.learner import Field
from dpops.types import Float64s, Grid, Int64s
from hatstream_lab.evaluation.truth import TrueDay
from pipelines.specification.levels_tables import EXPONENTS


@dataclass(frozen=True)
class ProductDay:
    """A product of one day: how it groups the day's HATs, and what is published of it."""

    name: str
    groups: Groups
    estimates: PublishedNumbers


@dataclass(frozen=True, kw_only=True)
class ProductErrors:
    """Errors of rows with status ok whose groups have reports; rows: of one run. Errors and half widths: means, km/h.

    held: share of intervals that hold the true mean weighed as the product is; held_reports: the mean of all reports.
    """

    total: str
    delta: str | None
    product: str
    rows: float
    error: float
    half_width: float
    held: float
    held_reports: float


def products_of(learned: Learned, belief: Field, upper_kmh: float) -> list[ProductDay]:
    return [
        ProductDay(name, groups, published(coarser(learned, belief, groups), upper_kmh))
        for name, groups in _groupings(learned.state.design.parents, belief.hours).items()
    ]


def _groupings(parents: Int64s, hours: Int64s) -> dict[str, Groups]:
    cells = np.arange(parents.size)
    hour = np.unique(hours, return_inverse=True)[1].astype(np.int64)
    return {
        "cell-day": Groups(cells=cells, slots=0 * hour),
        "parent-hour": Groups(cells=parents, slots=hour),
        "city-hour": Groups(cells=0 * cells, slots=hour),
    }


def product_errors(
    days: Sequence[TrueDay], grid: Grid, runs: Sequence[Sequence[Sequence[ProductDay]]], total: str, delta: str | None
) -> list[ProductErrors]:
    """Measures the errors of products. runs: of each run, each day's products."""
    compared: dict[str, list[Float64s]] = {}
    for run in runs:
        for day, products in zip(days, run, strict=True):
            for product in products:
                compared.setdefault(product.name, []).append(_compared(day, grid, product))
    errors = []
    for name, parts in compared.items():
        error, half, held, held_reports = np.concatenate(parts, axis=1)
        if error.size:
            means = {"error": error, "half_width": half, "held": held, "held_reports": held_reports}
            numbers = {key: float(column.mean()) for key, column in means.items()}
            errors.append(ProductErrors(total=total, delta=delta, product=name, rows=error.size / len(runs), **numbers))
    return errors


def _compared(day: TrueDay, grid: Grid, product: ProductDay) -> Float64s:
    """Compares (4, rows): errors, half widths, whether the mean weighed alike is held, and that of all reports."""
    weights, totals = (product.groups.totals(field) for field in _weighed_alike(day, grid))
    reports = product.groups.totals(day.reports)
    speeds = product.groups.totals(np.nan_to_num(day.means) * day.reports)
    estimates = product.estimates
    there = (estimates.status == Status.OK) & (reports > 0)
    alike, plain = totals[there] / weights[there], speeds[there] / reports[there]
    values, lower, upper = estimates.values[there], estimates.lower95[there], estimates.upper95[there]
    held = [((lower <= truth) & (truth <= upper)).astype(np.float64) for truth in (alike, plain)]
    return np.stack([np.abs(values - alike), (upper - lower) / 2, *held])


def _weighed_alike(day: TrueDay, grid: Grid) -> tuple[Float64s, Float64s]:
    """Adds up for each HAT the sum of its vehicles' weights as the release has them, and that of weights times means,
    km/h."""
    rows = day.rows
    weight = rows.reports.astype(np.float64) ** float(EXPONENTS["reports"])
    hat, speed = rows.cell * len(day.hours) + rows.slot, rows.total / rows.reports * float(grid.step)
    shape = day.reports.shape
    weights, totals = (np.bincount(hat, column, day.reports.size) for column in (weight, weight * speed))
    return weights.astype(np.float64).reshape(shape), totals.astype(np.float64).reshape(shape)
