"""Errors, coverage and widths of simulated estimates, as plain values: by class of HATs, by day, of products."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from dpops.learning import PublishedNumbers, Status
from dpops.levels import Kind
from dpops.noise import Noise
from dpops.types import Float64s
from hatstream_lab.evaluation.learned import Simulated, recipe_for, simulate
from hatstream_lab.evaluation.products import ProductErrors, product_errors
from hatstream_lab.evaluation.truth import TrueCity, TrueDay, half_of

CLASSES = ((1.0, 4.0), (4.0, 10.0), (10.0, 30.0), (30.0, np.inf))
"""HATs by vehicles, predicted or true: from, below."""

DELTA = Fraction(1, 10**6)
KINDS: tuple[Kind, ...] = ("laplace", "gaussian")


@dataclass(frozen=True, kw_only=True)
class Errors:
    """Mean absolute errors in km/h over HATs, by rows, over HATs with 10 and with 30 vehicles and more, by CLASSES.

    Of published days alone: held_back is the share of days that were not. feed: the error by rows of a run's published
    days over the constant's on the same days, in the worst run; worst_day: likewise of a day, mean over the runs.
    """

    what: str
    total: str
    delta: str | None
    hats: float | None
    rows: float | None
    from_10: float | None
    from_30: float | None
    by_class: list[float | None]
    rows_by_day: list[float | None]
    worst_day: float | None
    feed: float | None
    held_back: float


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """How often intervals hold the truth, and half their width in km/h, in HATs with [least, most) vehicles."""

    total: str
    delta: str | None
    by: str
    least: float
    most: float | None
    hats: float
    held: float
    half_width: float


@dataclass(frozen=True)
class Evaluated:
    """All figures of an evaluation, in the order of the totals, pure before delta."""

    errors: list[Errors] = field(default_factory=list)
    coverage: list[Coverage] = field(default_factory=list)
    products: list[ProductErrors] = field(default_factory=list)


Report = Callable[[int, int], None]

CONSTANT, NO_NOISE, HALF = "constant", "no noise", "half"
"""Half: causal estimates against the true means of a random half of each day's vehicles. What is missed more than
against all of them is sampling: how far vehicles that report lie from the traffic."""


def evaluated(city: TrueCity, totals: Sequence[str], runs: int, report: Report, span_days: int = 1) -> Evaluated:
    """Simulates every total, pure and with delta, `runs` times; the noiseless model and the constant once.

    span_days: the totals are of so many days, which share them alike.
    """
    constant, half = [np.full(day.means.shape, city.mean_kmh) for day in city.days], half_of(city)
    bar, half_bar = (_errors(run, [constant], CONSTANT, "-", None, None) for run in (city, half))
    exact = simulate(city, recipe_for(city, "gaussian", Fraction(1), DELTA), None)
    whole = Evaluated([bar, _errors(city, [_values(exact.causal)], NO_NOISE, "-", None, bar)])
    for done, (total, kind) in enumerate((total, kind) for total in totals for kind in KINDS):
        how = recipe_for(city, kind, Fraction(total), DELTA, span_days)
        outcomes = [simulate(city, how, Noise()) for _ in range(runs)]
        delta = None if kind == "laplace" else str(float(DELTA))
        values = {what: [_values(getattr(run, what)) for run in outcomes] for what in ("causal", "whole", "forecast")}
        whole.errors.extend(_errors(city, of, what, total, delta, bar) for what, of in values.items())
        whole.errors.append(_errors(half, values["causal"], HALF, total, delta, half_bar))
        whole.coverage.extend(coverage(city, outcomes, total, delta))
        shown = [run.products for run in outcomes]
        whole.products.extend(product_errors(city.days, city.grid, shown, total, delta))
        report(done + 1, len(totals) * len(KINDS))
    return whole


def _values(estimates: Sequence[PublishedNumbers | None]) -> list[Float64s | None]:
    """Takes the values of each day, None where it is held back or nothing is estimated."""
    is_told = [day is not None and not np.all(day.status == Status.HELD_BACK) for day in estimates]
    return [day.values if told and day else None for told, day in zip(is_told, estimates, strict=True)]


def _errors(
    city: TrueCity,
    runs: Sequence[Sequence[Float64s | None]],
    what: str,
    total: str,
    delta: str | None,
    bar: Errors | None,
) -> Errors:
    """Averages errors over all days for which there is a value."""
    weighted = np.zeros((len(runs), len(city.days), 4 + len(CLASSES), 2))
    for run, values in enumerate(runs):
        for index, (day, value) in enumerate(zip(city.days, values, strict=True)):
            if value is not None:
                weighted[run, index] += _sums(day, value)
    whole, by_run = _means(weighted.sum(axis=(0, 1))), weighted[:, :, 1]
    by_day = [_means(of_day)[1] for of_day in weighted.sum(axis=0)]
    bars = by_day if bar is None else bar.rows_by_day
    worst = [a / b for a, b in zip(by_day, bars, strict=True) if a and b]
    constant = by_run[..., 1] @ np.array([of_day or 0.0 for of_day in bars])
    feeds = by_run[..., 0].sum(axis=1)[constant > 0] / constant[constant > 0]
    return Errors(
        what=what,
        total=total,
        delta=delta,
        hats=whole[0],
        rows=whole[1],
        from_10=whole[2],
        from_30=whole[3],
        by_class=whole[4:],
        rows_by_day=by_day,
        worst_day=max(worst, default=None),
        feed=float(feeds.max()) if feeds.size else None,
        held_back=1 - float(np.mean([value is not None for values in runs for value in values])),
    )


def _sums(day: TrueDay, values: Float64s) -> Float64s:
    """Sums errors, and what they are divided by: (4 + classes, 2)."""
    there = day.reports > 0
    error, reports, vehicles = np.abs(values - day.means)[there], day.reports[there], day.vehicles[there]
    spans = ((10, np.inf), (30, np.inf), *CLASSES)
    inside = [((vehicles >= least) & (vehicles < most)).astype(np.float64) for least, most in spans]
    weights = (np.ones(error.size), reports, *inside)
    return np.array([[float(error @ weight), float(weight.sum())] for weight in weights])


def _means(sums: Float64s) -> list[float | None]:
    return [float(total / count) if count else None for total, count in sums]


def coverage(city: TrueCity, runs: Sequence[Simulated], total: str, delta: str | None) -> list[Coverage]:
    """Measures the coverage of the causal estimates with status ok, overall, by predicted and by true vehicles."""
    predicted, true, held, half = [], [], [], []
    for run in runs:
        for day, numbers in zip(city.days, run.causal, strict=True):
            there = (day.reports > 0) & (numbers.status == Status.OK)
            predicted.append(numbers.vehicles[there])
            true.append(day.vehicles[there])
            held.append(((numbers.lower95 <= day.means) & (day.means <= numbers.upper95))[there])
            half.append(((numbers.upper95 - numbers.lower95) / 2)[there])
    columns = [np.concatenate(parts) for parts in (predicted, true, held, half)]
    chosen = [("all", 0.0, np.inf, np.ones(columns[0].size, np.bool_))]
    for by, vehicles in (("predicted", columns[0]), ("true", columns[1])):
        chosen += [(by, least, most, (vehicles >= least) & (vehicles < most)) for least, most in CLASSES]
    return [
        Coverage(
            total=total,
            delta=delta,
            by=by,
            least=least,
            most=None if most == np.inf else most,
            hats=int(in_class.sum()) / len(runs),
            held=float(columns[2][in_class].mean()),
            half_width=float(columns[3][in_class].mean()),
        )
        for by, least, most, in_class in chosen
        if in_class.any()
    ]
