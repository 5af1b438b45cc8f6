"""The same promise by PipelineDP 0.3.1 and by hatstream, on days of telemetry: how far from the true mean speeds.

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
import venv
from fractions import Fraction
from pathlib import Path

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.table import Table

from dpops.learning import Status
from dpops.noise import Noise
from hatstream_lab.evaluation.feed import Feed
from hatstream_lab.evaluation.learned import recipe_for, simulate
from hatstream_lab.evaluation.truth import TrueCity, read_city
from pipelines.commands.options import console, progress_bars

EPSILON, DELTA, RUNS = Fraction("2.64"), Fraction(1, 10**6), 3
ENVIRONMENT = Path("build/pipelinedp")
PACKAGES = ("pipeline-dp==0.3.1", "python-dp==1.1.5", "numpy==2.4.6", "scipy==1.17.1", "dill==0.4.1", "pyarrow>=18")
CLASSES = {
    "all hexagons and hours": (1, np.inf),
    "10 to 29 vehicles": (10, 30),
    "30 and more": (30, np.inf),
}
Values = list[np.ndarray]
"""Of each day, (cells, slots), nan where nothing is published."""


def python_of(folder: Path) -> Path:
    """An environment with PipelineDP, made if it is not there."""
    python = folder / "bin" / "python"
    if not python.exists():
        click.echo(f"making an environment for PipelineDP in {folder} ...", err=True)
        venv.create(folder, with_pip=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES]
        subprocess.run(install, check=True)
    return python


def by_pipelinedp(city: TrueCity) -> tuple[Values, str]:
    """The best of its bounds by the error over all HATs; and which these are."""
    side = Path(__file__).with_name("compare_side.py")
    with tempfile.TemporaryDirectory() as folder:
        paths = [str(_written(city, index, Path(folder))) for index in range(len(city.days))]
        command = [str(python_of(ENVIRONMENT)), str(side), str(EPSILON.numerator / EPSILON.denominator), *paths]
        results = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    tried = {
        bounds: [np.array(values).reshape(day.means.shape) for values, day in zip(days, city.days, strict=True)]
        for bounds, days in results.items()
    }
    best = min(tried, key=lambda bounds: error(city, tried[bounds], (1, np.inf)) or np.inf)
    return tried[best], best


def _written(city: TrueCity, index: int, folder: Path) -> Path:
    """A row a report: its vehicle, its HAT, and the mean of its vehicle's reports there."""
    day, grid = city.days[index], float(city.grid.step)
    rows = day.rows
    many = rows.reports
    hat = rows.cell * day.means.shape[1] + rows.slot
    columns = {"vehicle": rows.vehicle, "hat": hat, "kmh": rows.total / rows.reports * grid}
    path = folder / f"{index}.parquet"
    metadata = {"hats": str(day.means.size)}
    table = pa.table({name: np.repeat(column, many) for name, column in columns.items()}, metadata=metadata)
    pq.write_table(table, path)
    return path


def by_hatstream(city: TrueCity) -> list[Values]:
    """Each day from its own and earlier releases, RUNS times; nan where a day is held back."""
    recipe = recipe_for(city, "gaussian", EPSILON, DELTA)
    runs = [simulate(city, recipe, Noise()) for _ in range(RUNS)]
    return [[np.where(day.status == Status.HELD_BACK, np.nan, day.values) for day in run.causal] for run in runs]


def error(city: TrueCity, values: Values, vehicles: tuple[float, float]) -> float | None:
    """Mean absolute error over HATs with so many vehicles for which there is a value, km/h."""
    errors = []
    for day, released in zip(city.days, values, strict=True):
        there = (day.reports > 0) & (day.vehicles >= vehicles[0]) & (day.vehicles < vehicles[1]) & ~np.isnan(released)
        errors.append(np.abs(released - day.means)[there])
    joined = np.concatenate(errors)
    return float(joined.mean()) if joined.size else None


@click.command()
@click.option("--data", required=True, help="Files of telemetry, as a quoted pattern.")
@click.option("--spec", required=True, type=click.Path(path_type=Path), help="How they are read.")
def compare(data: str, spec: Path) -> None:
    """Print the first table of the README."""
    with progress_bars(quiet=False) as bars:
        city = read_city(Feed.of(data, spec, None), bars)
    theirs, bounds = by_pipelinedp(city)
    ours = by_hatstream(city)
    constant = [np.full(day.means.shape, city.mean_kmh) for day in city.days]
    table = Table(title=f"Mean absolute error, km/h; {len(city.days)} days, {len(city.region):,} hexagons")
    table.title_justify = "left"
    for name in ("", *CLASSES):
        table.add_column(name, justify="right" if name else "left")
    for name, runs in (
        (f"PipelineDP 0.3.1 ({bounds})", [theirs]),
        ("the city's true mean (not private)", [constant]),
        ("hatstream", ours),
    ):
        shown = []
        for vehicles in CLASSES.values():
            errors_known = [missed for values in runs if (missed := error(city, values, vehicles)) is not None]
            shown.append(f"{np.mean(errors_known):.1f}" if errors_known else "-")
        table.add_row(name, *shown)
    console().print(table)
    held = np.mean([np.isnan(day).all() for values in ours for day in values])
    console().print(f"hatstream: {RUNS} runs; {held:.0%} of the days were held back and count nowhere.")


if __name__ == "__main__":
    sys.exit(compare())
