"""`hatstream evaluate`: the papers' tables beside reference figures, or actual errors on telemetry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hatstream.api import UsageError, console, progress_bars
from hatstream_lab.commands.evaluate_options import (
    AskedComparison,
    AskedSets,
    AskedTelemetry,
    comparison_options,
    epsilons_of,
    sets_options,
    telemetry_options,
)
from hatstream_lab.commands.evaluation_results import Results, results_options
from hatstream_lab.evaluation import NOT_PRIVATE, PROCESSES
from hatstream_lab.evaluation.reference import REFERENCE

if TYPE_CHECKING:
    from rich.table import Table

    from hatstream_lab.evaluation import datasets, real
    from hatstream_lab.evaluation.dwell import OfVehicles
    from hatstream_lab.evaluation.simulate import SimulatedCell
    from hatstream_lab.evaluation.telemetry import Telemetry
    from hatstream_lab.types import Int64s

EPSILONS = {name: tuple(next(iter(table.values()))) for name, table in REFERENCE.items()}
FOUR = ("0.5", "1", "1.5", "2")
REDRAWN = ("geometric", "extreme")
SAME_DATA = (
    "measured ± its standard error (reference figure); "
    "! differs by more than 4 standard errors of both and half a unit of the last digit"
)
OTHER_DATA = "measured ± its standard error (reference figure, of other data that meet the same published statistics)"


@click.command()
@click.option("--runs", type=click.IntRange(1), help="Runs of each cell. [default: 10000; on telemetry 20]")
@sets_options
@results_options
@click.option("--processes", type=click.IntRange(1), default=PROCESSES, show_default=True)
@telemetry_options
@comparison_options
def evaluate(
    runs: int | None,
    sets: AskedSets,
    results: Results,
    processes: int,
    telemetry: AskedTelemetry,
    comparison: AskedComparison,
) -> None:
    """Simulate every mechanism: the tables of the papers, or the errors on your telemetry.

    \b
    Examples:
      hatstream evaluate --runs 1000 --output build/evaluation
      hatstream evaluate --data 'feed/*.csv' --spec austin.toml --not-private
      hatstream evaluate --data 'feed/*.csv' --spec austin.toml --not-private --totals 10,100
      hatstream evaluate --data 'feed/*.csv' --spec austin.toml --not-private --totals 1,2.64 --learned --runs 5
      hatstream evaluate --data 'feed/*.csv' --spec austin.toml --not-private --totals 2.64 --live --runs 4
      hatstream evaluate --data 'feed/*.csv' --spec austin.toml --not-private --places 8 --totals 2.64
      hatstream evaluate --learned --cities '500 taxis,drawn 1' --totals 2.64 --runs 1
      hatstream evaluate --local --output build/fusion
      hatstream evaluate --distributions --data 'feed/*.csv' --spec austin.toml --not-private --output build/figures
    """
    from hatstream_lab.commands import evaluate_distributions, evaluate_local

    comparison.check(telemetry, sets)
    if comparison.is_local:
        evaluate_local.evaluate_local(runs, sets.seed, telemetry.data, results, processes)
        return
    if comparison.is_of_days:
        from hatstream_lab.commands.evaluate_days import evaluate_days

        evaluate_days(telemetry, comparison, runs, results)
        return
    feed = telemetry.feed()
    if comparison.distributions:
        epsilons = epsilons_of(comparison.epsilons)
        evaluate_distributions.evaluate_distributions(feed, comparison.bins, epsilons, runs or 3, sets.seed, results)
    elif feed is None:
        _simulate(runs or 10_000, sets, processes, results)
    else:
        _on_telemetry(feed, comparison, runs, results)


def _on_telemetry(feed: Telemetry, comparison: AskedComparison, runs: int | None, results: Results) -> None:
    if comparison.totals is not None:
        _compositions(feed, epsilons_of(comparison.totals, "--totals"), runs or 20, results)
    else:
        _mechanisms(feed, epsilons_of(comparison.epsilons), runs or 20, results)


def _simulate(runs: int, sets: AskedSets, processes: int, results: Results) -> None:
    """Simulates the tables of the papers."""
    from hatstream_lab.evaluation import datasets

    given = None if sets.counts is None else datasets.counts_from(sets.counts)
    source = partial(data_sets, sets.seed, given, sets.folder)
    cells = simulate(source, runs, sets.seed, processes, quiet=results.as_json)
    exact = sets.folder is not None
    if not results.as_json:
        _show(cells, exact=exact)
    if results.output is not None:
        from hatstream_lab.evaluation import pictures  # matplotlib takes a second to import

        results.drew([pictures.draw_errors(name, _of(cells, name), results.output) for name in _names(cells)])
    results.keep(document(cells, exact=exact), "evaluation.json")


def data_sets(seed: int, counts: Int64s | None, folder: Path | None) -> list[datasets.DataSet]:
    """Makes the sets of an evaluation: ITMS-like and scaled (generated, or from a folder), geometric, extreme."""
    from hatstream_lab.evaluation import datasets

    first = datasets.itms_like(seed, counts) if folder is None else datasets.from_folder(folder)
    return [*first, datasets.geometric(), datasets.extreme()]


def simulate(
    source: partial[list[datasets.DataSet]], runs: int, seed: int, processes: int, *, quiet: bool
) -> list[SimulatedCell]:
    """Simulates all cells of all data sets, with a progress bar on standard error."""
    from hatstream_lab.evaluation.simulate import contenders, run_all

    plan = [
        (data.name, label, epsilon)
        for data in source()
        for label in contenders(data)
        for epsilon in EPSILONS.get(data.name, FOUR)
    ]
    with progress_bars(quiet=quiet) as bars:
        return run_all(source, plan, runs, seed, partial(bars, "cells simulated"), processes)


def document(cells: Sequence[SimulatedCell], *, exact: bool) -> dict[str, object]:
    """Writes the evaluation for programs: errors in km/h. agrees: null where the reference is of other data."""
    from hatstream_lab.evaluation import report

    parts = []
    for cell in cells:
        agrees = report.agrees(cell) if exact or cell.data in REDRAWN else None
        parts.append({**asdict(cell), "reference": report.reference_of(cell), "agrees": agrees})
    return ({"not_private": NOT_PRIVATE} if exact else {}) | {"cells": parts}


def _show(cells: Sequence[SimulatedCell], *, exact: bool) -> None:
    from hatstream_lab.evaluation import report

    out = console()
    if exact:
        out.print(NOT_PRIVATE, style="bold")
    for name in _names(cells):
        same = exact or name in REDRAWN
        note = SAME_DATA if same else OTHER_DATA
        own = "" if same else " (generated)"
        out.print(report.error_table(f"{name}{own}", _of(cells, name), note, same_data=same))
    out.print(report.auto_table(cells))
    out.print(report.choice_table(cells))


def _mechanisms(feed: Telemetry, epsilons: list[str], runs: int, results: Results) -> None:
    from hatstream_lab.evaluation import real, tables
    from hatstream_lab.evaluation.dwell import of_vehicles

    spec = feed.spec
    if "mean-of-vehicles" in [stat.name for stat in spec.statistics]:
        raise UsageError("--data compares means of reports; give --totals to compare mean-of-vehicles")
    with progress_bars(quiet=results.as_json) as bars:
        hats = real.read_hats(feed, bars)
        errors = real.errors_of(hats, spec.value.grid, epsilons, runs, spec.prior, partial(bars, "mechanisms compared"))
    grid = spec.value.grid
    once = [of_vehicles(hats.totals, hats.truth, hats.rows, grid, epsilon, runs) for epsilon in epsilons]
    plain = {
        "hats": len(hats.totals),
        "city_mean_kmh": hats.city_mean,
        "classes": tables.class_names(),
        "errors_kmh": [asdict(error) for error in errors],
        "mean_of_vehicles": [asdict(row) for row in once],
    }
    results.tell(plain, "evaluation.json", *_of_mechanisms(hats, errors, once, runs))


def _of_mechanisms(
    hats: real.RealHats, errors: Sequence[real.MechanismErrors], once: Sequence[OfVehicles], runs: int
) -> Iterator[str | Table]:
    from hatstream_lab.evaluation import real

    yield f"{len(hats.totals)} HATs, {int(hats.rows.sum())} samples, city mean {hats.city_mean:.2f} km/h, {runs} runs"
    for beside in once:
        at_epsilon = [error for error in errors if error.epsilon == beside.epsilon]
        yield real.error_table(beside.epsilon, at_epsilon, beside)
        yield real.class_table(beside.epsilon, at_epsilon, hats)
        worse = [of_mechanism.label for of_mechanism in at_epsilon if of_mechanism.worse_than_constant]
        yield f"Worse than a constant over all HATs at epsilon {beside.epsilon}: {', '.join(worse) or 'none'}."


def _compositions(feed: Telemetry, totals: list[str], runs: int, results: Results) -> None:
    from hatstream_lab.evaluation import compositions, tables

    units = {"mean": "km/h", "mean-of-vehicles": "km/h", "variance": "(km/h)^2"}
    names = [stat.name for stat in feed.spec.statistics]
    if not set(names) <= set(units):
        raise UsageError("--totals compares means and variances; leave other statistics out of --spec")
    with progress_bars(quiet=results.as_json) as bars:
        compared = compositions.compare(feed, totals, runs, bars)
    constants = {name: compared.constant(name) for name in names}
    plain = {
        "hats": compared.truth.num_rows,
        "constants": constants,
        "classes": tables.class_names(),
        "rows": compared.table.rows,
    }
    told = ", ".join(f"{name} {constant:.2f}" for name, constant in constants.items())
    reports = sum(compared.truth["reports"].to_pylist())
    what = f"{compared.truth.num_rows:,} HATs, {reports:,.0f} reports, whole city: {told}; {runs} runs"
    results.tell(plain, "evaluation.json", what, *compositions.shown(compared, {name: units[name] for name in names}))


def _names(cells: Sequence[SimulatedCell]) -> list[str]:
    return list(dict.fromkeys(cell.data for cell in cells))


def _of(cells: Sequence[SimulatedCell], name: str) -> list[SimulatedCell]:
    return [cell for cell in cells if cell.data == name]
