"""Tells what each number in dpops/fitted.py does: figures with it halved and doubled, over those without.

`python -m benchmarks.fitted --cities 'drawn 2,drawn 4' --names MAX_RATIO`. Each change takes about as long as
`hatstream evaluate days`; all numbers on the usual cities take three hours of two cores.
"""

import pickle
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from decimal import Decimal
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import click

from dpops import fitted

CITIES = "drawn 2,drawn 4,odd 2,odd 6,300 cabs"
"""Of even seeds, on which numbers may be chosen."""
FIGURES = {"errors": "rows", "places": "learned", "percentiles": "error"}
"""The error of each part of what is measured."""


class Change(NamedTuple):
    """A number of `fitted`, by name and index in its tuple, times a factor."""

    name: str
    index: int
    factor: float

    def apply(self) -> None:
        value = getattr(fitted, self.name)
        if isinstance(value, tuple):
            flat = [*value]
            flat[self.index] *= self.factor
            setattr(fitted, self.name, tuple(flat))
        else:
            setattr(fitted, self.name, type(value)(value * self.factor))


def changes(names: str | None) -> Iterator[Change]:
    """Lists the chosen numbers, halved and doubled."""
    for name in names.split(",") if names else [name for name in vars(fitted) if name.isupper()]:
        value = getattr(fitted, name)
        for index in range(len(value) if isinstance(value, tuple) else 1):
            yield from (Change(name, index, factor) for factor in (0.5, 2.0))


def measure(change: Change | None, city: Path, total: str) -> list[dict[str, Any]]:
    """Releases a city's days with a changed number; other modules of dpops load after the change."""
    if change is not None:
        change.apply()
    from hatstream_lab.evaluation.experiment import experiment
    from hatstream_lab.evaluation.released import Variation, learned, percentiles

    days = pickle.loads(city.read_bytes())
    setting = Variation(total, Decimal("1e-6"))
    rows = experiment(days, [setting], lambda *run: learned(*run, is_brief=True)).rows
    if "histograms" in days.counted.column_names:
        rows += experiment(days, [setting], percentiles).rows
    return rows


def summary(rows: list[dict[str, Any]]) -> dict[str, tuple[float, float, float]]:
    """Gives error, `ok` rows and the part of their intervals that hold, by part of what is measured."""
    intervals = next(row for row in rows if row["part"] == "intervals" and row["vehicles"] == "all")
    error = next(row for row in rows if row["part"] == "errors" and row["day"] == "all")
    figures = {"hats": (error["rows"] or 0.0, intervals["ok"], intervals["held"] or 0.0)}
    last = max((row["day"] for row in rows if row["part"] in ("places", "percentiles")), default=0)
    for row in rows:
        if row["part"] in ("places", "percentiles") and row["day"] == last and row[FIGURES[row["part"]]]:
            name = " ".join(str(row[key]) for key in ("part", "product", "percentile") if key in row)
            figures[name] = (row[FIGURES[row["part"]]], row["ok"], row.get("held_ok") or row["held"] or 0.0)
    return figures


@click.command()
@click.option("--names", help="Of numbers, separated by commas; all without it.")
@click.option("--cities", default=CITIES, show_default=True, help="Made-up ones; '' for telemetry alone.")
@click.option("--data", "pattern", help="Telemetry, whose [places] and distributions are measured too.")
@click.option("--spec", type=click.Path(path_type=Path, exists=True), help="Of the telemetry.")
@click.option("--total", default="2.64", show_default=True)
@click.option("--processes", default=2, show_default=True)
def benchmark(
    names: str | None, cities: str, pattern: str | None, spec: Path | None, total: str, processes: int
) -> None:
    """Prints, by change and city: error and rows that are ok, over the unchanged ones; part of intervals that hold."""
    from hatstream_lab.evaluation.cities import city_named
    from hatstream_lab.evaluation.days import read_with_bins

    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(processes, get_context("spawn"), max_tasks_per_child=1) as pool,
    ):
        paths = []
        for name in [*filter(None, cities.split(",")), *([pattern] if pattern else [])]:
            paths.append(Path(folder, str(len(paths))))
            days = read_with_bins(pattern, spec, None, lambda *_: None) if name == pattern else city_named(name)
            paths[-1].write_bytes(pickle.dumps(days))
            print(f"city {paths[-1].name}: {name}", flush=True)
        unchanged = [summary(pool.submit(measure, None, path, total).result()) for path in paths]
        tasks = {change: [pool.submit(measure, change, path, total) for path in paths] for change in changes(names)}
        for change, futures in tasks.items():
            for path, base, future in zip(paths, unchanged, futures, strict=True):
                for part, (error, ok, held) in summary(future.result()).items():
                    of_error, of_ok, of_held = base.get(part, (0.0, 0.0, 0.0))
                    ratios = f"{error / (of_error or 1):.3f} {ok / (of_ok or 1):.2f} {held:.3f} ({of_held:.3f})"
                    place = f"{change.name}[{change.index}] x{change.factor:g}"
                    print(f"{place:28} {path.name} {part:24} {ratios}", flush=True)


if __name__ == "__main__":
    benchmark()
