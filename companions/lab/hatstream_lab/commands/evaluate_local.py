"""`hatstream evaluate --local`: what fusing several services' reports is worth, on drawn values."""

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from hatstream.api import InputError, console, progress_bars
from hatstream_lab.commands.evaluation_results import Results
from hatstream_lab.evaluation import local
from hatstream_lab.types import Float64s
from hatstream_local.fusion.perturb import nothing_usable, read_telemetry
from hatstream_local.specification import load_fusion

USERS = 100_000
TRIALS = 50


def evaluate_local(
    trials: int | None, seed: int, data: tuple[str, Path] | None, results: Results, processes: int
) -> None:
    """Shows tables of means and distributions, `--runs` trials of 100,000 users each; pictures, JSON go to `--output`.

    data: a pattern of telemetry files and the fusion specification that says their layout: a third set of values.
    """
    with progress_bars(quiet=results.as_json) as bars:
        pool = None if data is None else _speeds(*data)
        sets = ["beta", "beta+sin", *(["speeds"] if pool is not None else [])]
        progress = partial(bars, "trials simulated")
        cells = local.run_all(sets, USERS, trials or TRIALS, seed, pool, processes, progress)
    from hatstream_lab.evaluation import local_report  # matplotlib takes a second to import

    document = [
        {**asdict(cell), "reference": local_report.reference_of(cell), "exact": local_report.exact_of(cell)}
        for cell in cells
    ]
    if not results.as_json:
        _show(cells, sets)
    if results.output is not None:
        results.drew(local_report.draw(cells, results.output))
    results.keep({"users": USERS, "cells": document}, "fusion.json")


def _show(cells: Sequence[local.LocalCell], sets: Sequence[str]) -> None:
    from hatstream_lab.evaluation import local_report

    out = console()
    out.print(local_report.mean_table(cells))
    for data in sets:
        out.print(local_report.distribution_table(cells, data))


def _speeds(pattern: str, spec_path: Path) -> Float64s:
    """Reads all speeds of the telemetry, clamped into [0, U], as values in [-1, 1]."""
    spec = load_fusion(spec_path)
    _, values, refused = read_telemetry(spec, pattern, None, lambda *_: None)
    if not values.size:
        raise InputError(nothing_usable("row of the telemetry", sum(refused.values()), refused, "[telemetry]"))
    return values
