"""Guards the README's first table: the same promise by PipelineDP 0.3.1 and by hatstream, on days of telemetry.

`make compare`, or .venv/bin/python -m benchmarks.compare --data '../shared/data/capmetro/*.csv' --spec docs/austin.toml

The promise: all that a vehicle does on a day, that it drove at all included, changes the odds of any guess by at most
e^2.64, but for delta 1e-6. Both are asked for the mean speed of every hexagon of a public region in every hour.
PipelineDP has an environment of its own, made once in build/pipelinedp. It is favoured: a report has the mean of its
vehicle's reports there, so that sampling loses nothing; its bounds on contributions are the best of all that are tried,
which takes the truth to know; its values are cut to [0, 65]. Errors are against true values: nothing here is private.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.processes import python_of
from hatstream.api import console, progress_bars, release_days
from hatstream_lab.evaluation.days import DELTA, HAT_KEYS, Days, read_days
from hatstream_lab.evaluation.experiment import Float64s, Int64s, Mean, Row, Table, experiment
from hatstream_lab.evaluation.released import constant_rows, joined_with_truth

EPSILON, RUNS = "2.64", 3
PACKAGES = ("pipeline-dp==0.3.1", "python-dp==1.1.5", "numpy==2.4.6", "scipy==1.17.1", "dill==0.4.1", "pyarrow>=18")
CLASSES = {"all hexagons and hours": (1, np.inf), "10 to 29 vehicles": (10, 30), "30 and more": (30, np.inf)}


def answers(lower: float, upper: float, paths: Sequence[Path]) -> dict[str, list[list[float]]]:
    """Asks PipelineDP: by each of its bounds that are tried, the values of all keys on each day, a file each."""
    side = Path(__file__).with_name("compare_side.py")
    command = [str(python_of("pipelinedp", *PACKAGES)), str(side), EPSILON, str(lower), str(upper), *map(str, paths)]
    results: dict[str, list[list[float]]] = json.loads(
        subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    )
    return results


def by_pipelinedp(days: Days) -> dict[str, pa.Table]:
    """What it releases by each of its bounds that are tried."""
    slots = int(pc.max(days.counted["slot"]).as_py()) + 1
    upper = float(days.tables["speed"]["upper_kmh"])
    with tempfile.TemporaryDirectory() as folder:
        results = answers(0, upper, [_written(days, day, slots, Path(folder)) for day in days.names])
    keys = [(cell, slot) for cell in days.region for slot in range(slots)]
    cells, numbers = zip(*keys, strict=True)
    tables = {}
    for bounds, values in results.items():
        of_days = []
        for day, of_day in zip(days.names, values, strict=True):
            columns = {"period": [day] * len(keys), "slot": numbers, "cell": cells}
            of_days.append(pa.table({**columns, "value": pa.array(of_day, pa.float64())}))
        tables[bounds] = pa.concat_tables(of_days)
    return tables


def _written(days: Days, day: str, slots: int, folder: Path) -> Path:
    """Writes a row a report: its vehicle, its HAT, and the mean of its vehicle's reports there."""
    rows = days.counted.filter(pc.equal(days.counted["period"], day))
    many = rows["reports"].to_numpy()
    cell = pc.index_in(rows["cell"], pa.array(days.region)).to_numpy()
    kmh = rows["sums"].to_numpy() / many * days.step_kmh
    path = folder / f"{day}.parquet"
    key = cell * slots + rows["slot"].to_numpy()
    write_reports(path, rows["vehicle"].to_numpy(), key, kmh, many, len(days.region) * slots)
    return path


def write_reports(path: Path, vehicle: Int64s, key: Int64s, value: Float64s, reports: Int64s, keys: int) -> None:
    """Writes a row a report for the side of PipelineDP. keys: so many there are, numbered from 0."""
    columns = {"vehicle": vehicle, "hat": key, "value": value}
    table = pa.table(
        {name: np.repeat(column, reports) for name, column in columns.items()}, metadata={"hats": str(keys)}
    )
    pq.write_table(table, path)


def errors(days: Days, released: pa.Table, name: str) -> Row:
    """Measures errors over HATs of so many vehicles for which there is a value, km/h."""
    hats = joined_with_truth(released.select([*HAT_KEYS, "value"]), days.hats)
    error, vehicles = np.abs(hats["value"] - hats["truth"]), hats["vehicles"]
    shown = {
        label: Mean.of(error[(vehicles >= least) & (vehicles < most) & ~np.isnan(error)])
        for label, (least, most) in CLASSES.items()
    }
    held_back = [np.isnan(error[hats["period"] == day]).all() for day in days.names]
    return {"": name, **shown, "days held back": Mean.of(held_back)}


@click.command()
@click.option("--data", required=True, help="Files of telemetry, as a quoted pattern.")
@click.option("--spec", required=True, type=click.Path(path_type=Path), help="How they are read.")
def compare(data: str, spec: Path) -> None:
    """Print the first table of the README."""
    with progress_bars(quiet=False) as bars:
        days = read_days(data, spec, None, bars)
    ours = days.spec(EPSILON, DELTA)
    first = next(iter(CLASSES))
    tried = list(by_pipelinedp(days).items())
    theirs = experiment(days, tried, lambda days, tried, _: [errors(days, tried[1], tried[0])])
    best = min(theirs.rows, key=lambda row: row[first] or np.inf)
    best[""] = f"PipelineDP 0.3.1 ({best['']})"
    constant = [errors(days, constant_rows(days), "the city's true mean (not private)")]
    bar = experiment(days, [None], lambda _days, _setting, _run: constant)
    hatstream = experiment(
        days,
        [ours],
        lambda days, spec, run: [errors(days, release_days(spec, days.counted, seed=run)["hats"], "hatstream")],
        RUNS,
    )
    table = Table([best, *bar.rows, *hatstream.rows])
    names = {name: name for name in (*CLASSES, "days held back")}
    title = f"Mean absolute error, km/h; {len(days.names)} days, {len(days.region):,} hexagons; {RUNS} runs"
    console().print(table.show(title, "Days that are held back count nowhere.", ("",), names))


if __name__ == "__main__":
    sys.exit(compare())
