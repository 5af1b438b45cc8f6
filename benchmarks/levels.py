"""CPU and memory of a release of `levels` beside `array-average` on the same file: `python -m benchmarks.levels`.

.venv/bin/python -m benchmarks.levels --millions 16 --vehicles 50000
"""

import json
import multiprocessing
import os
import resource
import tempfile
import time
from contextlib import redirect_stdout
from pathlib import Path

import click
import h3
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.cli import main
from transforms import tasks

DAY, DAY_S = "2026-05-13", 1_778_630_400
ROUTE_CELLS, BATCH = 20, 1_000_000
SPEC = """
name = "benchmark"
[account]
name = "{name}"
unit = "vehicle-day"
timezone = "UTC"
adjacency = "{adjacency}"
limit = 1000000
[slot]
minutes = 60
[cells]
resolution = 7
region = {region}
[speed]
upper_kmh = 65
[privacy]
epsilon = 2.64
{how}
[[statistic]]
name = "mean"
mechanism = "{mechanism}"
[input]
layout = "parquet"
columns = {{ vehicle = "bus", time = "ts", lat = "lat", lon = "lon", speed = "v" }}
time_unit = "s"
"""
KINDS = {
    "array-average": ("counts-public", 'per = "hat"', "array-average"),
    "levels": ("add-remove", 'per = "period"\nscope = "period"', "levels"),
}


def disk(cells: int) -> list[str]:
    return sorted(h3.grid_disk(h3.latlng_to_cell(30.27, -97.74, 7), 20 if cells <= 1_261 else 60))[:cells]


def generate(path: Path, events: int, vehicles: int, cells: int) -> None:
    """One day, ordered by time; each vehicle keeps to a route of 20 cells."""
    rng = np.random.default_rng(1)
    centres = np.array([h3.cell_to_latlng(cell) for cell in disk(cells)])
    routes = rng.integers(0, cells, (vehicles, ROUTE_CELLS))
    writer = None
    for start in range(0, events, BATCH):
        rows = min(BATCH, events - start)
        at_s = (start + np.arange(rows)) * 86_400 // events
        vehicle = rng.integers(0, vehicles, rows)
        lat, lon = centres[routes[vehicle, at_s // 1_800 % ROUTE_CELLS]].T + rng.normal(0, 0.002, (2, rows))
        speed = np.round(np.clip(rng.normal(20, 11, rows), 0, None), 2)
        table = pa.table({"bus": vehicle, "ts": DAY_S + at_s, "lat": lat, "lon": lon, "v": speed})
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer:
        writer.close()


def measure(kind: str, feed: Path, cells: int, pipe) -> None:
    """Sends CPU and wall seconds and peak memory in MB of one release in this process, and what of it, in CPU seconds,
    follows the counting: of `levels` one worker of a cluster does that."""
    adjacency, how, mechanism = KINDS[kind]
    region = json.dumps(disk(cells))
    with tempfile.TemporaryDirectory() as name, redirect_stdout(None):
        folder = Path(name)
        spec, ledger = folder / "spec.toml", folder / "ledger.sqlite"
        text = SPEC.format(name=kind, adjacency=adjacency, region=region, how=how, mechanism=mechanism)
        spec.write_text(text)
        main(["init", "--spec", str(spec), "--ledger", str(ledger)])
        last, released = [0.0], tasks.released

        def timed(*arguments):
            began = time.process_time()
            yield from released(*arguments)
            last[0] = time.process_time() - began

        tasks.released = timed
        before = time.process_time(), time.perf_counter()
        command = ["release", "--spec", spec, "--ledger", ledger, "--input", feed, "--from", DAY, "--to", DAY]
        code = main([*map(str, command), "--output", str(folder / "out"), "--formats", "parquet", "--json"])
        cpu, wall = time.process_time() - before[0], time.perf_counter() - before[1]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    pipe.send((code, cpu, wall, peak, last[0]))


@click.command()
@click.option("--millions", default=16.0, show_default=True, help="Events.")
@click.option("--vehicles", default=50_000, show_default=True)
@click.option("--cells", default=400, show_default=True, help="Of the region.")
@click.option("--kinds", default=",".join(KINDS), show_default=True)
def run(millions: float, vehicles: int, cells: int, kinds: str) -> None:
    """Prints a line for each, and the ratio of their CPU seconds an event."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # of the processes below, as commands have it
    events, cpus = int(millions * 1e6), []
    with tempfile.TemporaryDirectory() as folder:
        feed = Path(folder) / "feed.parquet"
        generate(feed, events, vehicles, cells)
        for kind in kinds.split(","):
            receiver, its = multiprocessing.Pipe()
            process = multiprocessing.get_context("spawn").Process(target=measure, args=(kind, feed, cells, its))
            process.start()
            code, cpu, wall, peak, last = receiver.recv()
            process.join()
            cpus.append(cpu)
            print(
                f"{kind}: exit {code}, {cpu:.1f} s CPU, {cpu / events * 1e6:.2f} us/event, {wall:.1f} s, {peak:.0f} MB"
                f"; after the counting {last:.2f} s CPU"
            )
    if len(cpus) > 1:
        print(f"ratio of CPU: {cpus[1] / cpus[0]:.2f}")


if __name__ == "__main__":
    run()
