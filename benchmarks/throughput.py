"""Guards events a second of `hatstream release` from generated files to published rows, beside the bare H3 loop.

    .venv/bin/python -m benchmarks.throughput                 # 1, 4 and 16 million events of Parquet, about 4 minutes
    .venv/bin/python -m benchmarks.throughput --layouts csv,jsonl --millions 1
    .venv/bin/python -m benchmarks.throughput --millions 4 --days 1,8     # memory against the number of days

Each release is a process of its own. CPU seconds and peak memory are those of it and of all processes that it starts,
from the call after its imports to its end. The share is of the bare H3 loop, measured before and after each case.
"""

import importlib
import json
import multiprocessing
import tempfile
import time
from contextlib import redirect_stdout
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path

import click
import h3
import h3.api.basic_int as h3_int
import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.processes import Watch
from pipelines.cli import main
from tests import city

ROUTE_CELLS, BATCH = 20, 1_000_000
FIRST_DAY_S = 1_778_630_400  # 2026-05-13 00:00 UTC
DAY_S = 86_400
SPEC = city.changed(
    city.SPEC,
    ("small-city", "benchmark"),
    ('"small"', '"benchmark"'),
    ("Asia/Kolkata", "UTC"),
    ("limit = 50", "limit = 1000000"),
    ('service = "08:00-12:00"\n', ""),
)


def spec_of(layout: str) -> str:
    """The specification for generated files of a layout."""
    time_unit = "iso" if layout == "parquet" else "us"
    return city.changed(SPEC, ('"csv"', f'"{layout}"')) + f'time_unit = "{time_unit}"\n'


@dataclass(frozen=True)
class Case:
    """One measured release."""

    layout: str
    events: int
    cells: int
    days: int
    scattered: bool
    hour: bool
    vehicles: int


@dataclass(frozen=True)
class Measured:
    wall_s: float
    cpu_s: float
    peak_mb: float
    rows: int
    hats: int


def generate(case: Case, path: Path) -> None:
    """Writes the events, ordered by time; each vehicle keeps to a route of 20 cells, or is anywhere if scattered."""
    rng = np.random.default_rng(case.events + case.cells)
    centre = h3.latlng_to_cell(30.27, -97.74, 7)
    disk = sorted(h3.grid_disk(centre, 40))[: case.cells]
    centres = np.array([h3.cell_to_latlng(cell) for cell in disk])
    routes = rng.integers(0, case.cells, (case.vehicles, ROUTE_CELLS))
    names = pa.array([f"BUS-{i:05d}" for i in range(case.vehicles)])
    writer = None
    for start in range(0, case.events, BATCH):
        rows = min(BATCH, case.events - start)
        span_us = (3_600 if case.hour else case.days * DAY_S) * 1_000_000
        at_us = ((start + np.arange(rows)) * (span_us / case.events)).astype(np.int64) // 1_000_000 * 1_000_000
        vehicle = rng.integers(0, case.vehicles, rows)
        step = (at_us // 180_000_000) % ROUTE_CELLS  # a cell for three minutes
        cell = rng.integers(0, case.cells, rows) if case.scattered else routes[vehicle, step]
        lat, lon = centres[cell].T + rng.normal(0, 0.002, (2, rows))
        ts = pa.array(FIRST_DAY_S * 1_000_000 + at_us + rng.integers(0, 1_000_000, rows))
        as_time = ts.cast(pa.timestamp("us", tz="UTC")) if case.layout == "parquet" else ts
        speed = np.round(np.clip(rng.normal(20, 11, rows), 0, None), 2)
        bus = pa.DictionaryArray.from_arrays(pa.array(vehicle.astype(np.int32)), names)
        table = pa.table({"bus": bus.cast(pa.string()), "ts": as_time, "lat": lat, "lon": lon, "v": speed})
        writer = writer or _writer(case.layout, path, table.schema)
        writer(table)
    if writer:
        writer(None)


def _writer(layout, path, schema):
    """A function that writes tables one after another; None closes the file."""
    if layout == "jsonl":
        file = path.open("w")

        def lines(table):
            if table is None:
                return file.close()
            columns = [table.column(name).to_pylist() for name in table.column_names]
            text = '{"bus":"%s","ts":%d,"lat":%r,"lon":%r,"v":%r}\n'
            return file.writelines(text % row for row in zip(*columns, strict=True))

        return lines
    sink = pq.ParquetWriter(path, schema) if layout == "parquet" else pa_csv.CSVWriter(path, schema)
    return lambda table: sink.close() if table is None else sink.write_table(table)


def _child(case: Case, folder: str, feed: str, report) -> None:
    """Runs in a process of its own, whose memory and CPU time are the release's."""
    last = np.datetime64(FIRST_DAY_S, "s") + np.timedelta64(case.days - 1, "D")
    place = ["--spec", f"{folder}/spec.toml", "--ledger", f"{folder}/ledger.sqlite"]
    when = ["--from", "2026-05-13", "--to", str(last)[:10]]
    with Path(folder, "summary.json").open("w+") as out, redirect_stdout(out):
        main(["init", *place])
        importlib.import_module("pipelines.commands.release")
        importlib.import_module("transforms.lean_beam")  # which a release imports while it runs
        importlib.import_module("pipelines.runs.beam.runners")
        importlib.import_module("pipelines.runs.beam.bounded")
        report.put("ready")
        started = time.perf_counter()
        code = main(["release", *place, "--input", feed, *when, "--output", f"{folder}/out", "--json"])
        wall = time.perf_counter() - started
        out.seek(0)
        summary = json.loads(out.read().splitlines()[-1]) if code == 0 else None
    hats = sum(period["hats"] for period in summary["periods"]) if summary else 0
    report.put((wall, summary["observations"] if summary else 0, hats))


def measure(case: Case, feed: Path) -> Measured:
    context = multiprocessing.get_context("spawn")
    report = context.Queue()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "spec.toml").write_text(spec_of(case.layout))
        process = context.Process(target=_child, args=(case, folder, str(feed), report))
        process.start()
        report.get(timeout=60)
        watch = Watch(process.pid)
        wall, rows, hats = report.get(timeout=1800)
        watch.end()
        process.join()
    return Measured(wall, watch.cpu_s, watch.peak_mb, rows, hats)


def bare_h3(events: int = 1_000_000) -> float:
    """Events per CPU second of nothing but the library's lookup."""
    rng = np.random.default_rng(1)
    lat, lon = (rng.uniform(low, low + 1, events) for low in (30, -98))
    started = time.process_time()
    np.fromiter(map(h3_int.latlng_to_cell, lat.tolist(), lon.tolist(), repeat(7)), np.int64, events)
    return events / (time.process_time() - started)


def numbers(_context, _parameter, value):
    """An option's whole numbers, between commas."""
    return [int(part) for part in value.split(",")]


@click.command()
@click.option("--millions", default="1,4,16", callback=numbers, help="Millions of events.")
@click.option("--cells", default="40,4000", callback=numbers)
@click.option("--days", default="1", callback=numbers)
@click.option("--hour", is_flag=True, help="All events in one slot of an hour.")
@click.option("--vehicles", default=2_000)
@click.option("--layouts", default="parquet", help="Of parquet, csv, jsonl.")
@click.option("--scattered", is_flag=True, help="Vehicles are anywhere at any time: the worst case for the tallies.")
def benchmark(millions, cells, days, hour, vehicles, layouts, scattered):
    """Measure the road end to end."""
    table = Table(title="hatstream release")
    for title in (
        "layout", "events", "cells", "days", "HATs", "wall s", "CPU s", "events/s/core", "us/event", "share",
        "peak MB",
    ):  # fmt: skip
        table.add_column(title, justify="left" if title == "layout" else "right")
    cases = [
        Case(layout, million * 1_000_000, cell, day, scattered, hour, vehicles)
        for layout in layouts.split(",")
        for cell in cells
        for day in days
        for million in millions
    ]
    limit = [bare_h3()]
    with tempfile.TemporaryDirectory() as folder:
        for case in track(cases, console=Console(stderr=True)):
            feed = Path(folder, f"feed.{case.layout}")
            generate(case, feed)
            m = measure(case, feed)
            assert m.rows > 0.9 * case.events, "the release failed or lost events"
            cpu = 1e6 * m.cpu_s / case.events
            limit.append(bare_h3())
            share = case.events / m.cpu_s / ((limit[-2] + limit[-1]) / 2)
            row = (
                case.layout, f"{case.events:,}", case.cells, case.days, f"{m.hats:,}", f"{m.wall_s:.1f}",
                f"{m.cpu_s:.1f}", f"{case.events / m.cpu_s:,.0f}", f"{cpu:.2f}", f"{share:.2f}", f"{m.peak_mb:,.0f}",
            )  # fmt: skip
            table.add_row(*map(str, row))
    console = Console(width=120)
    console.print(table)
    console.print(f"bare H3 loop in the same run: {min(limit):,.0f} to {max(limit):,.0f} events/s/core")


if __name__ == "__main__":
    benchmark()
