"""What suppression, a fixed cap and plain composition are worth at one total per vehicle and period.

Not private: errors are against true values.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import groupby
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from dpops import CountsKnown, Grid, Noise, RequestedStatistic
from dpops.accountant import PureLimit
from dpops.allocation import Allocation
from dpops.mechanism import values_of
from dpops.statistics import SQUARES, SUMS, Column, columns_of, named
from hatstream.api import InputError, Specification, UsageError
from hatstream_lab.evaluation.feed import Feed
from hatstream_lab.evaluation.tables import against, class_headings, means_by_class, table_of
from hatstream_lab.types import Int64s, Report
from pipelines.assembly import asked_of, job_of
from pipelines.job import NOWHERE, Job
from transforms import wire
from transforms.count.tally import ContributionBound, tally
from transforms.ledger.ledger_account import LedgerAccount
from transforms.observe.vehicle_hash import Secret
from transforms.releases.hats.draw import Divided, divide, hats_of
from transforms.releases.hats.policy import Policy, weights_of
from transforms.releases.hats.release import HatRelease
from transforms.time.calendar import Calendar
from transforms.value import UNIT
from transforms.wire import Tally, by_slot

Float64s = NDArray[np.float64]

CAPPED_CELLS = (1, 2, 4)
CONSTANT = "constant of the whole city"
NO_KEY = Secret(bytes(32))


@dataclass(frozen=True)
class CompositionErrors:
    """Mean absolute errors of one composition at one total, in the statistic's unit; a HAT without a value counts with
    the city's constant. by_class: by vehicles that reported in the HAT, None for a class without HATs."""

    composition: str
    total: str
    statistic: str
    mean: float
    by_class: list[float | None]
    worse_than_constant: bool


@dataclass(frozen=True)
class CompositionCost:
    """What a composition made of a total: medians over periods of K and epsilon of a HAT, and what is left out."""

    composition: str
    total: str
    most_hats: float
    epsilon_hat: float
    reports_left_out: float
    hats_without_value: float


@dataclass(frozen=True)
class TrueStatistics:
    """True values of the HATs of some telemetry, by (slot, cell): of each statistic, and vehicles and reports."""

    keys: dict[tuple[int, int], int]
    values: dict[str, Float64s]
    vehicles: Float64s
    reports: Float64s

    def constant(self, statistic: str) -> float:
        """Computes what somebody who knew the whole city would publish everywhere: the mean over reports."""
        return float((self.values[statistic] * self.reports).sum() / self.reports.sum())


def compare(
    feed: Feed, totals: Sequence[str], runs: int, report: Report
) -> tuple[TrueStatistics, list[CompositionErrors], list[CompositionCost]]:
    """Releases telemetry with each composition at each total, divided over all HATs of a period at once."""
    spec, (when, events) = feed.spec, feed.events(report)
    whole_period = Allocation(epsilon=spec.privacy.allocation.epsilon, per="period", scope="period")
    job, released = over_whole_periods(spec, when, whole_period)
    asked = columns_of(spec.statistics, spec.value.grid)
    columns = tuple(dict.fromkeys((SUMS, SQUARES, *asked)))  # truths need these two
    whole = _tallied(events, None, columns)
    truth = _truth(whole, spec.value.grid)
    ways = _ways(whole)
    errors: list[CompositionErrors] = []
    spent: list[CompositionCost] = []
    for label, cap, clip_user in ways:
        rows = whole if cap is None else _tallied(events, cap, columns)
        periods = [rows.take(np.isin(rows.slot_s, slots)) for slots in {facts.plan for facts in job.slots.values()}]
        for total in totals:
            suppress = weights_of(spec.value.grid, spec.statistics) if clip_user else None
            allocation = replace(whole_period, epsilon=Fraction(total), suppress=suppress)
            policy = replace(released, allocation=allocation)
            divided = [divide(_ordered(period), 1, allocation) for period in periods if period.cell.size]
            spent.append(_spent(label, total, divided, truth))
            errors += _errors(label, total, divided, policy, truth, runs)
            report("compositions compared", len(spent), len(ways) * len(totals))
    return truth, [*errors, *_constants(truth, spec.statistics)], spent


def over_whole_periods(spec: Specification, when: Calendar, allocation: Allocation) -> tuple[Job, Policy]:
    """Makes the job and the policy that release HATs of whole periods without a cap. Raises InputError."""
    plain = replace(spec, privacy=replace(spec.privacy, allocation=allocation, cap=None, release_shards=1))
    try:
        job = job_of(plain, when, NO_KEY, LedgerAccount("", Path(), "", PureLimit(Fraction(1)), "", ""), NOWHERE)
    except UsageError as error:
        raise InputError(f"the files do not hold whole periods: {error}") from None
    return job, HatRelease.of(asked_of(plain, job.slots, NO_KEY, job.account)).policy


def _tallied(events: dict[int, list[bytes]], cap: ContributionBound | None, columns: Sequence[Column]) -> Tally:
    return wire.joined(
        [tally(wire.unpack_events(packed), slot_s, cap, columns).tally for slot_s, packed in sorted(events.items())]
    )


def _ways(whole: Tally) -> list[tuple[str, ContributionBound | None, bool]]:
    """Lists label, cap of a vehicle in a slot, and whether to suppress. Samples are capped at a vehicle's median."""
    samples = int(np.median(whole.kept))
    caps = [
        (f"cap: {cells} cells of {samples} samples", ContributionBound(cells, samples), False) for cells in CAPPED_CELLS
    ]
    return [("none", None, False), ("clip-user", None, True), *caps]


def _ordered(rows: Tally) -> Tally:
    return rows.take(np.lexsort((rows.vehicle, rows.cell, rows.slot_s)))


def _truth(whole: Tally, grid: Grid) -> TrueStatistics:
    keys: dict[tuple[int, int], int] = {}
    mean, of_vehicles, variance, vehicles, reports = [], [], [], [], []
    step = float(grid.step)
    for slot_s, rows in by_slot(_ordered(whole)):
        for cell, totals, reported in hats_of(rows).each():
            keys[slot_s, cell] = len(keys)
            first, second = int(totals.sums.sum()) / reported, int(totals.squares.sum()) / reported
            mean.append(first * step)
            of_vehicles.append(float((totals.sums / totals.counts).mean()) * step)
            variance.append((second - first * first) * step * step)
            vehicles.append(totals.counts.size)
            reports.append(reported)
    values = {
        "mean": np.array(mean),
        "mean-of-vehicles": np.array(of_vehicles),
        "variance": np.array(variance),
    }
    return TrueStatistics(keys, values, np.array(vehicles, np.float64), np.array(reports, np.float64))


def _errors(
    label: str, total: str, divided: Sequence[Divided], policy: Policy, truth: TrueStatistics, runs: int
) -> Iterator[CompositionErrors]:
    for stat in policy.statistics:
        true, constant = truth.values[stat.name], truth.constant(stat.name)
        error = np.abs(true - constant)
        for rows, share in divided:
            hats, wrong = _actual(rows, stat, share.epsilon_hat * stat.share, policy.value.grid, truth, runs)
            error[hats] = wrong
        yield _summed(label, total, stat.name, error, truth)


def _actual(
    rows: Tally, stat: RequestedStatistic, epsilon: Fraction, grid: Grid, truth: TrueStatistics, runs: int
) -> tuple[Int64s, Float64s]:
    """Finds the index in `truth` of each HAT with a value, and its mean absolute error over the runs."""
    hats = [(slot_s, hat) for slot_s, of_slot in by_slot(rows) for hat in hats_of(of_slot).with_users().each()]
    indices = np.array([truth.keys[slot_s, hat.cell] for slot_s, hat in hats], np.int64)
    counts = [CountsKnown(hat.totals.counts, hat.reported) for _, hat in hats]
    plans = stat.mechanism.plans(counts, grid, epsilon)
    true = truth.values[stat.name][indices]
    error = np.zeros(indices.size)
    for _ in range(runs):
        released = stat.mechanism.release([hat.totals for _, hat in hats], plans, Noise())
        error += np.abs(values_of(released, plans) - true)
    return indices, error / runs


def _constants(truth: TrueStatistics, statistics: Sequence[RequestedStatistic]) -> Iterator[CompositionErrors]:
    for stat in statistics:
        error = np.abs(truth.values[stat.name] - truth.constant(stat.name))
        yield _summed(CONSTANT, "", stat.name, error, truth)


def _summed(label: str, total: str, statistic: str, error: Float64s, truth: TrueStatistics) -> CompositionErrors:
    constant = float(np.abs(truth.values[statistic] - truth.constant(statistic)).mean())
    mean = float(error.mean())
    by_class = means_by_class(error, truth.vehicles)
    return CompositionErrors(label, total, statistic, mean, by_class, mean > constant)


def _spent(label: str, total: str, divided: Sequence[Divided], truth: TrueStatistics) -> CompositionCost:
    kept = sum(int(part.rows.kept.sum()) for part in divided)
    valued = sum(
        np.unique(np.stack([part.rows.slot_s, part.rows.cell])[:, part.rows.kept > 0], axis=1).shape[1]
        for part in divided
    )
    return CompositionCost(
        composition=label,
        total=total,
        most_hats=float(np.median([part.share.most_hats for part in divided])),
        epsilon_hat=float(np.median([float(part.share.epsilon_hat) for part in divided])),
        reports_left_out=1 - kept / float(truth.reports.sum()),
        hats_without_value=1 - valued / len(truth.keys),
    )


# --- tables ----------------------------------------------------------------------------------------------------------


def spent_table(spent: Sequence[CompositionCost]) -> Table:
    """Shows what each composition makes of the total of a vehicle and period."""
    names = ["total", "most HATs (K)", "epsilon of a HAT", "reports left out", "HATs without value"]
    table = table_of("What a vehicle's total is divided into", None, ["composition"], names)
    for _, alike in groupby(spent, key=lambda cost: cost.composition):
        rows = list(alike)
        for cost in rows:
            parts = (f"{cost.reports_left_out:.0%}", f"{cost.hats_without_value:.0%}")
            row = (cost.composition, cost.total, f"{cost.most_hats:g}", f"{cost.epsilon_hat:.3g}", *parts)
            table.add_row(*row, end_section=cost is rows[-1])
    return table


def error_tables(statistic: str, errors: Sequence[CompositionErrors], truth: TrueStatistics) -> Iterator[Table]:
    """Shows the errors of one statistic, a table a total: overall and by the number of vehicles in the HAT."""
    unit = named(statistic).unit.format(UNIT)
    of_statistic = [error for error in errors if error.statistic == statistic]
    bar = next(of_composition for of_composition in of_statistic if of_composition.composition == CONSTANT)
    for total in dict.fromkeys(of_composition.total for of_composition in of_statistic if of_composition is not bar):
        table = table_of(
            f"NOT PRIVATE: actual mean absolute error of the {statistic} at a total of {total}, {unit}",
            "* worse than publishing one constant for the whole city; columns to the right: HATs by vehicles.",
            ["composition"],
            ["all\nHATs", *class_headings(truth.vehicles)],
        )
        for of_composition in [
            *(of_composition for of_composition in of_statistic if of_composition.total == total),
            bar,
        ]:
            pairs = zip((of_composition.mean, *of_composition.by_class), (bar.mean, *bar.by_class), strict=True)
            table.add_row(
                of_composition.composition, *(against(value, level).replace(" ", "") for value, level in pairs)
            )
        yield table
