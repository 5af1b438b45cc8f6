"""How often intervals of learned estimates hold the truth, by feed: `python -m benchmarks.intervals`.

On made-up cities, and with --data on days of a real feed and on parts and sums of them. Constants of intervals were
fitted on the feeds of FITTED and on the real one; UNSEEN were not looked at.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import product
from pathlib import Path

import click
import numpy as np

from benchmarks.cities import MadeUp, as_one, made_up, of_hours, of_vehicles
from dpops.learning import DayValues, Learned, State, learned, published, taken_in
from dpops.levels import Fleet, Kind, Recipe
from dpops.noise import Noise
from hatstream_lab.evaluation.feed import Feed
from hatstream_lab.evaluation.learned import Simulated, look, recipe_for
from hatstream_lab.evaluation.learned_errors import DELTA, Coverage, coverage
from hatstream_lab.evaluation.truth import TrueCity, read_city
from pipelines.specification import load
from transforms.places.hierarchy import design_of
from transforms.releases.periods.states import facts_of

FROM = (4.0, 10.0, 30.0)
LEAST_HATS = 5
FITTED = (
    MadeUp("40 buses", "lines", vehicles=40, days=9, rings=5, lines=6, rough_kmh=2, own_kmh=15, seed=11),
    MadeUp("150 buses", "lines", vehicles=150, days=4, lines=14, rough_kmh=1, own_kmh=17, slow_centre_kmh=3, seed=12),
    MadeUp("600 buses", "lines", vehicles=600, days=3, rings=9, lines=30, rough_kmh=3, own_kmh=14, seed=13),
    MadeUp(
        "3,000 buses",
        "lines",
        vehicles=3000,
        days=2,
        rings=9,
        lines=80,
        visits=4,
        own_kmh=17,
        uneven_kmh=9,
        slow_centre_kmh=6,
        seed=17,
    ),
    MadeUp("300 cabs", "cabs", vehicles=300, days=5, rings=6, visits=7, rough_kmh=3, own_kmh=16, seed=14),
    MadeUp(
        "500 cabs, fast roads",
        "cabs",
        vehicles=500,
        days=4,
        rings=8,
        visits=6,
        mean_kmh=33,
        rough_kmh=3,
        own_kmh=22,
        uneven_kmh=9,
        slow_centre_kmh=9,
        steep=3.5,
        seed=18,
    ),
    MadeUp("1,200 cabs", "cabs", vehicles=1200, days=3, rings=8, rough_kmh=2, own_kmh=12, seed=15),
    MadeUp(
        "800 cabs, two hours", "cabs", vehicles=800, days=3, visits=6, rough_kmh=2, own_kmh=15, hours=(7, 8), seed=16
    ),
)
UNSEEN = (
    MadeUp(
        "19 buses, two hours",
        "lines",
        vehicles=19,
        days=9,
        rings=4,
        lines=3,
        rough_kmh=1.5,
        own_kmh=16,
        hours=(16, 17),
        seed=41,
    ),
    MadeUp(
        "2,000 cabs",
        "cabs",
        vehicles=2000,
        days=2,
        rings=8,
        visits=7,
        mean_kmh=26,
        uneven_kmh=6,
        slow_centre_kmh=5,
        rough_kmh=1,
        own_kmh=18,
        seed=42,
    ),
    MadeUp(
        "500 trams",
        "lines",
        vehicles=500,
        days=9,
        rings=6,
        lines=7,
        visits=3,
        mean_kmh=18,
        rough_kmh=2,
        own_kmh=9,
        seed=43,
    ),
    MadeUp(
        "250 buses, fast roads",
        "lines",
        vehicles=250,
        days=5,
        rings=8,
        lines=16,
        visits=4,
        mean_kmh=28,
        uneven_kmh=8,
        slow_centre_kmh=6,
        rough_kmh=2.5,
        own_kmh=19,
        seed=44,
    ),
)
KINDS: dict[str, Kind] = {"pure": "laplace", "delta": "gaussian"}


@click.command()
@click.option("--data", help="Days of a real feed, as `hatstream evaluate` takes them.")
@click.option("--spec", default="docs/austin.toml", show_default=True, help="Of the real feed.")
@click.option("--feeds", default="", help="Names, with semicolons between them; all by default.")
@click.option("--totals", default="1,2.64,10", show_default=True)
@click.option("--noise", default="pure,delta", show_default=True)
@click.option("--runs", default=2, show_default=True)
def benchmark(data: str | None, spec: str, feeds: str, totals: str, noise: str, runs: int) -> None:
    """A row for each feed, total and kind of noise, as Markdown."""
    print("| feed (days) | total | HATs | all | predicted 4-9 | 10-29 | 30 and more | true 4-9 | 10-29 | 30 and more |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    chosen = [name.strip() for name in feeds.split(";") if name]
    for name, make in feeds_of(data, Path(spec)).items():
        if chosen and name not in chosen:
            continue
        city = make()
        for total, label in product(totals.split(","), noise.split(",")):
            how = recipe_for(city, KINDS[label], Fraction(total), DELTA)
            coverages = coverage(city, [causal(city, how) for _ in range(runs)], total, label)
            print(f"| {name} ({len(city.days)}) | {total}, {label} | {_row(coverages)} |", flush=True)


def feeds_of(data: str | None, spec: Path) -> dict[str, Callable[[], TrueCity]]:
    """Names of feeds, and what makes each."""
    loaded = load(spec)
    grid = loaded.value.grid
    feeds: dict[str, Callable[[], TrueCity]] = {}
    if data is not None:
        real = read_city(Feed.of(data, spec, None), lambda *_: None)
        days = range(len(real.days))
        feeds["real"] = lambda: real
        feeds["two days as one"] = lambda: as_one(real, [days[first : first + 2] for first in days[:-1:2]])
        feeds["three days as one"] = lambda: as_one(real, [days[first : first + 3] for first in days[:-2]])
        feeds["100 of its vehicles"] = lambda: of_vehicles(real, 100)
        feeds["60 of them"] = lambda: of_vehicles(real, 60)
        feeds["two hours"] = lambda: of_hours(real, 16, 18)
        feeds["default profile"] = lambda: replace(real, fleet=Fleet())
        feeds["three times its fleet"] = lambda: replace(
            real, fleet=replace(real.fleet, vehicles=3 * real.fleet.vehicles)
        )
    return feeds | {city.name: partial(made_up, city, grid) for city in (*FITTED, *UNSEEN)}


def causal(city: TrueCity, how: Recipe, noise: Noise | None = None) -> Simulated:
    """Each day's estimates from its own and earlier releases. noise: of a seed, to compare two models; else fresh."""
    noise = noise or Noise()
    state, simulated = State.new(design_of(city.region), facts_of(city.fleet)), Simulated()
    model: Learned | None = None
    for day in city.days:
        hours = np.array(day.hours, np.int64)
        stages = look(city, day, how, None if model is None else model.forecast(hours), state, noise)
        state = taken_in(state, DayValues(hours=hours, stages=stages))
        model = learned(state)
        simulated.causal.append(published(model.estimate(), float(city.grid.upper)))
    return simulated


def _row(coverages: Sequence[Coverage]) -> str:
    """Classes of which there are five HATs a run and more."""
    by = {(row.by, row.least): row for row in coverages if row.hats >= LEAST_HATS}
    if ("all", 0.0) not in by:
        return " | ".join(["", *[""] * 7])
    whole = by["all", 0.0]
    predicted = [
        f"{row.held:.3f} / {row.half_width:.1f}" if (row := by.get(("predicted", least))) else "" for least in FROM
    ]
    true = [f"{row.held:.3f}" if (row := by.get(("true", least))) else "" for least in FROM]
    return " | ".join([f"{whole.hats:,.0f}", f"{whole.held:.3f}", *predicted, *true])


if __name__ == "__main__":
    benchmark()
