"""Four days of Austin's buses under one small total, day by day by the command line: time, ledger, error.

.venv/bin/python -m benchmarks.levels_days --data ../shared/data/capmetro

The region is made of the first day's cells and a ring around them, so these figures carry no guarantee for that day.
"""

import csv
import json
import multiprocessing
import tempfile
import time
from collections import defaultdict
from contextlib import redirect_stdout
from datetime import datetime
from pathlib import Path

import click
import h3

from pipelines.cli import main

TOTALS = ("1", "2.64", "10")
DELTA = "1e-6"
SPEC = """
name = "austin"
[account]
name = "austin"
unit = "vehicle-day"
timezone = "America/Chicago"
adjacency = "add-remove"
limit = {limit}
[slot]
minutes = 60
[cells]
resolution = 7
region = "region.json"
[speed]
upper_kmh = 65
[privacy]
epsilon = {total}
{delta}
per = "period"
scope = "period"
[fleet]
vehicles = 170
[[statistic]]
name = "mean"
mechanism = "levels"
[input]
layout = "capmetro"
"""


def truth(files: list[Path]) -> dict[tuple[str, str], list[float]]:
    """Clipped speeds of each slot and cell, km/h."""
    speeds = defaultdict(list)
    for path in files:
        with path.open() as file:
            for row in csv.DictReader(file):
                slot = datetime.fromisoformat(row["timestamp"]).replace(minute=0, second=0).isoformat()
                cell = h3.latlng_to_cell(float(row["latitude"]), float(row["longitude"]), 7)
                speeds[slot, cell].append(min(max(float(row["speed"]) * 3.6, 0), 65))
    return speeds


def ringed(cells: set[str]) -> dict:
    """The cells and a ring around them as GeoJSON."""
    near = sorted({neighbour for cell in cells for neighbour in h3.grid_disk(cell, 1)})
    shape = h3.cells_to_geo(near)
    return {"type": "Feature", "properties": {}, "geometry": shape}


def release(total: str, delta: str, region: dict, data: Path, pipe) -> None:
    """Sends for each day: wall and CPU seconds, bytes that the ledger grew by; and the rows' (slot, cell) -> value."""
    days, measured = sorted(data.glob("*.csv")), []
    with tempfile.TemporaryDirectory() as name, redirect_stdout(None):
        folder = Path(name)
        (folder / "region.json").write_text(json.dumps(region))
        limit = f"{{ epsilon = {total}, delta = {delta} }}" if delta else total
        spec, ledger = folder / "spec.toml", folder / "ledger.sqlite"
        spec.write_text(SPEC.format(total=total, limit=limit, delta=f"delta = {delta}" if delta else ""))
        main(["init", "--spec", str(spec), "--ledger", str(ledger)])
        size = ledger.stat().st_size
        for path in days:
            before = time.perf_counter(), time.process_time()
            code = main(
                ["release", "--spec", str(spec), "--ledger", str(ledger), "--input", str(path), "--from", path.stem,
                 "--to", path.stem, "--output", str(folder / "out"), "--formats", "csv", "--json"]
            )  # fmt: skip
            assert code == 0
            size, grown = ledger.stat().st_size, ledger.stat().st_size - size
            measured.append((time.perf_counter() - before[0], time.process_time() - before[1], grown))
        rows = [row for path in (folder / "out").iterdir() for row in csv.DictReader(path.read_text().splitlines())]
    pipe.send((measured, {(row["slot_start"], row["cell"]): row["value"] for row in rows}))


@click.command()
@click.option("--data", type=click.Path(path_type=Path), required=True, help="Folder of the four days.")
def run(data: Path) -> None:
    days = sorted(data.glob("*.csv"))
    true = truth(days)
    region = ringed({cell for slot, cell in true if slot.startswith(days[0].stem)})
    print("| total | delta | wall s a day | CPU s a day | ledger kB a day | error km/h, by rows, by day |")
    print("|---|---|---:|---:|---:|---|")
    for delta in ("", DELTA):
        for total in TOTALS:
            receiver, its = multiprocessing.Pipe()
            args = total, delta, region, data, its
            process = multiprocessing.get_context("spawn").Process(target=release, args=args)
            process.start()
            measured, rows = receiver.recv()
            process.join()
            wall, cpu, grown = zip(*measured, strict=True)
            errors = " / ".join(_error(rows, true, day.stem) for day in days)
            times = f"{min(wall):.1f} to {max(wall):.1f} | {min(cpu):.1f} to {max(cpu):.1f}"
            print(f"| {total} | {delta or 'pure'} | {times} | {max(grown) / 1000:.0f} | {errors} |", flush=True)


def _error(rows: dict, true: dict, day: str) -> str:
    """Mean absolute error over the HATs of the region with a value, weighted by rows."""
    released = [(float(rows[hat]), speeds) for hat, speeds in true.items() if hat[0].startswith(day) and rows.get(hat)]
    if not released:
        return "held back"
    total = sum(len(speeds) for _, speeds in released)
    return f"{sum(abs(value - sum(s) / len(s)) * len(s) for value, s in released) / total:.2f}"


if __name__ == "__main__":
    run()
