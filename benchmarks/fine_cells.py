"""What cells are worth that get all of a total, or what places leave: `python -m benchmarks.fine_cells`.

    python -m benchmarks.fine_cells --data '../shared/data/capmetro/*.csv' --resolution 9
    python -m benchmarks.fine_cells --data '../shared/data/capmetro/*.csv' --resolution 7 --share 0.3

Errors of the map of what is usual in each cell, and of hexagons and hours, after each day. Of 8 and finer, a city's
cells are all those in its cells of resolution 7. Noise is the same in each run of the same number, so that versions
compare.
"""

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import click
import numpy as np

from benchmarks.place_cities import city_of, real_city
from dpops.learning import DayValues, Learned, State, learned, taken_in
from dpops.learning.learner import Field
from dpops.levels import Recipe, with_places
from dpops.noise import Noise
from dpops.types import Float64s
from hatstream_lab.evaluation.learned import look, recipe_for
from hatstream_lab.evaluation.learned_errors import DELTA
from hatstream_lab.evaluation.places import PlaceCity
from hatstream_lab.evaluation.truth import TrueCity, TrueDay, rough_fleet, true_day
from transforms.places.hierarchy import design_of
from transforms.releases.periods.states import facts_of

COARSE = 7


@click.command()
@click.option("--cities", default="taxis", show_default=True, help="As `benchmarks.place_cities` has them.")
@click.option("--data", help="Instead: days of a real feed, as `hatstream evaluate` takes them.")
@click.option("--spec", default="docs/austin.toml", show_default=True, help="Of the real feed.")
@click.option("--resolution", default=8, show_default=True)
@click.option("--total", default="2.64", show_default=True, help="Of a day, with delta 1e-6.")
@click.option("--share", default="0", show_default=True, help="Of the total, which places have instead.")
@click.option("--days", type=int, help="Released: those of the feed, again and again. [default: its days]")
@click.option("--runs", default=2, show_default=True)
def benchmark(
    cities: str, data: str | None, spec: str, resolution: int, total: str, share: str, days: int | None, runs: int
) -> None:
    """A line for each day: means of the runs, and each run's map."""
    for name in cities.split(",") if data is None else ["real"]:
        finer = max(resolution, COARSE + 1)
        places = city_of(name.strip(), finer, days) if data is None else real_city(data, Path(spec), finer)
        city = places.city if resolution == COARSE else _finer(places)
        print(f"{name.strip()}: {len(city.region):,} cells, {city.fleet.vehicles} vehicles")
        how = _without(recipe_for(city, "gaussian", Fraction(total), DELTA), Fraction(share))
        errors = [list(_errors(city, how, run, days or len(city.days))) for run in range(runs)]
        for number, of_day in enumerate(zip(*errors, strict=True), 1):
            standing, hats, constant = np.mean(of_day, axis=0).tolist()
            maps = " ".join(f"{one[0]:.2f}" for one in of_day)
            said = f"map {standing:.2f} ({maps}), hexagons and hours {hats:.2f}, one constant {constant:.2f}"
            print(f"  day {number}: {said}", flush=True)


def _finer(city: PlaceCity) -> TrueCity:
    """The same days, with the finer cells in the place of the city's own."""
    region, grid = tuple(city.pieces.fine.tolist()), city.city.grid
    days = [
        true_day(day.name, rows, day.hours, len(region), grid)
        for day, rows in zip(city.city.days, city.days, strict=True)
    ]
    return TrueCity(region, grid, rough_fleet(region, days), days, city.city.made_region)


def _without(how: Recipe, share: Fraction) -> Recipe:
    """Leaves what places have out."""
    first, later = (with_places(stages, share)[:-1] if share else stages for stages in (how.first, how.later))
    return Recipe(first=first, later=later)


def _errors(city: TrueCity, how: Recipe, run: int, days: int) -> Iterator[tuple[float, float, float]]:
    """After each day: of the map, by reports so far; of that day's hexagons and hours; and of the city's own mean."""
    noise = Noise(np.random.default_rng(run).bytes)
    state, seen, times = (
        State.new(design_of(city.region), facts_of(city.fleet)),
        np.zeros((2, len(city.region))),
        Counter(),
    )
    models: Learned | None = None
    for number in range(days):
        day = city.days[number % len(city.days)]
        hours = np.array(day.hours, np.int64)
        stages = look(city, day, how, None if models is None else models.forecast(hours), state, noise)
        state = taken_in(state, DayValues(hours=hours, stages=stages))
        models = learned(state)
        times.update(day.hours)
        seen += [np.bincount(day.rows.cell, part, len(city.region)) for part in (day.rows.reports, day.rows.total)]
        there = seen[0] > 0
        truth, weight = seen[1][there] / seen[0][there] * float(city.grid.step), seen[0][there] / seen[0].sum()
        yield (
            float(weight @ np.abs(_standing(models, times)[there] - truth)),
            _of_hats(models.estimate(), day, city),
            float(weight @ np.abs(weight @ truth - truth)),
        )


def _standing(models: Learned, times: Counter[int]) -> Float64s:
    """What is usual in each cell, km/h: by the weights of its hours, as often as each was released."""
    hours = np.array(sorted(times), np.int64)
    belief = models.forecast(hours)
    weights = belief.weights * np.array([times[hour] for hour in hours.tolist()])
    means: Float64s = np.sum(weights * belief.values, axis=1) / weights.sum(axis=1)
    return means


def _of_hats(belief: Field, day: TrueDay, city: TrueCity) -> float:
    there = day.reports > 0
    missed = np.abs(np.clip(belief.values, 0, float(city.grid.upper)) - day.means)[there]
    return float(day.reports[there] @ missed / day.reports[there].sum())


if __name__ == "__main__":
    benchmark()
