"""Measures errors of mechanisms on telemetry; not private.

A HAT's `Totals` are its vehicles' counts of reports and sums of speeds, after the cap; its truth is before the cap.
Contenders are mechanisms at an epsilon, with a plan for each HAT, or the constant city mean. The one OF_VEHICLES
releases the mean of vehicles' means.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from rich.table import Table as RichTable

from dpops import CountsKnown, Grid, Mechanism, Noise, Plan, Prior, Totals, registered, values_of
from hatstream.api import count_days, load
from hatstream_lab.evaluation.days import HAT_KEYS, Days, hat_tables, indices_in, tables_of
from hatstream_lab.evaluation.experiment import Float64s, Int64s, Mean, Report, Row, Table
from hatstream_lab.evaluation.papers import build

CLASSES = {"1": (1, 1), "2-3": (2, 3), "4-7": (4, 7), "8-15": (8, 15), "16-31": (16, 31), "32+": (32, np.inf)}
"""HATs by number of vehicles, from and to, both included."""
CONSTANT, OF_VEHICLES = "constant (city-wide mean)", "mean-of-vehicles"


class Silent(Noise):
    """Noise that adds nothing to queries; for comparisons alone."""

    def laplace(self, scales: Sequence[Fraction]) -> Int64s:
        """Returns zeros in place of Laplace noise."""
        return np.zeros(len(scales), np.int64)


class TrueHats(NamedTuple):
    """HATs of telemetry, in columns (HATs,).

    totals: with the cap, each with its number of reports before it. truth: means of all reports; means: of vehicles'
    means; both in km/h. reports: their number. vehicles: those that the cap left.
    """

    grid: Grid
    totals: list[tuple[Totals, int]]
    truth: Float64s
    means: Float64s
    reports: Float64s
    vehicles: Float64s

    @property
    def mean_kmh(self) -> float:
        """True mean speed over all reports, in km/h."""
        return float(self.truth @ self.reports / self.reports.sum())


class Contender(NamedTuple):
    """Mechanism with plans at an epsilon, or a constant."""

    label: str
    epsilon: str
    mechanism: Mechanism | None = None
    plans: Sequence[Plan] = ()


def read_hats(pattern: str, spec_path: Path, dates: tuple[str, str] | None, report: Report) -> TrueHats:
    """Counts HATs of files: totals after the specification's cap, truth before it."""
    base, spec = tables_of(spec_path), load(spec_path)
    tables = hat_tables(base)  # a specification of releases HAT by HAT, without a cap
    uncapped = count_days(load(tables), pattern, dates, report=report)
    names = ("composition", "max_cells", "max_samples") if spec.privacy.cap else ()  # entries that cap a vehicle
    cap = {name: value for name, value in base["privacy"].items() if name in names}
    capped = count_days(load(hat_tables(base, **cap)), pattern, dates, report=report) if cap else uncapped
    hats = Days(tables, uncapped).hats  # the truth, without a cap; mechanisms get `totals`, capped
    hat_row = indices_in(hats, capped.select(HAT_KEYS))  # in `hats`, of each (vehicle, HAT), as are the columns below
    counts, sums, vehicle = (capped[name].to_numpy() for name in ("reports", "sums", "vehicle"))
    order = np.lexsort((vehicle, -counts, hat_row))  # a HAT's vehicles by falling number of reports
    order = order[counts[order] > 0]  # a cap may leave a vehicle nothing
    starts = np.flatnonzero(np.diff(hat_row[order], prepend=-1))  # where each HAT's users begin
    totals = [Totals(counts[rows], sums[rows]) for rows in np.split(order, starts[1:])]
    hats = hats.take(pa.array(hat_row[order][starts]))  # those that have users after the cap
    truth, means, reports = (hats[n].to_numpy().astype(np.float64) for n in ("truth", "mean_of_vehicles", "reports"))
    vehicles = np.array([of_hat.counts.size for of_hat in totals], np.float64)
    totals_and_reports = list(zip(totals, reports.astype(np.int64).tolist(), strict=True))
    return TrueHats(spec.value.grid, totals_and_reports, truth, means, reports, vehicles)


def contenders(hats: TrueHats, epsilons: Sequence[str], prior: Prior | None) -> Iterator[Contender]:
    """Plans mechanisms for means at each epsilon; last, the true city mean."""
    mechanisms = {name: build(name) for name, kind in registered().items() if "mean" in kind.statistics}
    mechanisms |= {name: build(name, prior=prior) for name in ("auto", "constant")}
    mechanisms |= {"array-average-argmax": build("array-average", m_ub="argmax")}  # the paper's rule of arrays' length
    mechanisms |= {OF_VEHICLES: build("baseline", statistic=OF_VEHICLES)}  # of equal vehicles, not of reports
    counts = [CountsKnown(totals.counts, reports) for totals, reports in hats.totals]  # reports: before the cap
    for epsilon in epsilons:
        for label, mechanism in mechanisms.items():
            plans = mechanism.plans(counts, hats.grid, Fraction(epsilon))
            yield Contender(label, epsilon, mechanism, plans)
        yield Contender(CONSTANT, epsilon)


def measure(hats: TrueHats, setting: Contender, run: int) -> Iterator[Row]:
    """Measures errors of published values in km/h.

    Figures: hats, reports and CLASSES, means by HATs, by reports, and of HATs by vehicles; bias, the mean of value less
    truth by reports, without noise: from caps, intervals and constants.
    """
    truth = hats.means if setting.label == OF_VEHICLES else hats.truth  # of vehicles' means, or of reports
    if setting.mechanism is None:
        values = noiseless = np.full(truth.size, hats.mean_kmh)
    else:
        rng, totals = np.random.default_rng(run), [totals for totals, _ in hats.totals]
        values = values_of(setting.mechanism.release(totals, setting.plans, Noise(rng.bytes)), setting.plans)
        noiseless = values_of(setting.mechanism.release(totals, setting.plans, Silent(rng.bytes)), setting.plans)
    error = np.abs(values - truth)
    figures = {"hats": Mean.of(error), "reports": Mean.of(error, hats.reports)}
    for name, (minimum, maximum) in CLASSES.items():
        figures[name] = Mean.of(error[(hats.vehicles >= minimum) & (hats.vehicles <= maximum)])
    bias = Mean.of(noiseless - truth, hats.reports)
    yield {"mechanism": setting.label, "epsilon": setting.epsilon, **figures, "bias": bias}


def tables(table: Table, hats: TrueHats) -> Iterator[RichTable | str]:
    """Shows errors, biases, and where a constant is better."""
    above = float((hats.means - hats.truth) @ hats.reports / hats.reports.sum())  # vehicles' means over reports'
    for epsilon in dict.fromkeys(row["epsilon"] for row in table.rows):
        rows = table.where(epsilon=epsilon)
        yield rows.show(
            f"NOT PRIVATE: actual mean absolute error per HAT at epsilon {epsilon}, km/h",
            "bias: how far values lie above the truth, by reports, but for noise: caps on counts take reports of slow "
            f"vehicles away; intervals and constants count too. {OF_VEHICLES}: against its own truth, which lies "
            f"{above:+.2f} from the mean of reports. Numbers: HATs by vehicles.",
            ("mechanism",),
            {"hats": "all HATs", "reports": "by reports", "bias": "bias"} | {name: name for name in CLASSES},
        )
        [constant] = rows.where(mechanism=CONSTANT).rows
        worse = [row["mechanism"] for row in rows.rows if row["hats"] > constant["hats"]]
        yield f"Worse than a constant over all HATs at epsilon {epsilon}: {', '.join(worse) or 'none'}."
