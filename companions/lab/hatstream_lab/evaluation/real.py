"""Actual errors on telemetry: not private, because true means are looked at."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from rich.table import Table

from dpops import Grid, Mechanism, Noise, Prior, Totals, registered
from hatstream_lab.evaluation.dwell import OfVehicles, Silent, plans_of, published
from hatstream_lab.evaluation.simulate import made
from hatstream_lab.evaluation.tables import against, class_headings, means_by_class, table_of
from hatstream_lab.evaluation.telemetry import CountedTotals, Telemetry, beside_truth, floats, true_values
from hatstream_lab.types import Float64s, Report

CITY_WIDE = "city-wide mean"
CONSTANT = f"constant ({CITY_WIDE})"


@dataclass(frozen=True)
class RealHats:
    """The HATs of some telemetry. totals: as the release would see them, with the samples reported; truth: their means
    in km/h over all reported samples; rows, vehicles: of each HAT."""

    totals: list[tuple[Totals, int]]
    truth: Float64s
    rows: Float64s
    vehicles: Float64s

    @property
    def city_mean(self) -> float:
        return float((self.truth * self.rows).sum() / self.rows.sum())


@dataclass(frozen=True)
class MechanismErrors:
    """Mean absolute errors in km/h of one mechanism at one epsilon; by_class: None for a class without HATs.

    bias: how far values lie above the truth, by rows, but for noise: what caps on counts, intervals and constants do.
    """

    label: str
    epsilon: str
    mean: float
    row_weighted: float
    bias: float
    by_class: list[float | None]
    worse_than_constant: bool = False


def read_hats(feed: Telemetry, report: Report) -> RealHats:
    """Reads the HATs of some files."""
    whole = feed.counted(feed.tables(), report)
    hats = CountedTotals.of(whole, feed.counted(feed.tables(**feed.cap), report) if feed.cap else whole)
    both = beside_truth(true_values(whole, float(feed.spec.value.grid.step)), hats.keys)
    vehicles = np.array([totals.counts.size for totals in hats.totals], np.float64)
    totals = list(zip(hats.totals, hats.reports, strict=True))
    return RealHats(totals, floats(both["mean"]), floats(both["reports"]), vehicles)


def contenders(prior: Prior | None) -> dict[str, Mechanism]:
    """Lists every mechanism for means by its name, Array-Averaging also with the other rule, and auto as specified."""
    mechanisms = {name: made(name, prior=prior) for name in ("auto", "constant")}
    mechanisms["array-average-argmax"] = made("array-average", m_ub="argmax")
    means = {name: kind for name, kind in registered().items() if "mean" in kind.statistics}
    return {name: mechanisms.get(name, kind()) for name, kind in means.items()} | mechanisms


def errors_of(
    hats: RealHats,
    grid: Grid,
    epsilons: Sequence[str],
    runs: int,
    prior: Prior | None,
    report: Callable[[int, int], None],
) -> list[MechanismErrors]:
    """Measures the errors of all mechanisms, and a constant, per epsilon; published values, so clamped into [0, U]."""
    errors = []
    mechanisms = contenders(prior)
    whole = len(epsilons) * len(mechanisms)
    constant = np.abs(hats.truth - hats.city_mean)
    for epsilon in epsilons:
        bar = _summed(CONSTANT, epsilon, constant, hats.city_mean - hats.truth, hats)
        for label, mechanism in mechanisms.items():
            error, bias = _actual(mechanism, hats, grid, Fraction(epsilon), runs)
            errors.append(_summed(label, epsilon, error, bias, hats, bar))
            report(len(errors), whole)
        errors.append(bar)
        whole += 1
    return errors


def _actual(
    mechanism: Mechanism, hats: RealHats, grid: Grid, epsilon: Fraction, runs: int
) -> tuple[Float64s, Float64s]:
    """Measures each HAT's mean absolute error over runs, and how far its value without noise lies above the truth."""
    totals, plans = [totals for totals, _ in hats.totals], plans_of(mechanism, hats.totals, grid, epsilon)
    error = np.zeros(len(plans))
    for _ in range(runs):
        error += np.abs(published(mechanism, totals, plans, Noise()) - hats.truth)
    return error / runs, published(mechanism, totals, plans, Silent()) - hats.truth


def _summed(
    label: str, epsilon: str, error: Float64s, bias: Float64s, hats: RealHats, bar: MechanismErrors | None = None
) -> MechanismErrors:
    mean = float(error.mean())
    return MechanismErrors(
        label=label,
        epsilon=epsilon,
        mean=mean,
        row_weighted=float((error * hats.rows).sum() / hats.rows.sum()),
        bias=float((bias * hats.rows).sum() / hats.rows.sum()),
        by_class=means_by_class(error, hats.vehicles),
        worse_than_constant=bar is not None and mean > bar.mean,
    )


def error_table(epsilon: str, errors: Sequence[MechanismErrors], once: OfVehicles) -> Table:
    """Shows errors and biases at one epsilon; a star marks what a constant does better."""
    bar = _bar(errors)
    table = table_of(
        f"NOT PRIVATE: actual mean absolute error per HAT at epsilon {epsilon}, km/h",
        "* worse than publishing one constant for the whole city. bias: how far values lie above the truth, by rows, "
        "but for noise: caps on counts take reports of slow vehicles away; intervals and constants count too. "
        f"mean-of-vehicles: against its own truth, which lies {once.above:+.2f} from the mean of reports.",
        ["mechanism"],
        ["all HATs", "by rows", "bias"],
    )
    for error in errors:
        pairs = ((error.mean, bar.mean), (error.row_weighted, bar.row_weighted))
        table.add_row(error.label, *(against(*pair) for pair in pairs), _signed(error.bias))
    table.add_row("mean-of-vehicles", f"{once.mean:.2f}  ", f"{once.row_weighted:.2f}  ", _signed(once.bias))
    return table


def class_table(epsilon: str, errors: Sequence[MechanismErrors], hats: RealHats) -> Table:
    """Shows errors by the number of vehicles in the HAT."""
    bar = _bar(errors)
    title = f"NOT PRIVATE: at epsilon {epsilon} by vehicles in the HAT (HATs), km/h"
    table = table_of(title, None, ["mechanism"], class_headings(hats.vehicles))
    for error in errors:
        pairs = zip(error.by_class, bar.by_class, strict=True)
        name = CITY_WIDE if error.label == CONSTANT else error.label
        table.add_row(name, *(against(value, level).replace(" ", "") for value, level in pairs))
    return table


def _signed(bias: float) -> str:
    return f"{round(bias, 2) + 0.0:+.2f}"


def _bar(errors: Sequence[MechanismErrors]) -> MechanismErrors:
    return next(error for error in errors if error.label == CONSTANT)
