"""What each fitted number does to figures: `python -m benchmarks.fitted --data '../shared/data/capmetro/*.csv'`.

Each is halved and doubled by itself, on real days and on drawn cities of even seeds. The noise is the same each time,
so differences are the number's own.
"""

from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np

from benchmarks.cities import made_up
from benchmarks.drawn import GRID, drawn
from benchmarks.intervals import causal
from dpops import fitted
from dpops.learning import Status
from dpops.noise import Noise
from hatstream_lab.evaluation.feed import Feed
from hatstream_lab.evaluation.learned import recipe_for
from hatstream_lab.evaluation.learned_errors import DELTA
from hatstream_lab.evaluation.truth import TrueCity, read_city

OF_ESTIMATES = (
    *("OVERDISPERSION", "ANCHOR_SD", "KEPT", "CITY_SPREAD", "SLOPE_KMH", "REPORTS", "SPREAD_POWER"),
    *("FLOOR_SD", "LEFT", "MORE_VEHICLES", "UNSAID"),
    *("MOST_LOG_VARIANCE", "MOST_MISSED", "LEAST_EXPLAINED", "MOST_CITY_VARIANCE", "MOST_OFF_CENTRE_KMH"),
)
"""Those that are read where they are used; strengths and the law's variances are read once, when loaded."""


class Figures(NamedTuple):
    """By reports, km/h, of all days, held back or not; what part of the days is published; of `ok` HATs how many, what
    part holds the true mean, and half the width, km/h."""

    error: float
    published: float
    hats: int
    held: float
    half_width: float


@click.command()
@click.option("--data", help="Days of a real feed, as `hatstream evaluate` takes them.")
@click.option("--spec", default="docs/austin.toml", show_default=True, help="Of the real feed.")
@click.option("--seeds", default="2,8", show_default=True, help="Of drawn cities.")
@click.option("--total", default="2.64", show_default=True)
@click.option("--names", default=",".join(OF_ESTIMATES), show_default=True)
def benchmark(data: str | None, spec: str, seeds: str, total: str, names: str) -> None:
    """A row for each number, city and factor, as Markdown."""
    cities = {f"drawn {seed}": made_up(drawn(int(seed), 700, 7), GRID) for seed in seeds.split(",") if seed}
    if data is not None:
        cities["real"] = read_city(Feed.of(data, Path(spec), None), lambda *_: None)
    print("| number | times | city | error, km/h | days published | HATs `ok` | hold | half width, km/h |")
    print("|---|---|---|---|---|---|---|---|")
    for label, city in cities.items():
        print(_row("as it is", 1.0, label, figures(city, total)), flush=True)
    for name in names.split(","):
        value = getattr(fitted, name)
        for factor in (0.5, 2.0):
            setattr(fitted, name, factor * value)
            for label, city in cities.items():
                print(_row(name, factor, label, figures(city, total)), flush=True)
        setattr(fitted, name, value)


def figures(city: TrueCity, total: str) -> Figures:
    """Of one release of all days, always of the same noise."""
    how = recipe_for(city, "gaussian", Fraction(total), DELTA)
    fields = causal(city, how, Noise(np.random.default_rng(1).bytes)).causal
    missed, days, held, half = 0.0, 0, [np.zeros(0)], [np.zeros(0)]
    for day, field in zip(city.days, fields, strict=True):
        missed += float(np.nansum(np.abs(field.values - day.means) * day.reports))
        days += not np.all(field.status == Status.HELD_BACK)
        ok = (day.reports > 0) & (field.status == Status.OK)
        held.append(((field.lower95 <= day.means) & (day.means <= field.upper95))[ok].astype(np.float64))
        half.append(((field.upper95 - field.lower95) / 2)[ok])
    whole, widths = np.concatenate(held), np.concatenate(half)
    error = missed / sum(float(day.reports.sum()) for day in city.days)
    if not whole.size:
        return Figures(error, days / len(city.days), 0, np.nan, np.nan)
    return Figures(error, days / len(city.days), whole.size, float(whole.mean()), float(widths.mean()))


def _row(name: str, factor: float, label: str, of: Figures) -> str:
    numbers = f"{of.error:.2f} | {of.published:.2f} | {of.hats} | {of.held:.3f} | {of.half_width:.1f}"
    return f"| {name} | {factor:g} | {label} | {numbers} |"


if __name__ == "__main__":
    benchmark()
