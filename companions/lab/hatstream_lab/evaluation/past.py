"""What the ledger's past is worth beside means that are released HAT by HAT: errors, intervals, and what is held back.

Not private: errors are against true values.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from dpops.allocation import Allocation
from dpops.noise import Noise
from dpops.types import Float64s
from hatstream_lab.evaluation.compositions import over_whole_periods
from hatstream_lab.evaluation.feed import Feed
from hatstream_lab.evaluation.tables import CLASSES, class_name, in_class, table_of
from pipelines.errors import UsageError
from pipelines.job import Job
from pipelines.progress import Report
from transforms import wire
from transforms.count.tally import tally
from transforms.places.hexagons import cell_text
from transforms.public import EntryNumber
from transforms.recorded.units import Sequenced
from transforms.records import SlotEstimates
from transforms.releases.hats.draw import draw_releases
from transforms.releases.hats.estimates import estimates_of
from transforms.releases.hats.past import STATISTIC, Fitter, Past, with_model
from transforms.releases.hats.policy import Policy
from transforms.releases.slots import SlotFacts
from transforms.wire import Tally


@dataclass(frozen=True, kw_only=True)
class PastErrors:
    """Mean absolute errors in km/h over HATs and by rows at one total, of HATs with a model value.

    day: None for all of them. held_back: the share of HATs without one. raw: of what was released. constant: of the
    city's true mean over all days.
    """

    total: str
    day: str | None
    held_back: float
    model: tuple[float, float] | None
    raw: tuple[float, float] | None
    constant: tuple[float, float] | None


@dataclass(frozen=True, kw_only=True)
class PastCoverage:
    """Coverage of HATs by their vehicles at one total: how often the model's interval holds the true mean, half its
    width and the worst-case interval's, in km/h, and mean absolute errors over HATs."""

    total: str
    vehicles: str
    hats: int
    held: float
    half_width: float
    worst_case: float
    model: float
    raw: float
    constant: float


class _Run(NamedTuple):
    """One run over all periods: of each HAT its day, true mean in km/h, reports and vehicles, and what was published,
    nan where there is nothing."""

    day: NDArray[np.str_]
    mean: Float64s
    reports: Float64s
    vehicles: Float64s
    published: Mapping[str, Float64s]

    def errors(self, name: str) -> Float64s:
        return np.abs(self.published[name] - self.mean)

    @property
    def constant(self) -> Float64s:
        return np.abs(self.mean - np.average(self.mean, weights=self.reports))

    @property
    def has_model(self) -> NDArray[np.bool_]:
        return ~np.isnan(self.published["model_value"])


_PUBLISHED = ("value", "lower95", "upper95", "model_value", "model_lower95", "model_upper95")


class Telemetry(NamedTuple):
    """Reports of whole periods, by their first slot, and what is public of their slots."""

    slots: Mapping[int, SlotFacts]
    periods: Mapping[int, Tally]


def evaluated(
    feed: Feed, totals: Sequence[str], runs: int, report: Report
) -> tuple[list[PastErrors], list[PastCoverage]]:
    """Releases telemetry at each total, divided over all HATs of a period at once, period by period, as often as asked.

    Raises UsageError for a specification without means that are released HAT by HAT under public counts.
    """
    return compared(*telemetry_of(feed, totals[0], report), totals, runs, report)


def telemetry_of(feed: Feed, total: str, report: Report) -> tuple[Telemetry, Policy]:
    """Reads what a feed holds, and how its specification releases it at such a total."""
    spec = feed.spec
    if not spec.teaches_hats:
        raise UsageError("--past needs means that are released HAT by HAT under public counts")
    when, events = feed.events(report)
    job, policy = over_whole_periods(spec, when, _allocation(total, spec.privacy.allocation))
    plans = sorted({facts.plan for facts in job.slots.values()})
    periods = {plan[0]: rows for plan in plans if (rows := _tallied(job, plan, events)).cell.size}
    return Telemetry(job.slots, periods), policy


def compared(
    telemetry: Telemetry, policy: Policy, totals: Sequence[str], runs: int, report: Report
) -> tuple[list[PastErrors], list[PastCoverage]]:
    errors, coverage = list[PastErrors](), list[PastCoverage]()
    for index, total in enumerate(totals, 1):
        divided = replace(policy, allocation=_allocation(total, policy.allocation))
        simulations = [_simulated(telemetry, divided) for _ in range(runs)]
        errors += _errors(total, simulations)
        coverage += _coverage(total, simulations)
        report("totals simulated", index, len(totals))
    return errors, coverage


def _allocation(total: str, of: Allocation) -> Allocation:
    return Allocation(epsilon=Fraction(total), per="period", scope="period", suppress=of.suppress)


def _tallied(job: Job, plan: Sequence[int], events: Mapping[int, list[bytes]]) -> Tally:
    by_slot = {slot_s: wire.unpack_events(events.get(slot_s, [])) for slot_s in plan}
    return wire.joined([tally(seen, slot_s, None, job.release.columns).tally for slot_s, seen in by_slot.items()])


def _simulated(telemetry: Telemetry, policy: Policy) -> _Run:
    past, fitter, noise = Past.none(), Fitter(), Noise()
    days, rows = list[str](), list[list[float]]()
    for plan_s, tallied in telemetry.periods.items():
        units = [unit for unit, _ in draw_releases({(plan_s, 0): tallied}, telemetry.slots, policy, noise)]
        past = past.after(Sequenced(EntryNumber(past.sequence + index), unit) for index, unit in enumerate(units, 1))
        fitted = fitter.fitted(past)
        for unit in units:
            slot = with_model(estimates_of([unit], policy.names), [unit], fitted, policy.value.grid.upper)
            of_slot = _rows(slot, tallied.take(tallied.slot_s == unit.slot_s), float(policy.value.grid.step))
            rows += of_slot
            days += [unit.slot_start[:10]] * len(of_slot)
    mean, reports, vehicles, *published = np.array(rows, np.float64).T
    return _Run(np.array(days), mean, reports, vehicles, dict(zip(_PUBLISHED, published, strict=True)))


def _rows(slot: SlotEstimates, tallied: Tally, step: float) -> list[list[float]]:
    """Lists for each HAT with a report its true mean, reports and vehicles, and what is published of it."""
    cells, of = np.unique(tallied.cell, return_inverse=True)
    reports, sums = (np.bincount(of, weights, cells.size) for weights in (tallied.kept, tallied.sums["sums"]))
    true = np.stack([sums / reports * step, reports, np.bincount(of, minlength=cells.size)]).T
    hats = slot.hats
    place = {cell: index for index, cell in enumerate(hats.cell) if hats.statistic[index] == STATISTIC}
    places = [place[cell] for cell in map(cell_text, cells.tolist())]
    published = hats.estimates.number(0)
    model = np.array([hats.notes[name] for name in _PUBLISHED[3:]], np.float64)
    rows: list[list[float]] = np.column_stack([true, published[:, places].T, model[:, places].T]).tolist()
    return rows


def _errors(total: str, runs: Sequence[_Run]) -> Iterator[PastErrors]:
    """Yields the errors of all days, then of each."""
    for day in (None, *np.unique(runs[0].day).tolist()):
        chosen = [(run.day == day) | (day is None) for run in runs]
        chosen_rows = [run.has_model & in_class for run, in_class in zip(runs, chosen, strict=True)]
        yield PastErrors(
            total=total,
            day=day,
            held_back=1 - float(np.concatenate(chosen_rows).sum() / np.concatenate(chosen).sum()),
            model=_mean([run.errors("model_value") for run in runs], runs, chosen_rows),
            raw=_mean([run.errors("value") for run in runs], runs, chosen_rows),
            constant=_mean([run.constant for run in runs], runs, chosen_rows),
        )


def _mean(
    errors: Sequence[Float64s], runs: Sequence[_Run], chosen: Sequence[NDArray[np.bool_]]
) -> tuple[float, float] | None:
    """Averages over HATs, and by reports."""
    misses = np.concatenate([error[rows] for error, rows in zip(errors, chosen, strict=True)])
    reports = np.concatenate([run.reports[rows] for run, rows in zip(runs, chosen, strict=True)])
    return (float(misses.mean()), float(np.average(misses, weights=reports))) if misses.size else None


def _coverage(total: str, runs: Sequence[_Run]) -> Iterator[PastCoverage]:
    """Measures the coverage of HATs with a model value, all and by class."""
    for bounds in ((1, None), *CLASSES):
        has_value = [run.has_model & in_class(run.vehicles, *bounds) for run in runs]
        if not np.any(np.concatenate(has_value)):
            continue

        def of(column: Callable[[_Run], Float64s], has_value: Sequence[NDArray[np.bool_]] = has_value) -> float:
            return float(np.concatenate([column(run)[rows] for run, rows in zip(runs, has_value, strict=True)]).mean())

        yield PastCoverage(
            total=total,
            vehicles="all" if bounds == (1, None) else class_name(*bounds),
            hats=int(np.concatenate(has_value).sum()) // len(runs),
            held=of(lambda run: _holds(run).astype(np.float64)),
            half_width=of(lambda run: (run.published["model_upper95"] - run.published["model_lower95"]) / 2),
            worst_case=of(lambda run: (run.published["upper95"] - run.published["lower95"]) / 2),
            model=of(lambda run: run.errors("model_value")),
            raw=of(lambda run: run.errors("value")),
            constant=of(lambda run: run.constant),
        )


def _holds(run: _Run) -> NDArray[np.bool_]:
    low, high = run.published["model_lower95"], run.published["model_upper95"]
    return (low <= run.mean) & (run.mean <= high)


# --- tables ----------------------------------------------------------------------------------------------------------


def error_table(errors: Sequence[PastErrors]) -> Table:
    table = table_of(
        "NOT PRIVATE: mean absolute errors of HATs with a model value, km/h",
        "over HATs / by reports. constant: the city's true mean over all days.",
        ["total", "day"],
        ["held back", "as released", "model", "constant"],
    )
    for error in errors:
        numbers = (
            "-" if two is None else f"{two[0]:.2f} / {two[1]:.2f}" for two in (error.raw, error.model, error.constant)
        )
        table.add_row(error.total, error.day or "all", f"{error.held_back:.2f}", *numbers)
    return table


def coverage_table(coverage: Sequence[PastCoverage]) -> Table:
    table = table_of(
        "NOT PRIVATE: the same HATs by their vehicles",
        "held: share whose true mean lies in the model's interval. Half widths and errors over HATs, km/h.",
        ["total"],
        ["vehicles", "HATs", "held", "half width", "worst case", "as released", "model", "constant"],
    )
    for row in coverage:
        numbers = (row.half_width, row.worst_case, row.raw, row.model, row.constant)
        shown = (row.vehicles, f"{row.hats:,}", f"{row.held:.3f}", *(f"{number:.2f}" for number in numbers))
        table.add_row(row.total, *shown)
    return table
