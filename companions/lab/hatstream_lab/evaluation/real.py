"""Actual errors on telemetry: not private, because true means are looked at."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from dpops import Grid, Mechanism, Noise, Prior, Totals, registered
from dpops.mechanisms.array_average import ArrayAverage
from dpops.mechanisms.auto import Auto
from dpops.mechanisms.constant import Constant
from dpops.statistics import SUMS
from hatstream_lab.evaluation.dwell import ONCE, OfVehicles, Silent, plans_of, published
from hatstream_lab.evaluation.feed import Feed
from hatstream_lab.evaluation.tables import against, class_headings, means_by_class, table_of
from hatstream_lab.types import Report
from transforms import wire
from transforms.count.tally import tally
from transforms.releases.hats.draw import hats_of
from transforms.wire import Tally

Float64s = NDArray[np.float64]

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


def read_hats(feed: Feed, report: Report) -> RealHats:
    """Reads the HATs of some files."""
    spec, (_, parts) = feed.spec, feed.events(report)
    hats: list[tuple[Totals, int, float]] = []
    for slot_s in sorted(parts):
        events = wire.unpack_events(parts[slot_s])
        whole = tally(events, slot_s, None, (SUMS,)).tally
        kept = whole if spec.privacy.cap is None else tally(events, slot_s, spec.privacy.cap, (SUMS,)).tally
        hats += _hats(kept, whole, spec.value.grid)
    truth, rows = (np.array([hat[column] for hat in hats], np.float64) for column in (2, 1))
    vehicles = np.array([hat[0].counts.size for hat in hats], np.float64)
    return RealHats([(totals, reported) for totals, reported, _ in hats], truth, rows, vehicles)


def _hats(kept: Tally, whole: Tally, grid: Grid) -> Iterator[tuple[Totals, int, float]]:
    """Yields (totals, samples reported, true mean in km/h) of each cell that keeps a vehicle. Tallies: of one slot."""
    for hat, full in zip(hats_of(kept).each(), hats_of(whole).each(), strict=True):
        if hat.totals.counts.size:
            yield hat.totals, hat.reported, float(Fraction(int(full.totals.sums.sum()), full.reported) * grid.step)


def contenders(prior: Prior | None) -> dict[str, Mechanism]:
    """Lists every mechanism for means by its name, Array-Averaging also with the other rule, and auto as specified."""
    chosen: dict[str, Mechanism] = {"auto": Auto(prior=prior), "constant": Constant(prior=prior)}
    mechanisms = chosen | {"array-average-argmax": ArrayAverage(m_ub="argmax")}
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
    table.add_row(ONCE.statistic, f"{once.mean:.2f}  ", f"{once.row_weighted:.2f}  ", _signed(once.bias))
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
