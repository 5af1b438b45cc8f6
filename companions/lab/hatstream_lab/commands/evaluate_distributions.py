"""`hatstream evaluate --distributions`: crossovers, a dense made-up city, and errors and pictures on telemetry."""

from collections.abc import Sequence
from dataclasses import asdict
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec

from dpops import Grid, Prior
from hatstream.api import console, progress_bars
from hatstream_lab.commands.evaluation_results import NOT_PRIVATE, Results
from hatstream_lab.evaluation import distribution_report as report
from hatstream_lab.evaluation import distributions as figures
from hatstream_lab.evaluation.feed import Feed
from hatstream_lab.evaluation.tables import class_names

GRID = Grid(step=Fraction(1, 100), upper_steps=6_500)
MADE_UP_HATS = 30
MADE_UP_PRIOR = Prior(25.0, 12.0, 0.3)


def evaluate_distributions(
    feed: Feed | None,
    bins: int,
    epsilons: Sequence[str],
    runs: int,
    seed: int,
    results: Results,
) -> None:
    """Shows all figures; pictures go to the folder."""
    out, drawn = console(), list[Path]()
    compared, dense = figures.crossovers(), _dense(bins, epsilons, runs, seed, quiet=results.as_json)
    document: dict[str, Any] = {
        "crossovers": [asdict(row) for row in compared],
        "made_up": [{"vehicles": vehicles, **asdict(row)} for vehicles, row in dense],
    }
    if not results.as_json:
        out.print(report.crossover_table(compared))
        out.print(report.dense_table(dense))
    if results.output is not None:
        from hatstream_lab.evaluation import distribution_pictures as pictures  # matplotlib takes a second to import

        drawn.append(pictures.draw_dense(dense, epsilons[len(epsilons) // 2], results.output))
    if feed is not None:
        document |= _telemetry(feed, bins, epsilons, runs, results, drawn)
    if results.as_json:
        click.echo(msgspec.json.encode(document).decode())
    if drawn:
        results.drew(drawn)


def _dense(
    bins: int, epsilons: Sequence[str], runs: int, seed: int, *, quiet: bool
) -> list[tuple[int, figures.OutputErrors]]:
    errors_of_fleets: list[tuple[int, figures.OutputErrors]] = []
    with progress_bars(quiet=quiet) as bars:
        for done, vehicles in enumerate(figures.MADE_UP_VEHICLES):
            hats = figures.made_up_hats(vehicles, MADE_UP_HATS, bins, GRID, seed)
            errors = figures.errors_of(hats, bins, GRID, epsilons, runs, MADE_UP_PRIOR, lambda *_: None)
            errors_of_fleets += [(vehicles, error) for error in errors]
            bars("sizes of made-up HATs released", done + 1, len(figures.MADE_UP_VEHICLES))
    return errors_of_fleets


def _telemetry(
    feed: Feed,
    bins: int,
    epsilons: Sequence[str],
    runs: int,
    results: Results,
    drawn: list[Path],
) -> dict[str, Any]:
    spec = feed.spec
    with progress_bars(quiet=results.as_json) as bars:
        hats = figures.read_distributions(feed, bins, bars)
        errors = figures.errors_of(
            hats, bins, spec.value.grid, epsilons, runs, spec.prior, partial(bars, "epsilons released")
        )
    truth, out = figures.truth_of(hats, bins, spec.value.grid), console()
    if not results.as_json:
        out.print(NOT_PRIVATE, style="bold")
        for name in figures.OUTPUTS:
            out.print(report.error_table(name, [row for row in errors if row.output == name], truth, "telemetry"))
        out.print(NOT_PRIVATE)
    if results.output is not None:
        from hatstream_lab.evaluation import distribution_pictures as pictures  # matplotlib takes a second to import

        drawn.append(pictures.draw_cdfs(hats, bins, spec.value.grid, epsilons, spec.prior, results.output))
        drawn.append(pictures.draw_day(hats, bins, spec.value.grid, epsilons[-1], spec.prior, results.output))
    return {
        "not_private": NOT_PRIVATE,
        "hats": len(hats),
        "classes": class_names(),
        "errors": [asdict(error) for error in errors],
    }
